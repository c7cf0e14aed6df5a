"""Score the published checkpoints again on the first episodes of their rows: does anything give another number now?"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from remp.datasets import ImageSet, open_data
from remp.episodes import Episodes, Protocol
from remp.errors import RempError
from remp.evaluation.evaluate import accuracies, draw_episodes, embed, score_embedded
from remp.methods.base import Method
from remp.models import Trained, load
from remp.rectification.transform import FeatureTransform
from remp.reproduce.manifest import Item, Manifest, read_manifest
from remp.reproduce.scoring import CHECKED
from remp.reproduce.tables import read_results

# Mean accuracies of the first episodes may differ by this much, in points, between machines whose arithmetic differs:
# two of 1,875 queries.
DRIFT = 0.11

# A row of a table that is checked: the item and its name, its cell of results.json, the mean of its first episodes.
Published = tuple[str, Item, dict[str, Any], float]


def check(*, manifest: str | Path, say: Callable[[str], None] = print) -> int:
    """Score the published rows again; return how many there are.

    Raises RempError if one differs from what results.json says.
    """
    book = read_manifest(Path(manifest))
    drifted, n_checked = [], 0
    for (data, training, transform), rows in _published(book).items():
        path = book.root / "results" / "checkpoints" / f"{training}.safetensors"
        scoring = _Scoring(load(path), open_data(data, "test"), FeatureTransform.parse(transform), rows)
        for name, item, cell, expected in rows:
            now = 100 * float(scoring.accuracies(load(path, **cell["settings"]), item, cell).mean())
            n_checked += 1
            what = f"{name}: {cell['row']}, {cell['n_shot']}-shot, {training}"
            say(f"{what}: {now:.3f} (published {expected:.3f})")
            if abs(now - expected) > DRIFT:
                drifted.append(f"{what} is {now:.3f}, published was {expected:.3f}")
    if drifted:
        raise RempError(f"{len(drifted)} of {n_checked} rows have drifted: " + "; ".join(drifted))
    return n_checked


def _published(book: Manifest) -> dict[tuple[str, str, str], list[Published]]:
    """Rows of trained methods whose checkpoint is in the repository, by data set, checkpoint and transform."""
    found: dict[tuple[str, str, str], list[Published]] = {}
    for name, item in book.items.items():
        results = read_results(book.root / "results" / name)
        for cell in results["cells"] if results else []:
            # figures are made of the same checkpoints
            if cell["status"] != "done" or cell["method"] or cell.get("beside") or "x" in cell:
                continue
            for training, expected in zip(cell["trainings"], cell["first_episodes"], strict=True):
                if (book.root / "results" / "checkpoints" / f"{training}.safetensors").is_file():
                    key = (item.data, training, cell["transform"])
                    found.setdefault(key, []).append((name, item, cell, expected))
    return found


class _Scoring:
    """Of rows with the same network: the images of their episodes are embedded once."""

    def __init__(self, network: Trained, images: ImageSet, transform: FeatureTransform, rows: list[Published]) -> None:
        self._network, self._images, self._transform = network, images, transform
        episodes = [self._episodes(item, cell) for _, item, cell, _ in rows]
        self._used = np.unique(np.concatenate([np.append(one.support, one.query) for one in episodes]))
        self._features: torch.Tensor | None = None

    def accuracies(self, trained: Trained, item: Item, cell: dict[str, Any]) -> np.ndarray:
        """(E,) of the first episodes of a row. trained: the network with the settings of the row."""
        method, episodes = trained.method, self._episodes(item, cell)
        if type(method).score is not Method.score:  # the features of an image depend on its task
            return accuracies(method, self._images, trained.normalisation, episodes, self._transform)
        if self._features is None:
            images = self._images.images[self._used]
            self._features = embed(self._network.method, images, trained.normalisation, self._transform)
        places = episodes.map(lambda ids: torch.from_numpy(np.searchsorted(self._used, ids.numpy())))
        return score_embedded(method, places, self._features, self._transform)

    def _episodes(self, item: Item, cell: dict[str, Any]) -> Episodes:
        protocol, n_episodes = Protocol(item.n_way, cell["n_shot"], item.n_query), min(CHECKED, cell["n_episodes"])
        return draw_episodes(self._images, protocol, n_episodes=n_episodes, seed=item.seed)
