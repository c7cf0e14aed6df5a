"""Random draws for many episodes at once, the same on every machine."""

import numpy as np


def uniform_integers(seed: int, first: int, n_episodes: int, widths: list[int]) -> list[np.ndarray]:
    """32-bit random integers for episodes first … first + n_episodes - 1: one (E, width) array a width."""
    words = -(-sum(widths) // 8) * 4  # 64-bit words of an episode, a multiple of Philox's block of 4
    generator = np.random.Philox(key=int(seed) % 2**128)
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
    ascending = np.full((rows, 0), 0, dtype=np.int64)
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
