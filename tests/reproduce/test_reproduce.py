"""Tables and figures from a manifest: what is missing is trained, what is done is kept, nothing is made up."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml

from remp import reproduce as package
from remp.checkpoint import read_checkpoint
from remp.config import make_config
from remp.datasets import open_data
from remp.episodes import Protocol
from remp.errors import ConfigError, DataError, RempError
from remp.evaluation.evaluate import draw_episodes
from remp.models import load, shipped_models
from remp.reproduce import drift
from remp.reproduce.manifest import read_manifest
from remp.reproduce.scoring import Earlier
from remp.reproduce.trainings import _time_left, plan_run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def book(tmp_path, tiny, prepared):
    """A repository in small: two configurations, a table and a curve."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "results").mkdir()
    for method in ("remp", "protonet"):
        (tmp_path / "configs" / f"{method}.yaml").write_text(yaml.safe_dump(tiny(method=method)))
    content = {
        "trainings": {
            "first": {"config": "configs/remp.yaml", "minutes": 1},
            "second": {"config": "configs/protonet.yaml", "after": "first"},
            "wild": {"config": "configs/remp.yaml", "change": {"learning_rate": 1e30}},
        },
        "items": {
            "table": {
                "title": "A table",
                "of_the_paper": "Table 1",
                "show": "table",
                "data": "toy",
                "n_way": 3,
                "n_query": 4,
                "episodes": 30,
                "rows": [
                    {"name": "ReMP", "training": "first", "settings": {"layers": 2}, "paper": {1: 55.5}},
                    {"name": "ProtoNet", "training": {1: "second"}},
                    {"name": "PT-MAP", "training": "first", "method": "pt-map"},
                ],
            },
            "two": {
                "title": "Two networks",
                "of_the_paper": "none",
                "show": "table",
                "data": "toy",
                "n_way": 3,
                "n_query": 4,
                "shots": [1],
                "episodes": 25,
                "rows": [
                    {"name": "both", "training": "first", "beside": ["second"], "transform": "power+l2+centre"},
                    {"name": "no l2", "training": "first", "beside": ["second"]},
                    {
                        "name": "three",
                        "training": "first",
                        "beside": ["second", "first"],
                        "transform": "power+l2+centre",
                    },
                ],
            },
            "curve": {
                "title": "A curve",
                "of_the_paper": "Figure 1",
                "show": "curve",
                "data": "toy",
                "n_way": 3,
                "n_query": 4,
                "shots": [1],
                "episodes": 20,
                "rows": [{"name": "ReMP", "training": "first"}],
                "axes": [{"of": "setting", "name": "layers", "label": "layers", "values": [0, 3]}],
            },
            "wild": {
                "title": "Too fast",
                "of_the_paper": "none",
                "show": "table",
                "data": "toy",
                "n_way": 3,
                "shots": [1],
                "rows": [{"name": "ReMP", "training": "wild"}],
            },
        },
    }
    path = tmp_path / "results" / "manifest.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True))
    return path


class InThisProcess:
    """Stands in for the process of a training: it is over when it has begun."""

    def __init__(self, run):
        from remp.cli import app

        self.returncode = 0
        run.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            app(run.command(), standalone_mode=False)
        except RempError as error:
            run.log.write_text(str(error))
            self.returncode = 1

    def poll(self):
        return self.returncode


@pytest.fixture
def quick(monkeypatch):
    """Trainings without a process each, which takes seconds to start."""
    monkeypatch.setattr("remp.reproduce.trainings._start", InThisProcess)


@pytest.fixture
def run(book, tmp_path):
    lines: list[str] = []

    def run(*names, **more):
        return package.reproduce(names, manifest=book, runs=tmp_path / "runs", say=lines.append, **more)

    run.lines = lines
    return run


