"""The feature transform: what may be done to embeddings between backbone and method, as a setting of evaluation."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from remp.episodes import Episodes
from remp.errors import ConfigError, DataError
from remp.rectification.number_range import TINY
from remp.rectification.similarity import unit
from remp.rows import Block, Rows, Shard

PARTS = ("mirror", "zoom", "power", "l2", "centre")
ZOOM = 0.85  # side of the middle that `zoom` enlarges, as a share of the image's side


@dataclass(frozen=True)
class FeatureTransform:
    """Each part if it is switched on.

    power: signed square root of each number. mirror: the same is done to the mirror image, and both are averaged.
    zoom: the same is done to the middle of the image, enlarged to its size, and all views are averaged.
    l2: then L2 norm 1. centre: minus the mean of the episode's support and queries, then L2 norm 1 again if `l2`.
    Centring looks at the queries, so it makes any method transductive.
    """

    mirror: bool = False
    zoom: bool = False
    power: bool = False
    l2: bool = False
    centre: bool = False

    @classmethod
    def parse(cls, text: str) -> "FeatureTransform":
        """From "none", "all", or parts joined by "+": "mirror+zoom+power+l2+centre"."""
        if text == "all":
            return cls(*[True] * len(PARTS))
        parts = [] if text in ("", "none") else text.split("+")
        unknown = [part for part in parts if part not in PARTS]
        if unknown:
            raise ConfigError(
                f"transform {text!r}: unknown part {unknown[0]!r}; parts are {'+'.join(PARTS)}, or none, all"
            )
        return cls(**{part: True for part in parts})

    def __str__(self) -> str:
        return "+".join(part for part in PARTS if getattr(self, part)) or "none"

    @property
    def transductive(self) -> bool:
        return self.centre

    @property
    def views(self) -> list[tuple[bool, bool]]:
        """How an image is shown to the network, once or more often: mirrored or not, its middle enlarged or not."""
        zooms, mirrors = ([False, True] if part else [False] for part in (self.zoom, self.mirror))
        return [(is_mirrored, is_enlarged) for is_enlarged in zooms for is_mirrored in mirrors]

    def features(self, *views: Tensor) -> Tensor:
        """The parts that look at one image: embeddings of its `views` (n, …) -> (n, …)."""
        rooted = [view.sign() * view.abs().sqrt() if self.power else view for view in views]
        mean = torch.stack(rooted).mean(0)
        return _unit_items(mean) if self.l2 else mean

    def episodes(self, episodes: Episodes) -> Episodes:
        """The part that looks at an episode: features (E, S, …) and (E, Q, …) minus their common mean."""
        if not self.centre:
            return episodes
        n_items = episodes.support.shape[1] + episodes.query.shape[1]
        mean = (episodes.support.sum(1, keepdim=True) + episodes.query.sum(1, keepdim=True)) / n_items
        centred = replace(episodes, support=episodes.support - mean, query=episodes.query - mean)
        return centred.map(_unit_items) if self.l2 else centred


def _unit_items(items: Tensor) -> Tensor:
    """L2 norm 1 over all dimensions of each item: (n, …) -> (n, …)."""
    return unit(items.flatten(1)).reshape(items.shape) if items.dim() > 1 else torch.ones_like(items)


class TransformOfRows:
    """What settings with a `transform` of rows share: rows are not images, and have no views."""

    transform: str

    @property
    def parts(self) -> FeatureTransform:
        """The parts that `transform` names."""
        return FeatureTransform.parse(self.transform)

    def _check_transform(self) -> None:
        transform: Any = self.transform  # of any kind, as long as nobody has looked
        if not isinstance(transform, str):
            raise ConfigError(f"transform is {transform!r}; needed parts of 'power+l2+centre', or 'none'")
        if self.parts.mirror or self.parts.zoom:
            raise ConfigError(f"transform is {self.transform!r}, but rows are not images: leave mirror and zoom out")


@dataclass(frozen=True)
class RowTransform:
    """parts: power, l2 and centre of a FeatureTransform. centre: (d,) what `centre` takes away."""

    parts: FeatureTransform
    centre: Tensor | None = None

    def __call__(self, rows: Tensor) -> Tensor:
        """(m, d) -> (m, d), new. Works in place on one copy: fresh memory costs more than the arithmetic."""
        features = _signed_root(rows) if self.parts.power else rows.clone()
        if self.parts.l2:
            _to_unit(features)
        if self.centre is not None:
            features.sub_(self.centre)
            if self.parts.l2:
                _to_unit(features)
        return features


def fit_transform(rows: Rows, parts: FeatureTransform, shard: Shard) -> tuple[RowTransform, float]:
    """The transform of these rows, and a bound of the features' size. Checks that every number is finite."""
    total, largest = torch.zeros(rows.dim, dtype=torch.float64), 0.0
    for sums, largest_here in shard.each(partial(_feature_sums, parts=parts), rows):
        total, largest = total + sums, max(largest, largest_here)
    largest = 1.0 if parts.l2 else shard.largest(largest)
    if not parts.centre:
        return RowTransform(parts), largest
    return RowTransform(parts, (shard.sum(total) / len(rows)).float()), 2 * largest


def _feature_sums(block: Block, *, parts: FeatureTransform) -> tuple[Tensor, float]:
    """The sum of the features of a block (d,), and the largest number in them; 0 where the norm bounds it."""
    transform, first = RowTransform(parts), block.first
    total, largest = torch.zeros(block.rows.dim, dtype=torch.float64), 0.0
    for chunk in block.chunks():
        features = transform(chunk)
        sums = features.sum(0, dtype=torch.float64)
        if not sums.isfinite().all():  # a sum of finite numbers is finite in float64
            _refuse(chunk, first)
        if not parts.l2:
            largest = max(largest, float(features.abs_().amax()))
        total, first = total + sums, first + len(chunk)
    return total, largest


def _signed_root(rows: Tensor) -> Tensor:
    """x / √|x|. The square root of zeros, of which features after a ReLU are full, takes ten times as long."""
    return rows.abs().clamp_(min=torch.finfo(rows.dtype).tiny).rsqrt_().mul_(rows)


def _to_unit(items: Tensor) -> None:
    """`unit` in place and in two passes, where squares do not overflow."""
    norms = torch.linalg.vector_norm(items, dim=-1, keepdim=True)
    if norms.isfinite().all():
        items.div_(norms.clamp_(min=TINY))
    else:
        items.copy_(unit(items))


def _refuse(chunk: Tensor, first: int) -> None:
    bad = (~chunk.isfinite()).any(-1).nonzero()[:, 0]
    raise DataError(
        f"row {first + int(bad[0])} holds a number that is not finite in float32: correct it or leave it out "
        f"({len(bad)} such in rows {first} … {first + len(chunk) - 1})"
    )
