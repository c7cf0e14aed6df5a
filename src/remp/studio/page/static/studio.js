// remp studio: the page. The server has the labels; this module shows them and sends what a person does.

const $ = (id) => document.getElementById(id);
const NONE = -1, UNKNOWN_MARK = -2; // in place of a class
const GIVEN = 1, ACCEPTED = 2; // where a label comes from
const STATUS_UNKNOWN = 3;

const model = {
  names: [], colours: [], times: [], state: null,
  label: new Int16Array(), best: new Int16Array(), second: new Int16Array(),
  probability: new Uint16Array(), margin: new Uint16Array(), origin: new Uint8Array(), status: new Uint8Array(),
  changed: new Map(), // item -> the class it had before the last action
  classes: new Map(), keys: new Map(), unreadable: new Set(),
  place: null, placed: [], extent: [1, 1], mapVersion: 0, // of the map: (x, y) of each item, the items that have a place, how far these reach
};
const ui = {
  view: null, classId: null, order: [], rows: [], selected: new Set(), cursor: 0, anchor: 0, search: "",
  size: Number(remembered("size")) || 132, sort: {}, tiles: new Map(), decor: new Map(), columns: 1, isViewing: false,
};

const VIEWS = [
  { id: "groups", title: "Groups", icon: "groups" },
  { id: "next", title: "Next", icon: "next" },
  { id: "unsure", title: "Unsure", icon: "unsure" },
  { id: "unknown", title: "Unknown", icon: "unknown" },
  { id: "findings", title: "Findings", icon: "findings" },
  { id: "map", title: "Map", icon: "map" },
  { id: "all", title: "All pictures", icon: "all" },
];
const KEYS = [
  ["Look", [["←", "→", "↑", "↓"], "move"], [["Space"], "see the picture large"], [["[", "]"], "previous and next view"], [["/"], "search names"], [["?"], "this list"]],
  ["Select", [["Shift", "+", "arrows"], "select while moving"], [["Ctrl", "+", "A"], "select all"], [["Shift", "+", "Space"], "one in or out of a group"], [["Esc"], "select nothing"]],
  ["Label", [["1", "…", "9"], "class with that key"], [["a letter"], "type the name of a class"], [["F2"], "empty name field"], [["Enter"], "accept the prediction"],
    [["Shift", "+", "Enter"], "accept all above"], [["Backspace"], "take the label away"], [["u"], "mark unknown"]],
  ["Correct", [["Ctrl", "+", "Z"], "undo"], [["Ctrl", "+", "Y"], "redo"], [["Enter"], "fix a finding"], [["x"], "dismiss a finding"]],
];
const FORMATS = [
  ["labels", "Labels and report", "labels.csv, labels.json and report.html"],
  ["folders", "Class folders", "a copy of each picture in the folder of its class"],
  ["links", "Class folders with links", "no copies: links to your pictures"],
  ["imagefolder", "Training folders", "train/CLASS and val/CLASS, for Ultralytics, torchvision and Hugging Face; nothing uncertain"],
  ["huggingface", "Hugging Face", "pictures with metadata.csv"],
  ["labelstudio", "Label Studio", "tasks with predictions and scores"],
  ["fiftyone", "FiftyOne", "data/ and labels.json"],
  ["model", "Classifier", "labels new pictures: remp label --model"],
];

// ---------------------------------------------------------------- talking to the server

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  let said = `${answer.status}`;
  try { said = (await answer.json()).error || said; } catch { /* not JSON: the number has to do */ }
  throw new Error(said);
}

async function act(action, words) {
  try {
    await ask("/api/act", { ...action, view: ui.view }); // the server counts what Next shows
    if (words) say(words);
    return true;
  } catch (error) {
    say(error instanceof TypeError ? "The server does not answer. Is remp studio still running?" : error.message, true);
    return false;
  }
}

// While a button of the mouse is down, nothing on the page is replaced: a click on something that is gone when the button comes up is lost.
const hand = { isDown: false, waiting: [] };
function lift() { hand.isDown = false; setTimeout(() => hand.waiting.splice(0).forEach((go) => go())); } // after the click
addEventListener("pointerdown", () => { hand.isDown = true; }, true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, lift, true);
addEventListener("blur", lift); // of the window
addEventListener("pointermove", (event) => { if (hand.isDown && !event.buttons) lift(); }, true);
function released() { return hand.isDown ? new Promise((go) => { hand.waiting.push(go); setTimeout(go, 3000); }) : Promise.resolve(); }

async function askForAll() {
  // Nothing if the server is gone: the stream of events will come back, and with it this.
  try {
    const [state, items] = await Promise.all([ask("/api/state").then((a) => a.json()), ask("/api/items").then((a) => a.arrayBuffer())]);
    return { state, items, places: state.map === model.mapVersion ? null : await ask("/api/map").then((a) => a.arrayBuffer()) };
  } catch { return null; }
}

let isRefreshing = false, isStale = false;
async function refresh() {
  if (isRefreshing) { isStale = true; return; }
  isRefreshing = true;
  try {
    do {
      isStale = false;
      const news = await askForAll();
      if (!news) return;
      await released();
      takeState(news.state);
      takeItems(news.items);
      if (news.places) takePlaces(news.places);
      showAll();
    } while (isStale);
  } finally { isRefreshing = false; }
}

function takePlaces(buffer) {
  model.mapVersion = model.state.map;
  model.place = new Float32Array(buffer);
  model.placed = [...model.names.keys()].filter((item) => !Number.isNaN(model.place[2 * item]));
  model.extent = [0, 1].map((axis) => model.placed.reduce((most, item) => Math.max(most, Math.abs(model.place[2 * item + axis])), 1e-6));
}

function takeState(state) {
  model.state = state;
  model.classes = new Map(state.classes.map((one) => [one.id, one]));
  model.keys = keysOf(state.classes);
  model.unreadable = new Set(state.unreadable);
}

function keysOf(classes) {
  // A class called 7 has the key 7; the others get what is left, in their order.
  const keys = new Map(), taken = new Set();
  for (const one of classes) if (/^[0-9]$/.test(one.name)) { keys.set(one.id, one.name); taken.add(one.name); }
  let digit = 1;
  for (const one of classes) {
    if (keys.has(one.id)) continue;
    while (taken.has(String(digit))) digit++;
    if (digit > 9) break;
    keys.set(one.id, String(digit)); taken.add(String(digit));
  }
  return keys;
}

let lastVersion = null;
function takeItems(buffer) {
  const n = model.names.length;
  const shorts = (part, Type) => new Type(buffer.slice(2 * n * part, 2 * n * (part + 1)));
  const before = { best: model.best, label: model.label };
  model.label = shorts(0, Int16Array); model.best = shorts(1, Int16Array); model.second = shorts(2, Int16Array);
  model.probability = shorts(3, Uint16Array); model.margin = shorts(4, Uint16Array);
  model.origin = new Uint8Array(buffer, 10 * n, n); model.status = new Uint8Array(buffer, 11 * n, n);
  if (lastVersion !== model.state.version) model.changed.clear();
  lastVersion = model.state.version;
  if (before.best.length !== n) return;
  const changed = [];
  let predicted = 0;
  for (let item = 0; item < n; item++) {
    const was = before.best[item], is = model.best[item];
    if (was < 0 || is < 0 || model.label[item] !== NONE) continue;
    predicted++;
    if (was !== is && before.label[item] === NONE && !model.changed.has(item)) changed.push([item, was]);
  }
  if (changed.length <= predicted / 4) for (const [item, was] of changed) model.changed.set(item, was); // if nearly all did, that says nothing
}

// ---------------------------------------------------------------- what is in a view

const isFree = (item) => model.label[item] === NONE;
const isPredicted = (item) => isFree(item) && model.best[item] >= 0 && model.status[item] !== STATUS_UNKNOWN;
const isLikeNone = (item) => isFree(item) && model.status[item] === STATUS_UNKNOWN;
const className = (id) => model.classes.get(id)?.name ?? "";
const finalClass = (item) => (isFree(item) ? (isPredicted(item) ? model.best[item] : NONE) : model.label[item]);
const number = (value) => value.toLocaleString("en");
const percent = (share) => `${Math.round(100 * share)} %`;
const sureness = (share) => (share > 0.995 ? "> 99 %" : percent(share)); // no prediction is certain
const pictures = (n) => (n === 1 ? "1 picture" : `${number(n)} pictures`);

const SORTS = {
  probability: (a, b) => model.probability[b] - model.probability[a] || a - b,
  margin: (a, b) => model.margin[a] - model.margin[b] || a - b,
  name: (a, b) => a - b,
  time: (a, b) => (model.times[a] - model.times[b] || 0) || a - b,
};

