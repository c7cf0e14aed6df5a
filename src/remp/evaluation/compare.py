"""Classifiers on frozen features against each other: the same features, the same episodes, paired differences."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from remp.checks import nearest, required
from remp.config import settings_model
from remp.datasets.base import ImageSet
from remp.episodes import Episodes, Protocol
from remp.episodes.files import episode_hash
from remp.errors import ConfigError
from remp.evaluation.evaluate import draw_episodes, score_embedded
from remp.evaluation.frozen_features import FrozenFeatures
from remp.evaluation.result import Result
from remp.evaluation.side_by_side import Row, WithoutLayers, aligned, has_layers, protocol_note
from remp.evaluation.statistics import paired_difference
from remp.methods import KNOWN, METHODS, Method, make_known
from remp.rectification.transform import FeatureTransform
from remp.system.progress import progress
from remp.untrusted import visible

_NONE = "none"  # the checkpoint of embeddings that come from elsewhere


@dataclass(frozen=True)
class Table:
    """The classifiers on the episodes of one protocol, the best first. without_layers: of each method that rectifies,
    its accuracy without."""

    protocol: Protocol
    reference: str
    entries: tuple[Row, ...]
    without_layers: Mapping[str, WithoutLayers] = field(default_factory=dict)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """What is printed: the head, then a line for each classifier."""
        rows = [
            (visible(e.name), e.accuracy, e.lead or "reference", f"{e.episodes_per_second:,.0f}", e.assumptions)
            for e in self.entries
        ]
        return [("method", "accuracy", "difference", "episodes/s", "assumptions"), *rows]

    @property
    def note(self) -> str:
        """What the lines have in common, and of methods that rectify whether they would be better without."""
        result = replace(self.entries[0].result, data=visible(self.entries[0].result.data))
        made_by = "" if result.checkpoint == _NONE else f" of {result.checkpoint}"
        features = visible(result.backbone + made_by)
        cure = "Take a method without it, such as protonet, or features that were trained for longer."
        return "\n".join(
            [
                *filter(None, [visible(result.warning)]),
                protocol_note(result),
                f"Features: {features} ({result.checkpoint_hash[:12]}), "
                f"transform {result.transform}. Differences: to {visible(self.reference)}, in points, paired by "
                "episode.",
                *(f"{name}: {found.sentence(cure)}" for name, found in self.without_layers.items()),
            ]
        )


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: one table per protocol. Print it, index it, or call `to_pandas`.

    Parameters
    ----------
    tables : tuple of Table
        The classifiers on the episodes of each protocol, the best first.

    Examples
    --------
    >>> import remp
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> found = remp.compare(X, y, methods=["protonet", "simpleshot-l2n"], n_shot=[1, 5], n_episodes=20)
    >>> list(found.to_pandas().columns[:4])
    ['method', 'n_way', 'n_shot', 'accuracy']
    """

    tables: tuple[Table, ...]

    def __getitem__(self, key: tuple[str, int]) -> Result:
        """The result of a method at a number of shots: comparison["remp", 5]."""
        results = {
            (entry.name, table.protocol.n_shot): entry.result for table in self.tables for entry in table.entries
        }
        if key not in results:
            raise KeyError(f"{key!r}; there are {list(results)}")
        return results[key]

    def to_pandas(self) -> Any:
        """A DataFrame with one row per method and protocol: means and half-widths as shares, episodes per second."""
        return required("pandas", "to_pandas").DataFrame(
            {
                "method": entry.name,
                "n_way": table.protocol.n_way,
                "n_shot": table.protocol.n_shot,
                "accuracy": entry.result.estimate.mean,
                "half_width_95": entry.result.estimate.half_width,
                "n_episodes": entry.result.estimate.n,
                "difference": None if entry.difference is None else entry.difference.mean,
                "difference_half_width_95": None if entry.difference is None else entry.difference.half_width,
                "transductive": entry.result.transductive,
                "assumes_balance": entry.result.assumes_balance,
                "episodes_per_second": entry.episodes_per_second,
            }
            for table in self.tables
            for entry in table.entries
        )

    def __str__(self) -> str:
        return "\n\n".join(f"{aligned(table.cells)}\n{table.note}" for table in self.tables)


