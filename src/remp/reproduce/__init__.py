"""Repeat the paper's tables and figures: train what is missing, score all rows on the same episodes, write it down."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from remp.checks import nearest
from remp.errors import ConfigError, RempError
from remp.reproduce.drift import check as check
from remp.reproduce.manifest import Item, Manifest, read_manifest
from remp.reproduce.scoring import Cell, Earlier, empty_cells, score_cell
from remp.reproduce.tables import cards, overview, write_results
from remp.reproduce.trainings import Run, plan_run, train_missing
from remp.system.files import write_atomically

MANIFEST = Path("results/manifest.yaml")


def reproduce(
    names: Sequence[str],
    *,
    manifest: str | Path = MANIFEST,
    scale: float = 1.0,
    seeds: int | None = None,
    workers: int = 2,
    data: str | None = None,
    runs: str | Path = "runs/reproduce",
    out: str | Path | None = None,
    train: bool = True,
    again: bool = False,
    say: Callable[[str], None] = print,
) -> Path:
    """Make tables and figures of the manifest; return the folder with one folder per item.

    Parameters
    ----------
    names : names of items, or "all".
    manifest : the list of all trainings and rows, results/manifest.yaml of the repository.
    scale : share of each training's episodes; below 1, results go to the folder of the runs, not to results/.
    seeds : trainings of each row; default what the item says.
    workers : trainings that run at the same time, one thread each.
    data : a prepared data set to use in place of each item's own.
    train : whether missing trainings are made; if not, their cells keep what an earlier call scored, or stay empty.
    again : whether cells are scored again that an earlier call scored with the same weights on the same episodes.
    """
    from remp.reproduce.figures import draw  # needs matplotlib

    if workers < 1 or (seeds is not None and seeds < 1):
        raise ConfigError(f"got --workers {workers}, --seeds {seeds}; needed 1 or more of each")
    book = read_manifest(Path(manifest))
    chosen = _chosen(book, names)
    runs = Path(runs)
    changed = scale != 1 or data is not None
    apart = runs / ("results" + ("" if scale == 1 else f"-x{scale:g}") + (f"-{data}" if data else ""))
    folder = Path(out) if out else apart if changed else book.root / "results"
    given = {"scale": None if scale == 1 else f"{scale:g}", "seeds": seeds, "data": data}
    options = "".join(f" --{name} {value}" for name, value in given.items() if value is not None)
    plans = {name: _plan(book, book.items[name], seeds, runs=runs, scale=scale, data=data) for name in chosen}
    if train:
        everything = [run for plan in plans.values() for many in plan.values() for run in many]
        train_missing(everything, workers, say)
    for name in chosen:
        item = book.items[name]
        n_episodes = max(20, round(item.episodes * min(scale, 1.0)))
        cells, earlier = [], Earlier(folder / name, again=again)
        for empty in empty_cells(item):
            many = plans[name].get(empty.training, [])
            beside = [plans[name][other] for other in empty.row.beside]
            cell = score_cell(item, empty, many, beside, n_episodes=n_episodes, data=data, earlier=earlier)
            cells.append(cell)
            found = f"{cell.percent:.2f} ± {cell.half_width:.2f} %" if cell.status == "done" else cell.status
            say(f"{name}: {cell.key}: {found}")
        write_results(folder / name, name, item, cells, f"remp reproduce {name}{options}")
        try:
            drawn = draw(item, cells, plans[name], data)
        except RempError as error:
            say(f"no figure for {item.title}: {error}")
            continue
        for suffix, content in drawn.items():
            write_atomically(folder / name / f"figure.{suffix}", content)
    left = {name: _minutes(book, _plan(book, item, None, runs=runs), shipped=True) for name, item in book.items.items()}
    write_atomically(folder / "README.md", overview(book, folder, left).encode())
    if (folder / "checkpoints").is_dir():
        write_atomically(folder / "checkpoints" / "README.md", cards(book, folder).encode())
    return folder


def listing(*, manifest: str | Path = MANIFEST, runs: str | Path = "runs/reproduce") -> list[dict[str, Any]]:
    """Every item with its trainings, how many are done, and the minutes of the rest on one core."""
    book = read_manifest(Path(manifest))
    found = []
    for name, item in book.items.items():
        plan = _plan(book, item, None, runs=Path(runs))
        every = [run for many in plan.values() for run in many]
        missing = sum(run.checkpoint is None for run in every)
        minutes = _minutes(book, plan)
        found.append(
            {"item": name, "title": item.title, "trainings": len(every), "missing": missing, "minutes": minutes}
        )
    return found


def _chosen(book: Manifest, names: Sequence[str]) -> list[str]:
    if list(names) == ["all"]:
        return list(book.items)
    if not names:
        raise ConfigError(f"which item? Give one or more of: all, check, {', '.join(book.items)}")
    for name in names:
        if name not in book.items:
            raise ConfigError(f"there is no item {name!r}; {nearest(name, book.items)}")
    return list(names)


def _plan(
    book: Manifest, item: Item, seeds: int | None, *, runs: Path, scale: float = 1.0, data: str | None = None
) -> dict[str, list[Run]]:
    """Name of each training of an item -> its runs, one for each seed."""
    count = seeds or item.seeds
    return {
        name: [plan_run(book, name, runs=runs, scale=scale, seed=seed, data=data) for seed in range(count)]
        for name in book.needed(item)
    }


def _minutes(book: Manifest, plan: dict[str, list[Run]], *, shipped: bool = False) -> float:
    """Of the trainings whose weights are missing; with shipped, missing in results/checkpoints."""
    return sum(
        book.trainings[name].minutes or 0
        for name, many in plan.items()
        for run in many
        if (run.shipped if shipped else run.checkpoint) is None
    )


__all__ = ["Cell", "check", "listing", "read_manifest", "reproduce"]