function sections() {
  // [{title, note, items, group?}] of the present view
  const all = [];
  for (let item = 0; item < model.names.length; item++) if (!model.unreadable.has(item)) all.push(item);
  const sort = SORTS[sortOf()];
  if (ui.view === "groups") return groupSections();
  if (ui.view === "next") return [{ items: model.state.next.map((one) => one.item) }];
  if (ui.view === "unsure") return [{ items: all.filter(isPredicted).sort(SORTS.margin) }];
  if (ui.view === "unknown") {
    return [
      { title: "Marked unknown", items: all.filter((item) => model.label[item] === UNKNOWN_MARK) },
      { title: "Resemble no class", note: hasKeys ? "Enter marks them unknown, a name labels them" : "", items: all.filter(isLikeNone) },
    ].filter((part) => part.items.length);
  }
  if (ui.view === "class") {
    const ours = all.filter((item) => finalClass(item) === ui.classId);
    return [
      { title: "Predicted", note: hasKeys ? "Shift+Enter accepts all above the cursor" : "", items: ours.filter(isFree).sort(sort) },
      { title: "Accepted", items: ours.filter((item) => model.origin[item] === ACCEPTED).sort(sort) },
      { title: "Given", items: ours.filter((item) => model.origin[item] === GIVEN).sort(sort) },
    ].filter((part) => part.items.length);
  }
  return [{ items: sortOf() === "name" ? all : all.sort(sort) }]; // the items are in the order of their names
}

function groupSections() {
  return model.state.groups.map((group, index) => {
    const names = new Set(group.items.filter((item) => !isFree(item)).map((item) => model.label[item]));
    return { group: index, title: `Group ${index + 1}`, note: group.size > group.items.length ? `${group.items.length} of ${number(group.size)} alike` : `${number(group.size)} alike`, items: group.items, names };
  });
}

function sortOf() {
  return ui.sort[ui.view] ?? (ui.view === "class" ? "probability" : "name");
}

function counts() {
  const found = { unsure: 0, unknown: 0, labelled: 0, predicted: 0, classes: new Map() };
  for (let item = 0; item < model.names.length; item++) {
    if (model.label[item] === UNKNOWN_MARK || isLikeNone(item)) found.unknown++;
    if (model.label[item] >= 0) found.labelled++;
    if (isPredicted(item)) { found.predicted++; if (model.margin[item] < 5000) found.unsure++; }
    const id = finalClass(item);
    if (id >= 0) found.classes.set(id, (found.classes.get(id) ?? 0) + 1);
  }
  return found;
}

// ---------------------------------------------------------------- showing everything but the grid

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") made.className = value; else if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value); else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("aria-hidden", "true"); use.setAttribute("href", `#i-${name}`); svg.append(use);
  return svg;
}
function inkOn(colour) { // black or white, whichever is read better: at least 4.5 to 1 on any colour
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] > 0.179 ? "#000000" : "#ffffff";
}
function paint(node, colour) { node.style.background = colour; node.style.color = inkOn(colour); return node; }
function swatch(one) { return paint(element("span", { class: "swatch", text: model.keys.get(one.id) ?? "", "aria-hidden": "true" }), one.colour); }

function showAll() {
  const have = counts();
  if (!ui.view || (ui.view === "class" && !model.classes.has(ui.classId))) go(startView());
  showNotices(); showProgress(); showEstimate(have); showViews(have); showClasses(have); showHead(have);
  if (ui.view === "findings") showFindings(); else if (ui.view === "map") drawMap(); else layOut();
  showBar();
  if (ui.isViewing) showViewer();
  document.body.dataset.predicted = model.state.predicted_of; // for those who wait for it: tests and benchmarks
  document.body.dataset.whole = model.state.predicted; // the same, with all that follows the first answer
}

function startView() { return model.state.next.length ? "next" : model.state.groups.length ? "groups" : "all"; }

const dismissedNotices = new Set();
function showNotices() {
  const { notices, journal_problem: problem, embedding, skipped } = model.state, shown = [];
  if (problem) shown.push(["bad", `Your last actions are not on the disk yet (${problem}). They are kept here and written as soon as that works: make room, and do not close the server.`]);
  if (embedding.problem) shown.push(["bad", `No predictions: ${embedding.problem}`]);
  for (const notice of notices) shown.push(["", notice]);
  if (skipped.length) shown.push(["", `${skipped.length === 1 ? "1 file was" : `${skipped.length} files were`} skipped: ${skipped.slice(0, 3).map((one) => `${one.file} (${one.reason})`).join(", ")}${skipped.length > 3 ? " …" : ""}`]);
  $("notices").replaceChildren(...shown.filter(([, text]) => !dismissedNotices.has(text)).map(([kind, text]) => {
    const close = element("button", { type: "button", "aria-label": "Dismiss", text: "×", onclick: () => { dismissedNotices.add(text); showNotices(); } });
    const words = element("span", { text, dir: "auto", onclick: () => words.classList.toggle("open") }); // on a phone only a line is shown
    return element("div", { class: `notice ${kind}` }, icon(kind ? "findings" : "info"), words, ...(kind ? [] : [close]));
  }));
}

function showProgress() {
  const { done, total, is_done: isDone, problem } = model.state.embedding;
  $("progress").hidden = isDone || Boolean(problem);
  const share = Math.round((100 * done) / Math.max(total, 1));
  $("progress").classList.toggle("waiting", !done);
  $("progress").querySelector("i").style.width = done ? `${share}%` : "";
  $("progress").querySelector(".bar").setAttribute("aria-valuenow", share);
  $("progress").querySelector("span").textContent = done ? `Reading the pictures: ${number(done)} of ${number(total)}` : "Loading the network";
}

function showEstimate(have) {
  const { estimate, gain, no_estimate: noEstimate } = model.state, parts = [];
  if (have.labelled) parts.push(`${number(have.labelled)} labelled`);
  parts.push(have.predicted ? `${number(have.predicted)} predicted` : pictures(model.names.length));
  $("summary").textContent = parts.join(" · ");
  $("estimate").hidden = !estimate && !noEstimate;
  $("estimate").classList.toggle("none", !estimate);
  if (!estimate) { $("interval-words").textContent = noEstimate ? `No estimate: ${noEstimate}` : ""; $("gain").hidden = true; return; }
  $("accuracy").textContent = percent(estimate.accuracy);
  $("accuracy-words").textContent = "of the predictions are right, by estimate";
  $("band").style.left = percent(estimate.low).replace(" ", ""); $("band").style.width = `${100 * (estimate.high - estimate.low)}%`;
  $("point").style.left = `${100 * estimate.accuracy}%`;
  $("interval-words").textContent = `${percent(estimate.level)} interval: ${Math.round(100 * estimate.low)} to ${percent(estimate.high)}`;
  $("interval-words").title = estimate.basis;
  $("gain").hidden = !gain || !gain.batch;
  if (!gain || !gain.batch) return;
  const about = gain.pictures < 1.5 ? "about one picture" : `about ${number(Math.round(gain.pictures))} pictures`;
  $("gain").textContent = gain.is_worth_it
    ? `${gain.batch === 1 ? "One more label" : `The next ${gain.batch} labels`} should correct ${about} of ${number(Math.round(gain.wrong))} that are wrong.`
    : `Enough: the next ${gain.batch} labels would correct ${gain.pictures < 0.5 ? "hardly any picture" : about}.`;
  $("gain").classList.toggle("enough", !gain.is_worth_it);
}

function isShown(view) {
  if (view === "groups") return model.state.groups.length > 0;
  return !["next", "unsure", "unknown", "findings"].includes(view) || model.best.some((best) => best >= 0) || model.label.includes(UNKNOWN_MARK);
}

function showViews(have) {
  const counted = { next: model.state.next.length, unsure: have.unsure, unknown: have.unknown, findings: model.state.findings.length, all: model.names.length, groups: model.state.groups.length };
  $("views").replaceChildren(...VIEWS.filter((view) => isShown(view.id)).map((view) => {
    const made = element("button", { type: "button", onclick: () => visit(view.id) }, icon(view.icon), element("span", { text: view.title }));
    if (counted[view.id]) made.append(element("span", { class: "count", text: number(counted[view.id]) }));
    if (ui.view === view.id) made.setAttribute("aria-current", "page");
    return made;
  }));
  if (ui.isNewView) { ui.isNewView = false; bringIntoSight($("views"), $("views").querySelector("[aria-current]")); }
}
function bringIntoSight(row, node) { // on a phone the views, and the classes, are rows that scroll
  if (node && row.scrollWidth > row.clientWidth) row.scrollLeft = node.offsetLeft - row.offsetLeft - (row.clientWidth - node.offsetWidth) / 2;
}

function showClasses(have) {
  $("no-classes").hidden = model.classes.size > 0;
  $("class-filter").hidden = model.classes.size <= 12;
  const wanted = $("class-filter").hidden ? "" : $("class-filter").querySelector("input").value.trim().toLocaleLowerCase();
  const focused = document.activeElement?.closest?.(".class")?.dataset.id, part = document.activeElement?.className;
  $("class-list").replaceChildren(...model.state.classes.filter((one) => one.name.toLocaleLowerCase().includes(wanted)).map((one) => {
    const total = have.classes.get(one.id) ?? 0, labelled = one.given + one.accepted;
    const open = element("button", { type: "button", class: "open", title: `${one.name}: ${number(one.given)} given, ${number(one.accepted)} accepted, ${number(total - labelled)} predicted`,
      onclick: () => visit("class", one.id) },
      swatch(one), element("span", { class: "label", text: one.name, dir: "auto" }), element("span", { class: "count", text: number(total) }));
    const more = element("button", { type: "button", class: "more", "aria-label": `Change ${one.name}`, onclick: () => openClass(one) }, icon("more"));
    const made = element("li", { class: `class${ui.view === "class" && ui.classId === one.id ? " here" : ""}`, "data-id": one.id }, open, more);
    return made;
  }));
  if (ui.view === "class" && ui.shownClass !== ui.classId) bringIntoSight($("class-list"), $("class-list").querySelector(".here"));
  ui.shownClass = ui.view === "class" ? ui.classId : null;
  if (focused) $("class-list").querySelector(`[data-id="${focused}"] .${part || "open"}`)?.focus();
}

