"""What a method's answers are worth when the queries are not balanced, and whether it forces them to be."""

import numpy as np
import torch
from torch import Tensor

from remp.evaluation.audit.subject import Finding, Subject

N_EPISODES, N_WAY, N_QUERY = 10, 5, 75
LITTLE = 0.05  # accuracy that may be lost without being said to fall


def measure_balance(subject: Subject) -> Finding:
    """Accuracy on balanced, Dirichlet(2) and one-class queries of easily told classes, for information.

    Fails a method that does not declare `assumes_balance` and yet shares unequal queries out about equally, of both
    unequal kinds. Queries of one class alone would not show it: there prototypes may merge, which is another weakness.
    """
    labels = {
        "balanced": torch.arange(N_QUERY).remainder(N_WAY).expand(N_EPISODES, -1),
        "dirichlet:2": _dirichlet(subject.seed),
        "one class": torch.arange(N_EPISODES).remainder(N_WAY)[:, None].expand(-1, N_QUERY),
    }
    answers = {
        name: subject.answer(subject.episodes((1,) * N_WAY, queries, noise=0.5)).argmax(-1)
        for name, queries in labels.items()
    }
    accuracy = {name: float((answers[name] == labels[name]).float().mean()) for name in labels}
    evened = {f"evened {name}": _evened(answers[name], labels[name]) for name in ("dirichlet:2", "one class")}
    knows = accuracy["balanced"] >= 2 / N_WAY  # answers of a method that knows nothing tell nothing
    forced = knows and min(evened.values()) > 0.5
    declared = subject.method.assumes_balance
    holds = min(accuracy.values()) > accuracy["balanced"] - LITTLE
    sentence = (
        f"declared {'balanced' if declared else 'not balanced'}: "
        f"accuracy {'holds' if holds else 'falls'} where queries are not balanced"
    )
    if forced:
        sentence += "; unequal queries are shared out about equally"
    return Finding("", declared or not forced, sentence, {**accuracy, **evened})


def _evened(answers: Tensor, query_labels: Tensor) -> float:
    """How equal the classes are in the answers (E, Q): 1 wholly, 0 as unequal as in the truth or more so."""
    counts = [torch.nn.functional.one_hot(classes, N_WAY).sum(1) for classes in (answers, query_labels)]  # (E, n_way)
    inequality = [(count - N_QUERY / N_WAY).abs().mean() for count in counts]
    return float((1 - inequality[0] / inequality[1]).clamp(min=0))


def _dirichlet(seed: int) -> Tensor:
    random = np.random.default_rng(seed)
    proportions = torch.from_numpy(random.dirichlet([2.0] * N_WAY, N_EPISODES))
    return torch.multinomial(proportions, N_QUERY, replacement=True, generator=torch.Generator().manual_seed(seed))
