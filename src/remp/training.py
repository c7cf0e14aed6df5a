"""The one training loop. It names no method."""


import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.allocator import keep_freed_memory
from remp.augment import Normalisation, random_resized_crop
from remp.averaging import MovingAverage
from remp.checkpoint import build_method, read_checkpoint, write_checkpoint
from remp.config import RunConfig
from remp.datasets.base import ImageSet
from remp.episodes import Episodes, EpisodeSampler
from remp.errors import TrainingError
from remp.evaluation import evaluate
from remp.interruption import Interruption, watch_interruptions
from remp.processes import Processes
from remp.progress import progress
from remp.run_folder import RunFolder


def train(
    config: RunConfig, train_set: ImageSet, validation_set: ImageSet, folder: RunFolder, *, resume: bool = False
) -> Path:
    """Train to the end of the budget, keep the best on validation classes, and return the path of its checkpoint.

    An interrupted run continues with `resume` to the same weights as a run that was never interrupted.
    """
    keep_freed_memory()
    processes = Processes(config.precision)
    if config.episodes_per_step is None:
        config = config.model_copy(update={"episodes_per_step": processes.count})
    processes.check(config)
    trainer = Trainer(config, train_set, validation_set, folder, processes)
    if resume:
        trainer.resume()
    else:
        folder.start(config)
    with watch_interruptions() as interruption:
        trainer.run(interruption)
    return folder.best


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
        # Fail now rather than at the first validation if the validation classes cannot give such episodes.
        EpisodeSampler(validation_set.labels, config.validation_protocol, class_names=validation_set.class_names)
        self.done = 0  # episodes
        self.best: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []

    def run(self, interruption: Interruption | Callable[[], bool] = Interruption()) -> None:  # noqa: B008
        """Step until the budget is used up."""
        config = self.config
        per_step = config.episodes_per_step or 1
        window = _Window()
        with progress("training", config.episodes, unit="episodes", done=self.done) as bar:
            while self.done < config.episodes:
                terms = self._step(window)
                before, self.done = self.done, min(self.done + per_step, config.episodes)
                bar.advance(self.done - before, note=f"loss {sum(terms.values()):.3f}")
                last = self.done >= config.episodes
                if last or _passed(before, self.done, config.validate_every):
                    self._validate(window)
                    window = _Window()
                if last or interruption or _passed(before, self.done, config.checkpoint_every):
                    self._save_state()
                if interruption and not last:
                    raise TrainingError(
                        f"interrupted after {self.done} of {config.episodes} episodes; all is saved. "
                        f"Continue with: remp train --resume {self.folder.path}"
                    )

    def resume(self) -> None:
        """Take up the state of the last checkpoint."""
        tensors, info = read_checkpoint(self.folder.last)
        part = _parts(tensors)
        self.method.load_state_dict(part["weights"])
        if self.average:
            self.average.load(part["average"])
        for group in self.optimiser.param_groups:
            if group["name"] in part.get("momentum", {}):
                parameter = group["params"][0]
                buffer = part["momentum"][group["name"]].to(parameter.device)
                self.optimiser.state[parameter]["momentum_buffer"] = buffer.contiguous(
                    memory_format=torch.channels_last if buffer.dim() == 4 else torch.contiguous_format
                )
        self.done, self.best, self.history = info["done"], info["best"], info["history"]
        self.folder.log({"event": "resumed", "episodes": self.done})

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
        window.add(terms)
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

    def _validate(self, window: "_Window") -> None:
        """Score validation episodes with the averaged weights, keep them if they are the best so far."""
        with self.average.applied() if self.average else nullcontext():
            result = evaluate(
                self.method,
                self.validation_set,
                self.normalisation,
                self.config.validation_protocol,
                n_episodes=self.config.validation_episodes,
                seed=self.config.seed + 1,
                transform=self.config.transform,
            )
            accuracy = result.estimate.mean
            entry = {"episodes": self.done, "validation_accuracy": round(accuracy, 5), **window.summary()}
            entry["learning_rate"] = learning_rate(self.config, max(self.done - 1, 0))
            self.history.append(entry)
            self.folder.log({"event": "validation", **entry})
            if self.processes.rank == 0 and accuracy > self.best.get("validation_accuracy", -1.0):
                self.best = {"episodes": self.done, "validation_accuracy": round(accuracy, 5)}
                write_checkpoint(
                    self.folder.best, {f"weights/{n}": t for n, t in self.method.state_dict().items()}, self._info()
                )
        self.processes.barrier()

    def _save_state(self) -> None:
        """All that a resumed run needs, in one file."""
        if self.processes.rank != 0:
            return
        tensors = {f"weights/{name}": t for name, t in self.method.state_dict().items()}
        if self.average:
            tensors.update({f"average/{name}": t for name, t in self.average.values.items()})
        for group in self.optimiser.param_groups:
            buffer = self.optimiser.state.get(group["params"][0], {}).get("momentum_buffer")
            if buffer is not None:
                tensors[f"momentum/{group['name']}"] = buffer
        write_checkpoint(self.folder.last, tensors, self._info())

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
        self.started, self.data_seconds, self.steps = time.perf_counter(), 0.0, 0
        self.sums: dict[str, float] = {}

    def add(self, terms: dict[str, float]) -> None:
        self.steps += 1
        for name, value in terms.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def summary(self) -> dict[str, float]:
        seconds = time.perf_counter() - self.started
        means = {f"loss_{name}": round(value / max(self.steps, 1), 5) for name, value in self.sums.items()}
        return {
            **means,
            "steps_per_second": round(self.steps / max(seconds, 1e-9), 3),
            "data_share": round(self.data_seconds / max(seconds, 1e-9), 4),
        }


def _passed(before: int, now: int, every: int) -> bool:
    return before // every != now // every


def _parts(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """{"weights/a": t, "average/a": u} -> {"weights": {"a": t}, "average": {"a": u}}"""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        parts.setdefault(kind, {})[rest] = tensor
    return parts



