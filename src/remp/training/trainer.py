"""The one training loop. It names no method."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remp.backbones import Backbone
from remp.backbones.embedding import Normalisation
from remp.checkpoint import load_trained, read_checkpoint, take_weights, write_checkpoint
from remp.config import RunConfig, make_config
from remp.datasets.base import ImageSet
from remp.episodes import Episodes
from remp.errors import CheckpointError, ConfigError, DataError, EpisodeError, Interrupted, TrainingError
from remp.evaluation.evaluate import accuracies, draw_episodes, embed, score_embedded
from remp.evaluation.side_by_side import WithoutLayers, has_layers
from remp.methods import KNOWN, METHODS
from remp.methods.base import backbone_of
from remp.models import find_checkpoint
from remp.rectification.transform import FeatureTransform
from remp.system.memory import keep_freed_memory
from remp.system.progress import progress
from remp.trained import build_method
from remp.training.episodes import TrainingEpisodes
from remp.training.processes import Processes
from remp.training.run_folder import RunFolder
from remp.training.state import (
    MovingAverage,
    is_finite,
    learning_rate,
    load_state,
    make_optimiser,
    state_tensors,
    weight_tensors,
)

_CURE = "Evaluate with --layers 0, or train longer: rectification needs features that tell the classes apart."


class TrainingWindow:
    """Means of the loss terms, and the share of time spent on data, over the steps since it was made."""

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
        return {
            **{f"loss_{name}": round(value / self.steps, 5) for name, value in self.sums.items()},
            "episodes_per_second": round(self.episodes / seconds, 3),
            "data_share": round(self.data_seconds / seconds, 4),
        }


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
        _check_alike(train_set, validation_set)
        _check_apart(train_set, validation_set)
        self.train_set, self.validation_set = train_set, validation_set
        self.normalisation = Normalisation(train_set.mean, train_set.std)
        self.episodes = TrainingEpisodes(config, train_set, self.normalisation, processes.device)
        self.validation_episodes = _validation_episodes(config, validation_set)
        if not KNOWN[config.method].trainable:
            raise ConfigError(
                f"method {config.method!r} classifies ready-made features and cannot be trained: train another one, "
                f"e.g. protonet, then: remp compare --features RUN --methods {config.method}"
            )
        self.method = build_method(config, train_set.image_size, train_set.n_classes)
        if config.first_side is not None and config.first_share:
            _check_first_side(backbone_of(self.method), config.first_side, train_set)
        if config.start_from and not folder.last.exists():  # a resumed run has weights of its own
            take_weights(self.method, find_checkpoint(config.start_from), config.method, validation_set)
        self.optimiser = make_optimiser(self.method, config)
        self.wrapped, self.wrapped_optimiser = processes.set_up(self.method, self.optimiser)
        self.average = MovingAverage(self.method, config.average) if config.average else None
        self.per_step = config.episodes_per_step or processes.count
        self.done = 0  # episodes
        self.best: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []

    def run(self) -> Path:
        """Step until the budget is used up; return the best checkpoint."""
        keep_freed_memory()
        done_before = self.done
        title = f"training {self.config.method}"
        with (
            watch_interruptions() as interruption,
            progress(title, self.config.episodes, unit="episodes", done=self.done) as bar,
        ):
            window = TrainingWindow()
            while self.done < self.config.episodes:
                before = self.done
                terms = self._step(window)
                bar.advance(self.done - before, note=f"loss {sum(terms.values()):.3f}")
                if self._is_due(before, self.config.validate_every):
                    bar.say(self._validate(window))
                    window = TrainingWindow()
                stop = self.processes.any(bool(interruption))
                if stop or self._is_due(before, self.config.checkpoint_every):
                    self._save(self.folder.last, state_tensors(self.method, self.optimiser, self.average))
                if stop and self.done < self.config.episodes:
                    raise Interrupted(
                        f"interrupted after {self.done} of {self.config.episodes} episodes; all is saved. "
                        f"Continue with: {self._resuming}"
                    )
        rectifies = has_layers(self.config.method, self.config.method_settings)
        if self.done > done_before and self.processes.rank == 0 and rectifies:
            self._compare_without_layers()
        return self.folder.best

    def _compare_without_layers(self) -> None:
        """Say whether the best weights do better on validation classes without rectification."""
        transform = FeatureTransform.parse(self.config.transform)
        rectified, plain = (load_trained(self.folder.best, changes).method for changes in ({}, {"layers": 0}))
        features = embed(rectified, self.validation_set.images, self.normalisation, transform)
        scores = [score_embedded(m, self.validation_episodes, features, transform) for m in (rectified, plain)]
        found = WithoutLayers.of(*scores)
        self.folder.log({"event": "without rectification", "episodes": self.done, **found.as_dict()})
        print(found.sentence(_CURE, "on validation classes"), flush=True)

    def restore(self) -> None:
        """Take up the state of the last checkpoint."""
        tensors, info = read_checkpoint(self.folder.last)
        kinds = {"config": dict, "train_fingerprint": str, "done": int, "best": dict, "history": list}
        if wrong := [name for name, kind in kinds.items() if not isinstance(info.get(name), kind)]:
            raise CheckpointError(
                f"{self.folder.last} is not one to resume from: its {', '.join(wrong)} cannot be read"
            )
        if not 0 <= info["done"] <= self.config.episodes:
            raise CheckpointError(f"{self.folder.last} is damaged: it says that {info['done']} episodes are done")
        self._check_same_run(info)
        load_state(tensors, self.method, self.optimiser, self.average)
        self.done, self.best, self.history = info["done"], info["best"], info["history"]

    def measure(self, n_steps: int) -> float:
        """Seconds per episode, over some steps from all of the run: its first episodes may cost less than others."""
        started = time.perf_counter()
        for i in range(n_steps):
            self.done = i * self.config.episodes // n_steps
            self._step(TrainingWindow())
        return (time.perf_counter() - started) / (n_steps * self.per_step)

    def _is_due(self, before: int, every: int) -> bool:
        """Whether the last step reached a multiple of `every` episodes, or the end."""
        return self.done >= self.config.episodes or before // every != self.done // every

    def _step(self, window: TrainingWindow) -> dict[str, float]:
        """One step: the gradients of `per_step` episodes, shared among the processes."""
        for group in self.optimiser.param_groups:
            factor = self.method.learning_rate_factor(group["name"], self.done / self.config.episodes)
            group["lr"] = learning_rate(self.config, self.done) * factor
        n_own = self.per_step // self.processes.count
        first = self.done + n_own * self.processes.rank
        with self.processes.merged_statistics(self.method, n_own):
            terms = self._gradients(range(first, first + n_own), window)
        if not all(np.isfinite(value) for value in terms.values()):
            shown = ", ".join(f"{name} {value}" for name, value in terms.items())
            raise self._not_finite(f"the loss ({shown}) is")
        if self.config.clip is not None:
            self.processes.clip(self.wrapped, self.wrapped_optimiser, self.config.clip)
        self.wrapped_optimiser.step()
        self.wrapped_optimiser.zero_grad(set_to_none=True)
        if self.average:
            self.average.update(self.done)
        self.done = min(self.done + self.per_step, self.config.episodes)
        window.add(terms, self.per_step)
        return terms

    def _gradients(self, numbers: range, window: TrainingWindow) -> dict[str, float]:
        """Accumulate the gradients of the episodes of these numbers; return the loss terms, averaged over processes."""
        terms: dict[str, float] = {}
        for number in numbers:
            started = time.perf_counter()
            episodes = self.episodes[number]
            window.data_seconds += time.perf_counter() - started
            with self.processes.no_sync(self.wrapped) if number != numbers[-1] else nullcontext():
                with self.processes.lower_precision():
                    loss_terms = self.wrapped.loss(episodes, self.done / self.config.episodes)
                self.processes.backward(torch.stack(list(loss_terms.values())).sum() / len(numbers))
            for name, value in loss_terms.items():
                terms[name] = terms.get(name, 0.0) + float(value.detach()) / len(numbers)
        return dict(zip(terms, self.processes.mean(list(terms.values())), strict=True))

    def _validate(self, window: TrainingWindow) -> str:
        """Score validation episodes with the averaged weights, keep the best so far, and say how it goes."""
        summary = window.summary()  # before the validation, which is no part of the speed of training
        with self.average.applied() if self.average else nullcontext():
            if not is_finite(self.method):
                raise self._not_finite("the weights are")
            transform = FeatureTransform.parse(self.config.transform)
            each = accuracies(self.method, self.validation_set, self.normalisation, self.validation_episodes, transform)
            accuracy = round(float(each.mean()), 5)
            entry = {"episodes": self.done, "validation_accuracy": accuracy, **summary}
            entry["learning_rate"] = learning_rate(self.config, max(self.done - 1, 0))
            self.history.append(entry)
            if self.processes.rank == 0:
                self.folder.log({"event": "validation", **entry})
            if self.config.keep == "last" or accuracy > self.best.get("validation_accuracy", -1.0):
                self.best = {"episodes": self.done, "validation_accuracy": accuracy}
                self._save(self.folder.best, weight_tensors(self.method))
        self.processes.barrier()
        losses = ", ".join(f"{name[5:]} {value:.3f}" for name, value in entry.items() if name.startswith("loss_"))
        best = 100 * max(entry["validation_accuracy"] for entry in self.history)
        return f"{self.done:>7} episodes   {losses}   validation {100 * accuracy:.2f} % (best {best:.2f})"

    def _save(self, path: Path, tensors: dict[str, Tensor]) -> None:
        """Write a checkpoint, in the first process, unless the weights are ruined."""
        if not is_finite(self.method):
            raise self._not_finite("the weights are")
        if self.processes.rank != 0:
            return
        try:
            write_checkpoint(path, tensors, self._info())
        except OSError as error:
            before = [file for file in (path, self.folder.last) if file.exists()]
            kept = f"the one before is intact: {before[0]}" if before else "there is none before it"
            raise TrainingError(
                f"the checkpoint after {self.done} episodes could not be written ({error.strerror or error}); {kept}. "
                f"Make room, then continue with: {self._resuming}"
            ) from error

    @property
    def _resuming(self) -> str:
        """How to continue: the command line does not know classes of one's own."""
        if self.config.method in METHODS:
            return f"remp train --resume {self.folder.path}"
        return f"remp.resume({str(self.folder.path)!r}, method={KNOWN[self.config.method].__name__})"

    def _info(self) -> dict[str, Any]:
        return {
            "config": self.config.flat(),
            "n_classes": self.train_set.n_classes,
            "class_names": list(self.train_set.class_names),
            "image_size": list(self.train_set.image_size),
            "mean": list(self.normalisation.mean),
            "std": list(self.normalisation.std),
            "train_fingerprint": self.train_set.fingerprint,
            "torch": torch.__version__,
            "done": self.done,
            "best": self.best,
            "history": self.history,
        }

    def _check_same_run(self, info: dict[str, Any]) -> None:
        """The checkpoint must be of these settings and these images."""
        saved, now = make_config(info["config"]).flat(), self.config.flat()
        if changed := [name for name in {**saved, **now} if saved.get(name) != now.get(name)]:
            raise TrainingError(
                f"{self.folder.config} was changed after the run began, in {', '.join(changed)}: put it back, or start "
                "another run with --out"
            )
        if info["train_fingerprint"] != self.train_set.fingerprint:
            raise TrainingError(
                f"{self.folder.path} was trained on other images than {self.train_set.name!r} holds now "
                f"({info['train_fingerprint'][:12]} against {self.train_set.fingerprint[:12]}): "
                "prepare the same data again"
            )

    def _not_finite(self, what: str) -> TrainingError:
        saved = self.folder.last if self.folder.last.exists() else "none yet, so start again with another --out"
        return TrainingError(
            f"{what} not finite at episode {self.done}. Last good checkpoint: {saved}. "
            f"Try: --learning-rate {self.config.learning_rate / 10:g}, a smaller scale of the scores, "
            "or --precision 32-true"
        )


