"""Score the rows of an item on the same episodes; what was scored before with the same weights is taken over."""

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from remp.datasets import ImageSet, open_data
from remp.episodes import Protocol
from remp.errors import ConfigError, DataError, RempError
from remp.evaluation.compare import compare_features
from remp.evaluation.evaluate import embed, evaluate
from remp.evaluation.frozen_features import FrozenFeatures, frozen_features
from remp.evaluation.result import Result
from remp.evaluation.statistics import mean_interval
from remp.methods.base import Method
from remp.models import load
from remp.rectification.transform import FeatureTransform
from remp.reproduce.manifest import Axis, Item, Row
from remp.reproduce.trainings import Run, chain
from remp.untrusted import border

_AGAIN = "restore it, or remove its folder and run remp reproduce again"


@dataclass(frozen=True)
class Cell:
    """One number of a table or figure: a row at a number of shots and a place on the x axis, over all its seeds.

    status: "done", "not run", "diverged", or what went wrong. accuracies: (E,), the mean over seeds for each episode.
    record: what results.json holds of it.
    """

    row: Row
    n_shot: int
    axis: Axis | None = None
    x: Any = None
    status: str = "not run"
    accuracies: np.ndarray = field(default_factory=lambda: np.zeros(0))
    of_seeds: tuple[float, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def key(self) -> str:
        place = f" {self.axis.name}={self.x}" if self.axis else ""
        return f"{self.name}{place} {self.n_shot}-shot"

    @property
    def training(self) -> str:
        """The name of the training it is scored with; empty where the row has none."""
        return self.row.training_for(self.n_shot, self.x)

    @property
    def percent(self) -> float:
        return 100 * float(self.accuracies.mean())

    @property
    def half_width(self) -> float:
        """Of the 95 % interval in points: over episodes for one seed, over seeds for several."""
        values = self.accuracies if len(self.of_seeds) == 1 else np.array(self.of_seeds)
        return 100 * mean_interval(values).half_width

    def changed(self, of: Literal["setting", "protocol"]) -> dict[str, Any]:
        """What the place on the x axis changes of this kind."""
        return {self.axis.name: self.x} if self.axis and self.axis.of == of else {}


def empty_cells(item: Item) -> list[Cell]:
    """Every cell of an item, before it is scored."""
    along: list[tuple[Axis | None, Any]] = [(axis, x) for axis in item.axes for x in axis.values] or [(None, None)]
    cells = [Cell(row, n_shot, axis, x) for axis, x in along for row in item.rows for n_shot in item.shots]
    return [cell for cell in cells if cell.training]


def score_cell(
    item: Item,
    cell: Cell,
    runs: list[Run],
    beside: list[list[Run]],
    *,
    n_episodes: int,
    data: str | None,
    earlier: "Earlier",
) -> Cell:
    """The cell with its score, of the seeds that were trained. runs: one for each seed; beside: the same of each
    network beside it, empty for a row of one network. Where none was trained, the cell keeps the score that weights
    which are not here had in an earlier call, or stays empty; it is never made up."""
    row = cell.row
    of_seeds = [seed for seed in zip(runs, *beside, strict=True) if all(run.checkpoint is not None for run in seed)]
    trained = [seed[0] for seed in of_seeds]
    record = _about(item, cell, trained or runs, n_episodes)
    others = [one for seed in of_seeds or zip(runs, *beside, strict=True) for run in seed for one in chain(run)]
    if also := {run.name: run.minutes for run in others if run.name not in record["trainings"]}:
        record["minutes_of_others"] = also
    cell = replace(cell, record=record)
    if any(run.diverged for many in [runs, *beside] for run in many):
        return replace(cell, status="diverged")
    if not trained:
        return earlier.scored_elsewhere(cell) or cell
    images = open_data(data or item.data, "test")
    shape = {"n_way": item.n_way, "n_shot": cell.n_shot, "n_query": item.n_query}
    try:
        protocol = Protocol(**{**shape, **cell.changed("protocol")})
        hashes = [load(run.checkpoint).hash for seed in of_seeds for run in seed if run.checkpoint]
        if (known := earlier.scored(cell, hashes, images.fingerprint)) is not None:
            return known
        shared = record["settings"], images, protocol, n_episodes, item.seed
        results = [_result(seed, row, *shared) for seed in of_seeds]
    except RempError as error:
        return replace(cell, status=f"not possible: {error}")
    accuracies = np.stack([result.accuracies for result in results])
    first = results[0]
    record |= {
        "mean": round(100 * float(accuracies.mean()), 4),
        "of_seeds": [round(100 * float(part.mean()), 4) for part in accuracies],
        "episode_hash": first.episode_hash,
        "data": first.data,
        "fingerprint": first.fingerprint,
        "transductive": first.transductive,
        "assumes_balance": first.assumes_balance,
        "checkpoint_hashes": hashes,
    }
    means = tuple(float(a.mean()) for a in accuracies)
    cell = replace(cell, status="done", accuracies=accuracies.mean(0), of_seeds=means)
    record["half_width_95"] = round(cell.half_width, 4)
    if cell.n_shot in row.paper:
        record["gap"] = round(cell.percent - row.paper[cell.n_shot], 4)
    return cell


class Earlier:
    """What results.json and accuracies.npz of an earlier call hold: a cell of the same weights is not scored twice.

    folder: where that call wrote them. again: whether cells whose weights are here shall be scored again.
    """

    def __init__(self, folder: Path, *, again: bool = False) -> None:
        self.again = again
        self.records: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.accuracies: dict[str, np.ndarray] = {}
        path = folder / "accuracies.npz"
        if (results := read_results(folder)) and path.is_file():
            self.records = {_place(cell): cell for cell in results["cells"] if cell["status"] == "done"}
            with border(f"{path} is damaged", _AGAIN), np.load(path) as arrays:
                self.accuracies = dict(arrays)

    def scored(self, cell: Cell, checkpoint_hashes: list[str], fingerprint: str) -> Cell | None:
        """The cell, if it was scored with these weights and settings on these episodes; otherwise None."""
        if self.again:
            return None
        known = self._known(cell, {"checkpoint_hashes": checkpoint_hashes, "fingerprint": fingerprint})
        return known and replace(known, record={**known.record, **cell.record})

    def scored_elsewhere(self, cell: Cell) -> Cell | None:
        """The cell, if weights of the same trainings that are not here, since they are large, were scored with these
        settings on these episodes: the record has their hashes."""
        known = self._known(cell, {name: cell.record[name] for name in ("trainings", "config")})
        if known is None or "minutes_of_others" not in cell.record:
            return known
        others = {**cell.record["minutes_of_others"], **known.record.get("minutes_of_others", {})}
        return replace(known, record={**known.record, "minutes_of_others": others})

    def _known(self, cell: Cell, weights: dict[str, Any]) -> Cell | None:
        """The cell as it was, if its settings, its episodes and what is said of the weights are the same."""
        found, accuracies = self.records.get(_place(cell.record)), self.accuracies.get(cell.key)
        asked = ("method", "settings", "transform", "n_episodes", "episode_seed")
        wanted = {**{name: cell.record[name] for name in asked}, "beside": cell.record.get("beside"), **weights}
        if found is None or accuracies is None or any(found.get(name) != value for name, value in wanted.items()):
            return None
        of_seeds = tuple(value / 100 for value in found["of_seeds"])
        return replace(cell, status="done", accuracies=accuracies.astype(np.float64), of_seeds=of_seeds, record=found)


def read_results(folder: Path) -> dict[str, Any] | None:
    """What an earlier call wrote, or None."""
    path = folder / "results.json"
    if not path.is_file():
        return None
    with border(f"{path} is damaged", _AGAIN):
        found = json.loads(path.read_text(encoding="utf-8"))
    cells = found.get("cells") if isinstance(found, dict) else None
    needed = {"row", "n_shot", "status", "transform"}
    if not isinstance(cells, list) or not all(isinstance(cell, dict) and needed <= cell.keys() for cell in cells):
        raise DataError(f"{path} is damaged (its cells): {_AGAIN}")
    return found


def _place(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["row"], record["n_shot"], record.get("x_of"), str(record.get("x"))


def _result(
    networks: tuple[Run, ...],
    row: Row,
    settings: dict[str, Any],
    images: ImageSet,
    protocol: Protocol,
    n_episodes: int,
    seed: int,
) -> Result:
    checkpoints = [run.checkpoint for run in networks if run.checkpoint]
    kept = [(path, load(path).hash, images.name, row.transform) for path in checkpoints]
    if row.method is None:
        trained = load(checkpoints[0], **settings)
        method = type(trained.method)
        # A method that embeds in a way of its own may do so by its settings.
        is_plain = method.embed is Method.embed and method.score is Method.score
        if len(kept) > 1 and not (is_plain and FeatureTransform.parse(row.transform).l2):
            raise ConfigError(
                f"{row.name}: several networks need a method that embeds plainly, and a transform with l2"
            )
        features = side_by_side([_embedded(*one) for one in kept]) if is_plain else None
        return evaluate(
            trained, images, protocol, n_episodes=n_episodes, seed=seed, transform=row.transform, features=features
        )
    frozen = _frozen(*kept[0])
    compared = compare_features(
        frozen, [protocol], methods=[row.method], reference=row.method, n_episodes=n_episodes, seed=seed
    )
    return compared.tables[0].entries[0].result


def side_by_side(features: list[Tensor]) -> Tensor:
    """The features of one network, or (n, d1 + d2 + …) of several: each is of length 1, so that they count the same."""
    return features[0] if len(features) == 1 else torch.cat([part.flatten(1) for part in features], 1)


@lru_cache(maxsize=4)  # rows of one network, or of three, differ in what comes after
def _embedded(checkpoint: Path, digest: str, data: str, transform: str) -> Tensor:
    """Features of the test images. digest: the hash of the weights, which may change under the same name."""
    trained, images = load(checkpoint), open_data(data, "test")
    assert trained.hash == digest
    return embed(trained.method, images.images, trained.normalisation, FeatureTransform.parse(transform))


@lru_cache(maxsize=1)  # many classifiers are scored on the same features
def _frozen(checkpoint: Path, digest: str, data: str, transform: str) -> FrozenFeatures:
    """The same with the mean of the training images."""
    trained, training = load(checkpoint), open_data(data, "train")
    assert trained.hash == digest
    return frozen_features(trained, open_data(data, "test"), training_images=training, transform=transform)


def _about(item: Item, cell: Cell, runs: list[Run], n_episodes: int) -> dict[str, Any]:
    """What is known of a cell before it is scored."""
    row = cell.row
    return {
        "row": row.name,
        "n_shot": cell.n_shot,
        **({"x": cell.x, "x_of": cell.axis.name} if cell.axis else {}),
        "paper": row.paper.get(cell.n_shot),
        "trainings": [run.name for run in runs],
        **({"beside": row.beside} if row.beside else {}),
        "config": runs[0].source if runs else "",
        "method": row.method,
        "settings": {**row.settings, **cell.changed("setting")},
        "transform": row.transform,
        "n_episodes": n_episodes,
        "episode_seed": item.seed,
        "minutes": [run.minutes for run in runs],
        "note": row.note,
    }
