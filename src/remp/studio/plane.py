"""A map of the collection: each picture a point, pictures that look alike near each other."""

import numpy as np

SEED = 20210620
_LANDMARKS = 2500  # items that are laid out among each other; the others are placed between those they resemble
_NEIGHBOURS = 4
_MAIN_DIRECTIONS = 50


def quick_plane(values: np.ndarray) -> np.ndarray:
    """The plane in which the features (m, d) vary most: (m, 2), in -1 … 1."""
    return _fitted(_main_directions(values, 2))


def lay_out(values: np.ndarray) -> np.ndarray:
    """t-SNE of the features (m, d): (m, 2), in -1 … 1. Of many, a sample is laid out and the rest placed among it."""
    from sklearn.manifold import TSNE

    if len(values) < 10:
        return quick_plane(values)
    reduced = _main_directions(values, _MAIN_DIRECTIONS)
    chosen: np.ndarray = np.arange(len(values))
    if len(values) > _LANDMARKS:
        chosen = np.sort(np.random.default_rng(SEED).choice(len(values), _LANDMARKS, replace=False))
    places = TSNE(
        perplexity=min(30, (len(chosen) - 1) / 3), init="pca", learning_rate="auto", random_state=SEED
    ).fit_transform(reduced[chosen])
    return _fitted(places if len(chosen) == len(values) else _between(reduced, reduced[chosen], places))


def _main_directions(values: np.ndarray, most: int) -> np.ndarray:
    """(m, d) -> (m, most or fewer), by the main directions of a sample."""
    sample = values[:: max(1, len(values) // 5000)]
    centre = sample.mean(0)
    _, _, directions = np.linalg.svd(sample - centre, full_matrices=False)
    plane = directions[:most].T
    if plane.shape[1] < 2:
        plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    return np.concatenate([(part - centre) @ plane for part in np.array_split(values, max(1, len(values) // 4096))])


def _between(values: np.ndarray, landmarks: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Each row at the mean place of its nearest landmarks, the nearest weighing most."""
    from sklearn.neighbors import NearestNeighbors

    distances, neighbours = NearestNeighbors(n_neighbors=_NEIGHBOURS).fit(landmarks).kneighbors(values)
    weights = 1 / (distances + 1e-6) ** 2
    weights /= weights.sum(1, keepdims=True)
    return (places[neighbours] * weights[..., None]).sum(1)


def _fitted(places: np.ndarray) -> np.ndarray:
    middle = (places.min(0) + places.max(0)) / 2
    return ((places - middle) / max(float(np.abs(places - middle).max()), 1e-12)).astype(np.float32)
