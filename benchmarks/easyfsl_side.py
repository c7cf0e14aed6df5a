"""The side of easyfsl in benchmarks/easyfsl_peer.py, run there by a Python that has easyfsl and not remp.

    python benchmarks/easyfsl_side.py FOLDER METHOD…

Reads FOLDER/tasks.npz and writes FOLDER/peer.npz: for each method the accuracy of each task, and the seconds of all.
It works with as many threads as make it fastest on a few tasks: its tensors are small, and one is often best.
"""

import sys
import time
from pathlib import Path

import numpy as np
import torch
from rounds import timed

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # torchvision's compiled part was built for another torch. easyfsl needs none of it, but torchvision is not imported
    # unless these two operators have a name.
    for operator in ("nms", "qnms"):
        torch.library.define(f"torchvision::{operator}", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")

from easyfsl.methods import PTMAP, TIM, FewShotClassifier, LaplacianShot, PrototypicalNetworks

# The library's own defaults: 20, 50 and 10 steps. Its published benchmark, too, normalises features for all of these.
METHODS = {
    "protonet": (PrototypicalNetworks(), "features"),
    "laplacian-shot": (LaplacianShot(feature_normalization=2), "features"),
    "tim": (TIM(feature_normalization=2), "features"),
    "pt-map": (PTMAP(feature_normalization=2), "features"),
    "pt-map-prepared": (PTMAP(power_factor=1.0), "prepared"),
}
THREADS, TRIED = torch.get_num_threads(), 10


def main(folder: Path, names: list[str]) -> None:
    tasks = {name: torch.from_numpy(array) for name, array in np.load(folder / "tasks.npz").items()}
    found = {}
    for name in names:
        method, features = METHODS[name]
        threads = fastest_threads(method, tasks[features], tasks)
        torch.set_num_threads(threads)
        found[f"accuracies/{name}"], seconds = timed(score, method, tasks[features], tasks)
        found[f"seconds/{name}"] = np.array(seconds)
        print(f"easyfsl: {name} done, threads: {threads}", flush=True)
    np.savez(folder / "peer.npz", **found)


def fastest_threads(method: FewShotClassifier, features: torch.Tensor, tasks: dict[str, torch.Tensor]) -> int:
    few = {name: array[:TRIED] for name, array in tasks.items()}
    seconds = {}
    for threads in (1, THREADS):
        torch.set_num_threads(threads)
        started = time.perf_counter()
        score(method, features, few)
        seconds[threads] = time.perf_counter() - started
    return min(seconds, key=lambda threads: seconds[threads])


@torch.no_grad()
def score(method: FewShotClassifier, features: torch.Tensor, tasks: dict[str, torch.Tensor]) -> np.ndarray:
    """Accuracy of each task, one task after the other as the library works."""
    accuracies = []
    for i in range(len(tasks["support"])):
        method.process_support_set(features[tasks["support"][i]], tasks["support_labels"][i])
        answers = method(features[tasks["query"][i]]).argmax(1)
        accuracies.append((answers == tasks["query_labels"][i]).double().mean().item())
    return np.array(accuracies)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
