"""Train what is missing: one process with one thread per worker, resumable, skipping what is done."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from remp.config import RunConfig, load_config
from remp.reproduce.manifest import Manifest

# A run whose loss is not finite is told apart from one that failed for another reason.
DIVERGED = "not finite"
_EVERY = 60  # seconds between two lines with the time left
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


@dataclass(frozen=True)
class Run:
    """A training with a seed at a scale, and where it lies. source: its file in the repository, and what is changed."""

    name: str
    folder: Path
    config: RunConfig
    file: Path
    source: str
    overrides: dict[str, object]
    shipped: Path | None
    after: "Run | None"

    @property
    def checkpoint(self) -> Path | None:
        """The weights to score, or None if the training is not done."""
        if self.shipped is not None:
            return self.shipped
        return self.folder / "best.safetensors" if self.done >= self.config.episodes else None

    @property
    def done(self) -> int:
        """Episodes that were trained so far, as the checkpoint to resume from says."""
        return int(_header(self.folder / "last.safetensors").get("done", 0))

    @property
    def diverged(self) -> bool:
        log = self.log
        return self.checkpoint is None and log.is_file() and DIVERGED in log.read_text(errors="replace")[-2000:]

    @property
    def log(self) -> Path:
        return self.folder.with_name(self.folder.name + ".log")

    @property
    def minutes(self) -> float | None:
        """What the training took, without its validations, by the speed that its checkpoint or its log notes; by a
        checkpoint, up to the weights that were kept."""
        history = _header(self.shipped or self.folder / "best.safetensors").get("history", [])
        if self.shipped is None and (self.folder / "log.jsonl").is_file():
            lines = (self.folder / "log.jsonl").read_text(errors="replace").splitlines()
            history = [entry for entry in map(_object, lines) if entry.get("event") == "validation"]
        seconds, before = 0.0, 0
        for entry in history:
            seconds += (entry["episodes"] - before) / max(entry["episodes_per_second"], 1e-9)
            before = entry["episodes"]
        return round(seconds / 60, 1) if history else None

    def command(self) -> list[str]:
        """What to type to train it, without the name of the program."""
        if (self.folder / "config.yaml").is_file():
            return ["train", "--resume", str(self.folder)]
        flags = [
            part for name, value in self.overrides.items() for part in (f"--{name.replace('_', '-')}", _text(value))
        ]
        return ["train", str(self.file), *flags, "--out", str(self.folder)]


def plan_run(
    manifest: Manifest, name: str, *, runs: Path, scale: float = 1.0, seed: int = 0, data: str | None = None
) -> Run:
    """The run of a training of the manifest, and of those it starts from."""
    training = manifest.trainings[name]
    suffix = (
        ("" if seed == 0 else f"-seed{seed}") + ("" if scale == 1 else f"-x{scale:g}") + (f"-{data}" if data else "")
    )
    file = manifest.root / training.config
    overrides: dict[str, object] = dict(training.change)
    if seed:
        overrides["seed"] = seed
    if data:
        overrides["data"] = data
    config = load_config(file, overrides)
    if scale != 1:
        overrides |= _scaled(config, scale)
    before = None
    if training.after is not None:
        before = plan_run(manifest, training.after, runs=runs, scale=scale, seed=seed, data=data)
        overrides["start_from"] = str(before.shipped or before.folder)
    shipped = manifest.root / "results" / "checkpoints" / f"{name}{suffix}.safetensors"
    return Run(
        name=name + suffix,
        folder=runs / (name + suffix),
        config=load_config(file, overrides),
        file=file,
        source=training.source,
        overrides=overrides,
        shipped=shipped if shipped.is_file() else None,
        after=before,
    )


def train_missing(runs: Sequence[Run], workers: int, say: Callable[[str], None]) -> None:
    """Train all runs that are not done, `workers` at a time; one that fails does not stop the others.

    say: gets a line when a run starts or ends, and now and then one with the time left.
    """
    waiting = list({run.name: run for one in runs for run in chain(one) if run.checkpoint is None}.values())
    running: dict[str, tuple[Run, subprocess.Popen[bytes], float, int]] = {}
    failed: set[str] = set()
    left_out = {run.name for run in waiting if run.diverged}  # and what starts from these, and from those that failed
    told = time.monotonic()
    try:
        while waiting or running:
            for name, (run, process, started, _) in list(running.items()):
                if process.poll() is not None:
                    del running[name]
                    if process.returncode or run.checkpoint is None:
                        failed.add(name)
                        left_out.add(name)
                        say(f"{name}: failed, see {run.log}")
                    else:
                        say(f"{name}: done after {(time.monotonic() - started) / 60:.0f} min")
            left_out |= {run.name for run in waiting if run.after and run.after.name in left_out}
            waiting = [run for run in waiting if run.name not in left_out]
            for run in list(waiting):
                if len(running) < workers and (run.after is None or run.after.checkpoint is not None):
                    waiting.remove(run)
                    verb = "continued" if run.done else "started"
                    say(f"{run.name}: {verb}, {run.done} of {run.config.episodes} episodes")
                    running[run.name] = (run, _start(run), time.monotonic(), run.done)
            if time.monotonic() - told > _EVERY and running:
                told = time.monotonic()
                say(_time_left(list(running.values()), waiting, workers))
            time.sleep(0.2)
    except BaseException:
        for _, process, _, _ in running.values():
            process.send_signal(signal.SIGTERM)  # each saves its state
        for _, process, _, _ in running.values():
            process.wait()
        raise
    if failed:
        say(f"{len(failed)} trainings failed: {', '.join(sorted(failed))}")


def chain(run: Run) -> list[Run]:
    """The runs that this one starts from, and itself."""
    return [*(chain(run.after) if run.after else []), run]


def _start(run: Run) -> subprocess.Popen[bytes]:
    run.log.parent.mkdir(parents=True, exist_ok=True)
    with run.log.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "remp", *run.command()],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
        )


def _time_left(running: list[tuple[Run, subprocess.Popen[bytes], float, int]], waiting: list[Run], workers: int) -> str:
    """One line: how far each run is, and when all will be done at this speed."""
    parts, seconds_left, speeds = [], 0.0, []
    for run, _, started, before in running:
        done, total = run.done, run.config.episodes
        parts.append(f"{run.name} {100 * done / total:.0f} %")
        if done > before:
            images = run.config.images_of
            speeds.append((images(done) - images(before)) / (time.monotonic() - started))
            seconds_left += (images(total) - images(done)) / speeds[-1]
    if not speeds:
        return ", ".join(parts)
    mean = sum(speeds) / len(speeds)
    seconds_left += sum(run.config.images_of(run.config.episodes) / mean for run in waiting)
    return f"{', '.join(parts)}; {len(waiting)} waiting; about {seconds_left / workers / 60:.0f} min left"


def _scaled(config: RunConfig, scale: float) -> dict[str, object]:
    """Changes for a run of another length: the schedule in proportion, the same number of validations."""
    episodes = max(4, round(config.episodes * scale))
    short = config.with_episodes(episodes)
    names = ("episodes", "warmup", "milestones", "milestone_factors")
    changes: dict[str, object] = {name: getattr(short, name) for name in names}
    changes["validate_every"] = max(1, round(config.validate_every * episodes / config.episodes))
    changes["validation_episodes"] = max(20, min(config.validation_episodes, round(config.validation_episodes * scale)))
    return changes


def _header(path: Path) -> dict:  # type: ignore[type-arg]
    """What a checkpoint says of itself, without its tensors; nothing where there is none."""
    try:
        with safe_open(path, framework="pt") as file:
            return _object((file.metadata() or {}).get("remp", ""))
    except (SafetensorError, OSError):
        return {}


def _object(text: str) -> dict:  # type: ignore[type-arg]
    """An object of JSON; nothing where it is cut short or something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value) if not isinstance(value, str) else value
