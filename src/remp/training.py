"""The one training loop. It names no method."""


import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.allocator import keep_freed_memory
from remp.augment import Normalisation, random_resized_crop
from remp.averaging import MovingAverage
from remp.budget import with_budget
from remp.checkpoint import build_method, read_checkpoint, write_checkpoint
from remp.config import RunConfig, load_config, make_config
from remp.datasets import ImageSet, open_set
from remp.episodes import Episodes, EpisodeSampler
from remp.errors import Interrupted, TrainingError
from remp.evaluation import accuracies, draw_episodes
from remp.interruption import watch_interruptions
from remp.processes import Processes
from remp.progress import progress
from remp.run_folder import RunFolder
from remp.transform import FeatureTransform


def train(
    config: RunConfig | Mapping[str, Any] | str | Path,
    *,
    out: str | Path | None = None,
    budget: str | int | None = None,
    train_set: ImageSet | None = None,
    validation_set: ImageSet | None = None,
) -> Path:
    """Train a method, keep the weights that are best on validation classes, and return the path of their checkpoint.

    config: settings, as a flat mapping or the path of a YAML file. out: folder of the run, default
    runs/<data>-<method>-<n_shot>shot. budget: minutes ("30min") or episodes ("20000") instead of config's `episodes`;
    milestones move in proportion. The sets default to the splits `train` and `val` of the config's data set; the test
    split is never opened.
    """
    config = _as_config(config)
    train_set = train_set or open_set(config.data, "train")
    validation_set = validation_set or open_set(config.data, "val")
    folder = RunFolder(Path(out or f"runs/{config.data}-{config.method}-{config.n_shot}shot"))
    folder.refuse_if_used()
    processes = Processes(config.precision)
    config = processes.share_episodes(config)
    if budget is not None:
        config = with_budget(config, budget, lambda: _seconds_per_episode(config, train_set, processes))
    trainer = Trainer(config, train_set, validation_set, folder, processes)
    if processes.rank == 0:
        folder.start(config)
    return trainer.run()


def resume(
    run: str | Path, *, train_set: ImageSet | None = None, validation_set: ImageSet | None = None
) -> Path:
    """Continue an interrupted run to the same weights as if it had never been interrupted."""
    folder = RunFolder(Path(run))
    config = folder.read_config()
    train_set = train_set or open_set(config.data, "train")
    validation_set = validation_set or open_set(config.data, "val")
    trainer = Trainer(config, train_set, validation_set, folder, Processes(config.precision))
    if folder.last.exists():
        trainer.restore()
    return trainer.run()


