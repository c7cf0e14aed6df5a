"""Episodes: batches of few-shot tasks as values, and the protocol that says what they look like."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.errors import EpisodeError

_MOST = 1_000_000  # classes, and queries of a class


@dataclass(frozen=True)
class Episodes:
    """A batch of E few-shot tasks, as a value.

    Parameters
    ----------
    support : Tensor
        (E, S, …) labelled items, where … is nothing (image ids), an image or a feature.
    support_labels : Tensor
        (E, S) classes in 0 … n_way - 1.
    query : Tensor
        (E, Q, …) items to label.
    query_labels : Tensor or None
        (E, Q) their classes. Methods do not look at them.
    n_way : int
        Number of classes of each task.
    class_ids : Tensor or None
        (E, n_way) which class of the data set each of them is.

    Examples
    --------
    One task with two classes, one labelled feature of each, and three features to label:

    >>> import torch
    >>> from remp import METHODS, Episodes
    >>> task = Episodes(
    ...     support=torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]),
    ...     support_labels=torch.tensor([[0, 1]]),
    ...     query=torch.tensor([[[0.1, 0.9], [0.2, 0.8], [0.9, 0.1]]]),
    ...     query_labels=None,
    ...     n_way=2,
    ... )
    >>> METHODS["protonet"]().logits(task).argmax(-1).tolist()
    [[0, 0, 1]]
    """

    support: Tensor
    support_labels: Tensor
    query: Tensor
    query_labels: Tensor | None
    n_way: int
    class_ids: Tensor | None = None

    def __len__(self) -> int:
        return self.support.shape[0]

    def __getitem__(self, rows: slice) -> "Episodes":
        return self._each(lambda tensor: tensor[rows])

    def map(self, function: Callable[[Tensor], Tensor]) -> "Episodes":
        """Apply a function once to all support and query items together.

        Parameters
        ----------
        function : callable
            (n, …) -> (n, …).

        Returns
        -------
        Episodes
            With what it returned as support and queries.

        Examples
        --------
        >>> import torch
        >>> from remp import Episodes
        >>> task = Episodes(torch.zeros(1, 2, 3), torch.tensor([[0, 1]]), torch.ones(1, 4, 3), None, 2)
        >>> task.map(lambda items: items.sum(-1)).query.tolist()
        [[3.0, 3.0, 3.0, 3.0]]
        """
        n_support = self.support.shape[1]
        together = torch.cat([self.support, self.query], dim=1)
        mapped = function(together.flatten(0, 1)).unflatten(0, together.shape[:2])
        return replace(self, support=mapped[:, :n_support], query=mapped[:, n_support:])

    def gather(self, items: Tensor) -> "Episodes":
        """Replace image ids by what they stand for.

        Parameters
        ----------
        items : Tensor
            (n, …) the image or the feature of each id.

        Returns
        -------
        Episodes
            Of items.

        Examples
        --------
        >>> import torch
        >>> from remp import Episodes
        >>> task = Episodes(torch.tensor([[0, 2]]), torch.tensor([[0, 1]]), torch.tensor([[1]]), None, 2)
        >>> task.gather(torch.tensor([[0.0], [10.0], [20.0]])).support.tolist()
        [[[0.0], [20.0]]]
        """
        # several times as fast as to index, which can do more than rows
        return self.map(lambda ids: items.index_select(0, ids.to(items.device)))

    @property
    def known_query_labels(self) -> Tensor:
        """`query_labels`, for training and for counting right answers. Raises EpisodeError if there are none."""
        if self.query_labels is None:
            raise EpisodeError("these episodes have no query labels: draw them with EpisodeSampler")
        return self.query_labels

    def classes_of(self, labels: Tensor) -> Tensor:
        """Which class of the data set each label stands for.

        Parameters
        ----------
        labels : Tensor
            (E, n) classes in 0 … n_way - 1.

        Returns
        -------
        Tensor
            (E, n) numbers of classes of the data set.

        Raises
        ------
        EpisodeError
            If the episodes have no `class_ids`.

        Examples
        --------
        >>> import torch
        >>> from remp import Episodes
        >>> ids = torch.tensor([[7, 4]])
        >>> task = Episodes(torch.zeros(1, 2, 3), torch.tensor([[0, 1]]), torch.ones(1, 4, 3), None, 2, class_ids=ids)
        >>> task.classes_of(task.support_labels).tolist()
        [[7, 4]]
        """
        if self.class_ids is None:
            raise EpisodeError("these episodes have no class_ids: draw them with EpisodeSampler")
        return self.class_ids.gather(1, labels)

    def without_query_labels(self) -> "Episodes":
        """The same episodes with `query_labels` None, as a method gets them in testing."""
        return replace(self, query_labels=None)

    def to(self, device: torch.device | str) -> "Episodes":
        """The same episodes with all tensors on another device.

        Parameters
        ----------
        device : torch.device or str
            Such as "cuda".

        Returns
        -------
        Episodes
            With copies of the tensors, unless they are there already.
        """
        return self._each(lambda tensor: tensor.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Episodes":
        """With all tensors that there are changed."""
        changed: dict[str, Any] = {name: change(t) for name, t in vars(self).items() if isinstance(t, Tensor)}
        return replace(self, **changed)


@dataclass(frozen=True)
class Protocol:
    """What an episode looks like.

    Parameters
    ----------
    n_way : int
        Number of classes.
    n_shot : int or tuple of int
        Labelled images of each class. A tuple has one number for each class; the numbers are dealt to the classes at
        random in each episode.
    n_query : int
        Unlabelled images of each class; n_way * n_query in all, whatever the distribution.
    distribution : str
        "balanced", or "dirichlet:A" for query classes in proportions that are drawn from a Dirichlet(A) distribution.
        The lower A, the more unequal they are.

    Examples
    --------
    >>> from remp import Protocol
    >>> Protocol(n_way=5, n_shot=1, n_query=15)
    Protocol(n_way=5, n_shot=1, n_query=15, distribution='balanced')
    >>> Protocol(n_way=3, n_shot=(1, 1, 5)).shots
    (1, 1, 5)
    >>> Protocol(n_way=3, n_shot=0)
    Traceback (most recent call last):
        ...
    remp.errors.EpisodeError: n_shot is 0; every class needs at least 1 labelled image
    """

    n_way: int = 5
    n_shot: int | tuple[int, ...] = 1
    n_query: int = 15
    distribution: str = "balanced"

    def __post_init__(self) -> None:
        try:  # NumPy's whole numbers are as good as Python's
            is_one = not isinstance(self.n_shot, tuple | list | np.ndarray)
            n_shot = index(self.n_shot) if is_one else tuple(map(index, self.n_shot))  # type: ignore[arg-type]
            numbers = {"n_way": index(self.n_way), "n_shot": n_shot, "n_query": index(self.n_query)}
        except TypeError:
            numbers = {}
        if not numbers or not isinstance(self.distribution, str):
            raise EpisodeError(
                "n_way, n_shot and n_query must be whole numbers (n_shot one for each way, if they differ) and "
                "distribution a text such as 'balanced'"
            )
        for name, number in numbers.items():
            object.__setattr__(self, name, number)
        if max(self.n_way, self.n_query) > _MOST:
            raise EpisodeError(f"got n_way {self.n_way} and n_query {self.n_query}; needed at most {_MOST:,}")
        if self.n_way < 2:
            raise EpisodeError(f"n_way is {self.n_way}; needed 2 classes or more, since any answer is right with one")
        if self.n_query < 1:
            raise EpisodeError(f"n_query is {self.n_query}; at least 1 query per class is needed")
        if len(self.shots) != self.n_way:
            raise EpisodeError(f"n_shot lists {len(self.shots)} numbers for {self.n_way} classes: give one per class")
        if min(self.shots) < 1:
            raise EpisodeError(f"n_shot is {self.n_shot}; every class needs at least 1 labelled image")
        _ = self.dirichlet  # raises for an unknown distribution

    @property
    def shots(self) -> tuple[int, ...]:
        """How many labelled images the classes have, one number per class, before they are dealt out at random."""
        return (self.n_shot,) * self.n_way if isinstance(self.n_shot, int) else tuple(self.n_shot)

    @property
    def dirichlet(self) -> float | None:
        """The concentration A of "dirichlet:A", None if balanced."""
        if self.distribution == "balanced":
            return None
        kind, _, number = self.distribution.partition(":")
        try:
            concentration = float(number)
        except ValueError:
            concentration = 0.0
        if kind != "dirichlet" or not 0 < concentration < float("inf"):
            raise EpisodeError(
                f"distribution is {self.distribution!r}; give 'balanced' or 'dirichlet:A' with A > 0, e.g. dirichlet:2"
            )
        return concentration

    def as_dict(self) -> dict[str, Any]:
        """Everything in plain types, for JSON.

        Returns
        -------
        dict
            `n_way`, `n_shot`, `n_query` and `distribution`.

        Examples
        --------
        >>> from remp import Protocol
        >>> Protocol(n_way=2, n_shot=(1, 5)).as_dict()
        {'n_way': 2, 'n_shot': [1, 5], 'n_query': 15, 'distribution': 'balanced'}
        """
        return {**asdict(self), "n_shot": self.n_shot if isinstance(self.n_shot, int) else list(self.n_shot)}


def one_hot_rows(labels: Tensor, n_way: int, dtype: torch.dtype) -> Tensor:
    """Labels (E, S) as rows of zeros and ones, one per class: (E, N, S)."""
    ways = torch.arange(n_way, device=labels.device)
    return (labels.unsqueeze(-2) == ways.unsqueeze(-1)).to(dtype)
