"""What a method's answers are worth when the queries are not balanced, and whether it forces them to be."""

import numpy as np
import torch
from torch import Tensor

from remp.audit_finding import Finding
from remp.audit_subject import Subject

N_EPISODES, N_WAY, N_QUERY = 10, 5, 75
FORCED = 1.5  # times an equal share: random answers give the largest class 1.3 times of it, the truth five times
LITTLE = 0.05  # accuracy that may be lost without being said to fall


def measure_balance(subject: Subject) -> Finding:
    """Accuracy on balanced, Dirichlet(2) and one-class queries of easily told classes, for information.

    Fails a method that does not declare `assumes_balance` and yet spreads queries of a single class evenly over all.
    """
    labels = {"balanced": _balanced(), "dirichlet:2": _dirichlet(subject.seed), "one class": _one_class()}
    answers = {name: _answers(subject, queries) for name, queries in labels.items()}
    accuracy = {name: float((answers[name] == labels[name]).float().mean()) for name in labels}
    share = _largest_share(answers["one class"])
    learned = accuracy["balanced"] >= 2 / N_WAY  # answers of a method that knows nothing tell nothing
    forced = learned and share < FORCED / N_WAY
    declared = subject.method.assumes_balance
    holds = min(accuracy.values()) > accuracy["balanced"] - LITTLE
    sentence = (
        f"declared {'balanced' if declared else 'not balanced'}: "
        f"accuracy {'holds' if holds else 'falls'} where queries are not balanced"
    )
    if forced:
        sentence += "; queries of a single class are spread evenly over all"
    return Finding("", declared or not forced, sentence, {**accuracy, "largest share": share})


def _answers(subject: Subject, query_labels: Tensor) -> Tensor:
    return subject.answer(subject.episodes((1,) * N_WAY, query_labels, noise=0.5)).argmax(-1)


def _largest_share(answers: Tensor) -> float:
    """The share of the class that is answered most, mean over episodes: (E, Q) -> number."""
    counts = torch.nn.functional.one_hot(answers, N_WAY).sum(1)  # (E, n_way)
    return float(counts.amax(1).float().mean()) / N_QUERY


def _balanced() -> Tensor:
    return torch.arange(N_QUERY).remainder(N_WAY).expand(N_EPISODES, -1)


def _one_class() -> Tensor:
    return torch.arange(N_EPISODES).remainder(N_WAY)[:, None].expand(-1, N_QUERY)


def _dirichlet(seed: int) -> Tensor:
    random = np.random.default_rng(seed)
    proportions = torch.from_numpy(random.dirichlet([2.0] * N_WAY, N_EPISODES))
    return torch.multinomial(proportions, N_QUERY, replacement=True, generator=torch.Generator().manual_seed(seed))