def compare(
    X: Any,
    y: Any,
    *,
    methods: str | Sequence[str | type[Method]] = "all",
    reference: str = "protonet",
    n_way: int | None = None,
    n_shot: int | Sequence[int] = (1, 5),
    n_query: int = 15,
    n_episodes: int = 1000,
    seed: int = 0,
    transform: str = "none",
) -> Comparison:
    """Score classifiers on few-shot episodes drawn from embeddings of your own.

    Parameters
    ----------
    X : array
        (n, dim) embeddings.
    y : array
        (n,) classes, names or numbers. Rows without one (-1, None, NaN or "") are left out.
    methods : str, or list of str and classes
        Names of methods, or "all" that work on frozen features. A class of your own says `frozen = True`; its name in
        the tables is "own:" and that of the class.
    reference : str
        The method that the others are compared with; it is always scored.
    n_way : int, optional
        Classes of an episode; default 5, or all if there are fewer.
    n_shot : int or list of int
        Labelled rows of each class.
    n_query : int
        Rows of each class to label.
    n_episodes, seed : int
        How many episodes, and from which seed they are drawn.
    transform : str
        Parts of "power+l2+centre" done to the embeddings first.

    Returns
    -------
    Comparison
        Print it, index it (comparison["remp", 5] is a Result), or call to_pandas().

    Examples
    --------
    >>> import remp
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> found = remp.compare(X, y, methods=["remp", "logistic-regression"], n_shot=1, n_episodes=20)
    >>> found["remp", 1].estimate.n
    20
    """
    chosen = FeatureTransform.parse(transform)
    if chosen.mirror or chosen.zoom:
        raise ConfigError(f"transform is {transform!r}, but embeddings are not images: leave mirror and zoom out")
    images = _labelled_rows(X, y)
    values = chosen.features(torch.from_numpy(np.ascontiguousarray(images.images, dtype=np.float32)))
    features = FrozenFeatures(images, values, None, chosen, "own embeddings", _NONE, images.fingerprint)
    ways = min(5, images.n_classes) if n_way is None else n_way
    shots = np.atleast_1d(n_shot).tolist()
    if not shots:
        raise ConfigError("n_shot is empty; needed one number of labelled rows per class or more, e.g. [1, 5]")
    return compare_features(
        features,
        [Protocol(ways, shot, n_query) for shot in shots],
        methods=methods,
        reference=reference,
        n_episodes=n_episodes,
        seed=seed,
    )


def _labelled_rows(X: Any, y: Any) -> ImageSet:
    """Embeddings and classes as a set that episodes can be drawn from, sorted by class."""
    from remp.estimator.label_codes import UNLABELLED, encoded  # with scikit-learn, which takes a while

    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or len(rows) != len(y) or not rows.size:
        raise ConfigError(
            f"got X of {rows.dtype} {rows.shape} and y of {np.shape(y)}; needed numbers (n, dim) and n classes"
        )
    names, codes = encoded(y)
    order = np.argsort(codes, kind="stable")[np.count_nonzero(codes == UNLABELLED) :]
    rows, codes = rows[order], codes[order]
    if not np.isfinite(rows).all() or np.abs(rows).max() > np.finfo(np.float32).max:
        raise ConfigError("X holds NaN, infinity or numbers beyond float32: leave those rows out, or scale them down")
    if len(names) < 2:
        raise ConfigError(f"got rows of {len(names)} class; needed rows of two classes or more")
    fingerprint = hashlib.sha256(np.ascontiguousarray(rows).tobytes() + codes.tobytes()).hexdigest()
    return ImageSet("own embeddings", "all", rows, codes, tuple(map(str, names)), fingerprint, (), ())