def test_a_table_is_trained_in_processes_scored_written_and_drawn(run, tmp_path):
    folder = run("table", "curve")
    cells = {(c["row"], c["n_shot"]): c for c in json.loads((folder / "table" / "results.json").read_text())["cells"]}
    assert set(cells) == {("ReMP", 1), ("ReMP", 5), ("ProtoNet", 1), ("PT-MAP", 1), ("PT-MAP", 5)}
    cell = cells["ReMP", 1]
    assert cell["gap"] == pytest.approx(cell["mean"] - 55.5, abs=1e-3)
    every = np.load(folder / "table" / "accuracies.npz")["ReMP 1-shot"]
    assert (len(every), 100 * every.mean()) == (30, pytest.approx(cell["mean"], abs=1e-3))
    text = (folder / "table" / "table.md").read_text()
    assert f"{cell['mean']:.2f} ± {cell['half_width_95']:.2f}" in text
    assert "| 55.50 |" in text
    for name in ("table", "curve"):
        assert (folder / name / "figure.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / name / "figure.svg").read_bytes()
    assert "[table](table/table.md)" in (folder / "README.md").read_text()


def test_the_same_number_comes_from_evaluate(run, quick, tmp_path):
    """The cell of a row is what `remp evaluate` gives for its checkpoint, settings and episodes."""
    import remp

    folder = run("table")
    cell = json.loads((folder / "table" / "results.json").read_text())["cells"][0]
    trained = remp.load(tmp_path / "runs" / "first", layers=2)
    result = remp.evaluate(
        trained, remp.open_data("toy", "test"), remp.Protocol(3, 1, 4), n_episodes=30, seed=2021, transform="none"
    )
    assert cell["mean"] == pytest.approx(100 * result.accuracies.mean(), abs=1e-3)
    assert cell["checkpoint_hashes"] == [trained.hash]
    assert cell["episode_hash"] == result.episode_hash


def test_what_is_done_is_not_trained_again(run, quick, tmp_path):
    run("table")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/last.safetensors")}
    run.lines.clear()
    run("table")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not [line for line in run.lines if "started" in line or "continued" in line]


def test_what_was_scored_before_is_not_scored_again_unless_asked(run, quick, monkeypatch):
    from remp.reproduce import scoring

    scored = []
    evaluate = scoring.evaluate
    monkeypatch.setattr(scoring, "evaluate", lambda *a, **k: scored.append(1) or evaluate(*a, **k))
    first = run("table")
    text, n_scored = (first / "table" / "table.md").read_text(), len(scored)
    run("table")
    assert (len(scored), (first / "table" / "table.md").read_text()) == (n_scored, text)
    run("table", again=True)
    assert len(scored) == 2 * n_scored


def test_other_weights_under_the_same_name_are_scored_again(run, quick, tmp_path):
    folder = run("curve")
    before = json.loads((folder / "curve" / "results.json").read_text())["cells"]
    run("curve", seeds=2, out=tmp_path / "elsewhere")
    other = tmp_path / "runs" / "first-seed1" / "best.safetensors"
    (tmp_path / "runs" / "first" / "best.safetensors").write_bytes(other.read_bytes())
    run("curve")
    after = json.loads((folder / "curve" / "results.json").read_text())["cells"]
    assert all(a["checkpoint_hashes"] != b["checkpoint_hashes"] for a, b in zip(after, before, strict=True))
    assert [cell["mean"] for cell in after] != [cell["mean"] for cell in before]


def test_a_training_that_was_interrupted_goes_on(run, quick, book, tmp_path, tiny):
    """Here one that was killed before its first checkpoint: it has settings and no weights."""
    first = plan_run(read_manifest(book), "first", runs=tmp_path / "runs")
    assert (first.checkpoint, first.command()[0], "--resume" in first.command()) == (None, "train", False)
    first.folder.mkdir(parents=True)
    (first.folder / "config.yaml").write_text(first.config.yaml())
    assert first.command() == ["train", "--resume", str(first.folder)]
    run("curve")
    assert (first.done, first.checkpoint) == (12, first.folder / "best.safetensors")
    assert "resumed" in (first.folder / "log.jsonl").read_text()


def test_a_training_starts_from_the_one_before_it(run, quick, tmp_path):
    run("table")
    assert "start_from" in (config := yaml.safe_load((tmp_path / "runs" / "second" / "config.yaml").read_text()))
    assert config["start_from"] == str(tmp_path / "runs" / "first")


def test_without_training_the_cells_are_empty_and_say_so(run):
    folder = run("table", train=False)
    cells = json.loads((folder / "table" / "results.json").read_text())["cells"]
    assert {cell["status"] for cell in cells} == {"not run"}
    assert "mean" not in cells[0]
    assert "**not run**" in (folder / "table" / "table.md").read_text()
    assert not (folder / "table" / "figure.png").exists()


def test_weights_that_are_not_here_keep_the_cells_that_were_scored_with_them(run, quick, tmp_path):
    """Large weights are published as hashes only: without training, their rows must not become empty."""
    folder = run("table")
    before = [(folder / "table" / name).read_text() for name in ("table.md", "results.json")]
    for best in (tmp_path / "runs").glob("*/*.safetensors"):
        best.unlink()
    for again in (False, True):
        run("table", train=False, again=again)
        assert [(folder / "table" / name).read_text() for name in ("table.md", "results.json")] == before
    manifest = tmp_path / "results" / "manifest.yaml"
    content = yaml.safe_load(manifest.read_text())
    content["items"]["table"]["rows"][0]["settings"] = {"layers": 3}
    manifest.write_text(yaml.safe_dump(content, allow_unicode=True))
    run("table", train=False)
    cells = json.loads((folder / "table" / "results.json").read_text())["cells"]
    assert {cell["row"]: cell["status"] for cell in cells}["ReMP"] == "not run"
    assert {cell["row"]: cell["status"] for cell in cells}["ProtoNet"] == "done"


def test_a_row_of_which_not_all_seeds_are_trained_is_scored_with_those_that_are(run, quick, tmp_path):
    run("table", seeds=2, out=tmp_path / "both")
    for last in (tmp_path / "runs" / "first-seed1").glob("*.safetensors"):
        last.unlink()
    manifest = tmp_path / "results" / "manifest.yaml"
    content = yaml.safe_load(manifest.read_text())
    content["items"]["table"]["seeds"] = 2
    manifest.write_text(yaml.safe_dump(content, allow_unicode=True))
    folder = run("table", train=False)
    cells = json.loads((folder / "table" / "results.json").read_text())["cells"]
    both = json.loads((tmp_path / "both" / "table" / "results.json").read_text())["cells"]
    assert cells[0]["of_seeds"] == both[0]["of_seeds"][:1]
    assert cells[0]["trainings"] == ["first"]
    assert "| 1 of 2 |" in (folder / "table" / "table.md").read_text()


def test_a_run_that_diverges_is_marked_and_stops_nothing(run, quick):
    folder = run("wild", "curve")
    assert json.loads((folder / "wild" / "results.json").read_text())["cells"][0]["status"] == "diverged"
    assert json.loads((folder / "curve" / "results.json").read_text())["cells"][0]["status"] == "done"


def test_what_starts_from_a_run_that_diverged_before_is_not_waited_for(run, book, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "first.log").write_text("the loss (global nan) is not finite at episode 3")
    run("table")
    cells = json.loads((tmp_path / "results" / "table" / "results.json").read_text())["cells"]
    assert {cell["status"] for cell in cells} == {"diverged", "not run"}


@pytest.mark.parametrize("numbers", [{"workers": 0}, {"seeds": 0}, {"seeds": -1}])
def test_no_workers_or_seeds_are_refused(run, numbers):
    with pytest.raises(ConfigError, match="needed 1 or more of each"):
        run("table", **numbers)


def test_a_table_of_other_data_and_shorter_trainings_says_so(run, quick, tmp_path):
    folder = run("table", scale=0.5, data="glyphs")
    text = (folder / "table" / "table.md").read_text()
    command = "remp reproduce table --scale 0.5 --data glyphs"
    assert "test classes of glyphs;" in text
    assert f"\n    {command}\n" in text
    assert json.loads((folder / "table" / "results.json").read_text())["command"] == command
    assert all(line.endswith(f"| `{command}` |") for line in text.splitlines() if "configs/" in line)


def test_a_scaled_run_never_touches_the_published_results(run, quick, tmp_path):
    folder = run("table", scale=0.5, seeds=2)
    assert folder == tmp_path / "runs" / "results-x0.5"
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["manifest.yaml"]
    cell = json.loads((folder / "table" / "results.json").read_text())["cells"][0]
    assert cell["trainings"] == ["first-x0.5", "first-seed1-x0.5"]
    assert cell["mean"] == pytest.approx(np.mean(cell["of_seeds"]), abs=1e-3)
    assert yaml.safe_load((tmp_path / "runs" / "first-x0.5" / "config.yaml").read_text())["episodes"] == 6


def test_the_time_left_counts_images_since_first_episodes_may_have_fewer(tiny):
    shape = {"n_way": 3, "n_shot": 1, "n_query": 4, "first_share": 0.5, "first_query": 1}
    config = make_config(tiny(episodes=20, **shape))
    half_done = SimpleNamespace(name="first", config=config, done=10)  # 10 · 6 of 10 · 6 + 10 · 15 images in 10 minutes
    line = _time_left([(half_done, None, time.monotonic() - 600, 0)], [], 1)
    assert line == "first 50 %; 0 waiting; about 25 min left"


def test_a_finished_checkpoint_gets_a_card_with_its_scores(run, quick, tmp_path):
    folder = run("table")
    kept = tmp_path / "results" / "checkpoints" / "first.safetensors"
    kept.parent.mkdir()
    kept.write_bytes((tmp_path / "runs" / "first" / "best.safetensors").read_bytes())
    run("table")
    cell = json.loads((folder / "table" / "results.json").read_text())["cells"][0]
    card = (kept.parent / "README.md").read_text()
    assert "## `first`" in card
    assert f"ReMP, 1-shot: {cell['mean']:.2f} ± {cell['half_width_95']:.2f} %" in card
    assert "configs/remp.yaml" in card


def test_cards_name_the_settings_and_scores_of_further_seeds_and_of_figures_along_trainings(run, quick, tmp_path):
    manifest = tmp_path / "results" / "manifest.yaml"
    content = yaml.safe_load(manifest.read_text())
    content["trainings"]["changed"] = {
        "config": "configs/remp.yaml",
        "change": {"first_share": 0.5, "first_way": 4, "first_shot": 1, "first_query": 1},
    }
    content["items"]["curve"] |= {
        "seeds": 2,
        "rows": [{"name": "ReMP", "training": "{x}"}],
        "axes": [{"of": "training", "name": "which", "label": "training", "values": ["changed"]}],
    }
    manifest.write_text(yaml.safe_dump(content, allow_unicode=True))
    run("curve")
    shipped = tmp_path / "results" / "checkpoints"
    shipped.mkdir()
    for name in ("changed", "changed-seed1"):
        shutil.copy(tmp_path / "runs" / name / "best.safetensors", shipped / f"{name}.safetensors")
    folder = run("curve")
    cell = json.loads((folder / "curve" / "results.json").read_text())["cells"][0]
    second, first = (shipped / "README.md").read_text().split("## `changed")[1:]
    for card, mean in zip((first, second), cell["of_seeds"], strict=True):
        assert f"ReMP, 1-shot: {mean:.2f} % ([curve]" in card
        assert "configs/remp.yaml first_" in card
    assert "seed=1" in second


def test_images_of_a_training_are_counted_by_the_shape_of_its_episodes(tiny):
    shape = {"n_way": 5, "n_shot": 1, "n_query": 8, "episodes": 10}
    config = make_config(tiny(**shape, first_share=0.4, first_way=4, first_shot=1, first_query=1))
    assert [config.images_of(episodes) for episodes in (0, 3, 4, 10)] == [0, 24, 32, 32 + 6 * 45]
    assert make_config(tiny(**shape)).images_of(10) == 450


def test_minutes_count_what_a_training_starts_from_and_what_stands_beside_it(run, quick, tmp_path):
    folder = run("table", "two")
    cells = json.loads((folder / "table" / "results.json").read_text())["cells"]
    by_row = {(cell["row"], cell["n_shot"]): cell for cell in cells}
    first, second = by_row["ReMP", 1], by_row["ProtoNet", 1]
    assert "minutes_of_others" not in first
    assert second["minutes_of_others"] == {"first": first["minutes"][0]}
    both = json.loads((folder / "two" / "results.json").read_text())["cells"][0]
    assert list(both["minutes_of_others"]) == ["second"]
    text = (folder / "table" / "table.md").read_text()
    assert f"| {first['minutes'][0]:.0f} + {second['minutes'][0]:.0f} |" in text
    assert "before a plus" in text


def test_minutes_of_weights_that_are_not_here_are_found_in_the_other_rows(run, quick, tmp_path):
    """Also where the records are older than the count."""
    folder = run("table")
    path = folder / "table" / "results.json"
    content = json.loads(path.read_text())
    for cell in content["cells"]:
        cell.pop("minutes_of_others", None)
        cell["minutes"] = [7.0 if cell["trainings"] == ["first"] else 5.0]
    path.write_text(json.dumps(content))
    for weights in (tmp_path / "runs").glob("*/*.safetensors"):
        weights.unlink()
    for log in (tmp_path / "runs").glob("*/log.jsonl"):
        log.unlink()
    run("table", train=False)
    assert "| 7 + 5 |" in (folder / "table" / "table.md").read_text()


def test_the_overview_and_the_listing_tell_the_same_cost(run, quick, book, tmp_path):
    run("curve")
    shipped = tmp_path / "results" / "checkpoints"
    shipped.mkdir()
    shutil.copy(tmp_path / "runs" / "first" / "best.safetensors", shipped / "first.safetensors")
    content = yaml.safe_load(book.read_text())
    content["items"]["curve"]["seeds"] = 3
    book.write_text(yaml.safe_dump(content, allow_unicode=True))
    folder = run("curve", train=False)
    listed = {row["item"]: row["minutes"] for row in package.listing(manifest=book, runs=tmp_path / "elsewhere")}
    assert listed["curve"] == 2  # the first of three seeds is there
    line = next(line for line in (folder / "README.md").read_text().splitlines() if line.startswith("| [curve]"))
    assert "about 2 min on one core" in line


@pytest.fixture
def shipped_table(run, quick, tmp_path):
    """A table one of whose rows, at 1 and 5 shots, has a checkpoint in the repository."""
    folder = run("table") / "table"
    kept = tmp_path / "results" / "checkpoints" / "first.safetensors"
    kept.parent.mkdir()
    shutil.copy(tmp_path / "runs" / "first" / "best.safetensors", kept)
    return folder


def changed_accuracies(folder, key, changes):
    """accuracies.npz and results.json as if some episodes (by number) had had so many more right answers of 12."""
    path = folder / "accuracies.npz"
    arrays = dict(np.load(path))
    for number, right in changes.items():
        arrays[key][number] += right / 12
    np.savez(path, **arrays)
    content = json.loads((folder / "results.json").read_text())
    cell = next(cell for cell in content["cells"] if f"{cell['row']} {cell['n_shot']}-shot" == key)
    cell["mean"] = 100 * float(arrays[key].mean())
    (folder / "results.json").write_text(json.dumps(content))


def test_check_scores_shipped_checkpoints_again_and_fails_on_drift(shipped_table, book):
    lines = []
    assert package.check(manifest=book, say=lines.append) == 2  # 1 and 5 shots of the one row that is shipped
    assert [line.partition(":")[0] for line in lines] == ["table", "table"]
    changed_accuracies(shipped_table, "ReMP 1-shot", {0: -2, 4: 1})  # the mean of 10 episodes moves by one of 120
    with pytest.raises(RempError, match=r"1 of 2 rows .* table: ReMP, 1-shot, first is .*at least 3 of 120 queries"):
        package.check(manifest=book, say=lambda line: None)


def test_check_takes_two_close_calls_of_a_row_for_the_machine(shipped_table, book):
    changed_accuracies(shipped_table, "ReMP 1-shot", {0: -1, 9: 1})
    changed_accuracies(shipped_table, "ReMP 5-shot", {10: -3})  # beyond the episodes that are scored again
    assert package.check(manifest=book, say=lambda line: None) == 2


def test_check_scores_what_two_tables_share_once(shipped_table, book, tmp_path, monkeypatch):
    content = yaml.safe_load(book.read_text())
    content["items"]["again"] = content["items"]["table"]
    book.write_text(yaml.safe_dump(content, allow_unicode=True))
    shutil.copytree(shipped_table, shipped_table.with_name("again"))
    score, scored = drift.score_embedded, []
    monkeypatch.setattr(drift, "score_embedded", lambda *given: scored.append(1) or score(*given))
    assert (package.check(manifest=book, say=lambda line: None), len(scored)) == (4, 2)


@pytest.mark.parametrize("change", ["lost", "another mean", "gone"])
def test_check_needs_the_accuracies_that_results_are_of(shipped_table, book, change):
    path = shipped_table / "accuracies.npz"
    arrays = dict(np.load(path))
    if change == "lost":
        del arrays["ReMP 5-shot"]
    arrays["ReMP 1-shot"] += 0.01 if change == "another mean" else 0
    np.savez(path, **arrays)
    if change == "gone":
        path.unlink()
    with pytest.raises(DataError, match=r"of ReMP, .-shot, in accuracies\.npz are not those of results\.json"):
        package.check(manifest=book, say=lambda line: None)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"cells": [3]}', b'{"cells": [{"row": 1}]}', b"\xff"], ids=repr)
