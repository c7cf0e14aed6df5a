// Measures the page in each frame of this document, and writes what it found into #measured as JSON.
const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const luminance = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
const numbers = colour => colour.match(/[\d.]+/g).map(Number);
function background(element, view) {
  for (let e = element; e; e = e.parentElement) {
    const colour = numbers(view.getComputedStyle(e).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
}
function contrast(element, view) {
  const pair = [numbers(view.getComputedStyle(element).color), background(element, view)].map(luminance);
  return (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
}
function broken(text, view) {  // words of a text node that stand on two lines
  const words = [...text.data.matchAll(/[^\s_\/.…-]+/g)].filter(word => word[0].length <= 10);
  return words.filter(word => {
    const range = text.ownerDocument.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1;
  }).length;
}
function measure(frame) {
  const page = frame.contentDocument, view = frame.contentWindow, all = [...page.body.querySelectorAll("*")];
  page.querySelectorAll("details").forEach(part => part.open = true);
  const worded = all.filter(e => !e.closest("svg") && [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()));
  const drawn = [...page.querySelectorAll("svg.map text")].map(e => e.getBoundingClientRect()).filter(box => box.width);
  return {
    width: page.documentElement.clientWidth,
    scroll_width: page.documentElement.scrollWidth,
    images: page.images.length,
    unloaded: [...page.images].filter(image => !image.complete || !image.naturalWidth).length,
    scripts: page.scripts.length,
    handlers: all.filter(e => e.getAttributeNames().some(name => name.startsWith("on"))).length,
    requests: view.performance.getEntriesByType("resource").map(entry => entry.name),
    title: page.title,
    smallest_text: Math.min(...worded.map(e => parseFloat(view.getComputedStyle(e).fontSize))),
    smallest_name_on_the_map: Math.min(...drawn.map(box => box.height)),
    names_that_overlap: drawn.filter((a, i) => drawn.some((b, j) => i < j && a.left < b.right && b.left < a.right
      && a.top + 2 < b.bottom && b.top + 2 < a.bottom)).length,
    broken_words: [...page.querySelectorAll("bdi")].flatMap(e => [...e.childNodes]).filter(n => n.nodeType == 3)
      .map(text => broken(text, view)).reduce((a, b) => a + b, 0),
    names_on_the_map: drawn.length,
    hints_to_swipe: [...page.querySelectorAll(".swipe")].filter(e => e.offsetHeight).length,
    tables_that_scroll: [...page.querySelectorAll(".fading")].filter(e => e.scrollWidth > e.clientWidth).length,
    least_contrast: Math.min(...worded.map(e => contrast(e, view))),
  };
}
addEventListener("load", () => {
  const measured = [...document.querySelectorAll("iframe")].map(measure);
  document.getElementById("measured").textContent = JSON.stringify(measured);
});
