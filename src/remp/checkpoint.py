"""Checkpoints: one safetensors file with the weights, and the settings as JSON in its header, written atomically."""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from remp.backbones import BACKBONES, Backbone
from remp.backbones.embedding import Normalisation
from remp.config import RunConfig, make_config
from remp.datasets.base import ImageSet
from remp.errors import CheckpointError, ConfigError
from remp.methods import KNOWN, Method
from remp.prediction import Pictures, Prediction, predict
from remp.rectification.transform import FeatureTransform
from remp.system.files import write_atomically
from remp.version import __version__

FORMAT = 1


@dataclass(frozen=True)
class Trained:
    """A method with its weights, and what it needs to be fed."""

    name: str
    method: Method
    config: RunConfig
    normalisation: Normalisation
    image_size: tuple[int, int, int]
    info: dict[str, Any]
    hash: str

    def predict(
        self, support: Pictures, support_labels: Sequence[Any], query: Pictures, *, transform: str | None = None
    ) -> Prediction:
        """Label new pictures from a few labelled ones.

        Parameters
        ----------
        support : labelled pictures: PIL pictures or a uint8 array (n, height, width, channels), of any size.
        support_labels : n labels, names or numbers.
        query : m pictures to label.
        transform : parts of "mirror+zoom+power+l2+centre", "none", or None for the model's own.

        Returns
        -------
        Prediction with `labels` (m,), `probabilities` (m, n_classes) and `classes` (n_classes,), the sorted labels.

        Examples
        --------
        >>> import numpy as np, remp
        >>> pictures = np.random.default_rng(0).integers(0, 255, (5, 32, 32, 3), dtype=np.uint8)
        >>> model = remp.load("cifar-fs-convnet64-1shot")
        >>> found = model.predict(pictures[:2], ["cat", "dog"], pictures[2:])
        >>> found.classes.tolist(), found.probabilities.shape
        (['cat', 'dog'], (3, 2))
        """
        chosen = FeatureTransform.parse(self.config.transform if transform is None else transform)
        return predict(
            self.method, self.normalisation, self.image_size, support, support_labels, query, transform=chosen
        )


def build_method(config: RunConfig, image_size: tuple[int, int, int], n_classes: int) -> Method:
    """A method with fresh weights, drawn from the run's seed."""
    torch.manual_seed(config.seed)
    make_backbone: Callable[..., Backbone] = BACKBONES[config.backbone]
    backbone = make_backbone(image_size[2], **config.backbone_settings)
    method_class = KNOWN[config.method]
    map_shape = backbone.map_shape(image_size)
    feature_shape = map_shape if method_class.uses_maps else backbone.feature_shape(map_shape)
    method = method_class(backbone, n_classes=n_classes, feature_shape=feature_shape, **config.method_settings)
    return method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def write_checkpoint(path: Path, tensors: dict[str, Tensor], info: dict[str, Any]) -> str:
    """Write tensors and `info` (JSON) so that `path` is either the old file or the whole new one; return its hash."""
    header = {"remp": json.dumps({"format": FORMAT, "version": __version__, **info})}
    content = to_bytes({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, header)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and info of a checkpoint. Reads numbers and JSON only: no code in the file can run."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        info = json.loads(metadata["remp"])
        if not isinstance(info, dict):
            raise ValueError(f"its header holds {type(info).__name__}")
    except (SafetensorError, OSError, ValueError, struct.error, KeyError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is not a checkpoint of remp or is damaged ({type(error).__name__}: {error}); "
            "needed: a .safetensors file written by remp train"
        ) from error
    if info.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {info.get('format')!r}; this version of remp reads {FORMAT}")
    return tensors, info


def load_trained(path: Path, overrides: dict[str, Any] | None = None) -> Trained:
    """Load a method for evaluation; `overrides` change settings of the method, e.g. {"layers": 0}."""
    tensors, info = read_checkpoint(path)
    try:
        config = _changed(make_config(info["config"]), overrides or {})
        height, width, channels = (int(side) for side in info["image_size"])
        method = build_method(config, (height, width, channels), info["n_classes"])
        method.load_state_dict(parts_of(tensors)["weights"])
        normalisation = Normalisation(_numbers(info["mean"], channels), _numbers(info["std"], channels))
    except (KeyError, TypeError, RuntimeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise CheckpointError(f"{path} does not fit: {type(error).__name__}: {error}") from error
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Trained(path.name, method.eval(), config, normalisation, (height, width, channels), info, digest)


def take_weights(method: Method, path: Path, method_name: str, validation_set: ImageSet) -> list[str]:
    """Give the method the weights of a checkpoint to start from; return the names of those that stay fresh.

    The backbone must fit. What belongs to the method itself (a learned scale, a head) is taken only from the same
    method, and only where it has the same shape: a classifier of other training classes has not. Classes that are
    for validation here must not have been trained on there.
    """
    tensors, info = read_checkpoint(path)
    seen = sorted(set(info.get("class_names", ())) & set(validation_set.class_names))
    if seen:
        raise CheckpointError(
            f"{path} was trained on {len(seen)} of the {len(validation_set.class_names)} validation classes "
            f"({', '.join(seen[:3])}{', …' if len(seen) > 3 else ''}): validation would measure memory instead of "
            "learning. Start from another checkpoint, or prepare the data with the split it was trained with"
        )
    saved, own = parts_of(tensors).get("weights", {}), method.state_dict()
    if info.get("config", {}).get("method") != method_name:
        saved = {name: tensor for name, tensor in saved.items() if name.startswith("backbone.")}
    fitting = {name: t for name, t in saved.items() if name in own and own[name].shape == t.shape}
    missing = [name for name in own if name not in fitting]
    if any(name.startswith("backbone.") for name in missing):
        raise CheckpointError(
            f"the backbone of {path} does not fit the settings of this run (first difference: {missing[0]}): "
            "take the backbone, its settings and the image size of the checkpoint"
        )
    method.load_state_dict(fitting, strict=False)
    return missing


def parts_of(tensors: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """{"weights/a": t, "average/a": u} -> {"weights": {"a": t}, "average": {"a": u}}"""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition("/")
        parts.setdefault(kind, {})[rest] = tensor
    return parts


def _changed(config: RunConfig, overrides: dict[str, Any]) -> RunConfig:
    """The config with other settings of the method. Those of the training cannot be changed after it."""
    for name in overrides:
        if name in config.flat() and name not in config.method_settings:
            own = ", ".join(config.method_settings) or "none"
            raise ConfigError(f"{name!r} was settled in training; settings of {config.method!r} to change are: {own}")
    return make_config({**config.flat(), **overrides}) if overrides else config


def _numbers(values: Any, count: int) -> tuple[float, ...]:
    """A number a channel."""
    if len(values) != count:
        raise ValueError(f"{len(values)} numbers for {count} channels")
    return tuple(float(value) for value in values)