def test_damaged_results_are_told(tmp_path, content):
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(DataError, match=r"results\.json is damaged .*restore it"):
        Earlier(tmp_path)


def test_an_unknown_item_is_named_with_the_nearest(run):
    with pytest.raises(ConfigError, match=r"there is no item 'tabel'.*'table'"):
        run("tabel")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("trainings: {}\nitems: 3\n", "items"),
        ("- a\n", "holds list"),
        ("trainings: {a: {config: c.yaml, minute: 3}}\nitems: {}\n", "trainings.a.minute"),
        ("trainings: {a: {config: c, after: b}, b: {config: c, after: a}}\nitems: {}\n", "'a' starts from itself"),
        ("trainings: {a: {config: c.yaml, after: b}}\nitems: {}\n", "'b' is needed"),
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path, content, message):
    (tmp_path / "manifest.yaml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_manifest(tmp_path / "manifest.yaml")


def test_every_configuration_of_the_manifest_loads_and_every_training_is_used():
    manifest = read_manifest(ROOT / "results" / "manifest.yaml")
    used = {name for item in manifest.items.values() for name in manifest.needed(item)}
    assert used == set(manifest.trainings)
    for name in manifest.trainings:
        plan_run(manifest, name, runs=Path("runs"))


def test_published_checkpoints_have_the_settings_of_their_configuration():
    """The header of each, and of each model that ships, is the YAML file that the manifest names for it."""
    manifest = read_manifest(ROOT / "results" / "manifest.yaml")
    kept = {path: path.stem for path in (ROOT / "results" / "checkpoints").glob("*.safetensors")}
    assert kept
    shipped = {path: "cifar-fs-remp-long" for path in shipped_models().values()}
    for path, name in {**kept, **shipped}.items():
        training, _, seed = name.partition("-seed")
        run = plan_run(manifest, training, runs=Path("runs"), seed=int(seed or 0))
        header, written = make_config(read_checkpoint(path)[1]["config"]).flat(), run.config.flat()
        settled = ("episodes_per_step", "start_from")  # by the run
        assert not Path(header["start_from"] or "").is_absolute(), f"{name} names a folder of one machine"
        assert {k: v for k, v in header.items() if k not in settled} == {
            k: v for k, v in written.items() if k not in settled
        }, name


def test_the_command_in_a_configuration_starts_from_what_its_training_starts_from():
    """The comment at the top of each: without --start-from, a training that goes on from another would begin anew."""
    for training in read_manifest(ROOT / "results" / "manifest.yaml").trainings.values():
        start = ["--start-from", f"runs/{training.after}"] if training.after else []
        path = training.config.as_posix()
        out = f"runs/{training.config.parent.name}-{training.config.stem}"
        expected = " ".join(["# remp train", path, *start, "--out", out])
        lines = (ROOT / training.config).read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line.startswith("# remp train")] == [expected]