const hasKeys = matchMedia("(hover: hover)").matches, isNarrow = matchMedia("(max-width: 720px)");
const WORDS = {
  groups: "Pictures that look alike. Give each group a name; several may get the same one.",
  next: "Pictures whose labels help most, and a few at random. Name what is wrong, accept the rest.",
  unsure: "Between two classes, the closest calls first.",
  unknown: "What resembles none of the classes, or was marked so.",
  findings: `What to look at before trusting the labels.${hasKeys ? " Enter fixes, x dismisses." : ""}`,
  map: "Pictures that look alike lie near each other. Draw around some to select them.",
  all: "Every picture of the collection.",
};
function showHead(have) {
  const view = VIEWS.find((one) => one.id === ui.view), { undo, redo } = model.state;
  $("view-title").textContent = view ? view.title : className(ui.classId);
  $("view-title").dir = "auto";
  const one = model.classes.get(ui.classId);
  $("view-words").textContent = view ? WORDS[ui.view] : one ? `${number(one.given)} given, ${number(one.accepted)} accepted, ${number((have.classes.get(one.id) ?? 0) - one.given - one.accepted)} predicted` : "";
  $("head").dataset.view = ui.view;
  $("sort").parentElement.hidden = !["class", "all"].includes(ui.view);
  $("size").parentElement.hidden = ["groups", "findings", "map"].includes(ui.view);
  $("sort").value = sortOf();
  for (const [id, title] of [["undo", undo], ["redo", redo]]) {
    $(id).disabled = title === null;
    $(id).title = title === null ? "" : `${id === "undo" ? "Undo" : "Redo"}: ${title}`;
    $(id).setAttribute("aria-label", title === null ? (id === "undo" ? "Undo" : "Redo") : $(id).title);
  }
}

let saying;
function say(words, isBad = false) {
  $("said").textContent = words;
  $("said").classList.add("shown");
  clearTimeout(saying);
  saying = setTimeout(() => $("said").classList.remove("shown"), isBad ? 6000 : 2200);
}

// ---------------------------------------------------------------- the grid: only what is visible is in the page

const GAP = 14, CAPTION = 30, HEAD = 42, PANEL = 14;

function go(view, classId = null) {
  ui.view = view; ui.classId = classId; ui.isNewView = true; ui.cursor = 0; ui.anchor = 0; ui.selected.clear();
  $("grid").hidden = ["findings", "map"].includes(view);
  $("findings").hidden = view !== "findings"; $("map").hidden = view !== "map";
  $("grid").scrollTop = 0; $("grid").dataset.view = view;
  closeViewer(false);
  if (view === "groups") ui.selectGroup = true;
}

function visit(view, classId) { go(view, classId); showAll(); focusStage(); }

function layOut() {
  const grid = $("grid"), style = getComputedStyle(grid);
  const width = grid.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const isGroups = ui.view === "groups";
  const wanted = width < 420 ? Math.min(ui.size, (width - 2 * GAP) / 3) : ui.size;
  const inRow = [12, 6, 4].find((n) => (width + GAP) / n - GAP >= 58) ?? 3; // of the twelve of a group
  const columns = isGroups ? inRow : Math.max(1, Math.floor((width + GAP) / (wanted + GAP)));
  const side = Math.min(Math.floor((width - (columns - 1) * GAP) / columns), isGroups ? 120 : 400);
  const tall = side + (isGroups ? GAP : CAPTION + ({ next: 50, unsure: 16 }[ui.view] ?? 0) + 8);
  grid.classList.toggle("small", side < 116);
  const query = ui.search.toLocaleLowerCase();
  const keep = ui.order[ui.cursor];
  ui.columns = columns; ui.side = side; ui.order = []; ui.rows = [];
  let y = 6;
  for (const part of sections()) {
    const items = query ? part.items.filter((item) => model.names[item].toLocaleLowerCase().includes(query)) : part.items;
    if (!items.length) continue;
    const panelTop = y;
    if (part.group !== undefined) y += 4;
    if (part.title) { ui.rows.push({ y, height: HEAD, part, first: ui.order.length, count: items.length }); y += HEAD; }
    for (let at = 0; at < items.length; at += columns) {
      ui.rows.push({ y, height: tall, from: ui.order.length + at, to: ui.order.length + Math.min(at + columns, items.length) });
      y += tall;
    }
    if (part.group !== undefined) { y += 4; ui.rows.push({ y: panelTop, height: y - panelTop, panel: part, first: ui.order.length, count: items.length }); y += PANEL; }
    for (const item of items) ui.order.push(item); // spread arguments have a limit
  }
  ui.rows.sort((a, b) => a.y - b.y);
  ui.tallest = ui.rows.reduce((most, row) => Math.max(most, row.height), 0);
  $("canvas").style.height = `${y + 96}px`;
  if (keep !== undefined) { const at = ui.order[ui.cursor] === keep ? ui.cursor : ui.order.indexOf(keep); if (at >= 0 && ui.view !== "next") ui.cursor = at; }
  ui.cursor = Math.max(0, Math.min(ui.cursor, ui.order.length - 1));
  if (ui.selected.size) { const have = new Set(ui.order); for (const item of ui.selected) if (!have.has(item)) ui.selected.delete(item); }
  showEmpty();
  const grouped = isGroups ? model.state.groups.map((group) => group.items[0]).join() : "";
  if (grouped !== ui.grouped) { ui.grouped = grouped; ui.selectGroup = isGroups; ui.cursor = ui.anchor = 0; } // other groups than before: begin again
  if (isGroups && ui.selectGroup) { ui.selectGroup = false; selectGroup(groupOf(ui.cursor)); }
  if (performance.now() < ui.revealUntil) reveal(ui.cursor);
  drawTiles(true);
}

function showEmpty() {
  $("empty").hidden = ui.order.length > 0 || ["findings", "map"].includes(ui.view);
  if (!$("empty").hidden) sayEmpty(...emptyWords());
}
function emptyWords() {
  // [icon, title, what to do]
  const { embedding, predicted, version } = model.state;
  if (ui.search) return ["search", "No such name", `No name in this view has “${ui.search}” in it.`];
  if (ui.view === "next") {
    if (!embedding.is_done) return ["next", "Reading the pictures", "What to label next is chosen when some are read."];
    return predicted < version ? ["next", "Choosing…", ""] : ["check", "Nothing left to propose", "Every picture has a label, or resembles no class: see Unknown and Findings, then export."];
  }
  if (ui.view === "unknown") return ["check", "Every picture resembles one of the classes", "Press u to mark a picture that is of none of them."];
  if (ui.view === "unsure") return ["check", "Nothing to be unsure about", "Every picture has a label or is marked unknown."];
  if (ui.view === "class") return ["tag", "No picture of this class", "Name some, and others like them are found."];
  return ["all", "Nothing here", ""];
}
function sayEmpty(name, title, words) {
  $("empty").querySelector("use").setAttribute("href", `#i-${name}`);
  $("empty").querySelector("h3").textContent = title;
  $("empty").querySelector("p").textContent = words;
}

function drawTiles(isAnew = false) {
  const grid = $("grid"), canvas = $("canvas");
  if (grid.hidden) return;
  const top = grid.scrollTop - 400, bottom = grid.scrollTop + grid.clientHeight + 400;
  const tiles = new Map(), decor = new Map();
  let low = 0, high = ui.rows.length;
  while (low < high) { const middle = (low + high) >> 1; if (ui.rows[middle].y < top - ui.tallest) low = middle + 1; else high = middle; }
  for (let at = low; at < ui.rows.length && ui.rows[at].y < bottom; at++) {
    const row = ui.rows[at];
    if (row.y + row.height < top) continue;
    if (row.from === undefined) { decor.set(row, ui.decor.get(row) ?? drawDecor(row)); continue; }
    for (let place = row.from; place < row.to; place++) {
      const item = ui.order[place];
      const tile = ui.tiles.get(item) ?? newTile(item);
      const left = (place - row.from) * (ui.side + GAP);
      const position = `translate(${left}px, ${row.y}px)`;
      if (tile.style.transform !== position) tile.style.transform = position;
      if (tile.style.width !== `${ui.side}px`) tile.style.width = `${ui.side}px`;
      if (isAnew || !tile.isDressed) dress(tile, item, place);
      tiles.set(item, tile);
    }
  }
  for (const [item, tile] of ui.tiles) if (!tiles.has(item)) { tile.querySelector("img").removeAttribute("src"); tile.remove(); }
  for (const [row, node] of ui.decor) if (decor.get(row) !== node) node.remove();
  for (const node of decor.values()) if (!node.isConnected) canvas.prepend(node);
  const fresh = [...tiles.values()].filter((tile) => !tile.isConnected);
  canvas.append(...fresh);
  ui.tiles = tiles; ui.decor = decor;
  mark();
}

