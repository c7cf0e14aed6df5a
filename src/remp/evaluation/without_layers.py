"""Whether rectification helps here: the same episodes with the layers of a method and without."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from remp.evaluation.statistics import Estimate, paired_difference


@dataclass(frozen=True)
class WithoutLayers:
    """Mean accuracies on the same episodes, and the paired difference: with the layers minus without."""

    with_layers: float
    without: float
    difference: Estimate

    @classmethod
    def of(cls, with_layers: np.ndarray, without: np.ndarray) -> "WithoutLayers":
        """Accuracies of the same episodes (E,)."""
        return cls(float(with_layers.mean()), float(without.mean()), paired_difference(with_layers, without))

    @property
    def hurts(self) -> bool:
        """Whether the interval of the difference lies below 0."""
        return self.difference.mean + self.difference.half_width < 0

    def sentence(self, cure: str) -> str:
        """In words. cure: what to do where rectification hurts."""
        points = f"{100 * self.difference.mean:+.2f} ± {100 * self.difference.half_width:.2f} points, paired"
        figures = f"{self.with_layers:.2%} with it, {self.without:.2%} without ({points}, n = {self.difference.n})"
        if self.hurts:
            return f"Rectification hurts here: {figures}. {cure}"
        if self.difference.mean - self.difference.half_width > 0:
            return f"Rectification helps here: {figures}."
        return f"Rectification makes no clear difference here: {figures}."

    def as_dict(self) -> dict[str, float]:
        return {
            "with_layers": round(self.with_layers, 6),
            "without_layers": round(self.without, 6),
            "difference": round(self.difference.mean, 6),
            "difference_half_width_95": round(self.difference.half_width, 6),
        }


def has_layers(settings: Mapping[str, Any]) -> bool:
    """Whether a method with these settings rectifies."""
    return isinstance(settings.get("layers"), int) and settings["layers"] > 0
