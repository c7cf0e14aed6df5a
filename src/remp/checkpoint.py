"""Checkpoints: one safetensors file with the weights, and the settings as JSON in its header, written atomically."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from remp.backbones.embedding import Normalisation
from remp.config import RunConfig, make_config
from remp.datasets.base import ImageSet
from remp.errors import CheckpointError, ConfigError
from remp.methods import Method
from remp.system.files import write_atomically
from remp.trained import Trained, build_blank
from remp.untrusted import border, shortened
from remp.version import __version__

FORMAT = 1


def write_checkpoint(path: Path, tensors: dict[str, Tensor], info: dict[str, Any]) -> str:
    """Write tensors and `info` (JSON) so that `path` is either the old file or the whole new one; return its hash."""
    header = {"remp": json.dumps({"format": FORMAT, "version": __version__, **info})}
    kept = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    owners = {t.data_ptr(): name for name, t in reversed(kept.items())}
    kept = {name: t if owners[t.data_ptr()] == name else t.clone() for name, t in kept.items()}  # tied weights
    content = to_bytes(kept, header)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and info of a checkpoint. Reads numbers and JSON only: no code in the file can run."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    with border(f"{path} is not a checkpoint of remp or is damaged", _NEEDED, CheckpointError):
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        info = json.loads(metadata.get("remp", "null"))
    if not isinstance(info, dict) or isinstance(info.get("format"), str):  # such as a file of episodes
        raise CheckpointError(f"{path} is not a checkpoint of remp (it has no settings of remp): {_NEEDED}")
    if info.get("format") != FORMAT:
        found = shortened(repr(info.get("format")))
        raise CheckpointError(
            f"{path} has format {found}; this version of remp reads {FORMAT}: "
            "use the version that wrote it, or train again"
        )
    return tensors, info


def load_trained(path: Path, overrides: dict[str, Any] | None = None) -> Trained:
    """Load a method for evaluation; `overrides` change settings of the method, e.g. {"layers": 0}."""
    tensors, info = read_checkpoint(path)
    config = _changed(_config_in(info, path), overrides or {})
    image_size, n_classes = _sizes_in(info, path)
    weights = finite_weights(tensors, path)
    with border(f"{path} does not fit", _AGAIN, CheckpointError):
        n_bytes = _TIMES_THE_WEIGHTS * sum(t.nbytes for t in weights.values()) + _FREE_BYTES
        try:
            method = build_blank(config, image_size, n_classes, n_bytes)
        except ConfigError as error:
            if overrides:  # which may be what does not fit
                raise
            raise ConfigError(f"{path} does not fit: {shortened(str(error), 500)}") from error
        _check_shapes(path, weights, method.state_dict())
        method.load_state_dict(weights)
    mean, std = (_numbers_in(info, name, image_size[2], path) for name in ("mean", "std"))
    if min(std) <= 0:
        raise CheckpointError(f"{path} does not fit: std is {std}, needed numbers above 0. {_AGAIN}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Trained(path.name, method.eval(), config, Normalisation(mean, std), image_size, info, digest)


def finite_weights(tensors: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint by name. Raises CheckpointError for those that are not finite: with them, each answer
    would be the first class."""
    weights = parts_of(tensors).get("weights", {})
    for name, tensor in weights.items():
        if tensor.dtype not in _NUMBERS:
            raise CheckpointError(f"{path} does not fit: {shortened(name)} is {_shape(tensor)}. {_AGAIN}")
        # A sum is quick, and not finite if any of its numbers is not; large numbers may make it so, too.
        if not math.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
            raise CheckpointError(f"{path}: {shortened(name)} holds numbers that are not finite (NaN, inf). {_AGAIN}")
    return weights


