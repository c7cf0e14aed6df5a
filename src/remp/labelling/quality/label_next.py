"""Which items to label next: those that speak for many uncertain ones which no labelled item speaks for yet."""

import numpy as np
import torch
from torch import Tensor

from remp.labelling.outcome import Advice
from remp.rectification.similarity import unit

# Items that are weighed against each other: a table of similarities of this side is made.
MOST_CANDIDATES = 4000


def choose_next(features: Tensor, margins: Tensor, labelled: Tensor, n_next: int) -> dict[int, int]:
    """Greedily the candidates that raise most how well the uncertain ones are represented: numbers of at most n_next,
    each with how many other candidates it is nearer to than all that were labelled or chosen before it.

    features: (m, d) of the candidates, margins: (m,) of their probabilities, labelled: (s, d). Every candidate is worth
    1 - margin times its cosine with the nearest labelled or chosen item.
    """
    features, labelled = unit(features), unit(labelled)
    similarity = (features @ features.T).clamp(min=0)  # (m, m)
    worth = (1 - margins).clamp(min=1e-6).to(similarity)
    reached = (features @ labelled.T).clamp(min=0).amax(-1) if len(labelled) else torch.zeros(len(features))
    chosen: dict[int, int] = {}
    for _ in range(min(n_next, len(features))):
        gains = worth @ (similarity - reached[:, None]).clamp(min=0)  # (m,)
        gains[list(chosen)] = -1
        best = int(gains.argmax())
        nearer = similarity[:, best] > reached
        nearer[best] = False
        chosen[best] = int(nearer.sum())
        reached = torch.maximum(reached, similarity[:, best])
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
    return tuple(
        Advice(int(candidates[i]), _reason(*names[i], float(margins[i]), n_nearer)) for i, n_nearer in chosen.items()
    )


def _reason(best: str, runner_up: str | None, margin: float, n_nearer: int) -> str:
    where = f"probably {best}" if runner_up is None or margin > 0.5 else f"between {best} and {runner_up}"
    if n_nearer == 0:
        return f"{where}; unlike any other unlabelled item"
    return f"{where}; nearer to {n_nearer:,} other{'s' if n_nearer > 1 else ''} than any labelled item"
