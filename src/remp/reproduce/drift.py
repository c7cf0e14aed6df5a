"""Score the published checkpoints again on the first episodes of their rows: does anything give another number now?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.datasets import ImageSet, open_data
from remp.episodes import Episodes, Protocol
from remp.errors import RempError
from remp.evaluation.evaluate import accuracies, draw_episodes, embed_by_transforms, score_embedded
from remp.methods.base import Method
from remp.models import load
from remp.rectification.transform import FeatureTransform
from remp.reproduce.manifest import Item, Manifest, read_manifest
from remp.reproduce.scoring import CHECKED, read_results, side_by_side

# Mean accuracies of the first episodes may differ by this much, in points, between machines whose arithmetic differs:
# two of 1,875 queries.
DRIFT = 0.11


@dataclass(frozen=True)
class _Row:
    """A row of a table that is checked. item: its table; cell: as in results.json; networks: names of its trainings;
    expected: the mean of its first episodes."""

    name: str
    item: Item
    cell: dict[str, Any]
    networks: tuple[str, ...]
    expected: float

    @property
    def transform(self) -> FeatureTransform:
        return FeatureTransform.parse(self.cell["transform"])

    def episodes(self, images: ImageSet) -> Episodes:
        protocol = Protocol(self.item.n_way, self.cell["n_shot"], self.item.n_query)
        n_episodes = min(CHECKED, self.cell["n_episodes"])
        return draw_episodes(images, protocol, n_episodes=n_episodes, seed=self.item.seed)


def check(*, manifest: str | Path, say: Callable[[str], None] = print) -> int:
    """Score the published rows again; return how many there are.

    Raises RempError if one differs from what results.json says.
    """
    book = read_manifest(Path(manifest))
    rows = _published(book)
    drifted = []
    for data in dict.fromkeys(row.item.data for row in rows):
        features = _Features(book, data, [row for row in rows if row.item.data == data])
        for row in features.rows:
            now = 100 * float(features.accuracies(row).mean())
            what = f"{row.name}: {row.cell['row']}, {row.cell['n_shot']}-shot, {' + '.join(row.networks)}"
            say(f"{what}: {now:.3f} (published {row.expected:.3f})")
            if abs(now - row.expected) > DRIFT:
                drifted.append(f"{what} is {now:.3f}, published was {row.expected:.3f}")
    if drifted:
        raise RempError(f"{len(drifted)} of {len(rows)} rows have drifted: " + "; ".join(drifted))
    return len(rows)


def _checkpoint(book: Manifest, training: str) -> Path:
    return book.root / "results" / "checkpoints" / f"{training}.safetensors"


def _published(book: Manifest) -> list[_Row]:
    """Rows of trained methods whose checkpoints are in the repository, those of one network after each other."""
    found = []
    for name, item in book.items.items():
        results = read_results(book.root / "results" / name)
        for cell in results["cells"] if results else []:
            # figures are made of the same checkpoints
            if cell["status"] != "done" or cell["method"] or "x" in cell:
                continue
            for training, expected in zip(cell["trainings"], cell["first_episodes"], strict=True):
                networks = (training, *cell.get("beside", []))
                if all(_checkpoint(book, network).is_file() for network in networks):
                    found.append(_Row(name, item, cell, networks, expected))
    return sorted(found, key=lambda row: row.networks)


class _Features:
    """Of the images of all episodes of some rows: each network embeds them once, for all rows it has a part in."""

    def __init__(self, book: Manifest, data: str, rows: list[_Row]) -> None:
        self.rows = rows
        self._book, self._images = book, open_data(data, "test")
        episodes = [row.episodes(self._images) for row in rows]
        self._used = np.unique(np.concatenate([np.append(one.support, one.query) for one in episodes]))
        self._made: dict[tuple[str, FeatureTransform], Tensor] = {}

    def accuracies(self, row: _Row) -> np.ndarray:
        """(E,) of the first episodes of a row."""
        trained = load(_checkpoint(self._book, row.networks[0]), **row.cell["settings"])
        method, episodes = trained.method, row.episodes(self._images)
        if type(method).score is not Method.score:  # the features of an image depend on its task
            return accuracies(method, self._images, trained.normalisation, episodes, row.transform)
        features = side_by_side([self._of(network, row.transform) for network in row.networks])
        places = episodes.map(lambda ids: torch.from_numpy(np.searchsorted(self._used, ids.numpy())))
        return score_embedded(method, places, features, row.transform)

    def _of(self, network: str, transform: FeatureTransform) -> Tensor:
        if (network, transform) not in self._made:
            transforms = list(dict.fromkeys(row.transform for row in self.rows if network in row.networks))
            trained = load(_checkpoint(self._book, network))
            images = self._images.images[self._used]
            made = embed_by_transforms(trained.method, images, trained.normalisation, transforms)
            self._made.update({(network, one): features for one, features in zip(transforms, made, strict=True)})
        return self._made[network, transform]
