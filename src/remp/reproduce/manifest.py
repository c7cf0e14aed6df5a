"""The manifest: which trainings there are, which tables and figures are made of them, and what the paper says."""

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from remp.errors import ConfigError

Show = Literal["table", "curve", "boxplot", "heatmap", "embedding"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Training(_Part):
    """One training: a file of settings, what is changed in it, and the training it starts from, if any."""

    config: Path
    change: dict[str, Any] = Field(default_factory=dict)
    after: str | None = Field(None, description="name of the training whose weights it starts from")
    minutes: float | None = Field(None, description="measured on one core, or estimated where it was never run")

    @property
    def source(self) -> str:
        """The file of settings, and what is changed in it."""
        return " ".join([self.config.as_posix(), *(f"{key}={value}" for key, value in self.change.items())])


class Row(_Part):
    """One row of a table or one line of a figure.

    training: name of a training, or one for each number of shots; "{x}" in it is replaced by the place on the x axis.
    method: a classifier on the frozen features of that training instead of the trained method itself. beside: other
    trainings whose features stand beside those of the first, for a row of several networks.
    """

    name: str
    training: str | dict[int, str]
    beside: list[str] = Field(default_factory=list)
    method: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    transform: str = "none"
    paper: dict[int, float] = Field(default_factory=dict, description="number of shots -> the paper's accuracy, in %")
    note: str = ""

    def training_for(self, n_shot: int, x: Any = None) -> str:
        name = self.training if isinstance(self.training, str) else self.training.get(n_shot, "")
        return name.replace("{x}", str(x))


class Axis(_Part):
    """What changes along the x axis of a figure: a setting of the method, a part of the protocol, or the training."""

    of: Literal["setting", "protocol", "training"]
    name: str
    label: str
    values: list[Any]
    log: bool = False


class Item(_Part):
    """One table or figure of the paper, or beyond it."""

    title: str
    of_the_paper: str
    show: Show
    data: str
    n_way: int = 5
    n_query: int = 15
    shots: list[int] = Field(default_factory=lambda: [1, 5])
    episodes: int = 2000
    seed: int = 2021
    seeds: int = Field(1, description="trainings of each row, from different random seeds")
    rows: list[Row]
    axes: list[Axis] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)


class Manifest(_Part):
    """All of it. Paths of configurations are relative to `root`, the folder that holds configs/ and results/."""

    root: Path
    trainings: dict[str, Training]
    items: dict[str, Item]

    def needed(self, item: Item) -> list[str]:
        """Names of the trainings of an item, in the order of its rows, each after the one it starts from."""
        places = [x for axis in item.axes if axis.of == "training" for x in axis.values] or [None]
        names = [row.training_for(n_shot, x) for row in item.rows for n_shot in item.shots for x in places]
        names += [name for row in item.rows for name in row.beside]
        return list(dict.fromkeys(one for name in names if name for one in reversed(self.starts(name))))

    def starts(self, name: str) -> list[str]:
        """A training, the one that it starts from, and so on. Raises ConfigError for one that is not there or starts
        from itself."""
        found: list[str] = []
        following: str | None = name
        while following is not None:
            if following not in self.trainings:
                raise ConfigError(f"the training {following!r} is needed, which is not in the file")
            if following in found:
                raise ConfigError(f"the training {following!r} starts from itself: see 'after'")
            found.append(following)
            following = self.trainings[following].after
        return found


def read_manifest(path: Path) -> Manifest:
    """Read results/manifest.yaml; its folder's parent is the root of the configurations."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ConfigError(f"{path} holds {type(content).__name__}; needed 'trainings:' and 'items:'")
        manifest = Manifest(root=path.resolve().parent.parent, **content)
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no manifest {path}: run remp reproduce in a clone of the repository, or give --manifest PATH"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        raise ConfigError(f"{path} is not readable YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {where}: {first['msg']}") from error
    try:
        for training in manifest.trainings:
            manifest.starts(training)
        for item in manifest.items.values():
            manifest.needed(item)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return manifest