function drawDecor(row) {
  const part = row.part ?? row.panel;
  if (row.panel) { const panel = element("div", { class: "group-panel", "aria-hidden": "true" }); panel.style.top = `${row.y}px`; panel.style.height = `${row.height}px`; return panel; }
  const made = element("div", { class: "section", role: "presentation" }, element("b", { text: part.title }), element("span", { text: part.group === undefined ? [number(row.count), part.note].filter(Boolean).join(" · ") : part.note }));
  for (const id of part.names ?? []) {
    const one = model.classes.get(id);
    made.append(one ? paint(element("span", { class: "named", text: one.name, dir: "auto" }), one.colour) : element("span", { class: "named", text: "unknown" }));
  }
  made.style.top = `${row.y}px`; made.style.height = `${row.height}px`;
  return made;
}

function newTile(item) {
  const image = element("img", { src: `/thumb/${item}`, alt: "", draggable: "false", decoding: "async" });
  const frame = element("div", { class: "frame" }, image);
  image.addEventListener("error", () => { if (image.hasAttribute("src")) { image.remove(); frame.append(element("span", { class: "gone", text: "gone or damaged" }), image); image.hidden = true; } });
  const tile = element("div", { class: "tile", role: "option", id: `t${item}`, "data-item": item }, frame, element("div", { class: "caption" }));
  return tile;
}

function dress(tile, item, place) {
  const caption = tile.children[1], frame = tile.firstChild, facts = factsOf(item);
  tile.isDressed = true;
  caption.className = `caption ${facts.kind}`;
  caption.style.cssText = "";
  const text = element("span", { class: "text", text: facts.text, dir: "auto" });
  if (facts.kind === "given") { paint(caption, facts.colour); caption.replaceChildren(icon("tag"), text); }
  else if (facts.kind === "accepted") {
    caption.style.background = `color-mix(in srgb, ${facts.colour} 20%, var(--panel))`; caption.style.boxShadow = `inset 0 0 0 1.5px ${facts.colour}`;
    caption.replaceChildren(icon("check"), text);
  } else if (facts.kind === "marked") caption.replaceChildren(icon("unknown"), text);
  else if (facts.kind === "predicted") {
    const ring = element("span", { class: "ring" }), share = facts.share;
    ring.style.background = `conic-gradient(${facts.colour} ${share * 360}deg, color-mix(in srgb, ${facts.colour} 25%, transparent) 0)`;
    ring.style.mask = "radial-gradient(circle, transparent 3.2px, #000 3.7px)";
    caption.replaceChildren(ring, text, element("span", { class: "percent", text: sureness(share) }));
  } else caption.replaceChildren(...(facts.kind === "none" ? [element("span", { class: "ring none" })] : []), text);
  frame.querySelector(".changed")?.remove();
  const was = model.changed.get(item);
  if (was !== undefined && isPredicted(item) && ui.view !== "groups") frame.append(element("span", { class: "changed", text: `was ${className(was)}`, dir: "auto" }));
  let reason = tile.children[2];
  const why = ui.view === "next" ? model.state.next.find((one) => one.item === item)?.reason : ui.view === "unsure" && isPredicted(item) ? otherClass(item) : undefined;
  if (why) { if (!reason) { reason = element("div", { class: "reason" }); tile.append(reason); } showReason(reason, item, why); } else reason?.remove();
  tile.setAttribute("aria-label", `${model.names[item]}, ${facts.spoken}${was !== undefined && isPredicted(item) ? `, was ${className(was)}` : ""}${why ? `; ${why}` : ""}`);
  tile.setAttribute("aria-posinset", place + 1); tile.setAttribute("aria-setsize", ui.order.length);
  tile.title = model.names[item];
}

function otherClass(item) {
  const second = model.margin[item] <= 5000 && model.classes.get(model.second[item]);
  return second ? `or ${second.name}?` : "";
}
function showReason(node, item, why) {
  // The caption has the likeliest class; below it the other one, then the rest of the reason.
  const other = otherClass(item), rest = ui.view === "next" ? why.slice(why.lastIndexOf("; ") + 2) : "";
  node.replaceChildren(...(other ? [element("span", { class: "or", text: other, dir: "auto" })] : []), ...(rest ? [element("span", { text: rest })] : []));
  node.title = why;
}

function factsOf(item) {
  const label = model.label[item], best = model.classes.get(model.best[item]), share = model.probability[item] / 10000;
  if (label === UNKNOWN_MARK) return { kind: "marked", text: "unknown", spoken: "marked unknown" };
  const own = model.classes.get(label);
  if (own && model.origin[item] === ACCEPTED) return { kind: "accepted", text: own.name, colour: own.colour, spoken: `${own.name}, accepted` };
  if (own) return { kind: "given", text: own.name, colour: own.colour, spoken: `${own.name}, given` };
  if (model.unreadable.has(item)) return { kind: "plain", text: "cannot be read", spoken: "cannot be read" };
  if (!best) return { kind: "plain", text: ui.view === "groups" ? "" : model.names[item].split("/").pop(), spoken: "no label" };
  if (model.status[item] === STATUS_UNKNOWN && ui.view !== "next") return { kind: "none", text: ui.view === "unknown" ? `like ${best.name}?` : "like none", spoken: `resembles no class, most like ${best.name}` };
  return { kind: "predicted", text: best.name, colour: best.colour, share, spoken: `probably ${best.name}, ${sureness(share)}` };
}

function mark() {
  // Selection and cursor on the tiles that are there.
  for (const [item, tile] of ui.tiles) {
    const isSelected = ui.selected.has(item);
    tile.classList.toggle("selected", isSelected);
    tile.classList.toggle("cursor", ui.order[ui.cursor] === item);
    tile.setAttribute("aria-selected", String(isSelected));
  }
  for (const [row, node] of ui.decor) if (row.panel) node.classList.toggle("here", ui.cursor >= row.first && ui.cursor < row.first + row.count);
  const item = ui.order[ui.cursor];
  if (item !== undefined && ui.tiles.has(item)) $("grid").setAttribute("aria-activedescendant", `t${item}`); else $("grid").removeAttribute("aria-activedescendant");
}

function reveal(place) {
  const grid = $("grid"), row = ui.rows.find((one) => one.from !== undefined && place >= one.from && place < one.to);
  if (!row) return;
  const room = $("bar").offsetHeight + 28; // of the bar below
  if (row.y < grid.scrollTop + 8) grid.scrollTop = Math.max(0, row.y - (row.from === 0 ? HEAD + 8 : 8));
  else if (row.y + row.height > grid.scrollTop + grid.clientHeight - room) grid.scrollTop = row.y + row.height - grid.clientHeight + room;
}

// ---------------------------------------------------------------- cursor and selection

function moveTo(place, { extend = false, keep = false } = {}) {
  if (!ui.order.length) return;
  place = Math.max(0, Math.min(place, ui.order.length - 1));
  if (extend) {
    ui.selected = new Set(ui.order.slice(Math.min(ui.anchor, place), Math.max(ui.anchor, place) + 1));
  } else if (!keep) { ui.selected.clear(); ui.anchor = place; }
  ui.cursor = place;
  reveal(place);
  drawTiles();
  showBar();
  if (ui.isViewing) showViewer();
}

function step(key) {
  // The place that an arrow leads to, row by row as the eye sees them.
  const rows = ui.rows.filter((row) => row.from !== undefined);
  const at = rows.findIndex((row) => ui.cursor >= row.from && ui.cursor < row.to);
  if (at < 0) return 0;
  const column = ui.cursor - rows[at].from, page = Math.max(1, Math.floor($("grid").clientHeight / rows[at].height) - 1);
  const other = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - page, PageDown: at + page }[key];
  if (key === "ArrowLeft") return ui.cursor - 1;
  if (key === "ArrowRight") return ui.cursor + 1;
  if (key === "Home") return 0;
  if (key === "End") return ui.order.length - 1;
  const row = rows[Math.max(0, Math.min(other, rows.length - 1))];
  return other < 0 ? 0 : other >= rows.length ? ui.order.length - 1 : Math.min(row.from + column, row.to - 1);
}

const groupOf = (place) => ui.rows.find((row) => row.panel && place >= row.first && place < row.first + row.count);
function selectGroup(panel) {
  if (!panel) return;
  ui.cursor = ui.anchor = panel.first;
  ui.selected = new Set(ui.order.slice(panel.first, panel.first + panel.count).filter(isFree));
  const grid = $("grid"), low = panel.y + panel.height - grid.clientHeight + 90;
  if (panel.y - 6 < grid.scrollTop || panel.height > grid.clientHeight - 90) grid.scrollTop = panel.y - 6; else if (low > grid.scrollTop) grid.scrollTop = low;
  drawTiles(); showBar();
}
function nextGroup(direction) {
  const panels = ui.rows.filter((row) => row.panel), at = panels.indexOf(groupOf(ui.cursor));
  const next = panels[at + direction];
  if (next) selectGroup(next);
}

