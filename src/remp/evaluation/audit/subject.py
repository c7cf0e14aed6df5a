"""A method under audit: made-up episodes of what it takes, its answers to them, and what was found about it."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from remp.backbones import Conv4
from remp.checks import nearest
from remp.episodes import Episodes
from remp.errors import ConfigError
from remp.methods.base import Method, takes_images

IMAGE_SIZE = (32, 32, 3)
FEATURE_SHAPE, MAP_SHAPE = (32,), (8, 2, 2)  # for methods that were made without saying theirs
N_CLASSES = 10


def tiny_method(method_class: type[Method]) -> Method:
    """A method at its default settings with fresh weights, on a backbone that makes 8 x 2 x 2 maps of small images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        backbone = Conv4(IMAGE_SIZE[2], width=8)
        map_shape = backbone.map_shape(IMAGE_SIZE)
        feature_shape = map_shape if method_class.uses_maps else backbone.feature_shape(map_shape)
        return method_class(backbone, n_classes=N_CLASSES, feature_shape=feature_shape).eval()


@dataclass(frozen=True)
class Subject:
    """A method under audit. image_size: (height, width, channels) of the made-up images, for a method that changes its
    backbone from task to task and so takes images. seed: of the made-up episodes."""

    method: Method
    image_size: tuple[int, int, int] = IMAGE_SIZE
    seed: int = 0

    @property
    def takes_images(self) -> bool:
        return takes_images(self.method)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of an image (channels, height, width) or of a feature."""
        if self.takes_images:
            height, width, channels = self.image_size
            return channels, height, width
        return self.method.feature_shape or (MAP_SHAPE if self.method.uses_maps else FEATURE_SHAPE)

    @property
    def n_batch(self) -> int:
        """Tasks that are asked about together. A method that takes images needs much longer for a task."""
        return 16 if self.takes_images else 64

    @cached_property
    def usual_answer(self) -> Tensor:
        """The answer to `usual_episodes`, that the others are held against."""
        return self.answer(self.usual_episodes())

    def usual_episodes(self, n_episodes: int = 8) -> Episodes:
        """5-way tasks with unequal shots and 20 queries of classes drawn at random, some easy, some hard."""
        classes = torch.randint(5, (n_episodes, 20), generator=torch.Generator().manual_seed(self.seed))
        return self.episodes((2, 1, 3, 1, 2), classes, noise=torch.linspace(0.5, 2.0, n_episodes))

    def episodes(self, shots: Sequence[int], query_labels: Tensor, *, noise: Tensor | float = 1.0) -> Episodes:
        """Items around a centre for each class. query_labels: (E, Q). noise: of all episodes, or one number each."""
        generator = torch.Generator().manual_seed(self.seed)
        n_episodes, n_way, shape = len(query_labels), len(shots), self.item_shape
        support_labels = torch.arange(n_way).repeat_interleave(torch.tensor(shots)).expand(n_episodes, -1)
        labels = torch.cat([support_labels, query_labels], dim=1)
        centres = torch.randn(n_episodes, n_way, *shape, generator=generator)
        noise = torch.as_tensor(noise).expand(n_episodes).reshape(-1, 1, *[1] * len(shape))
        items = rows(centres, labels) + noise * torch.randn(*labels.shape, *shape, generator=generator)
        items = items if self.takes_images else items.relu()  # most backbones end so, and some methods take roots
        n_support = support_labels.shape[1]
        return Episodes(items[:, :n_support], support_labels, items[:, n_support:], query_labels, n_way)

    def answer(self, episodes: Episodes) -> Tensor:
        """Logits (E, Q, n_way), asked for as an evaluation does."""
        ask = self.method.score if self.takes_images else self.method.logits
        with torch.inference_mode():
            logits = ask(episodes.map(torch.clone))  # a method that writes into its input spoils only its own copy
        expected = (*episodes.query.shape[:2], episodes.n_way)
        if tuple(logits.shape) != expected:
            raise ValueError(f"logits have shape {tuple(logits.shape)}, needed (episodes, queries, n_way) = {expected}")
        return logits.float()


def rows(items: Tensor, index: Tensor) -> Tensor:
    """Items by their number within their episode: (E, n, …), (E, m) -> (E, m, …)."""
    return items[torch.arange(len(items))[:, None], index]


def with_queries(episodes: Episodes, index: Tensor) -> Episodes:
    """The same tasks with the queries numbered `index` (E, m), in that order."""
    labels = episodes.query_labels
    return replace(
        episodes, query=rows(episodes.query, index), query_labels=None if labels is None else rows(labels, index)
    )


@dataclass(frozen=True)
class AuditFinding:
    """Whether a method has one property: one of those that `audit` returns.

    Parameters
    ----------
    name : str
        The property.
    passed : bool
        Whether the method has it.
    sentence : str
        What was found, in words.
    numbers : dict
        What was measured, by name.

    Examples
    --------
    >>> import remp
    >>> remp.audit(remp.METHODS["protonet"]())[0].sentence
    'the same episodes get the same answers twice'
    """

    name: str
    passed: bool
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    def line(self) -> str:
        """As a line of text, as `remp audit` prints it."""
        numbers = ", ".join(f"{name} {_short(number)}" for name, number in self.numbers.items())
        verdict = "pass" if self.passed else "FAIL"
        return f"{verdict}  {self.name:<16}  {self.sentence}" + (f"  ({numbers})" if numbers else "")


def findings_text(findings: Sequence[AuditFinding]) -> str:
    """One line per property, and how many passed."""
    passed = sum(finding.passed for finding in findings)
    return "\n".join([*(finding.line() for finding in findings), f"{passed} of {len(findings)} properties hold"])


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.2g}"


def method_from_file(path: Path, name: str) -> Method | type[Method]:
    """The Method subclass or instance that a Python file defines under this name. The file is run to find out."""
    module = _run(path)
    defined: dict[str, Method | type[Method]] = {
        key: value for key, value in vars(module).items() if isinstance(value, Method) or _is_own_class(value, module)
    }
    if name in defined:
        return defined[name]
    if not defined:
        raise ConfigError(f"{path} defines no method; needed a subclass of remp.Method, or an instance of one")
    raise ConfigError(f"{path} defines no method {name!r}; {nearest(name, defined)}")


def _is_own_class(value: object, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__


def _run(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}; needed a Python file that defines a method")
    name = f"remp_own_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file; needed a name ending in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # type hints and dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    return module