class Trainer:
    """A run: method, optimiser, moving average, and how far they have come."""

    def __init__(
        self,
        config: RunConfig,
        train_set: ImageSet,
        validation_set: ImageSet,
        folder: RunFolder,
        processes: Processes,
    ) -> None:
        self.config, self.folder, self.processes = config, folder, processes
        self.train_set, self.validation_set = train_set, validation_set
        self.normalisation = Normalisation(train_set.mean, train_set.std)
        self.method = build_method(config, train_set.image_size, train_set.n_classes)
        groups = [
            {"params": [parameter], "factor": self.method.learning_rate_factor(name), "name": name}
            for name, parameter in self.method.named_parameters()
        ]
        self.optimiser = torch.optim.SGD(
            groups,
            lr=config.learning_rate,
            momentum=config.momentum,
            nesterov=config.nesterov,
            weight_decay=config.weight_decay,
            foreach=True,
        )
        self.wrapped, self.wrapped_optimiser = processes.set_up(self.method, self.optimiser)
        self.average = MovingAverage(self.method, config.average) if config.average else None
        self.sampler = EpisodeSampler(
            train_set.labels, config.train_protocol, seed=config.seed, class_names=train_set.class_names
        )
        self.validation_episodes = draw_episodes(
            validation_set, config.validation_protocol, n_episodes=config.validation_episodes, seed=config.seed + 1
        )
        self.done = 0  # episodes
        self.best: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []

    def run(self) -> Path:
        """Step until the budget is used up; return the best checkpoint."""
        keep_freed_memory()
        title = f"training {self.config.method}"
        with (
            watch_interruptions() as interruption,
            progress(title, self.config.episodes, unit="episodes", done=self.done) as bar,
        ):
            window = _Window()
            while self.done < self.config.episodes:
                before = self.done
                terms = self._step(window)
                bar.advance(self.done - before, note=f"loss {sum(terms.values()):.3f}")
                if self._is_due(before, self.config.validate_every):
                    bar.say(self._validate(window))
                    window = _Window()
                if interruption or self._is_due(before, self.config.checkpoint_every):
                    self._save_state()
                if interruption and self.done < self.config.episodes:
                    raise Interrupted(
                        f"interrupted after {self.done} of {self.config.episodes} episodes; all is saved. "
                        f"Continue with: remp train --resume {self.folder.path}"
                    )
        return self.folder.best

    def restore(self) -> None:
        """Take up the state of the last checkpoint."""
        tensors, info = read_checkpoint(self.folder.last)
        if info["train_fingerprint"] != self.train_set.fingerprint:
            raise TrainingError(
                f"{self.folder.path} was trained on other images than {self.train_set.name!r} holds now "
                f"({info['train_fingerprint'][:12]} against {self.train_set.fingerprint[:12]}): prepare the same data again"
            )
        part = _parts(tensors)
        self.method.load_state_dict(part["weights"])
        if self.average:
            self.average.load(part["average"])
        for group in self.optimiser.param_groups:
            (parameter,) = group["params"]
            if group["name"] in part.get("momentum", {}):
                buffer = torch.empty_like(parameter)  # same memory layout as the weights
                self.optimiser.state[parameter]["momentum_buffer"] = buffer.copy_(part["momentum"][group["name"]])
        self.done, self.best, self.history = info["done"], info["best"], info["history"]
        self.folder.log({"event": "resumed", "episodes": self.done})

    def measure(self, n_steps: int) -> float:
        """Seconds an episode, over some steps."""
        started = time.perf_counter()
        for _ in range(n_steps):
            self._step(_Window())
        return (time.perf_counter() - started) / (n_steps * (self.config.episodes_per_step or 1))

    def _is_due(self, before: int, every: int) -> bool:
        """Whether the last step reached a multiple of `every` episodes, or the end."""
        return self.done >= self.config.episodes or before // every != self.done // every

    def _step(self, window: "_Window") -> dict[str, float]:
        """One step: the gradients of `episodes_per_step` episodes, shared among the processes."""
        config, processes = self.config, self.processes
        progress_made = self.done / config.episodes
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(config, self.done) * group["factor"]
        mine = range(self.done + processes.rank, self.done + (config.episodes_per_step or 1), processes.count)
        terms: dict[str, float] = {}
        statistics = processes.running_statistics(self.method)
        for number in mine:
            started = time.perf_counter()
            episodes = self._episode(number)
            window.data_seconds += time.perf_counter() - started
            accumulating = number != mine[-1]
            with processes.no_sync(self.wrapped) if accumulating else nullcontext():
                loss_terms = self.wrapped.loss(episodes, progress_made)
                total = torch.stack(list(loss_terms.values())).sum() / len(mine)
                processes.backward(total)
            for name, value in loss_terms.items():
                terms[name] = terms.get(name, 0.0) + float(value.detach()) / len(mine)
        self._check_finite(terms)
        self.wrapped_optimiser.step()
        self.wrapped_optimiser.zero_grad(set_to_none=True)
        processes.merge_running_statistics(self.method, statistics)
        if self.average:
            self.average.update(self.done)
        per_step = config.episodes_per_step or 1
        self.done = min(self.done + per_step, config.episodes)
        window.add(terms, per_step)
        return terms

    def _episode(self, number: int) -> Episodes:
        """Training episode number `number`, augmented; its random numbers depend on nothing but seed and number."""
        self.sampler.position = number
        seed = int(np.random.SeedSequence([self.config.seed, number]).generate_state(1, np.uint64)[0] >> 1)
        torch.manual_seed(seed)  # for dropout in the network
        generator = torch.Generator().manual_seed(seed)

        def load(ids: Tensor) -> Tensor:
            pixels = torch.from_numpy(self.train_set.images[ids.numpy()]).to(self.processes.device)
            return random_resized_crop(
                self.normalisation(pixels), area=self.config.crop_area, generator=generator, flip=self.config.flip
            )

        return self.sampler.sample(1).map(load).to(self.processes.device)

    def _check_finite(self, terms: dict[str, float]) -> None:
        if all(np.isfinite(value) for value in terms.values()):
            return
        shown = ", ".join(f"{name} {value}" for name, value in terms.items())
        saved = self.folder.last if self.folder.last.exists() else "none yet"
        raise TrainingError(
            f"the loss is not finite at episode {self.done} ({shown}). Last good checkpoint: {saved}. "
            f"Try: --learning-rate {self.config.learning_rate / 10:g}, a smaller scale of the scores, or --precision 32-true"
        )

    def _validate(self, window: "_Window") -> str:
        """Score validation episodes with the averaged weights, keep them if they are the best so far; say how it goes."""
        with self.average.applied() if self.average else nullcontext():
            accuracy = float(
                accuracies(
                    self.method,
                    self.validation_set,
                    self.normalisation,
                    self.validation_episodes,
                    FeatureTransform.parse(self.config.transform),
                ).mean()
            )
            entry = {"episodes": self.done, "validation_accuracy": round(accuracy, 5), **window.summary()}
            entry["learning_rate"] = learning_rate(self.config, max(self.done - 1, 0))
            self.history.append(entry)
            if self.processes.rank == 0:
                self.folder.log({"event": "validation", **entry})
            if accuracy > self.best.get("validation_accuracy", -1.0):
                self.best = {"episodes": self.done, "validation_accuracy": round(accuracy, 5)}
                self._write(self.folder.best, {f"weights/{n}": t for n, t in self.method.state_dict().items()})
        self.processes.barrier()
        losses = "  ".join(f"{name[5:]} {value:.3f}" for name, value in entry.items() if name.startswith("loss_"))
        return (
            f"{self.done:>7} episodes   loss: {losses}   validation {100 * accuracy:.2f} % "
            f"(best {100 * self.best['validation_accuracy']:.2f} %)   {entry['episodes_per_second']:.1f} episodes/s"
        )

    def _save_state(self) -> None:
        """All that a resumed run needs, in one file."""
        tensors = {f"weights/{name}": t for name, t in self.method.state_dict().items()}
        if self.average:
            tensors.update({f"average/{name}": t for name, t in self.average.values.items()})
        for group in self.optimiser.param_groups:
            buffer = self.optimiser.state.get(group["params"][0], {}).get("momentum_buffer")
            if buffer is not None:
                tensors[f"momentum/{group['name']}"] = buffer
        self._write(self.folder.last, tensors)

    def _write(self, path: Path, tensors: dict[str, Tensor]) -> None:
        if self.processes.rank != 0:
            return
        try:
            write_checkpoint(path, tensors, self._info())
        except OSError as error:
            kept = f"the one before is intact: {path}" if path.exists() else "there is none before it"
            raise TrainingError(
                f"the checkpoint after {self.done} episodes could not be written ({error.strerror or error}); {kept}. "
                f"Make room, then continue with: remp train --resume {self.folder.path}"
            ) from error

    def _info(self) -> dict[str, Any]:
        return {
            "config": self.config.flat(),
            "n_classes": self.train_set.n_classes,
            "image_size": list(self.train_set.image_size),
            "mean": list(self.normalisation.mean),
            "std": list(self.normalisation.std),
            "train_fingerprint": self.train_set.fingerprint,
            "torch": torch.__version__,
            "done": self.done,
            "best": self.best,
            "history": self.history,
        }