const targets = () => (ui.selected.size ? [...ui.selected] : ui.view === "map" ? (ui.mapCursor === undefined ? [] : [ui.mapCursor]) : ui.order[ui.cursor] === undefined ? [] : [ui.order[ui.cursor]]);

function showBar() {
  const n = ui.selected.size, has = targets().length > 0 && ui.view !== "findings";
  $("bar").classList.toggle("idle", !has);
  $("bar").inert = !has;
  $("selected").textContent = n ? `${number(n)} selected` : "This picture";
  $("name").placeholder = n > 1 ? `Name ${number(n)}${isNarrow.matches ? "" : " pictures"}` : "Type a name";
  $("accept-above").hidden = !["class", "unsure"].includes(ui.view);
  $("accept").disabled = !targets().some((item) => isFree(item) && model.best[item] >= 0);
  $("clear").disabled = !targets().some((item) => !isFree(item));
}

function focusStage() {
  const node = ui.view === "findings" ? $("findings").querySelector(".finding") ?? $("findings") : ui.view === "map" ? $("plane") : $("grid");
  node.focus({ preventScroll: true });
}

function afterAction(items) {
  // Where to go when some pictures have been dealt with.
  ui.selected.clear();
  if (ui.view === "groups") {
    const done = new Set(items), panels = ui.rows.filter((row) => row.panel), at = panels.indexOf(groupOf(ui.cursor));
    const next = [...panels.slice(at + 1), ...panels.slice(0, at)].find((panel) => ui.order.slice(panel.first, panel.first + panel.count).some((item) => isFree(item) && !done.has(item)));
    if (next) selectGroup(next); else { drawTiles(); showBar(); }
  } else if (["class", "unknown", "all"].includes(ui.view) && items.includes(ui.order[ui.cursor])) {
    // On to the first that is left; those that were dealt with may go elsewhere, and the cursor goes with it.
    const done = new Set(items), left = (item) => item !== undefined && !done.has(item);
    let place = ui.cursor;
    while (place < ui.order.length && !left(ui.order[place])) place++;
    if (place === ui.order.length) { place = ui.cursor; while (place > 0 && !left(ui.order[place])) place--; }
    ui.revealUntil = performance.now() + 1500;
    moveTo(place);
  } else { drawTiles(); showBar(); if (ui.view === "map") drawMap(); }
}

async function giveClass(name, items = targets()) {
  if (!items.length || !name.trim()) return;
  if (await act({ do: "label", items, class: name }, `${pictures(items.length)} labelled ${name}`)) afterAction(items);
}

async function accept(items) {
  const classes = Object.create(null), unknown = []; // a class may be called constructor
  let n = 0;
  for (const item of items) {
    if (isLikeNone(item) && ["unknown", "all"].includes(ui.view)) unknown.push(item); // where that is what the picture says
    else if (isPredicted(item) || (isLikeNone(item) && ui.view === "next")) { (classes[className(model.best[item])] ??= []).push(item); n++; }
  }
  if (n && (await act({ do: "accept", classes }, `${pictures(n)} accepted`))) afterAction(items);
  if (unknown.length && (await act({ do: "unknown", items: unknown }, `${pictures(unknown.length)} marked unknown`))) afterAction(items);
}
function acceptAbove() {
  const first = ui.rows.find((row) => row.part?.title === "Accepted" || row.part?.title === "Given");
  accept(ui.order.slice(0, Math.min(ui.cursor + 1, first ? first.first : Infinity)));
}
async function clearLabels(items = targets()) {
  items = items.filter((item) => !isFree(item));
  if (items.length && (await act({ do: "clear", items }, `Label of ${pictures(items.length)} taken away`))) afterAction(items);
}
async function markUnknown(items = targets()) {
  if (items.length && (await act({ do: "unknown", items }, `${pictures(items.length)} marked unknown`))) afterAction(items);
}
async function undo(kind) {
  const title = model.state[kind];
  if (title === null) { say(kind === "undo" ? "Nothing to undo" : "Nothing to redo"); return; }
  await act({ do: kind }, `${kind === "undo" ? "Undone" : "Done again"}: ${title}`);
}

// ---------------------------------------------------------------- typing a name

let choice = 0, options = [];
function openNaming(text = "") {
  if (!targets().length) { say("Select a picture first"); return; }
  $("name").value = text;
  $("name").focus();
  suggest();
}
function suggest() {
  const text = $("name").value.trim().normalize("NFC"), low = text.toLocaleLowerCase();
  const named = [...model.state.classes];
  const starts = named.filter((one) => one.name.toLocaleLowerCase().startsWith(low));
  const inside = named.filter((one) => !starts.includes(one) && one.name.toLocaleLowerCase().includes(low));
  const asOptions = (classes) => classes.slice(0, 50).map((one) => ({ name: one.name, one }));
  options = asOptions(starts.sort((a, b) => (b.name.toLocaleLowerCase() === low) - (a.name.toLocaleLowerCase() === low)));
  if (text && !named.some((one) => one.name === text)) options.push({ name: text, isNew: true });
  options.push(...asOptions(inside)); // after the new one: who types "finch" and Enter does not mean "house finch"
  choice = 0;
  showChoices();
}
function showChoices() {
  const list = $("choices"), isOpen = document.activeElement === $("name") && options.length > 0;
  list.hidden = !isOpen;
  $("name").setAttribute("aria-expanded", String(isOpen));
  list.replaceChildren(...options.map((option, at) => {
    const mark = option.isNew ? element("span", { class: "swatch", text: "+", "aria-hidden": "true" }) : swatch(option.one);
    return element("li", { role: "option", id: `choice${at}`, class: option.isNew ? "new" : "", "aria-selected": String(at === choice),
      onpointerdown: (event) => { event.preventDefault(); choose(at); } }, mark, element("span", { text: option.isNew ? `New class “${option.name}”` : option.name, dir: "auto" }));
  }));
  if (isOpen) { $("name").setAttribute("aria-activedescendant", `choice${choice}`); $(`choice${choice}`)?.scrollIntoView({ block: "nearest" }); } else $("name").removeAttribute("aria-activedescendant");
}
function choose(at) {
  const option = options[at];
  const items = targets();
  closeNaming();
  if (option) giveClass(option.name, items);
}
function closeNaming() { $("name").value = ""; options = []; showChoices(); if (ui.isViewing) $("viewer").focus(); else focusStage(); }

$("name").addEventListener("input", suggest);
$("name").addEventListener("focus", suggest);
$("name").addEventListener("blur", () => { options = []; showChoices(); });
$("name").addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    choice = (choice + (event.key === "ArrowDown" ? 1 : options.length - 1)) % Math.max(options.length, 1);
    showChoices(); event.preventDefault();
  } else if (event.key === "Enter") { event.preventDefault(); if ($("name").value.trim() || options.length) choose(choice); } else if (event.key === "Escape") { event.preventDefault(); closeNaming(); }
  event.stopPropagation();
});

// ---------------------------------------------------------------- one picture, large

function openViewer(item) { // of a finding; elsewhere, the one at the cursor
  if (item === undefined && !targets().length) return;
  ui.viewed = item; ui.isViewing = true; $("viewer").hidden = false;
  showViewer(); $("viewer").focus();
}
function showViewer() {
  const item = ui.view === "map" || ui.view === "findings" ? ui.viewed ?? targets()[0] : ui.order[ui.cursor];
  if (item === undefined) { closeViewer(); return; }
  const image = $("viewer").querySelector("img"), facts = factsOf(item), source = `/picture/${item}`;
  if (!image.src.endsWith(source)) { image.hidden = false; $("viewer").querySelector(".gone").hidden = true; image.src = source; }
  const isAlone = ["map", "findings"].includes(ui.view);
  for (const [name, at] of [["back", 0], ["on", ui.order.length - 1]]) { const turn = $("viewer").querySelector(`.${name}`); turn.hidden = isAlone; turn.disabled = ui.cursor === at; }
  image.alt = model.names[item];
  $("viewer").querySelector("strong").textContent = model.names[item];
  const second = model.classes.get(model.second[item]);
  $("viewer").querySelector("span").textContent = facts.kind === "predicted" && second ? `${facts.spoken}; else ${second.name}` : facts.spoken;
}
function closeViewer(focus = true) { ui.isViewing = false; ui.viewed = undefined; $("viewer").hidden = true; if (focus) focusStage(); }
$("viewer").querySelector(".close").addEventListener("click", () => closeViewer());
$("viewer").querySelector(".back").addEventListener("click", () => moveTo(ui.cursor - 1));
$("viewer").querySelector(".on").addEventListener("click", () => moveTo(ui.cursor + 1));
$("viewer").querySelector("img").addEventListener("error", (event) => { event.target.hidden = true; $("viewer").querySelector(".gone").hidden = false; });

// ---------------------------------------------------------------- findings

