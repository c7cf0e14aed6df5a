"""Score the published rows again, on their first episodes: does any episode give another accuracy now?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.datasets import ImageSet, open_data
from remp.episodes import Episodes, Protocol
from remp.errors import DataError, RempError
from remp.evaluation.evaluate import accuracies, draw_episodes, embed_by_transforms, score_embedded
from remp.methods.base import takes_images
from remp.models import load
from remp.rectification.transform import FeatureTransform
from remp.reproduce.manifest import Item, Manifest, read_manifest
from remp.reproduce.scoring import Earlier, read_results, side_by_side

EPISODES = 10  # of each row, the first ones
# So many queries of a row may be answered otherwise: processors differ in the last digits of their arithmetic.
CLOSE_CALLS = 2


@dataclass(frozen=True)
class _Row:
    """A row of a table. name: of the table; cell: as in results.json; networks: for each of its trainings the names
    whose features are compared, one or several side by side; published: (E,) accuracies of its first episodes."""

    name: str
    item: Item
    cell: dict[str, Any]
    networks: tuple[tuple[str, ...], ...]
    published: np.ndarray

    def __str__(self) -> str:
        networks = ", ".join(" + ".join(names) for names in self.networks)
        return f"{self.name}: {self.cell['row']}, {self.cell['n_shot']}-shot, {networks}"

    @property
    def transform(self) -> FeatureTransform:
        return FeatureTransform.parse(self.cell["transform"])

    def episodes(self, images: ImageSet) -> Episodes:
        protocol = Protocol(self.item.n_way, self.cell["n_shot"], self.item.n_query)
        return draw_episodes(images, protocol, n_episodes=len(self.published), seed=self.item.seed)


def check(*, manifest: str | Path, say: Callable[[str], None] = print) -> int:
    """Score the published rows again; return how many there are.

    Raises RempError if the answers to more than CLOSE_CALLS queries of a row are not those of accuracies.npz.
    """
    book = read_manifest(Path(manifest))
    rows = _published(book)
    drifted = []
    for data in dict.fromkeys(row.item.data for row in rows):
        scorer = _Scorer(book, data, [row for row in rows if row.item.data == data])
        for row in scorer.rows:
            now = scorer.accuracies(row)
            found, before = (f"{100 * float(one.mean()):.3f}" for one in (now, row.published))
            say(f"{row}: {found} (published {before})")
            n_queries = row.item.n_way * row.item.n_query * len(row.networks)  # of an episode
            n_changed = round(n_queries * float(np.abs(now - row.published).sum()))
            if n_changed > CLOSE_CALLS:
                drifted.append(
                    f"{row} is {found}, published was {before} (at least {n_changed} of {n_queries * len(now)} queries "
                    "have another answer)"
                )
    if drifted:
        raise RempError(f"{len(drifted)} of {len(rows)} rows have drifted: " + "; ".join(drifted))
    return len(rows)


def _checkpoint(book: Manifest, training: str) -> Path:
    return book.root / "results" / "checkpoints" / f"{training}.safetensors"


def _published(book: Manifest) -> list[_Row]:
    """Rows of trained methods whose checkpoints are in the repository; figures are made of the same checkpoints."""
    found = []
    for name, item in book.items.items():
        folder = book.root / "results" / name
        results, known = read_results(folder), Earlier(folder).accuracies
        for cell in results["cells"] if results else []:
            if cell["status"] != "done" or cell["method"] or "x" in cell:
                continue
            networks = tuple((training, *cell.get("beside", [])) for training in cell["trainings"])
            if not all(_checkpoint(book, network).is_file() for names in networks for network in names):
                continue
            published = known.get(f"{cell['row']} {cell['n_shot']}-shot", np.zeros(0)).astype(np.float64)
            if len(published) != cell["n_episodes"] or abs(100 * published.mean() - cell["mean"]) > 1e-3:
                raise DataError(
                    f"{folder}: the accuracies of {cell['row']}, {cell['n_shot']}-shot, in accuracies.npz are not "
                    "those of results.json: restore both"
                )
            found.append(_Row(name, item, cell, networks, published[:EPISODES]))
    return found


class _Scorer:
    """Scores rows of one data set again. Each network embeds the images of their episodes once, and what two tables
    both have is scored once."""

    def __init__(self, book: Manifest, data: str, rows: list[_Row]) -> None:
        self.rows = rows
        self._book, self._images = book, open_data(data, "test")
        episodes = [row.episodes(self._images) for row in rows]
        self._used = np.unique(np.concatenate([np.append(one.support, one.query) for one in episodes]))
        self._embedded: dict[tuple[str, FeatureTransform], Tensor] = {}
        self._scored: dict[str, np.ndarray] = {}

    def accuracies(self, row: _Row) -> np.ndarray:
        """(E,) of the first episodes of a row, the mean over its trainings."""
        place = row.item.n_way, row.item.n_query, row.item.seed, len(row.published)
        what = repr((place, row.networks, *(row.cell[name] for name in ("n_shot", "transform", "settings"))))
        if what not in self._scored:
            self._scored[what] = np.mean([self._of_training(row, networks) for networks in row.networks], 0)
        return self._scored[what]

    def _of_training(self, row: _Row, networks: tuple[str, ...]) -> np.ndarray:
        trained = load(_checkpoint(self._book, networks[0]), **row.cell["settings"])
        method, episodes = trained.method, row.episodes(self._images)
        if takes_images(method, row.transform):
            return accuracies(method, self._images, trained.normalisation, episodes, row.transform)
        features = side_by_side([self._features(network, row.transform) for network in networks])
        places = episodes.map(lambda ids: torch.from_numpy(np.searchsorted(self._used, ids.numpy())))
        return score_embedded(method, places, features, row.transform)

    def _features(self, network: str, transform: FeatureTransform) -> Tensor:
        """Of the images of all episodes, by all transforms that the rows of the network ask for at once."""
        if (network, transform) not in self._embedded:
            of_network = [row for row in self.rows if any(network in names for names in row.networks)]
            transforms = list(dict.fromkeys(row.transform for row in of_network))
            trained = load(_checkpoint(self._book, network))
            images = self._images.images[self._used]
            made = embed_by_transforms(trained.method, images, trained.normalisation, transforms)
            self._embedded.update({(network, one): features for one, features in zip(transforms, made, strict=True)})
        return self._embedded[network, transform]