def _check_alike(train_set: ImageSet, validation_set: ImageSet) -> None:
    """Both sets must hold images of bytes, of one size."""
    for images in (train_set, validation_set):
        if images.images.dtype != np.uint8:
            raise DataError(f"the images of {images.name!r} are {images.images.dtype}; needed uint8, 0 to 255")
    if train_set.image_size != validation_set.image_size:
        sizes = ("x".join(map(str, images.image_size)) for images in (train_set, validation_set))
        raise DataError(
            "the images for training are of {}, those for validation of {} (height x width x channels): prepare both "
            "with the same size".format(*sizes)
        )


def _check_apart(train_set: ImageSet, validation_set: ImageSet) -> None:
    if train_set.fingerprint == validation_set.fingerprint:
        raise DataError(
            f"{train_set.name}/{train_set.split} is given for training and for validation, which would measure memory "
            "instead of learning: give images of other classes as validation_set"
        )


def _validation_episodes(config: RunConfig, images: ImageSet) -> Episodes:
    protocol, n_episodes, seed = config.validation_protocol, config.validation_episodes, config.seed + 1
    try:
        return draw_episodes(images, protocol, n_episodes=n_episodes, seed=seed, prefix="validation_")
    except EpisodeError as error:
        raise EpisodeError(f"validation classes: {error}") from error


def _check_first_side(backbone: Backbone, side: int, images: ImageSet) -> None:
    try:
        backbone.map_shape((side, side, images.image_size[2]))
    except ConfigError as error:
        needed = f"first_side is {side}; needed more, up to the {images.image_size[0]} pixels of whole images"
        raise ConfigError(f"{needed}: {error.__cause__}") from error


AT_ONCE = 0.5  # seconds; a launcher passes on the Ctrl-C that the terminal has sent already


class Interruption:
    """Becomes true when the user or the system asks the run to stop."""

    def __init__(self) -> None:
        self._time: float | None = None  # of the first request

    def __bool__(self) -> bool:
        return self._time is not None

    def _request(self, number: int, frame: FrameType | None) -> None:
        if self._time is None:
            self._time = time.monotonic()
        elif number == signal.SIGINT and time.monotonic() - self._time > AT_ONCE:
            raise KeyboardInterrupt


@contextmanager
def watch_interruptions() -> Iterator[Interruption]:
    """Within it, the first Ctrl-C or SIGTERM sets the flag; a second Ctrl-C stops at once."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interruption._request) for number in signals}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
