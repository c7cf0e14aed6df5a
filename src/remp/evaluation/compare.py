"""Classifiers on frozen features against each other: the same features, the same episodes, paired differences."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from remp.checks import nearest
from remp.config import settings_model
from remp.datasets.base import ImageSet
from remp.episodes import Protocol
from remp.episodes.files import EpisodeFile, episode_hash
from remp.errors import ConfigError
from remp.evaluation.evaluate import draw_episodes, score_episodes
from remp.evaluation.frozen_features import FrozenFeatures
from remp.evaluation.result import Result
from remp.evaluation.side_by_side import Row
from remp.evaluation.statistics import paired_difference
from remp.methods import METHODS, Method
from remp.system.progress import progress


@dataclass(frozen=True)
class Entry(Row):
    """A classifier's row. difference: it minus the reference, paired by episode; None for the reference itself.
    seconds: taken to score all episodes."""

    seconds: float

    @property
    def episodes_per_second(self) -> float:
        return len(self.result.accuracies) / self.seconds

    @property
    def assumptions(self) -> str:
        return f"{self.kind}, balanced" if self.result.assumes_balance else self.kind


@dataclass(frozen=True)
class Table:
    """The classifiers on the episodes of one protocol, the best first."""

    protocol: Protocol
    reference: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Comparison:
    """One table a protocol."""

    tables: tuple[Table, ...]


def compare(
    features: FrozenFeatures,
    protocols: Sequence[Protocol],
    *,
    methods: str | Sequence[str] = "all",
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
            drawn = _draw(features.images, protocol, n_episodes, seed)
            entries = []
            for name in names:
                entries.append(_score(name, features, drawn))
                bar.advance(note=name)
            tables.append(_table(protocol, reference, entries))
    return Comparison(tuple(tables))


def chosen_methods(methods: str | Sequence[str], reference: str) -> list[str]:
    """The names asked for ("all", "a,b" or a list) and the reference; ConfigError for one that cannot be used."""
    frozen = [name for name, method in METHODS.items() if method.frozen]
    asked = methods.split(",") if isinstance(methods, str) else list(methods)
    names = frozen if asked == ["all"] else list(dict.fromkeys([*asked, reference]))
    for name in [*names, reference]:
        if name not in frozen:
            why = "has to be trained" if name in METHODS else "is unknown"
            raise ConfigError(f"method {name!r} {why}; of methods on frozen features {nearest(name, frozen)}")
    return names


def _draw(images: ImageSet, protocol: Protocol, n_episodes: int, seed: int) -> EpisodeFile:
    episodes = draw_episodes(images, protocol, n_episodes=n_episodes, seed=seed)
    digest = episode_hash(episodes, images.fingerprint)
    return EpisodeFile(episodes, protocol, seed, images.name, images.split, images.fingerprint, digest)


def _score(name: str, features: FrozenFeatures, drawn: EpisodeFile) -> Entry:
    owner: type = METHODS[name]
    method: Method = owner()
    method.base_mean = features.base_mean
    started = time.perf_counter()
    accuracies = score_episodes(method, drawn.episodes, features.values, features.transform)
    seconds = time.perf_counter() - started
    result = Result(
        accuracies=accuracies,
        protocol=drawn.protocol,
        seed=drawn.seed,
        episode_hash=drawn.hash,
        data=drawn.data,
        split=drawn.split,
        fingerprint=drawn.fingerprint,
        method=name,
        backbone=features.backbone,
        transform=str(features.transform),
        transductive=method.transductive or features.transform.transductive,
        assumes_balance=method.assumes_balance,
        checkpoint=features.checkpoint,
        checkpoint_hash=features.checkpoint_hash,
        settings=settings_model(owner)().model_dump(mode="json"),
    )
    return Entry(name, result, None, seconds)


def _table(protocol: Protocol, reference: str, entries: Sequence[Entry]) -> Table:
    base = next(entry for entry in entries if entry.name == reference).result.accuracies
    differences = [
        None if entry.name == reference else paired_difference(entry.result.accuracies, base) for entry in entries
    ]
    complete = [replace(entry, difference=found) for entry, found in zip(entries, differences, strict=True)]
    best_first = sorted(complete, key=lambda entry: -entry.result.estimate.mean)
    return Table(protocol, reference, tuple(best_first))
