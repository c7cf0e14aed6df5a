"""results.json and a Markdown table for each item, and one page of all: what was run, what was not, and the gaps."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from remp.checkpoint import read_checkpoint
from remp.config import make_config
from remp.reproduce.manifest import Item, Manifest
from remp.reproduce.scoring import Cell, read_results
from remp.system.files import write_atomically

MINUS = "−"
MINUTES = (
    "Minutes are those of one core, with other work beside it, up to the weights that were kept, without validations; "
    "before a plus, those of a training that this one starts from, or of a network beside it."
)


def write_results(folder: Path, name: str, item: Item, cells: Sequence[Cell], command: str) -> None:
    """results.json, accuracies.npz (every episode of every cell) and table.md."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "item": name,
        "title": item.title,
        "command": command,
        "cells": [{"status": cell.status, **cell.record} for cell in cells],
    }
    arrays: dict[str, Any] = {cell.key: cell.accuracies.astype(np.float32) for cell in cells if cell.status == "done"}
    packed = BytesIO()
    np.savez_compressed(packed, **arrays)
    write_atomically(folder / "accuracies.npz", packed.getvalue())
    write_atomically(folder / "results.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    write_atomically(folder / "table.md", (table_text(item, content, folder) + "\n").encode())


def table_text(item: Item, content: Mapping[str, Any], folder: Path) -> str:
    """The item as Markdown: one line per cell, with all that it depends on. folder: of the item; beside it are the
    checkpoints that are published."""
    head = (
        f"| row |{' at |' if item.axes else ''} shots | paper | ours ± 95 % | gap | n | episodes | seeds | transform "
        "| config | checkpoint | minutes | command |"
    )
    cells = content["cells"]
    command, data = content["command"], next((cell["data"] for cell in cells if "data" in cell), item.data)
    minutes = {name: m for cell in cells for name, m in zip(cell["trainings"], cell["minutes"], strict=True)}
    lines = [
        f"# {item.title}",
        "",
        f"{item.of_the_paper}. {item.n_way}-way, {item.n_query} queries per class, test classes of {data}; "
        f"episodes drawn from seed {item.seed}.",
        "",
        f"    {command}",
        "",
        head,
        "|" + "---|" * (head.count("|") - 1),
        *(
            "| " + " | ".join([*_columns(cell, item, minutes), f"`{_command(cell, item, folder, command)}`"]) + " |"
            for cell in cells
        ),
        "",
        *(f"- {note}" for note in [*item.notes, *_common_notes(cells)]),
    ]
    return "\n".join(lines).rstrip()


def _columns(cell: Mapping[str, Any], item: Item, minutes_of: Mapping[str, float | None]) -> list[str]:
    done = cell["status"] == "done"
    hashes = ", ".join(digest[:12] for digest in cell.get("checkpoint_hashes", []))
    others = {name: m or minutes_of.get(name) for name, m in cell.get("minutes_of_others", {}).items()}
    own = ", ".join(f"{m:.0f}" for m in cell["minutes"] if m is not None)
    minutes = " + ".join([*("?" if m is None else f"{m:.0f}" for m in others.values()), own])
    settings = ", ".join(f"{key}: {value}" for key, value in cell["settings"].items())
    return [
        cell["row"] + (f" ({settings})" if settings else ""),
        *([f"{cell['x_of']} = {cell['x']}"] if item.axes else []),
        str(cell["n_shot"]),
        "" if cell["paper"] is None else f"{cell['paper']:.2f}",
        f"{cell['mean']:.2f} ± {cell['half_width_95']:.2f}" if done else f"**{cell['status']}**",
        _signed(cell.get("gap")),
        str(cell["n_episodes"]) if done else "",
        f"`{cell['episode_hash'][:8]}`" if done else "",
        str(len(cell["trainings"])) + (f" of {item.seeds}" if len(cell["trainings"]) < item.seeds else ""),
        cell["transform"],
        cell["config"],
        f"`{hashes}`" if hashes else "",
        minutes if done else "",
    ]


def _command(cell: Mapping[str, Any], item: Item, folder: Path, of_item: str) -> str:
    """What repeats one cell from the checkpoint in the repository; for figures, and where there is none, the item."""
    is_there = (folder.parent / "checkpoints" / f"{cell['trainings'][0]}.safetensors").is_file()
    is_one = not cell["method"] and not cell.get("beside") and len(cell["trainings"]) == 1
    if cell["status"] != "done" or item.axes or not is_one or not is_there:
        return of_item
    changes = [f"--{key.replace('_', '-')} {value}" for key, value in cell["settings"].items()]
    return " ".join(
        [
            f"remp evaluate results/checkpoints/{cell['trainings'][0]}.safetensors",
            f"--n-shot {cell['n_shot']} --n-episodes {cell['n_episodes']} --seed {cell['episode_seed']}",
            f"--transform {cell['transform']}",
            *changes,
        ]
    )


def _signed(gap: float | None) -> str:
    """A gap in points; one below zero is bold: there the paper's figure was not reached."""
    if gap is None:
        return ""
    return f"+{gap:.2f}" if gap >= 0 else f"**{MINUS}{-gap:.2f}**"


def _common_notes(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    notes = []
    hashes = {
        (cell["n_shot"], cell["episode_hash"][:16]) for cell in cells if "episode_hash" in cell and "x" not in cell
    }
    if hashes:
        notes.append("Episode hashes: " + ", ".join(f"{shot}-shot `{digest}`" for shot, digest in sorted(hashes)) + ".")
    if any(cell["status"] == "done" for cell in cells):
        notes.append(MINUTES)
    if any(len(cell.get("of_seeds", [])) > 1 for cell in cells):
        notes.append("Rows of several seeds: mean over the trainings, interval over the trainings (Student's t).")
    for note in dict.fromkeys(cell["note"] for cell in cells if cell["note"]):
        notes.append(note)
    return notes


def overview(manifest: Manifest, folder: Path, minutes_left: Mapping[str, float]) -> str:
    """results/README.md: every item with what was run, and what the rest costs.

    minutes_left: of each item, the minutes of the trainings whose weights are not there.
    """
    lines = [
        "# Results",
        "",
        "Written by `remp reproduce`; one folder per table or figure, with `table.md`, `results.json`, every episode's",
        "accuracy (`accuracies.npz`) and the figure. A cell without a run says so. Gaps are ours minus the paper's.",
        "The cost of the rest is that of all trainings (of all seeds) whose weights are not in the repository, as",
        "`remp reproduce --list` counts it; weights too large for it are among them, though their cells are done.",
        "",
        "| item | of the paper | cells done | not run | command | cost of the rest |",
        "|---|---|---|---|---|---|",
    ]
    details = []
    for name, item in manifest.items.items():
        found = read_results(folder / name)
        cells = found["cells"] if found else []
        done = sum(cell["status"] == "done" for cell in cells)
        rest = [cell for cell in cells if cell["status"] != "done"]
        minutes = minutes_left[name]
        link = f"[{name}]({name}/table.md)" if found else name
        lines.append(
            f"| {link} | {item.of_the_paper} | {done if found else 0} | {len(rest) if found else 'all'} "
            f"| `remp reproduce {name}` | {f'about {minutes:.0f} min on one core' if minutes else ''} |"
        )
        if found and done:
            details += _summary(name, item, cells, folder)
    return "\n".join([*lines, *details]).rstrip() + "\n"


def _summary(name: str, item: Item, cells: list[dict[str, Any]], folder: Path) -> list[str]:
    lines = ["", f"## {item.title}", ""]
    if (folder / name / "figure.png").is_file():
        lines += [f"![{item.title}]({name}/figure.png)", ""]
    if not item.axes and item.show == "table":
        shots = item.shots
        lines += ["| row | " + " | ".join(f"{n}-shot (paper)" for n in shots) + " |", "|---|" + "---|" * len(shots)]
        for row in dict.fromkeys((cell["row"], cell["transform"]) for cell in cells):
            parts = []
            for n_shot in shots:
                cell = next((c for c in cells if (c["row"], c["transform"]) == row and c["n_shot"] == n_shot), None)
                parts.append(_short(cell))
            lines.append(f"| {row[0]} | " + " | ".join(parts) + " |")
    return lines


def _short(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return ""
    paper = f" ({cell['paper']:.2f})" if cell["paper"] is not None else ""
    if cell["status"] != "done":
        return f"**{cell['status']}**{paper}"
    return f"{cell['mean']:.2f} ± {cell['half_width_95']:.2f}{paper}"


def cards(manifest: Manifest, folder: Path) -> str:
    """results/checkpoints/README.md: a model card for each checkpoint of a finished row, from its header and scores."""
    lines = [
        "# Model cards",
        "",
        "Written by `remp reproduce`. Loading a checkpoint runs no code. Each was trained on the training classes of",
        "its data set and nothing else, chosen on its validation classes and then scored on its test classes (5-way,",
        "15 queries per class). They are for comparing few-shot methods and small experiments, not for pictures of",
        "people or decisions about anyone: the networks are small, often wrong, and have the bias of their data set.",
    ]
    scores: dict[str, list[str]] = {}
    for name, item in manifest.items.items():
        # Figures along a setting or the protocol are of networks that have a row of a table, too.
        is_listed = item.show == "table" or any(axis.of == "training" for axis in item.axes)
        found = read_results(folder / name) if is_listed else None
        for cell in found["cells"] if found else []:
            if cell["status"] == "done" and not cell["method"]:
                for training, mean in zip(cell["trainings"], cell["of_seeds"], strict=True):
                    is_one = len(cell["trainings"]) == 1
                    score = _short({**cell, "paper": None}) if is_one else f"{mean:.2f}"
                    line = f"{cell['row']}, {cell['n_shot']}-shot: {score} %"
                    scores.setdefault(training, []).append(f"  - {line} ([{name}](../{name}/table.md))")
    for path in sorted((folder / "checkpoints").glob("*.safetensors")):
        info = read_checkpoint(path)[1]
        config = info["config"]
        images = make_config(config).images_of(info["done"])
        training, _, seed = path.stem.partition("-seed")
        source = manifest.trainings[training].source if training in manifest.trainings else "unknown settings"
        source += f" seed={seed}" if seed else ""
        lines += [
            "",
            f"## `{path.stem}`",
            "",
            f"- method `{config['method']}`, backbone `{config['backbone']}`, {path.stat().st_size / 1e6:.1f} MB",
            f"- trained on {info['n_classes']} classes of {config['data']} with {source}; kept after",
            f"  {info['done']:,} of {config['episodes']:,} episodes, {images / 1e6:.2f} million images",
            f"- validation accuracy {100 * info['best']['validation_accuracy']:.2f} %",
            "- test accuracy:" if scores.get(path.stem) else "- not scored by itself: others start from it",
            *dict.fromkeys(scores.get(path.stem, [])),
        ]
    return "\n".join(lines) + "\n"