def learning_rate(config: RunConfig, done: int) -> float:
    """The learning rate of the step after `done` episodes."""
    if config.schedule_of_rate == "cosine":
        return config.learning_rate * 0.5 * (1 + float(np.cos(np.pi * done / config.episodes)))
    return config.learning_rate * 0.1 ** sum(done >= milestone for milestone in config.milestones)


class _Window:
    """Means of the loss terms and the share of time spent on data since the last validation."""

    def __init__(self) -> None:
        self.started, self.data_seconds, self.steps, self.episodes = time.perf_counter(), 0.0, 0, 0
        self.sums: dict[str, float] = {}

    def add(self, terms: dict[str, float], episodes: int) -> None:
        self.steps += 1
        self.episodes += episodes
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def summary(self) -> dict[str, float]:
        seconds = time.perf_counter() - self.started
        means = {f"loss_{name}": round(value / max(self.steps, 1), 5) for name, value in self.sums.items()}
        return {
            **means,
            "episodes_per_second": round(self.episodes / max(seconds, 1e-9), 3),
            "data_share": round(self.data_seconds / max(seconds, 1e-9), 4),
        }


def _as_config(config: RunConfig | Mapping[str, Any] | str | Path) -> RunConfig:
    if isinstance(config, RunConfig):
        return config
    return load_config(Path(config)) if isinstance(config, str | Path) else make_config(config)


def _seconds_per_episode(config: RunConfig, train_set: ImageSet, processes: Processes) -> float:
    """How long an episode takes, tried on a network that is thrown away."""
    trial = Trainer(config, train_set, train_set, RunFolder(Path()), processes)
    trial.measure(4)
    return trial.measure(16)


def _parts(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """{"weights/a": t, "average/a": u} -> {"weights": {"a": t}, "average": {"a": u}}"""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        parts.setdefault(kind, {})[rest] = tensor
    return parts



