"""Score the rows of an item on the same episodes; what was scored before with the same weights is taken over."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from remp.datasets import ImageSet, open_data
from remp.episodes import Protocol
from remp.errors import RempError
from remp.evaluation.compare import compare_features
from remp.evaluation.evaluate import evaluate
from remp.evaluation.frozen_features import FrozenFeatures, frozen_features
from remp.evaluation.result import Result
from remp.evaluation.statistics import mean_interval
from remp.models import load
from remp.reproduce.manifest import Axis, Item, Row
from remp.reproduce.trainings import Run

# Episodes of the beginning whose mean `remp reproduce check` compares with.
CHECKED = 200


@dataclass(frozen=True)
class Cell:
    """One number of a table or figure: a row at a number of shots and a place on the x axis, over all its seeds.

    status: "done", "not run", "diverged", or what went wrong. record: what results.json holds of it.
    """

    row: Row
    n_shot: int
    axis: Axis | None
    x: Any
    status: str
    accuracies: np.ndarray  # (E,), the mean over seeds for each episode
    of_seeds: tuple[float, ...]
    record: dict[str, Any]

    @property
    def key(self) -> str:
        place = f" {self.axis.name}={self.x}" if self.axis else ""
        return f"{self.row.name}{place} {self.n_shot}-shot"

    @property
    def percent(self) -> float:
        return 100 * float(self.accuracies.mean())

    @property
    def half_width(self) -> float:
        """Of the 95 % interval in points: over episodes for one seed, over seeds for several."""
        values = self.accuracies if len(self.of_seeds) == 1 else np.array(self.of_seeds)
        return 100 * mean_interval(values).half_width


def score_cell(
    item: Item,
    row: Row,
    n_shot: int,
    axis: Axis | None,
    x: Any,
    runs: list[Run],
    n_episodes: int,
    data: str | None,
    earlier: "Earlier",
) -> Cell:
    """runs: one for each seed. A run that is missing makes the cell empty; it is never made up."""
    empty = np.zeros(0)
    settings = {**row.settings, **({axis.name: x} if axis and axis.of == "setting" else {})}
    record = _about(item, row, n_shot, axis, x, settings, runs, n_episodes)
    if any(run.diverged for run in runs):
        return Cell(row, n_shot, axis, x, "diverged", empty, (), record)
    if any(run.checkpoint is None for run in runs):
        return Cell(row, n_shot, axis, x, "not run", empty, (), record)
    images = open_data(data or item.data, "test")
    changes = {axis.name: x} if axis and axis.of == "protocol" else {}
    try:
        protocol = Protocol(**{"n_way": item.n_way, "n_shot": n_shot, "n_query": item.n_query, **changes})
        hashes = [load(run.checkpoint).hash for run in runs if run.checkpoint]
        if (known := earlier.cell(row, n_shot, axis, x, record, hashes, images.fingerprint)) is not None:
            return known
        results = [_result(run, row, settings, images, protocol, n_episodes, item.seed) for run in runs]
    except RempError as error:
        return Cell(row, n_shot, axis, x, f"not possible: {error}", empty, (), record)
    accuracies = np.stack([result.accuracies for result in results])
    first = results[0]
    record |= {
        "mean": round(100 * float(accuracies.mean()), 4),
        "of_seeds": [round(100 * float(part.mean()), 4) for part in accuracies],
        "first_episodes": [round(100 * float(part[:CHECKED].mean()), 6) for part in accuracies],
        "episode_hash": first.episode_hash,
        "data": first.data,
        "fingerprint": first.fingerprint,
        "transductive": first.transductive,
        "assumes_balance": first.assumes_balance,
        "checkpoint_hashes": [result.checkpoint_hash for result in results],
    }
    cell = Cell(row, n_shot, axis, x, "done", accuracies.mean(0), tuple(float(a.mean()) for a in accuracies), record)
    record["half_width_95"] = round(cell.half_width, 4)
    if n_shot in row.paper:
        record["gap"] = round(cell.percent - row.paper[n_shot], 4)
    return cell


class Earlier:
    """What results.json and accuracies.npz of an earlier call hold: a cell of the same weights is not scored twice.

    folder: where that call wrote them; None to know of nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.records: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.accuracies: dict[str, np.ndarray] = {}
        if folder and (folder / "results.json").is_file() and (folder / "accuracies.npz").is_file():
            cells = json.loads((folder / "results.json").read_text(encoding="utf-8"))["cells"]
            self.records = {_place(cell): cell for cell in cells if cell["status"] == "done"}
            with np.load(folder / "accuracies.npz") as arrays:
                self.accuracies = dict(arrays)

    def cell(
        self,
        row: Row,
        n_shot: int,
        axis: Axis | None,
        x: Any,
        record: dict[str, Any],
        checkpoint_hashes: list[str],
        fingerprint: str,
    ) -> Cell | None:
        """The cell, if it was scored with these weights and settings on these episodes; otherwise None."""
        found = self.records.get(_place(record))
        now = {**record, "checkpoint_hashes": checkpoint_hashes, "fingerprint": fingerprint}
        same = ("method", "settings", "transform", "n_episodes", "episode_seed", "checkpoint_hashes", "fingerprint")
        if found is None or any(found[name] != now[name] for name in same):
            return None
        of_seeds = tuple(value / 100 for value in found["of_seeds"])
        cell = Cell(row, n_shot, axis, x, "done", np.zeros(0), of_seeds, {**found, **record})
        accuracies = self.accuracies.get(cell.key)
        return None if accuracies is None else replace(cell, accuracies=accuracies.astype(np.float64))


