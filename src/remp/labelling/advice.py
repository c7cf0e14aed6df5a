"""Which items to label next: those that speak for many uncertain ones which no labelled item speaks for yet."""

import numpy as np
import torch
from torch import Tensor

from remp.labelling.outcome import Advice
from remp.similarity import unit

# Items that are weighed against each other: a table of similarities of this side is made.
MOST_CANDIDATES = 4000
# Items at least this similar (cosine) to an adviced one are said to look like it.
_ALIKE = 0.5


def choose_next(features: Tensor, margins: Tensor, labelled: Tensor, n_next: int) -> list[int]:
    """Greedily the candidates that raise most how well the uncertain ones are represented: numbers of at most n_next.

    features: (m, d) of the candidates, margins: (m,) of their probabilities, labelled: (s, d). Every candidate is worth
    1 - margin times its cosine with the nearest labelled or chosen item.
    """
    features, labelled = unit(features), unit(labelled)
    similarity = (features @ features.T).clamp(min=0)  # (m, m)
    worth = (1 - margins).clamp(min=1e-6).to(similarity)
    reached = (features @ labelled.T).clamp(min=0).amax(-1) if len(labelled) else torch.zeros(len(features))
    chosen: list[int] = []
    for _ in range(min(n_next, len(features))):
        gains = worth @ (similarity - reached[:, None]).clamp(min=0)  # (m,)
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        reached = torch.maximum(reached, similarity[:, chosen[-1]])
    return chosen


def advise(
    candidates: np.ndarray,
    features: Tensor,
    margins: np.ndarray,
    labelled: Tensor,
    names: list[tuple[str, str | None]],
    n_next: int,
) -> tuple[Advice, ...]:
    """The items to label next, and why. candidates: (m,) numbers of items; names: of their two likeliest classes."""
    chosen = choose_next(features, torch.from_numpy(margins), labelled, n_next)
    alike = unit(features[chosen]) @ unit(features).T > _ALIKE  # (k, m)
    return tuple(
        Advice(int(candidates[i]), _reason(*names[i], float(margins[i]), int(row.sum()) - 1))
        for i, row in zip(chosen, alike, strict=True)
    )


def _reason(best: str, runner_up: str | None, margin: float, n_alike: int) -> str:
    where = f"probably {best}" if runner_up is None or margin > 0.5 else f"between {best} and {runner_up}"
    others = (
        "no other looks like it" if n_alike < 1 else f"{n_alike:,} other{'s look' if n_alike > 1 else ' looks'} like it"
    )
    return f"{where}; {others}"
