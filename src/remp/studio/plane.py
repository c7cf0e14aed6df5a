"""A map of the collection: each picture a point, pictures that look alike near each other.

t-SNE takes long and nobody waits for it, so it is done in a process of its own, with the least priority. A thread would
hold the interpreter's lock while it waits for its turn, and everybody else with it.
"""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np

from remp.propagation import SEED, sample_of

_LANDMARKS = 2500  # items that are laid out among each other; the others are placed between those they resemble
_NEIGHBOURS = 4
_MAIN_DIRECTIONS = 50
FEW = 500  # items that are laid out in no time
_SAMPLE = 5000  # items that the main directions are found from


def main_directions(values: np.ndarray) -> np.ndarray:
    """Features (m, d) along the directions in which a sample of them varies most: (m, k), k = 2 … 50, most first."""
    sample = values[:: max(1, len(values) // _SAMPLE)]
    centre = sample.mean(0)
    _, directions = np.linalg.eigh((sample - centre).T @ (sample - centre))  # ascending
    plane = directions[:, ::-1][:, :_MAIN_DIRECTIONS].astype(values.dtype)
    if plane.shape[1] < 2:
        plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    return np.concatenate([(part - centre) @ plane for part in np.array_split(values, max(1, len(values) // 4096))])


def quick_plane(reduced: np.ndarray) -> np.ndarray:
    """The plane in which the features vary most: from (m, k) along their main directions, (m, 2), in -1 … 1."""
    return _fitted(reduced[:, :2])


def lay_out(reduced: np.ndarray) -> np.ndarray:
    """t-SNE of the features, from (m, k) along their main directions: (m, 2), in -1 … 1. Of many, a sample is laid out
    and the rest placed among it."""
    from sklearn.manifold import TSNE

    if len(reduced) < 10:
        return quick_plane(reduced)
    chosen = sample_of(np.arange(len(reduced)), _LANDMARKS)
    places = TSNE(
        perplexity=min(30, (len(chosen) - 1) / 3), init="pca", learning_rate="auto", random_state=SEED
    ).fit_transform(reduced[chosen])
    return _fitted(places if len(chosen) == len(reduced) else _between(reduced, reduced[chosen], places))


class Cartographer:
    """Runs `lay_out` of features (m, k) in a process of its own."""

    def __init__(self, reduced: np.ndarray) -> None:
        self._reduced = reduced
        self._process = subprocess.Popen(
            [sys.executable, "-m", "remp.studio.plane", *map(str, reduced.shape)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # the other cores are for those who wait
            cwd=Path(__file__).parents[2],  # where remp is: Python looks for modules in the folder it is started in
        )

    def places(self) -> np.ndarray | None:
        """(m, 2), in -1 … 1; None if the process ended before its work."""
        there, back = self._process.stdin, self._process.stdout
        assert there
        assert back
        try:
            there.write(np.ascontiguousarray(self._reduced, np.float32).tobytes())
            there.flush()  # and left open: the process ends with this one, however this one ends
            return np.frombuffer(back.read(), np.float32).reshape(len(self._reduced), 2)
        except (OSError, ValueError):
            return None
        finally:
            self.stop()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def _between(values: np.ndarray, landmarks: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Each row at the mean place of its nearest landmarks, the nearest weighing most."""
    from sklearn.neighbors import KNeighborsRegressor

    model = KNeighborsRegressor(_NEIGHBOURS, weights=lambda distances: 1 / (distances + 1e-6) ** 2)
    return model.fit(landmarks, places).predict(values)


def _fitted(places: np.ndarray) -> np.ndarray:
    middle = (places.min(0) + places.max(0)) / 2
    return ((places - middle) / max(float(np.abs(places - middle).max()), 1e-12)).astype(np.float32)


def _serve(n: int, dim: int) -> None:
    """Read features from the standard input, write their places to the standard output."""
    with suppress(AttributeError, OSError):  # Windows has no such thing
        os.nice(19)
        if n > _LANDMARKS:  # takes longer: only when nobody else has anything to do, where there is such a rule
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    reduced = np.frombuffer(sys.stdin.buffer.read(4 * n * dim), np.float32).reshape(n, dim)
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    sys.stdout.buffer.write(lay_out(reduced).tobytes())
    sys.stdout.buffer.flush()


def _end_with_the_other() -> None:
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
