"""The leak audit: whether a method keeps to its contract, property by property, with the numbers measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.evaluation.audit.subject import IMAGE_SIZE, AuditFinding, Subject, rows, with_queries
from remp.methods.base import Method, evaluation_mode

TOLERANCE = 1e-4  # of the usual spread of a query's logits
ALONE = 8  # tasks of a batch that are asked about again one by one


def audit(method: Method, *, image_size: tuple[int, int, int] = IMAGE_SIZE, seed: int = 0) -> list[AuditFinding]:
    """Check a method for leaks: change what must not matter, and see whether its answers change.

    The episodes are made up. They hold features of `method.feature_shape`, or, for a method that overrides `score`,
    images.

    Parameters
    ----------
    method : Method
        The method to check.
    image_size : tuple of int
        (height, width, channels) of the images.
    seed : int
        What the episodes are drawn from.

    Returns
    -------
    list of AuditFinding
        One for each property, with `name`, `passed`, `sentence` and `numbers`. A property whose check raises has
        failed, and the others go on.

    Examples
    --------
    >>> import remp
    >>> all(finding.passed for finding in remp.audit(remp.METHODS["protonet"]()))
    True
    """
    if not isinstance(method, Method):  # type: ignore[redundant-expr]
        raise ConfigError(f"method is {method!r}; needed an instance, e.g. remp.METHODS['protonet']() or MyMethod()")
    subject = Subject(method, image_size, seed)
    with evaluation_mode(method):
        return [_checked(name, check, subject) for name, check in PROPERTIES.items()]


def _checked(name: str, check: Callable[[Subject], AuditFinding], subject: Subject) -> AuditFinding:
    try:
        return replace(check(subject), name=name)
    except Exception as error:  # whatever somebody's own code may raise is a finding
        return AuditFinding(name, False, f"raised {type(error).__name__}: {error}")


@dataclass(frozen=True)
class _Gap:
    """How far answers are from those expected. difference: the largest, as a share of the usual spread of logits.
    changed: queries, of `total`, for which another class wins."""

    difference: float
    changed: int
    total: int

    @classmethod
    def between(cls, answer: Tensor, expected: Tensor) -> "_Gap":
        """answer, expected: (…, n_way). What all classes of a query have in common is not counted."""
        usual = (expected.amax(-1) - expected.amin(-1)).mean()
        scale = torch.maximum(usual, 0.01 * expected.abs().max()).clamp(min=1e-30)
        away = ((answer - answer.mean(-1, keepdim=True)) - (expected - expected.mean(-1, keepdim=True))) / scale
        winner = answer.argmax(-1, keepdim=True)
        behind = (expected.amax(-1, keepdim=True) - expected.gather(-1, winner)) / scale
        return cls(
            difference=float(away.abs().nan_to_num(nan=torch.inf).max()),
            changed=int((behind > TOLERANCE).sum()),  # a tie has no one winner
            total=winner.numel(),
        )

    @classmethod
    def worst(cls, *gaps: "_Gap") -> "_Gap":
        return max(gaps, key=lambda gap: (gap.difference, gap.changed))

    @property
    def is_none(self) -> bool:
        return self.difference <= TOLERANCE and self.changed == 0

    def finding(self, good: str, bad: str) -> AuditFinding:
        numbers = {"difference": self.difference, "changed": self.changed, "of": self.total}
        return AuditFinding("", self.is_none, good if self.is_none else bad, numbers)


def _repeatable(subject: Subject) -> AuditFinding:
    return _Gap.between(subject.answer(subject.usual_episodes()), subject.usual_answer).finding(
        "the same episodes get the same answers twice", "the same episodes get other answers the second time"
    )


def _query_order(subject: Subject) -> AuditFinding:
    episodes = subject.usual_episodes()
    order = _orders(episodes.query, subject.seed)
    moved = subject.answer(with_queries(episodes, order))
    return _Gap.between(moved, rows(subject.usual_answer, order)).finding(
        "the answers move with the queries", "an answer depends on the place of its query among the others"
    )


def _support_order(subject: Subject) -> AuditFinding:
    episodes = subject.usual_episodes()
    order = _orders(episodes.support, subject.seed)
    support, labels = rows(episodes.support, order), rows(episodes.support_labels, order)
    moved = subject.answer(replace(episodes, support=support, support_labels=labels))
    return _Gap.between(moved, subject.usual_answer).finding(
        "the order of the labelled items does not matter", "the answers depend on the order of the labelled items"
    )


def _class_names(subject: Subject) -> AuditFinding:
    episodes = subject.usual_episodes()
    names = torch.arange(episodes.n_way).roll(2)
    renamed = replace(
        episodes, support_labels=names[episodes.support_labels], query_labels=names[episodes.known_query_labels]
    )
    return _Gap.between(subject.answer(renamed)[..., names], subject.usual_answer).finding(
        "renaming the classes renames the answers", "the answers depend on the number that a class has"
    )


def _query_labels(subject: Subject) -> AuditFinding:
    episodes = subject.usual_episodes()
    wrong = replace(episodes, query_labels=(episodes.known_query_labels + 1) % episodes.n_way)
    blind = subject.answer(episodes.without_query_labels())
    gaps = [_Gap.between(answer, blind) for answer in (subject.usual_answer, subject.answer(wrong))]
    return _Gap.worst(*gaps).finding(
        "no, true and wrong labels of the queries give the same answers", "the answers depend on the queries' labels"
    )


def _batch(subject: Subject) -> AuditFinding:
    episodes = subject.usual_episodes(subject.n_batch)
    together = subject.answer(episodes)
    chosen = range(0, len(episodes), len(episodes) // ALONE)
    alone = torch.cat([subject.answer(episodes[i : i + 1]) for i in chosen])
    return _Gap.between(alone, together[list(chosen)]).finding(
        f"a task alone and in a batch of {len(episodes)} gets the same answers",
        "the answers depend on the rest of the batch",
    )


def _other_queries(subject: Subject) -> AuditFinding:
    episodes, together = subject.usual_episodes(), subject.usual_answer
    kept = [torch.arange(n).expand(len(episodes), -1) for n in (1, episodes.query.shape[1] // 2)]
    gaps = [_Gap.between(subject.answer(with_queries(episodes, k)), rows(together, k)) for k in kept]
    finding = _Gap.worst(*gaps).finding(
        "an answer does not change when other queries are removed", "an answer changes when other queries are removed"
    )
    if not subject.method.transductive:
        return replace(finding, sentence=f"declared inductive: {finding.sentence}")
    use = "does not use the other queries here" if finding.passed else "uses the other queries"
    return replace(finding, passed=True, sentence=f"declared transductive: {use}")


def _shapes(subject: Subject) -> AuditFinding:
    """n_way from 2 to 20, one to three shots, and queries of only some of the classes."""
    cases = {}
    for n_way in (2, 3, 7, 20):
        present = torch.arange(12).remainder(max(1, n_way // 2)).expand(3, -1)
        cases[f"{n_way} ways"] = subject.episodes([1 + way % 3 for way in range(n_way)], present)
    return _all_finite(subject, cases, "2 to 20 ways, unequal shots, absent classes")


def _degenerate(subject: Subject) -> AuditFinding:
    episodes = subject.usual_episodes()
    one = torch.zeros(len(episodes), 1, dtype=torch.int64)
    cases = {
        "identical items": episodes.map(torch.ones_like),
        "zeros": episodes.map(torch.zeros_like),
        "one query": with_queries(episodes, one),
        "one query, zeros": with_queries(episodes, one).map(torch.zeros_like),
        "one shot, one query": subject.episodes((1, 1), one),
    }
    return _all_finite(subject, cases, "identical items, zeros, and one query or one shot")


def _all_finite(subject: Subject, cases: dict[str, Episodes], what: str) -> AuditFinding:
    failed = [name for name, episodes in cases.items() if not subject.answer(episodes).isfinite().all()]
    sentence = f"not finite for {', '.join(failed)}" if failed else f"finite for {what}"
    return AuditFinding("", not failed, sentence, {"cases": len(cases), "not finite": len(failed)})


def _orders(items: Tensor, seed: int) -> Tensor:
    """A random order of the items of each episode: (E, n, …) -> (E, n)."""
    return torch.rand(items.shape[:2], generator=torch.Generator().manual_seed(seed)).argsort(dim=1)


N_EPISODES, N_WAY, N_QUERY = 10, 5, 75  # of the tasks that balance is measured on
LITTLE = 0.05  # accuracy that may be lost without being said to fall


def measure_balance(subject: Subject) -> AuditFinding:
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
    return AuditFinding("", declared or not forced, sentence, {**accuracy, **evened})


def _evened(answers: Tensor, query_labels: Tensor) -> float:
    """How equal the classes are in the answers (E, Q): 1 wholly, 0 as unequal as in the truth or more so."""
    counts = [torch.nn.functional.one_hot(classes, N_WAY).sum(1) for classes in (answers, query_labels)]  # (E, n_way)
    inequality = [(count - N_QUERY / N_WAY).abs().mean() for count in counts]
    return float((1 - inequality[0] / inequality[1]).clamp(min=0))


def _dirichlet(seed: int) -> Tensor:
    random = np.random.default_rng(seed)
    proportions = torch.from_numpy(random.dirichlet([2.0] * N_WAY, N_EPISODES))
    return torch.multinomial(proportions, N_QUERY, replacement=True, generator=torch.Generator().manual_seed(seed))


PROPERTIES: dict[str, Callable[[Subject], AuditFinding]] = {
    "repeatable": _repeatable,
    "query order": _query_order,
    "support order": _support_order,
    "class names": _class_names,
    "query labels": _query_labels,
    "batch": _batch,
    "other queries": _other_queries,
    "balance": measure_balance,
    "shapes": _shapes,
    "degenerate input": _degenerate,
}
