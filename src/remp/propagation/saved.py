"""A labelling as a model in a file: what was learned, and the examples it was learned from. Loading runs no code."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from remp.errors import CheckpointError, ConfigError
from remp.propagation.adaptive import Adapted, Adaptive, EvidenceWeights
from remp.propagation.calibration import Calibration
from remp.propagation.fit import Fitted, Learned
from remp.propagation.held_out import HeldOut, Likeness
from remp.propagation.logistic import Linear
from remp.propagation.surroundings import Neighbours
from remp.rectification.propagate import Propagated, Propagation
from remp.rectification.transform import RowTransform
from remp.system.files import write_atomically
from remp.untrusted import border, shortened
from remp.version import __version__

FILE = "model.safetensors"
_FORMAT = "remp-labelling-3"
_LARGEST_SIDE = 4096  # pixels of a picture's side, as in a checkpoint
_NEEDED = "needed what `remp label --save`, ReMPClassifier.save or Export in remp studio wrote"
_RULES: dict[str, type[Adaptive] | type[Propagation]] = {"adaptive": Adaptive, "paper": Propagation}


def save_labelling(path: Path, saved: Learned) -> None:
    """Write a model; the file is whole or not there."""
    model, held_out, tensors = saved.fitted.model, saved.fitted.held_out, dict[str, Tensor]()
    is_adaptive = isinstance(model, Adapted)
    names = ("prototypes_before", "prototypes", "centre", *(("middle", "log_shares") if is_adaptive else ("bias",)))
    tensors |= {f"model.{name}": getattr(model, name) for name in names if getattr(model, name) is not None}
    numbers: dict[str, Any] = {"moves": list(model.moves)}
    if isinstance(model, Adapted):
        for name, part in (("regression", model.regression), ("graph", model.graph)):
            tensors |= {f"{name}.weights": part.weights, f"{name}.bias": part.bias}
        numbers |= {"cosine": model.cosine, "size": model.size, "evidence": list(model.evidence)}
        if model.neighbours:
            tensors |= {"neighbours.rows": model.neighbours.rows, "neighbours.arrived": model.neighbours.arrived}
            numbers |= {"neighbours": model.neighbours.weight}
    else:
        numbers |= {"growth": model.growth}
    tensors |= {f"held_out.{name}": getattr(held_out, name) for name in ("scores", "plain", "graph")}
    tensors |= {"likeness.means": saved.fitted.likeness.means}
    arrays = {
        "held_out.items": held_out.items,
        "held_out.labels": held_out.labels,
        "held_out.resemblance": held_out.resemblance,
        "calibration.sharpness": saved.fitted.calibration.sharpness,
        "calibration.weights": saved.fitted.calibration.weights,
        "examples": np.asarray(saved.examples, np.float32),
        "labels": saved.labels.astype(np.int64),
        "counts": saved.counts.astype(np.int64),
    }
    tensors |= {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    facts = {
        "format": _FORMAT,
        "version": __version__,
        "classes": saved.classes,
        "backbone": saved.backbone,
        "side": saved.side,
        "embedder": saved.embedder,
        "rule": "adaptive" if is_adaptive else "paper",
        "settings": asdict(model.settings),
        "numbers": numbers,
    }
    content = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, save(content, {"remp": json.dumps(facts, default=np.generic.item)}))


def read_labelling(path: Path) -> Learned:
    """Raises CheckpointError for a file that is not there, damaged or something else."""
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise CheckpointError(f"there is no model {str(path)!r}: {_NEEDED}")
    with border(f"{path} cannot be read as a model of remp", _NEEDED, CheckpointError), safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads((file.metadata() or {}).get("remp", "null"))
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is not a model of remp: {_NEEDED}")
    return _Reader(path, tensors, facts).labelling()


class _Reader:
    """Takes the parts of a model from a file that nobody has checked: each has to be there, of its kind and shape."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        self._path, self._tensors, self._facts = path, tensors, facts
        classes = facts.get("classes")
        if not isinstance(classes, list) or not classes or len({type(name) for name in classes}) != 1:
            raise self._refusal("classes")
        if not isinstance(classes[0], str | int | float) or len(set(classes)) != len(classes):
            raise self._refusal("classes")
        self._classes, self._n = tuple(classes), len(classes)
        examples = tensors.get("examples")
        if examples is None or examples.ndim != 2:
            raise self._refusal("examples")
        self._dim = examples.shape[1]

    def labelling(self) -> Learned:
        n, dim = self._n, self._dim
        fitted = self._fitted()
        examples = self._numbers("examples", None, dim)
        labels = self._whole("labels", n, len(examples))
        counts = self._whole("counts", 2**62, n)
        if counts.min() < 1 or len(np.unique(labels)) != n:
            raise self._refusal("labels")
        side, backbone, embedder = (self._facts.get(name) for name in ("side", "backbone", "embedder"))
        if not (side is None or (type(side) is int and 1 <= side <= _LARGEST_SIDE)):
            raise self._refusal("side")
        if not isinstance(backbone, str | None) or not isinstance(embedder, str):
            raise self._refusal("backbone")
        return Learned(fitted, self._classes, examples.float().numpy(), labels, counts, backbone, side, embedder)

    def _fitted(self) -> Fitted:
        n, dim = self._n, self._dim
        settings, numbers = self._settings(), self._facts.get("numbers")
        if not isinstance(numbers, dict):
            raise self._refusal("numbers")
        scores = self._numbers("held_out.scores", None, n)
        m = len(scores)
        held_out = HeldOut(
            items=self._whole("held_out.items", 2**62, m),
            labels=self._whole("held_out.labels", n, m),
            scores=scores,
            plain=self._numbers("held_out.plain", m, n),
            graph=self._numbers("held_out.graph", m, n),
            resemblance=self._numbers("held_out.resemblance", m).numpy(),
            features=torch.empty(0, dim),
        )
        sharpness = self._numbers("calibration.sharpness", None).numpy()
        weights = self._numbers("calibration.weights", len(sharpness)).numpy()
        if not len(sharpness) or sharpness.min() <= 0 or weights.min() < 0 or abs(weights.sum() - 1) > 1e-6:
            raise self._refusal("calibration")
        likeness = Likeness(
            RowTransform(replace(settings.parts, centre=False)), self._numbers("likeness.means", n, dim)
        )
        model = self._model(settings, numbers)
        return Fitted(model, held_out, Calibration(sharpness, weights), likeness)

    def _model(self, settings: Adaptive | Propagation, numbers: dict[str, Any]) -> Adapted | Propagated:
        n, dim = self._n, self._dim
        moves = numbers.get("moves")
        if not isinstance(moves, list) or not all(_is_number(move) for move in moves):
            raise self._refusal("moves")
        has_centre = settings.parts.centre and (n > 1 or isinstance(settings, Propagation))  # as `adapt` has it
        shared: dict[str, Any] = {
            "prototypes_before": self._numbers("model.prototypes_before", n, dim),
            "prototypes": self._numbers("model.prototypes", n, dim),
            "centre": self._numbers("model.centre", dim) if has_centre else None,
            "moves": tuple(float(move) for move in moves),
        }
        if isinstance(settings, Propagation):
            bias = self._numbers("model.bias", n) if settings.balanced else None
            return Propagated(settings=settings, bias=bias, growth=self._number(numbers, "growth"), **shared)
        evidence: Any = numbers.get("evidence")
        if not isinstance(evidence, list) or len(evidence) != 3 or not all(map(_is_number, evidence)):
            raise self._refusal("evidence")
        neighbours = None
        if "neighbours" in numbers:
            rows = self._numbers("neighbours.rows", None, dim)
            arrived = self._numbers("neighbours.arrived", len(rows), n)
            neighbours = Neighbours(rows, arrived, self._number(numbers, "neighbours"))
        regression, graph = (
            Linear(self._numbers(f"{name}.weights", dim, n), self._numbers(f"{name}.bias", n))
            for name in ("regression", "graph")
        )
        return Adapted(
            settings=settings,
            regression=regression,
            graph=graph,
            cosine=self._number(numbers, "cosine"),
            middle=self._numbers("model.middle", dim),
            log_shares=self._numbers("model.log_shares", n),
            size=self._number(numbers, "size"),
            neighbours=neighbours,
            evidence=EvidenceWeights(*map(float, evidence)),
            **shared,
        )

    def _settings(self) -> Adaptive | Propagation:
        rule, settings = self._facts.get("rule"), self._facts.get("settings")
        if not isinstance(rule, str) or rule not in _RULES or not isinstance(settings, dict):
            raise self._refusal("rule")
        defaults = asdict(_RULES[rule]())
        kinds = {name: (int, float) if isinstance(value, float) else type(value) for name, value in defaults.items()}
        if settings.keys() != kinds.keys() or not all(isinstance(settings[k], kind) for k, kind in kinds.items()):
            raise self._refusal("settings")
        try:
            return _RULES[rule](**settings)
        except ConfigError as error:
            raise CheckpointError(f"{self._path} does not fit: {error}") from error

    def _numbers(self, name: str, *shape: int | None) -> Tensor:
        """A tensor of finite numbers. shape: None stands for any length."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.dtype not in (torch.float32, torch.float64) or tensor.ndim != len(shape):
            raise self._refusal(name)
        fits = all(wanted in (None, size) for wanted, size in zip(shape, tensor.shape, strict=True))
        if not fits or not torch.isfinite(tensor).all():
            raise self._refusal(name)
        return tensor

    def _whole(self, name: str, stop: int, length: int) -> np.ndarray:
        """(length,) whole numbers 0 … stop - 1."""
        tensor = self._tensors.get(name)
        if tensor is None or tensor.dtype != torch.int64 or tensor.shape != (length,):
            raise self._refusal(name)
        if length and not 0 <= int(tensor.min()) <= int(tensor.max()) < stop:
            raise self._refusal(name)
        return tensor.numpy()

    def _number(self, numbers: dict[str, Any], name: str) -> float:
        value: Any = numbers.get(name)
        if not _is_number(value) or (name == "size" and value <= 0):
            raise self._refusal(name)
        return float(value)

    def _refusal(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self._path} is damaged ({shortened(what)} does not fit): {_NEEDED}")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # which NaN is not, nor a longer int
