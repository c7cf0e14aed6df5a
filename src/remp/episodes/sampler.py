"""The seeded sampler: episode number i of a seed is the same on every machine."""

from operator import index

import numpy as np
import torch

from remp.episodes.values import Episodes, Protocol
from remp.errors import EpisodeError

_MOST_NUMBERS = 2**31  # random numbers that are drawn at once


class EpisodeSampler:
    """Draw episodes of image ids from a labelled set.

    Episode number i of a seed is the same on every machine and for every batch size: it is computed with integer
    arithmetic from its own stretch of a Philox counter stream (Dirichlet proportions alone need floating point).
    Support and query are disjoint, and queries come in random order.

    Parameters
    ----------
    labels : array
        (n,) class of each image, 0 … n_classes - 1.
    protocol : Protocol
        What an episode looks like.
    seed : int
        Any whole number. Seeds that differ by less than 2**128 give different episodes.
    class_names : tuple of str, optional
        Names of the classes, for error messages.
    position : int
        Number of the next episode.
    prefix : str
        What the names of settings begin with in error messages; by default those of n_way, n_shot and n_query.

    Examples
    --------
    >>> import numpy as np
    >>> from remp import EpisodeSampler, Protocol
    >>> labels = np.repeat(np.arange(10), 20)  # ten classes of twenty images
    >>> sampler = EpisodeSampler(labels, Protocol(n_way=5, n_shot=1, n_query=15), seed=0)
    >>> episodes = sampler.sample(100)
    >>> episodes.support.shape, episodes.query.shape
    (torch.Size([100, 5]), torch.Size([100, 75]))

    `gather` replaces the ids by features or images:

    >>> import torch
    >>> episodes.gather(torch.zeros(200, 64)).query.shape
    torch.Size([100, 75, 64])
    """

    def __init__(
        self,
        labels: np.ndarray,
        protocol: Protocol,
        *,
        seed: int = 0,
        class_names: tuple[str, ...] | None = None,
        position: int = 0,
        prefix: str = "n_",
    ) -> None:
        labels = _checked_labels(labels)
        self.protocol, self.seed, self.position = protocol, _whole("seed", seed), position
        self._prefix = prefix
        self._counts = np.bincount(labels, minlength=len(class_names or ()))
        self._ids = np.argsort(labels, kind="stable")
        self._starts = np.cumsum(self._counts) - self._counts
        self._check(class_names or tuple(str(i) for i in range(len(self._counts))))

    def sample(self, n_episodes: int) -> Episodes:
        """Draw the next episodes.

        Parameters
        ----------
        n_episodes : int
            How many.

        Returns
        -------
        Episodes
            Of image ids.
        """
        n_episodes = _whole("n_episodes", n_episodes)
        if n_episodes < 1:
            raise EpisodeError(f"{n_episodes} episodes were asked for; at least 1 is needed")
        episodes = self._draw(self.position, n_episodes)
        self.position += n_episodes
        return episodes

    def _draw(self, first: int, n_episodes: int) -> Episodes:
        protocol = self.protocol
        n_way, n_total = protocol.n_way, protocol.n_way * protocol.n_query
        concentration = protocol.dirichlet
        n_picked = max(protocol.shots) + (protocol.n_query if concentration is None else n_total)  # at most, of a class
        widths = [n_way, n_way, n_way, n_way * n_picked, n_total]
        if n_episodes * sum(widths) > _MOST_NUMBERS:
            most = _MOST_NUMBERS // sum(widths)
            raise EpisodeError(f"{n_episodes:,} episodes of this size do not fit in memory: at most {most:,} do")
        streams = uniform_integers(self.seed, first, n_episodes, widths)
        classes = sample_without_replacement(streams[0], np.full(n_episodes, len(self._counts)))  # (E, n_way)
        shots = np.asarray(protocol.shots)[np.argsort(streams[1], axis=1, kind="stable")]  # (E, n_way)
        available = self._counts[classes]
        if concentration is None:
            queries = np.full_like(available, protocol.n_query)  # (E, n_way)
        else:
            queries = dirichlet_counts(streams[2], concentration, n_total, available - shots)
        picks = sample_without_replacement(
            streams[3].reshape(n_episodes * n_way, n_picked), available.reshape(-1)
        ).reshape(n_episodes, n_way, n_picked)

        rank = np.arange(n_picked)
        in_support = rank < shots[..., None]  # (E, n_way, n_picked)
        in_query = (rank >= shots[..., None]) & (rank < (shots + queries)[..., None])
        ids = self._ids[np.minimum(self._starts[classes][..., None] + picks, len(self._ids) - 1)]
        way = np.broadcast_to(np.arange(n_way)[:, None], ids.shape)
        order = np.argsort(streams[4], axis=1, kind="stable")  # (E, Q)

        def take(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
            return values[mask].reshape(n_episodes, -1)

        return Episodes(
            support=torch.from_numpy(take(in_support, ids)),
            support_labels=torch.from_numpy(take(in_support, way)),
            query=torch.from_numpy(np.take_along_axis(take(in_query, ids), order, axis=1)),
            query_labels=torch.from_numpy(np.take_along_axis(take(in_query, way), order, axis=1)),
            n_way=n_way,
            class_ids=torch.from_numpy(classes),
        )

    def _check(self, class_names: tuple[str, ...]) -> None:
        protocol = self.protocol
        if len(self._counts) == 0:
            raise EpisodeError("the set has no images: take another split, or prepare the data set again")
        if len(self._counts) < protocol.n_way:
            raise EpisodeError(
                f"the set has {len(self._counts)} classes; {protocol.n_way} ways need {protocol.n_way}: "
                f"lower {self._prefix}way to {len(self._counts)} or take a split with more classes"
            )
        if len(class_names) < len(self._counts):
            raise EpisodeError(f"{len(class_names)} class names for {len(self._counts)} classes: give one per class")
        # Enough for Dirichlet proportions too: each class has n_query images left after its shots, so all queries fit.
        shots, needed = max(protocol.shots), max(protocol.shots) + protocol.n_query
        smallest = int(np.argmin(self._counts))
        has = int(self._counts[smallest])
        if has < needed:
            raise EpisodeError(
                f"class {class_names[smallest]!r} has {has} examples; {shots} shots + {protocol.n_query} queries "
                f"need {needed}: {_cure(has, shots, self._prefix)}"
            )


def _whole(name: str, value: int) -> int:
    try:
        return index(value)  # NumPy's whole numbers are as good as Python's
    except TypeError as error:
        raise EpisodeError(f"{name} is {value!r}; needed a whole number") from error


def _checked_labels(labels: np.ndarray) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.size == 0:
        return np.zeros(0, dtype=np.int64)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0:
        start = f", from {labels.min()}" if labels.dtype.kind in "iuf" else ""
        raise EpisodeError(
            f"labels are {labels.dtype} of shape {labels.shape}{start}; "
            "needed whole numbers of shape (n,), the classes numbered from 0"
        )
    return labels.astype(np.int64, copy=False)


def _cure(has: int, shots: int, prefix: str) -> str:
    """What to change so that a class with `has` examples suffices."""
    if has > shots:
        return f"lower {prefix}query to {has - shots}"
    if has > 1:
        return f"lower {prefix}shot to {has - 1} and {prefix}query to 1, or drop the class"
    return "drop the class, an episode needs at least 2 examples of each"


def uniform_integers(seed: int, first: int, n_episodes: int, widths: list[int]) -> list[np.ndarray]:
    """32-bit random integers for episodes first … first + n_episodes - 1: one (E, width) array a width."""
    words = -(-sum(widths) // 8) * 4  # 64-bit words of an episode, a multiple of Philox's block of 4
    generator = np.random.Philox(key=seed % 2**128)
    generator.advance(first * words // 4)
    raw = generator.random_raw(n_episodes * words).reshape(n_episodes, words)
    halves = np.concatenate([raw >> np.uint64(32), raw & np.uint64(0xFFFFFFFF)], axis=1)
    return np.split(halves[:, : sum(widths)], np.cumsum(widths)[:-1], axis=1)


def sample_without_replacement(randoms: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """For each row r, draw distinct numbers of 0 … sizes[r] - 1, in random order.

    randoms: (rows, k) 32-bit integers; sizes: (rows,). Columns past sizes[r] are meaningless. Draw number i picks one
    of the numbers left over; skipping those already drawn, in ascending order, finds it.
    """
    rows, k = randoms.shape
    drawn = np.empty((rows, k), dtype=np.int64)
    ascending = np.empty((rows, 0), dtype=np.int64)
    for i in range(k):
        left = np.maximum(sizes - i, 1).astype(np.uint64)
        value = ((randoms[:, i] * left) >> np.uint64(32)).astype(np.int64)
        for column in range(i):
            value += value >= ascending[:, column]
        drawn[:, i] = value
        ascending = np.sort(np.concatenate([ascending, value[:, None]], axis=1), axis=1)
    return drawn


def dirichlet_counts(randoms: np.ndarray, concentration: float, total: int, available: np.ndarray) -> np.ndarray:
    """Split `total` queries by Dirichlet proportions: largest remainders, never more than `available` (E, n_way).

    The rows of `available` must sum to at least `total`.
    """
    exact = total * dirichlet_proportions((randoms + 0.5) / 2.0**32, concentration)
    counts = np.minimum(np.floor(exact).astype(np.int64), available)
    while (missing := total - counts.sum(axis=1)).any():
        remainder = np.where(counts < available, exact - counts, -np.inf)
        largest = np.argmax(remainder, axis=1)
        counts[np.arange(len(counts)), largest] += missing > 0
    return counts


def dirichlet_proportions(uniform: np.ndarray, concentration: float) -> np.ndarray:
    """Gamma quantiles of `uniform` (E, n_way) in (0, 1), divided by their sum. In logarithms: for a small concentration
    most quantiles are below the smallest float, where F(x) = x^a / Γ(a + 1) holds exactly enough."""
    from scipy.special import gammaincinv, gammaln

    quantiles = gammaincinv(concentration, uniform)
    below = (np.log(uniform) + gammaln(concentration + 1)) / concentration
    logs = np.where(quantiles > 1e-200, np.log(np.maximum(quantiles, 1e-200)), below)
    gammas = np.exp(logs - logs.max(axis=1, keepdims=True))
    return gammas / gammas.sum(axis=1, keepdims=True)
