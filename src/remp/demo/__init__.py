"""The demo: ReMP and Prototypical Networks learn characters, then meet scripts they have never seen."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from remp.config import make_config
from remp.datasets import ImageSet, open_data
from remp.episodes import Protocol
from remp.evaluation.evaluate import evaluate
from remp.evaluation.result import Result
from remp.evaluation.side_by_side import comparison_table
from remp.models import load
from remp.system.files import numbered
from remp.trained import Trained
from remp.training import train

# Sized for about two minutes on two cores.
SETTINGS: dict[str, Any] = {
    "data": "glyphs",
    "backbone": "conv4",
    "width": 32,
    "episodes": 600,
    "schedule_of_rate": "cosine",
    "learning_rate": 0.1,
    "nesterov": True,
    "average": 0.99,
    "crop_area": [0.7, 1.0],
    "flip": False,  # a mirrored letter may be another letter
    "validate_every": 60,
    "validation_episodes": 100,
}
# ProtoNet's distances are scaled: else distances of a hundred saturate the softmax and little is learned in so few
# episodes (validation classes, runs of 200 episodes: scale 1 gives 30 %, 0.1 gives 48 %, 0.02 gives 78 %).
METHOD_SETTINGS: dict[str, dict[str, Any]] = {"remp": {"alpha": 1.0}, "protonet": {"scale": 0.02}}


def run_demo(
    out: Path,
    sets: Mapping[str, ImageSet] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    protocol: Protocol | None = None,
    n_episodes: int = 600,
) -> Path:
    """Train both methods, compare them on test classes, write the report and return its path.

    A folder that exists is left alone: the next free one of out, out-2, out-3 … is taken. sets: one per split, by
    default glyphs. settings: of both trainings, on top of SETTINGS. protocol, n_episodes: of the test.
    """
    sets = sets or {split: open_data("glyphs", split) for split in ("train", "val", "test")}
    started = time.perf_counter()
    folder = claim_folder(out)
    configs = {
        method: make_config({**SETTINGS, "method": method, **own, **(settings or {})})
        for method, own in METHOD_SETTINGS.items()
    }
    counts = ", ".join(f"{len(images.class_names)} {split}" for split, images in sets.items())
    print(
        f"Classes of {sets['train'].name}: {counts}; no class is in two splits.\n"
        f"ReMP, then ProtoNet: the same network, the same {configs['remp'].episodes} training episodes. "
        f"Everything goes to {folder}/",
        flush=True,
    )
    trained: dict[str, Trained] = {}
    for method, config in configs.items():
        print(f"\nTraining {method}", flush=True)
        best = train(
            config, out=folder / method, train_set=sets["train"], validation_set=sets["val"], print_settings=False
        )
        trained[method] = load(best)
    results = _evaluate(trained, folder, sets["test"], protocol or Protocol(), n_episodes)
    print(f"\n{comparison_table(results)}\n\n{conclusion(results)}", flush=True)
    histories = {type(one.method).__name__: read_history(folder / method) for method, one in trained.items()}
    from remp.demo.page import write_demo_report  # here, because it draws: matplotlib takes a second to import

    report = write_demo_report(folder / "report.html", trained["remp"], sets["test"], results, histories)
    print(f"Report: {report}   (all of it took {time.perf_counter() - started:.0f} s)", flush=True)
    return report


def claim_folder(out: Path) -> Path:
    """Make the first free folder of out, out-2, out-3 …"""
    for folder in numbered(out):
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("names have no end")


def read_history(run: Path) -> list[dict[str, Any]]:
    """The validations in the log of a run: episodes, loss terms, accuracy."""
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["event"] == "validation"]


def conclusion(results: list[Result]) -> str:
    """What was learned, in words that follow from the numbers. results: ReMP, ReMP without layers, ProtoNet."""
    ours, plain, rival = (f"{100 * result.estimate.mean:.0f}" for result in results)
    protocol = results[0].protocol
    return (
        f"ReMP gets {ours} of 100 images of classes it never saw right, from {protocol.n_shot} labelled image per class"
        f" (guessing: {100 / protocol.n_way:.0f}).\nThe same network without rectification gets {plain}, ProtoNet, "
        f"trained on as many episodes, {rival}. So short a training shows how fast they learn, not how far they get."
    )


def _evaluate(
    trained: Mapping[str, Trained], folder: Path, images: ImageSet, protocol: Protocol, n_episodes: int
) -> list[Result]:
    """ReMP, its network without rectification, and ProtoNet on the same episodes; every accuracy is saved."""
    contestants = {
        "remp": trained["remp"],
        "remp-without-rectification": load(folder / "remp", layers=0),
        "protonet": trained["protonet"],
    }
    results = []
    for name, contestant in contestants.items():
        result = evaluate(contestant, images, protocol, n_episodes=n_episodes, seed=0)
        result.save(folder / f"{name}.json")
        results.append(result)
    return results