function mending(finding) {
  // What mends a finding: [words, what to do]
  const [first, second] = finding.classes;
  if (finding.kind === "suspicious label") return [`Make it ${first}`, () => giveClass(first, finding.items)];
  if (finding.kind === "easy examples") return ["Look at the unsure", () => visit("unsure")];
  if (finding.kind === "similar classes") return [`Merge ${second} into ${first}`, () => act({ do: "merge", class: second, into: first }, `${second} merged into ${first}`)];
  if (finding.kind.endsWith("duplicates")) {
    const name = first ?? [...new Set(finding.items.map((item) => className(finalClass(item))).filter(Boolean))][0];
    const open = finding.items.filter((item) => className(model.label[item]) !== name);
    return name && open.length ? [`Label all ${name}`, () => giveClass(name, finding.items)] : null;
  }
  if (["single example", "unrecognised class"].includes(finding.kind) && first) return [`Look at ${first}`, () => visit("class", [...model.classes.values()].find((one) => one.name === first).id)];
  return null;
}
function showFindings() {
  const at = [...$("findings").children].indexOf(document.activeElement?.closest?.(".finding"));
  $("findings").replaceChildren(...model.state.findings.map((finding) => {
    const mend = mending(finding), buttons = element("div", { class: "buttons" });
    if (mend) buttons.append(element("button", { type: "button", class: "main", "data-mend": "", onclick: mend[1] }, element("span", { text: mend[0], dir: "auto" })));
    if (finding.kind.endsWith("duplicates")) buttons.append(...finding.classes.slice(1, 4).map((name) => element("button", { type: "button", onclick: () => giveClass(name, finding.items) }, element("span", { text: `Label all ${name}`, dir: "auto" }))));
    if (finding.kind === "similar classes") buttons.append(element("button", { type: "button", text: "Look at the unsure", onclick: () => visit("unsure") }));
    buttons.append(element("button", { type: "button", "data-dismiss": "", text: "Dismiss", onclick: () => act({ do: "dismiss", finding: finding.key }, "Finding dismissed") }));
    const shown = finding.items.slice(0, 10).map((item) => element("button", { type: "button", "aria-label": `Look at ${model.names[item]}`, onclick: () => openViewer(item) }, element("img", { src: `/thumb/${item}`, alt: "", loading: "lazy" })));
    const words = element("div", { class: "words" }, element("h3", { text: finding.kind }), element("p", { text: finding.text, dir: "auto" }), ...(shown.length > 1 ? [element("div", { class: "pictures" }, ...shown)] : []), buttons);
    return element("article", { class: "finding", tabindex: "0", "aria-label": finding.kind }, ...(shown.length === 1 ? [element("div", { class: "pictures one" }, ...shown)] : []), words);
  }));
  $("empty").hidden = model.state.findings.length > 0;
  if (!model.state.findings.length) sayEmpty("check", "Nothing suspicious", "No doubtful label, no duplicate, no two classes alike.");
  if (at >= 0) ($("findings").children[Math.min(at, $("findings").children.length - 1)])?.focus?.();
}

// ---------------------------------------------------------------- the map