def take_weights(method: Method, path: Path, method_name: str, validation_set: ImageSet) -> list[str]:
    """Give the method the weights of a checkpoint to start from; return the names of those that stay fresh.

    The backbone must fit. What belongs to the method itself (a learned scale, a head) is taken only from the same
    method, and only where it has the same shape: a classifier of other training classes has not. Classes that are
    for validation here must not have been trained on there.
    """
    tensors, info = read_checkpoint(path)
    trained_on, settings = info.get("class_names", []), info.get("config", {})
    if not isinstance(trained_on, list) or not isinstance(settings, dict):
        raise CheckpointError(f"{path} is not a checkpoint of remp or is damaged (its settings): {_NEEDED}")
    seen = sorted({name for name in trained_on if isinstance(name, str)} & set(validation_set.class_names))
    if seen:
        raise CheckpointError(
            f"{path} was trained on {len(seen)} of the {len(validation_set.class_names)} validation classes "
            f"({', '.join(seen[:3])}{', …' if len(seen) > 3 else ''}): validation would measure memory instead of "
            "learning. Start from another checkpoint, or prepare the data with the split it was trained with"
        )
    saved, own = finite_weights(tensors, path), method.state_dict()
    if settings.get("method") != method_name:
        saved = {name: tensor for name, tensor in saved.items() if name.startswith("backbone.")}
    fitting = {name: t for name, t in saved.items() if name in own and own[name].shape == t.shape}
    missing = [name for name in own if name not in fitting]
    if unfit := next((name for name in missing if name.startswith("backbone.")), None):
        there, here = _shape(saved.get(unfit)), _shape(own[unfit])
        raise CheckpointError(
            f"the backbone of {path} does not fit the settings of this run ({unfit} is {there} there, {here} here): "
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
            raise ConfigError(f"{name!r} is fixed by training; of {config.method!r} you can change: {own}")
    return make_config({**config.flat(), **overrides}) if overrides else config


_NEEDED = "needed a .safetensors file written by remp train"
_AGAIN = "Take another checkpoint, or train again"
# What blank weights may take while they are made, before those of the file take their place.
_TIMES_THE_WEIGHTS, _FREE_BYTES = 4, 2**25
# Other kinds that a file may hold (complex, floats of 8 bits) are no weights of remp; PyTorch cannot reckon with all.
_NUMBERS = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.bool,
}  # fmt: skip
_LARGEST_SIDE, _MOST_CLASSES = 4096, 10**6


def _config_in(info: dict[str, Any], path: Path) -> RunConfig:
    settings = info.get("config")
    if not isinstance(settings, dict):
        raise CheckpointError(f"{path} does not fit: it names no settings. {_AGAIN}")
    try:
        return make_config(settings)
    except ConfigError as error:
        raise ConfigError(f"{path} does not fit: {shortened(str(error), 500)}") from error


def _sizes_in(info: dict[str, Any], path: Path) -> tuple[tuple[int, int, int], int]:
    """Height, width and channels of the images, and how many classes were trained on."""
    size, n_classes = info.get("image_size"), info.get("n_classes")
    if not (isinstance(size, list) and len(size) == 3 and all(_is_whole(side, 1, _LARGEST_SIDE) for side in size)):
        raise CheckpointError(
            f"{path} does not fit: its image_size is {_shown(size)}, needed height, width, channels. {_AGAIN}"
        )
    if not _is_whole(n_classes, 0, _MOST_CLASSES):
        raise CheckpointError(
            f"{path} does not fit: its n_classes is {_shown(n_classes)}, needed a whole number. {_AGAIN}"
        )
    return tuple(size), n_classes  # type: ignore[return-value]


def _numbers_in(info: dict[str, Any], name: str, count: int, path: Path) -> tuple[float, ...]:
    """A finite number for each channel."""
    values = info.get(name)
    if not isinstance(values, list) or len(values) != count or not all(_is_finite(value) for value in values):
        raise CheckpointError(
            f"{path} does not fit: its {name} is {_shown(values)}, needed {count} finite numbers. {_AGAIN}"
        )
    return tuple(float(value) for value in values)


def _check_shapes(path: Path, weights: dict[str, Tensor], needed: dict[str, Tensor]) -> None:
    for name in [*needed, *(name for name in weights if name not in needed)]:
        got, wanted = weights.get(name), needed.get(name)
        if got is None or wanted is None or got.shape != wanted.shape or got.dtype != wanted.dtype:
            raise CheckpointError(
                f"{path} does not fit: {shortened(name)} is {_shape(got)}, "
                f"by its settings it is {_shape(wanted)}. {_AGAIN}"
            )


def _shape(tensor: Tensor | None) -> str:
    return "not there" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _is_whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e30


def _shown(value: Any) -> str:
    return shortened(repr(value))