def compare_features(
    features: FrozenFeatures,
    protocols: Sequence[Protocol],
    *,
    methods: str | Sequence[str | type[Method]] = "all",
    reference: str = "protonet",
    n_episodes: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Score classifiers at their default settings on the same episodes, drawn from `seed`.

    methods: names, or "all" that work on frozen features. reference: the one that differences are taken to; it is
    scored whether named or not.
    """
    names = chosen_methods(methods, reference)
    with progress("comparing", len(names) * len(protocols), unit="classifiers") as bar:
        tables = []
        for protocol in protocols:
            episodes = draw_episodes(features.images, protocol, n_episodes=n_episodes, seed=seed)
            entries = []
            for name in names:
                entries.append(_score(name, features, episodes, protocol, seed))
                bar.advance(note=name)
            tables.append(_table(protocol, reference, entries, _plain(features, episodes, entries)))
    return Comparison(tuple(tables))


def chosen_methods(methods: str | Sequence[str | type[Method]], reference: str) -> list[str]:
    """The names asked for ("all", "a,b" or a list) and the reference; ConfigError for one that cannot be used."""
    frozen = [name for name, method in METHODS.items() if method.frozen]
    asked: list[str] = []
    own: dict[str, type[Method]] = {}
    for one in methods.split(",") if isinstance(methods, str) else methods:
        if isinstance(one, str):
            asked += frozen if one == "all" else [one.strip()]
        else:
            asked.append(make_known(one))
            if own.setdefault(asked[-1], one) is not one:
                raise ConfigError(f"two classes are named {asked[-1]!r}: give one of them another name")
    names = list(dict.fromkeys([*asked, reference]))
    for name in names:
        if name not in KNOWN or not KNOWN[name].frozen:
            why = "is unknown"
            if name in KNOWN:
                why = "has to be trained" + (
                    "" if name in METHODS else ", since its class does not say `frozen = True`"
                )
            raise ConfigError(f"method {name!r} {why}; of methods on frozen features {nearest(name, frozen)}")
    return names


def _plain(features: FrozenFeatures, episodes: Episodes, entries: Sequence[Row]) -> dict[str, WithoutLayers]:
    """Of each method that rectifies, its accuracy on the same episodes without."""
    found = {}
    for entry in entries:
        if has_layers(entry.name, entry.result.settings) and len(episodes) > 1:  # one episode has no interval
            method = _method(entry.name, features, layers=0)
            without = score_embedded(method, episodes, features.values, features.transform)
            found[entry.name] = WithoutLayers.of(entry.result.accuracies, without)
    return found


def _score(name: str, features: FrozenFeatures, episodes: Episodes, protocol: Protocol, seed: int) -> Row:
    owner: type = KNOWN[name]
    method, images = _method(name, features), features.images
    started = time.perf_counter()
    accuracies = score_embedded(method, episodes, features.values, features.transform)
    seconds = time.perf_counter() - started
    result = Result(
        accuracies=accuracies,
        protocol=protocol,
        seed=int(seed),
        episode_hash=episode_hash(episodes, images.fingerprint),
        data=images.name,
        split=images.split,
        fingerprint=images.fingerprint,
        method=name,
        backbone=features.backbone,
        transform=str(features.transform),
        transductive=method.transductive or features.transform.transductive,
        assumes_balance=method.assumes_balance,
        checkpoint=features.checkpoint,
        checkpoint_hash=features.checkpoint_hash,
        settings=settings_model(owner)().model_dump(mode="json"),
        seen_classes=features.seen_classes,
    )
    return Row(name, result, seconds=seconds)


def _method(name: str, features: FrozenFeatures, **settings: Any) -> Method:
    method = KNOWN[name](**settings)
    method.base_mean = features.base_mean
    return method


def _table(
    protocol: Protocol, reference: str, entries: Sequence[Row], without_layers: Mapping[str, WithoutLayers]
) -> Table:
    base = next(entry for entry in entries if entry.name == reference).result.accuracies
    differences = [
        None if entry.name == reference else paired_difference(entry.result.accuracies, base) for entry in entries
    ]
    complete = [replace(entry, difference=found) for entry, found in zip(entries, differences, strict=True)]
    best_first = sorted(complete, key=lambda entry: -entry.result.estimate.mean)
    return Table(protocol, reference, tuple(best_first), without_layers)