@pytest.mark.slow
def test_everything_of_the_manifest_runs_through_on_glyphs(tmp_path):
    """`remp reproduce all --scale 0.01` on drawn characters: every method trains, every table and figure is made."""
    command = [
        "reproduce",
        "all",
        "--scale",
        "0.001",
        "--seeds",
        "1",
        "--data",
        "glyphs",
        "--runs",
        str(tmp_path / "runs"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "remp", *command, "--manifest", str(ROOT / "results" / "manifest.yaml")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    folder = tmp_path / "runs" / "results-x0.001-glyphs"
    for name in read_manifest(ROOT / "results" / "manifest.yaml").items:
        statuses = {cell["status"] for cell in json.loads((folder / name / "results.json").read_text())["cells"]}
        assert statuses <= {"done"}, (name, statuses)
        assert (folder / name / "figure.svg").is_file()


def test_networks_side_by_side_are_scored_on_their_joined_features(run, quick, book, tmp_path):
    run("two")
    both, no_l2, three = json.loads((book.parent / "two" / "results.json").read_text())["cells"]
    assert "a transform with l2" in no_l2["status"]
    trained = [load(tmp_path / "runs" / name) for name in ("first", "second")]
    assert both["checkpoint_hashes"] == [one.hash for one in trained]
    images = open_data("toy", "test")
    parts = []
    for one in trained:
        rows = one.method.embed(one.normalisation.of(images.images)).detach().numpy().reshape(len(images.images), -1)
        rows = np.sign(rows) * np.sqrt(np.abs(rows))
        parts.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    joined = np.concatenate(parts, 1)
    episodes = draw_episodes(images, Protocol(3, 1, 4), n_episodes=25, seed=2021)
    for cell, rows in ((both, joined), (three, np.concatenate([joined, parts[0]], 1))):
        expected = []
        for episode in (episodes[i : i + 1] for i in range(25)):
            support, query = (rows[ids.numpy()[0]] for ids in (episode.support, episode.query))
            mean = np.concatenate([support, query]).mean(0)
            support, query = (x - mean for x in (support, query))
            support, query = (torch.from_numpy(x / np.linalg.norm(x, axis=1, keepdims=True)) for x in (support, query))
            task = replace(episode, support=support[None], query=query[None])
            expected.append((trained[0].method.logits(task).argmax(-1) == episode.query_labels).float().mean().item())
        assert cell["mean"] == pytest.approx(100 * np.mean(expected), abs=0.01)
    n_lines = len(run.lines)
    run("two", train=False)  # what was scored with the same weights is taken over
    assert json.loads((book.parent / "two" / "results.json").read_text())["cells"][0] == both
    assert len(run.lines) > n_lines


def test_check_scores_networks_side_by_side_again_if_all_are_shipped(run, quick, book, tmp_path):
    run("two")
    shipped = tmp_path / "results" / "checkpoints"
    shipped.mkdir()
    shutil.copy(tmp_path / "runs" / "first" / "best.safetensors", shipped / "first.safetensors")
    assert package.check(manifest=book, say=lambda line: None) == 0
    shutil.copy(tmp_path / "runs" / "second" / "best.safetensors", shipped / "second.safetensors")
    assert package.check(manifest=book, say=lambda line: None) == 2
