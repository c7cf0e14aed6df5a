"""Checkpoints: one safetensors file with the weights, and the settings as JSON in its header, written atomically."""

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from remp.atomic import write_atomically
from remp.augment import Normalisation
from remp.backbones import BACKBONES
from remp.config import RunConfig, make_config
from remp.errors import CheckpointError
from remp.methods import METHODS, Method
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


def build_method(config: RunConfig, image_size: tuple[int, int, int], n_classes: int) -> Method:
    """A method with fresh weights, drawn from the run's seed."""
    torch.manual_seed(config.seed)
    backbone = BACKBONES[config.backbone](image_size[2], **config.backbone_settings)
    method_class = METHODS[config.method]
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
    except (SafetensorError, OSError, ValueError, struct.error, KeyError) as error:
        raise CheckpointError(
            f"{path} is not a checkpoint of remp or is damaged ({type(error).__name__}: {error}); "
            "needed: a .safetensors file written by remp train"
        ) from error
    if info.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {info.get('format')!r}; this version of remp reads {FORMAT}")
    return tensors, info


def load_trained(path: Path, overrides: dict[str, Any] | None = None) -> Trained:
    """Load a method for evaluation; `overrides` change its settings, e.g. {"layers": 0}."""
    tensors, info = read_checkpoint(path)
    try:
        config = make_config({**info["config"], **(overrides or {})})
        image_size = tuple(info["image_size"])
        method = build_method(config, image_size, info["n_classes"])
        weights = {name.removeprefix("weights/"): t for name, t in tensors.items() if name.startswith("weights/")}
        method.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{path} does not fit: {error}") from error
    normalisation = Normalisation(tuple(info["mean"]), tuple(info["std"]))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Trained(path.name, method.eval(), config, normalisation, image_size, info, digest)