def _place(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["row"], record["n_shot"], record.get("x_of"), str(record.get("x"))


def _result(
    run: Run, row: Row, settings: dict[str, Any], images: ImageSet, protocol: Protocol, n_episodes: int, seed: int
) -> Result:
    assert run.checkpoint is not None
    if row.method is None:
        trained = load(run.checkpoint, **settings)
        return evaluate(trained, images, protocol, n_episodes=n_episodes, seed=seed, transform=row.transform)
    features = _features(run.checkpoint, images, row.transform)
    compared = compare_features(
        features, [protocol], methods=[row.method], reference=row.method, n_episodes=n_episodes, seed=seed
    )
    return compared.tables[0].entries[0].result


_CACHE: dict[tuple[str, str, str], FrozenFeatures] = {}


def _features(checkpoint: Path, images: ImageSet, transform: str) -> FrozenFeatures:
    """Features of a split by a checkpoint; the last ones are kept, since many classifiers are scored on them."""
    key = (str(checkpoint), images.fingerprint, transform)
    if key not in _CACHE:
        _CACHE.clear()
        training = open_data(images.name, "train")
        _CACHE[key] = frozen_features(load(checkpoint), images, training_images=training, transform=transform)
    return _CACHE[key]


def _about(
    item: Item,
    row: Row,
    n_shot: int,
    axis: Axis | None,
    x: Any,
    settings: dict[str, Any],
    runs: list[Run],
    n_episodes: int,
) -> dict[str, Any]:
    """What is known of a cell before it is scored."""
    return {
        "row": row.name,
        "n_shot": n_shot,
        **({"x": x, "x_of": axis.name} if axis else {}),
        "paper": row.paper.get(n_shot),
        "trainings": [run.name for run in runs],
        "config": runs[0].source if runs else "",
        "method": row.method,
        "settings": settings,
        "transform": row.transform,
        "n_episodes": n_episodes,
        "episode_seed": item.seed,
        "minutes": [run.minutes for run in runs],
        "note": row.note,
    }


def as_json(cells: list[Cell]) -> list[dict[str, Any]]:
    """Plain types, every cell with its status."""
    return [json.loads(json.dumps({"status": cell.status, **cell.record})) for cell in cells]