const plane = { x: 0, y: 0, zoom: 1, lasso: null, images: new Map() };
function mapSize() {
  const canvas = $("plane"), ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
  const [across, down] = model.extent; // both ways: a wide map fills a wide window
  return { width, height, ratio, scale: Math.min((width / 2 - 40) / across, (height / 2 - 44) / down) * plane.zoom };
}
function toScreen(item, size) {
  return [size.width / 2 + (model.place[2 * item] - plane.x) * size.scale, size.height / 2 - (model.place[2 * item + 1] - plane.y) * size.scale];
}
let isDrawing = false;
function drawMap() { if (!isDrawing) { isDrawing = true; requestAnimationFrame(() => { isDrawing = false; paintMap(); }); } }
function paintMap() {
  if (ui.view !== "map") return;
  $("empty").hidden = Boolean(model.place);
  $("map-legend").hidden = !model.place || !model.classes.size;
  if (!model.place) { sayEmpty("map", "No map yet", "The map is drawn when all pictures are read."); return; }
  const size = mapSize(), canvas = $("plane"), pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), quiet = style.getPropertyValue("--faint"), accent = style.getPropertyValue("--accent"), paper = style.getPropertyValue("--paper");
  pen.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  pen.clearRect(0, 0, size.width, size.height);
  const n = model.names.length, shown = [];
  for (const item of model.placed) {
    const [x, y] = toScreen(item, size);
    if (x > -60 && y > -60 && x < size.width + 60 && y < size.height + 60) shown.push([item, x, y]);
  }
  const radius = Math.max(1.6, Math.min(6, (n > 20000 ? 1.6 : n > 3000 ? 2.4 : 3.4) * Math.sqrt(plane.zoom)));
  const asPictures = shown.length <= 260 && plane.zoom > 1.5;
  shown.sort((a, b) => (isFree(a[0]) ? 0 : 1) - (isFree(b[0]) ? 0 : 1));
  for (const [item, x, y] of shown) {
    const id = finalClass(item), one = model.classes.get(id), isSelected = ui.selected.has(item);
    pen.globalAlpha = isFree(item) && one ? 0.35 + 0.55 * (model.probability[item] / 10000) : 0.95;
    if (asPictures && thumbOf(item)) {
      pen.globalAlpha = 1;
      pen.fillStyle = isSelected ? accent : one ? one.colour : quiet; pen.fillRect(x - 25, y - 25, 50, 50);
      pen.drawImage(thumbOf(item), x - 22, y - 22, 44, 44);
      continue;
    }
    pen.beginPath(); pen.arc(x, y, isFree(item) ? radius : radius * 1.5, 0, 7);
    if (!one) { pen.strokeStyle = quiet; pen.lineWidth = 1.2; pen.stroke(); } else { pen.fillStyle = one.colour; pen.fill(); if (!isFree(item)) { pen.strokeStyle = paper; pen.lineWidth = 1.4; pen.stroke(); } }
    if (isSelected) { pen.globalAlpha = 1; pen.strokeStyle = accent; pen.lineWidth = 2; pen.beginPath(); pen.arc(x, y, radius + 3, 0, 7); pen.stroke(); }
  }
  pen.globalAlpha = 1;
  if (ui.mapCursor !== undefined && !Number.isNaN(model.place[2 * ui.mapCursor])) { const [x, y] = toScreen(ui.mapCursor, size); pen.strokeStyle = ink; pen.lineWidth = 2; pen.beginPath(); pen.arc(x, y, radius + 6, 0, 7); pen.stroke(); }
  nameClasses(pen, size, ink, paper);
  if (plane.lasso?.length > 1) {
    pen.strokeStyle = accent; pen.fillStyle = accent; pen.lineWidth = 1.6; pen.beginPath();
    plane.lasso.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath(); pen.stroke(); pen.globalAlpha = 0.12; pen.fill(); pen.globalAlpha = 1;
  }
}
function nameClasses(pen, size, ink, paper) {
  // The name of each class at the middle of its members.
  const members = new Map();
  for (const item of model.placed) { const id = finalClass(item); if (id >= 0) { if (!members.has(id)) members.set(id, []); members.get(id).push(item); } }
  pen.font = "600 13px system-ui, sans-serif"; pen.textAlign = "center"; pen.textBaseline = "middle"; pen.lineJoin = "round"; pen.lineWidth = 4;
  const taken = []; // the largest classes first; a name that would lie on another is left out until there is room
  for (const [id, items] of [...members].sort((a, b) => b[1].length - a[1].length)) {
    const middle = (axis) => { const values = items.map((item) => model.place[2 * item + axis]).sort((a, b) => a - b); return values[values.length >> 1]; };
    const x = size.width / 2 + (middle(0) - plane.x) * size.scale, y = size.height / 2 - (middle(1) - plane.y) * size.scale, name = fitting(pen, className(id), 150);
    const half = pen.measureText(name).width / 2 + 5;
    if (taken.some((other) => Math.abs(x - other.x) < half + other.half && Math.abs(y - other.y) < 17)) continue;
    taken.push({ x, y, half });
    pen.strokeStyle = paper; pen.strokeText(name, x, y); pen.fillStyle = ink; pen.fillText(name, x, y);
  }
}
function fitting(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("").trimEnd()}…`;
}
function thumbOf(item) {
  let image = plane.images.get(item);
  if (!image) {
    if (plane.images.size > 800) plane.images.clear();
    image = new Image(); image.src = `/thumb/${item}`; image.onload = drawMap; plane.images.set(item, image);
  }
  return image.complete && image.naturalWidth ? image : null;
}
function nearestOnMap(x, y, within) {
  const size = mapSize();
  let found, least = within * within;
  for (const item of model.placed) {
    const [px, py] = toScreen(item, size), distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < least) { least = distance; found = item; }
  }
  return found;
}
function stepOnMap(key, extend) {
  if (!model.placed.length) return;
  const from = ui.mapCursor ?? nearestOnMap($("plane").clientWidth / 2, $("plane").clientHeight / 2, 1e6);
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[key];
  let found, least = Infinity;
  if (ui.mapCursor !== undefined) for (const item of model.placed) {
    const x = model.place[2 * item] - model.place[2 * from], y = model.place[2 * item + 1] - model.place[2 * from + 1], along = x * dx + y * dy, across = Math.abs(x * dy - y * dx);
    if (item !== from && along > 1e-6 && across <= along * 1.2 && along + 2 * across < least) { least = along + 2 * across; found = item; }
  }
  if (extend) ui.selected.add(from); else ui.selected.clear();
  ui.mapCursor = found ?? from;
  if (extend) ui.selected.add(ui.mapCursor);
  const size = mapSize(), [x, y] = toScreen(ui.mapCursor, size);
  if (x < 40 || y < 40 || x > size.width - 40 || y > size.height - 40) { plane.x = model.place[2 * ui.mapCursor]; plane.y = model.place[2 * ui.mapCursor + 1]; }
  peek(ui.mapCursor); showBar(); drawMap(); say(`${model.names[ui.mapCursor]}, ${factsOf(ui.mapCursor).spoken}`);
}
function peek(item) {
  const box = $("peek");
  box.hidden = item === undefined;
  if (item === undefined) return;
  const [x, y] = toScreen(item, mapSize()), map = $("map");
  if (box.dataset.item !== String(item)) { box.dataset.item = item; box.querySelector("img").src = `/thumb/${item}`; }
  const facts = factsOf(item);
  box.querySelector("figcaption").textContent = facts.kind === "predicted" ? `${facts.text} ${sureness(facts.share)}` : facts.text;
  box.style.left = `${Math.min(Math.max(x + 14, 8), map.clientWidth - 156)}px`;
  box.style.top = `${Math.min(Math.max(y + 14, 8), map.clientHeight - 262)}px`;
}
function zoomMap(factor, x = $("plane").clientWidth / 2, y = $("plane").clientHeight / 2) {
  const size = mapSize(), zoom = Math.max(0.8, Math.min(60, plane.zoom * factor)), scale = (size.scale / plane.zoom) * zoom;
  const px = plane.x + (x - size.width / 2) / size.scale, py = plane.y - (y - size.height / 2) / size.scale;
  plane.x = px - (x - size.width / 2) / scale; plane.y = py + (y - size.height / 2) / scale; plane.zoom = zoom;
  peek(undefined); drawMap();
}
function isInside(x, y, polygon) {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i], [xj, yj] = polygon[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}
const at = (event) => { const box = $("plane").getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
$("plane").addEventListener("pointerdown", (event) => { if (!model.place || event.button) return; plane.lasso = [at(event)]; $("plane").setPointerCapture(event.pointerId); $("plane").focus(); });
$("plane").addEventListener("pointermove", (event) => {
  if (!model.place) return;
  const here = at(event);
  if (!plane.lasso) { peek(nearestOnMap(...here, 12)); return; }
  plane.lasso.push(here); peek(undefined); drawMap();
});
$("plane").addEventListener("pointerup", (event) => {
  const lasso = plane.lasso;
  plane.lasso = null;
  if (!lasso) return;
  if (!event.shiftKey && !event.ctrlKey && !event.metaKey) ui.selected.clear();
  const spread = Math.max(...lasso.map(([x, y]) => Math.hypot(x - lasso[0][0], y - lasso[0][1])));
  if (spread < 5) { ui.mapCursor = nearestOnMap(...lasso[0], 14); if (ui.mapCursor !== undefined) ui.selected.add(ui.mapCursor); } else {
    const size = mapSize();
    for (const item of model.placed) if (isInside(...toScreen(item, size), lasso)) ui.selected.add(item);
  }
  showBar(); drawMap();
});
$("plane").addEventListener("pointerleave", () => { if (!plane.lasso) peek(undefined); });
$("plane").addEventListener("wheel", (event) => { event.preventDefault(); zoomMap(Math.exp(-event.deltaY / 400), ...at(event)); }, { passive: false });
$("zoom-in").addEventListener("click", () => zoomMap(1.6));
$("zoom-out").addEventListener("click", () => zoomMap(1 / 1.6));
$("zoom-all").addEventListener("click", () => { plane.x = plane.y = 0; plane.zoom = 1; peek(undefined); drawMap(); });

// ---------------------------------------------------------------- pointer on the grid

const pointer = { start: null, isDragging: false, before: new Set() };
const placeOf = (target) => { const tile = target.closest?.(".tile"); return tile ? ui.order.indexOf(Number(tile.dataset.item)) : -1; };

$("grid").addEventListener("pointerdown", (event) => {
  if (event.button || event.offsetX > $("grid").clientWidth) return;
  const isTouch = event.pointerType === "touch";
  pointer.start = isTouch ? null : { x: event.clientX, y: event.clientY, scroll: $("grid").scrollTop };
  pointer.before = event.shiftKey || event.ctrlKey || event.metaKey ? new Set(ui.selected) : new Set();
});
$("grid").addEventListener("click", (event) => {
  if (pointer.wasDragged) { pointer.wasDragged = false; return; }
  const place = placeOf(event.target);
  $("grid").focus({ preventScroll: true });
  if (place < 0) {
    const panel = ui.rows.find((row) => row.panel && event.clientY - $("canvas").getBoundingClientRect().top >= row.y && event.clientY - $("canvas").getBoundingClientRect().top < row.y + row.height);
    if (panel) selectGroup(panel); else { ui.selected.clear(); mark(); showBar(); }
    return;
  }
  const item = ui.order[place];
  if (event.shiftKey) moveTo(place, { extend: true });
  else if (event.ctrlKey || event.metaKey || event.pointerType === "touch" || (ui.view === "groups" && groupOf(place) === groupOf(ui.cursor))) {
    if (ui.selected.has(item)) ui.selected.delete(item); else ui.selected.add(item);
    ui.anchor = place; moveTo(place, { keep: true });
  } else { moveTo(place); ui.selected.add(item); mark(); showBar(); }
});
$("grid").addEventListener("dblclick", () => openViewer());
addEventListener("pointermove", (event) => {
  if (!pointer.start) return;
  const { start } = pointer, box = $("stage").getBoundingClientRect();
  if (!pointer.isDragging && Math.hypot(event.clientX - start.x, event.clientY - start.y) < 6) return;
  pointer.isDragging = true;
  const grid = $("grid").getBoundingClientRect();
  if (event.clientY > grid.bottom - 30) $("grid").scrollTop += 14; else if (event.clientY < grid.top + 30) $("grid").scrollTop -= 14;
  const startY = start.y - ($("grid").scrollTop - start.scroll);
  const left = Math.min(start.x, event.clientX), right = Math.max(start.x, event.clientX), top = Math.min(startY, event.clientY), bottom = Math.max(startY, event.clientY);
  const lasso = $("lasso");
  lasso.hidden = false;
  Object.assign(lasso.style, { left: `${left - box.left}px`, top: `${Math.max(top, box.top) - box.top}px`, width: `${right - left}px`, height: `${Math.min(bottom, box.bottom) - Math.max(top, box.top)}px` });
  const canvas = $("canvas").getBoundingClientRect();
  ui.selected = new Set(pointer.before);
  for (const row of ui.rows) {
    if (row.from === undefined || canvas.top + row.y > bottom || canvas.top + row.y + row.height < top) continue;
    for (let place = row.from; place < row.to; place++) {
      const x = canvas.left + (place - row.from) * (ui.side + GAP);
      if (x < right && x + ui.side > left && canvas.top + row.y < bottom && canvas.top + row.y + ui.side > top) ui.selected.add(ui.order[place]);
    }
  }
  mark(); showBar();
});
addEventListener("pointerup", () => {
  pointer.wasDragged = pointer.isDragging;
  pointer.start = null; pointer.isDragging = false; $("lasso").hidden = true;
  if (pointer.wasDragged) { $("grid").focus({ preventScroll: true }); setTimeout(() => { pointer.wasDragged = false; }, 0); }
});
let isScrolling = false;
$("grid").addEventListener("scroll", () => { if (!isScrolling) { isScrolling = true; requestAnimationFrame(() => { isScrolling = false; drawTiles(); }); } });
new ResizeObserver(() => { if (model.state) { if (ui.view === "map") drawMap(); else if (ui.view !== "findings") layOut(); } }).observe($("stage"));
isNarrow.addEventListener("change", () => { if (model.state) { showBar(); bringIntoSight($("views"), $("views").querySelector("[aria-current]")); bringIntoSight($("class-list"), $("class-list").querySelector(".here")); } });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (ui.view === "map") drawMap(); });

// ---------------------------------------------------------------- keys

addEventListener("keydown", (event) => {
  if (!model.state || event.isComposing || document.querySelector("dialog[open]")) return;
  const target = event.target, key = event.key, isTyping = target.matches?.("input:not([type=range]), textarea, select");
  const command = event.ctrlKey || event.metaKey;
  if (command && !event.altKey && key.toLowerCase() === "z" && !isTyping) { undo(event.shiftKey ? "redo" : "undo"); event.preventDefault(); return; }
  if (command && key.toLowerCase() === "y" && !isTyping) { undo("redo"); event.preventDefault(); return; }
  if (isTyping) { if (key === "Escape") { target.value = ""; target.dispatchEvent(new Event("input")); focusStage(); } else if (key === "Enter" && target.id === "search") focusStage(); return; }
  if (key === "Escape") { if (ui.isViewing) closeViewer(); else { ui.selected.clear(); mark(); showBar(); if (ui.view === "map") drawMap(); } event.preventDefault(); return; }
  if (target.closest?.("button, [role=combobox]") && (key === "Enter" || key === " ")) return; // what has the focus is pressed
  if (ui.view === "findings" && !ui.isViewing && findingKey(event)) { event.preventDefault(); return; }
  if (command && key.toLowerCase() === "a") { if (ui.view === "map") { ui.selected = new Set(model.placed); drawMap(); } else { ui.selected = new Set(ui.order); mark(); } showBar(); event.preventDefault(); return; }
  if (command || event.altKey) return;
  if (key.startsWith("Arrow") || ["Home", "End", "PageUp", "PageDown"].includes(key)) {
    if (target.type === "range") return;
    if (ui.view === "map") { if (key.startsWith("Arrow")) { stepOnMap(key, event.shiftKey); event.preventDefault(); } return; }
    if (ui.view === "groups" && !event.shiftKey && (key === "ArrowDown" || key === "ArrowUp") && !ui.isViewing) nextGroup(key === "ArrowDown" ? 1 : -1);
    else moveTo(step(key), { extend: event.shiftKey, keep: ui.view === "groups" });
    event.preventDefault(); return;
  }
  const done = plainKey(key, event);
  if (done) event.preventDefault();
});

function plainKey(key, event) {
  if (key === " ") { if (ui.view === "groups" && event.shiftKey) { const item = ui.order[ui.cursor]; if (!ui.selected.delete(item)) ui.selected.add(item); mark(); showBar(); } else if (ui.isViewing) closeViewer(); else openViewer(); return true; }
  if (key === "Enter") { if (event.shiftKey) acceptAbove(); else accept(targets()); return true; }
  if (key === "Backspace" || key === "Delete") { clearLabels(); return true; }
  if (key === "/") { closeViewer(false); $("search").focus(); $("search").select(); return true; }
  if (key === "?") { openKeys(); return true; }
  if (key === "F2") { openNaming(); return true; }
  if (key === "[" || key === "]") { const shown = VIEWS.filter((view) => isShown(view.id)), here = shown.findIndex((view) => view.id === ui.view); visit(shown[(here + (key === "]" ? 1 : shown.length - 1)) % shown.length].id); return true; }
  if (key === "u") { markUnknown(); return true; }
  if (/^[0-9]$/.test(key)) {
    const id = [...model.keys].find(([, digit]) => digit === key)?.[0];
    if (id === undefined) openNaming(key); else giveClass(className(id));
    return true;
  }
  if ([...key].length === 1 && key.trim()) { openNaming(key); return true; }
  return false;
}

function findingKey(event) {
  const cards = [...$("findings").querySelectorAll(".finding")], at = cards.indexOf(document.activeElement?.closest?.(".finding"));
  if (["ArrowDown", "ArrowRight"].includes(event.key)) { (cards[at + 1] ?? cards[at] ?? cards[0])?.focus(); return true; }
  if (["ArrowUp", "ArrowLeft"].includes(event.key)) { (cards[at - 1] ?? cards[0])?.focus(); return true; }
  if (at < 0) return false;
  if (event.key === "Enter") { cards[at].querySelector("[data-mend]")?.click(); return true; }
  if (event.key === "x" || event.key === "Backspace" || event.key === "Delete") { cards[at].querySelector("[data-dismiss]").click(); return true; }
  if (event.key === " ") { cards[at].querySelector(".pictures button")?.click(); return true; }
  return false;
}

// ---------------------------------------------------------------- dialogues and tools

function openClass(one) {
  const dialog = $("class-dialog");
  dialog.returnValue = "";
  $("class-dialog-title").textContent = one.name; $("class-dialog-title").dir = "auto";
  $("class-name").value = one.name;
  showPalette(one.colour);
  const others = model.state.classes.filter((other) => other.id !== one.id);
  $("class-merge").replaceChildren(element("option", { value: "", text: "no other class" }), ...others.map((other) => element("option", { value: other.name, text: other.name })));
  $("class-merge").parentElement.hidden = !others.length;
  $("class-delete").onclick = () => { dialog.close(); act({ do: "delete", class: one.name }, `${one.name} deleted`); };
  dialog.querySelector("form").onsubmit = async (event) => {
    event.preventDefault();
    const name = $("class-name").value, colour = $("class-colour").value, into = $("class-merge").value;
    dialog.close();
    if (into) { await act({ do: "merge", class: one.name, into }, `${one.name} merged into ${into}`); return; }
    if (colour !== one.colour && !(await act({ do: "colour", class: one.name, colour }, `Colour of ${one.name} changed`))) return;
    if (name !== one.name) await act({ do: "rename", class: one.name, to: name }, `${one.name} renamed ${name}`);
  };
  dialog.showModal();
}
function showPalette(chosen) {
  $("class-colour").value = chosen;
  $("palette").replaceChildren(...model.colours.map((colour, at) => {
    const made = element("button", { type: "button", "aria-label": `Colour ${at + 1}`, "aria-pressed": String(colour === chosen), onclick: () => { showPalette(colour); $("palette").children[at].focus(); } });
    if (colour === chosen) made.append(icon("check"));
    return paint(made, colour);
  }));
}
$("class-colour").addEventListener("input", () => showPalette($("class-colour").value));
function openKeys() {
  const asKeys = (keys) => keys.map((key) => (["+", "…"].includes(key) ? element("span", { text: key }) : element("kbd", { text: key })));
  $("keys").replaceChildren(...KEYS.map(([title, ...lines]) => element("section", {}, element("h3", { text: title }),
    element("dl", {}, ...lines.flatMap(([keys, words]) => [element("dt", {}, ...asKeys(keys)), element("dd", { text: words })])))));
  $("keys-dialog").showModal();
}
function openExport() {
  const dialog = $("export-dialog"), result = $("export-result");
  if (!$("formats").querySelector("label")) {
    $("formats").append(...FORMATS.map(([id, title, words], at) => {
      const radio = element("input", { type: "radio", name: "format", value: id });
      radio.checked = at === 0;
      return element("label", {}, radio, element("span", { text: title }), element("small", { text: words }));
    }));
  }
  result.textContent = ""; result.className = "";
  dialog.querySelector("form").onsubmit = async (event) => {
    event.preventDefault();
    const button = dialog.querySelector(".main");
    button.disabled = true; result.className = "busy"; result.textContent = "Writing…";
    try {
      const done = await ask("/api/export", { format: dialog.querySelector("input:checked").value }).then((a) => a.json());
      result.className = "good"; result.textContent = `Written to ${done.folder}`;
    } catch (error) { result.className = "bad"; result.textContent = error.message; } finally { button.disabled = false; }
  };
  dialog.showModal();
}
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector(".cancel")?.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => focusStage());
}
$("open-keys").addEventListener("click", openKeys);
$("open-export").addEventListener("click", openExport);
$("undo").addEventListener("click", () => undo("undo"));
$("redo").addEventListener("click", () => undo("redo"));
$("accept").addEventListener("click", () => { accept(targets()); focusStage(); });
$("accept-above").addEventListener("click", () => { acceptAbove(); focusStage(); });
$("mark-unknown").addEventListener("click", () => { markUnknown(); focusStage(); });
$("clear").addEventListener("click", () => { clearLabels(); focusStage(); });
$("zoom").addEventListener("click", () => openViewer());
$("class-filter").querySelector("input").addEventListener("input", () => showClasses(counts()));
$("search").addEventListener("input", () => { ui.search = $("search").value; if (["findings", "map"].includes(ui.view)) go("all"); $("grid").scrollTop = 0; ui.cursor = 0; showAll(); });
$("sort").addEventListener("change", async () => {
  const view = ui.view, sort = $("sort").value;
  if (sort === "time" && !model.times.length) model.times = (await ask("/api/times").then((a) => a.json()).catch(() => ({ times: [] }))).times;
  if (ui.view !== view) return;
  ui.sort[view] = sort; ui.cursor = 0; $("grid").scrollTop = 0; layOut(); focusStage();
});
$("size").value = ui.size;
$("size").addEventListener("input", () => { ui.size = Number($("size").value); remember("size", ui.size); if (!$("grid").hidden) layOut(); });

function remember(name, value) { try { localStorage.setItem(`remp-${name}`, value); } catch { /* forbidden: then it is forgotten */ } }
function remembered(name) { try { return localStorage.getItem(`remp-${name}`); } catch { return null; } }

// ---------------------------------------------------------------- start

async function start() {
  Object.assign(model, await ask("/api/names").then((a) => a.json())); // names, and the colours of classes
  await refresh();
  focusStage();
  let wasGroups = ui.view !== "next" && !model.best.some((best) => best >= 0);
  const events = new EventSource("/api/events");
  events.onmessage = () => refresh().then(() => {
    // Something to see has come: go there once, unless a person is at work already.
    if (wasGroups && ui.view === "all" && model.state.groups.length && !ui.selected.size && ui.cursor === 0) { go("groups"); showAll(); wasGroups = false; }
  });
  events.onerror = () => { $("said").dataset.lost = "1"; };
  events.onopen = () => { if ($("said").dataset.lost) { delete $("said").dataset.lost; refresh(); } };
}
start().catch((error) => say(error.message, true));
