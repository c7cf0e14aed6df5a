"""Typed settings of a run <-> flat YAML <-> command line; unknown keys are refused with the nearest name."""

import inspect
import re
import reprlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from remp.backbones import BACKBONES
from remp.checks import did_you_mean, nearest
from remp.episodes import Protocol
from remp.errors import ConfigError
from remp.methods import KNOWN
from remp.rectification.transform import FeatureTransform
from remp.untrusted import border, shortened

_MOST_BYTES = 2**17  # of a file of settings; a large one has 2 KB


class RunConfig(BaseModel):
    """All settings of a training run. Those of the backbone and of the method are kept in their own dictionaries, but
    are written in the same flat file, under the names they have in the constructors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    data: str = Field(description="name of a prepared data set")
    method: str = Field("remp", description="name of a method")
    backbone: str = Field("conv4", description="name of a backbone")
    n_way: int = Field(15, ge=2, description="classes in a training episode")
    n_shot: int = Field(1, ge=1, description="labelled images per class in a training episode")
    n_query: int = Field(8, ge=1, description="queries per class in a training episode")
    episodes: int = Field(75_000, ge=1, description="number of training episodes")
    episodes_per_step: int | None = Field(
        None, ge=1, description="episodes per step, whose gradients are averaged; default: one per process"
    )
    first_share: float = Field(
        0.0, ge=0, le=1, description="share of the training that uses episodes of another shape first"
    )
    first_way: int | None = Field(None, ge=2, description="classes in these first episodes; default n_way")
    first_shot: int | None = Field(None, ge=1, description="labelled images per class in these; default n_shot")
    first_query: int | None = Field(None, ge=1, description="queries per class in these; default n_query")
    first_side: int | None = Field(None, ge=8, description="side of the images in these, in pixels; default: full size")
    optimiser: Literal["sgd", "adam", "adamw"] = Field(
        "sgd", description="adamw decays the weights separately from the gradient"
    )
    learning_rate: float = Field(0.1, gt=0, description="learning rate before it falls")
    warmup: int = Field(
        0, ge=0, description="episodes over which the learning rate rises from near 0 to its full value"
    )
    schedule_of_rate: Literal["milestones", "cosine"] = Field("milestones", description="how the learning rate falls")
    milestones: tuple[int, ...] = Field((25_000, 50_000), description="episodes after which the learning rate falls")
    milestone_factors: tuple[float, ...] | None = Field(
        None, description="what the rate is multiplied by at each milestone; default 0.1"
    )
    momentum: float = Field(
        0.9,
        ge=0,
        lt=1,
        description="momentum of sgd; for adam and adamw, how slowly the mean gradient changes (beta 1)",
    )
    nesterov: bool = Field(False, description="use Nesterov's momentum (sgd only)")
    weight_decay: float = Field(5e-4, ge=0, description="penalty on the squares of the weights")
    clip: float | None = Field(None, gt=0, description="largest norm of the gradient in a step; default: no limit")
    crop_area: tuple[float, float] = Field((0.5, 1.0), description="share of the image a random crop keeps")
    flip: bool = Field(True, description="mirror half of the training images")
    average: float = Field(0.0, ge=0, lt=1, description="decay of the moving average of the weights; 0 is off")
    validate_every: int = Field(1000, ge=1, description="episodes between validations")
    validation_episodes: int = Field(2000, ge=2, description="episodes in a validation; 500 give ± 0.7 points")
    validation_way: int = Field(5, ge=2, description="classes in a validation episode")
    validation_shot: int | None = Field(
        None, ge=1, description="labelled images per class in a validation episode; default n_shot"
    )
    validation_query: int = Field(15, ge=1, description="queries per class in a validation episode")
    keep: Literal["best", "last"] = Field(
        "best", description="which weights to keep: the best on validation classes, or the last"
    )
    checkpoint_every: int = Field(500, ge=1, description="episodes between checkpoints to resume from")
    transform: str = Field("none", description="feature transform in evaluation: parts of mirror+zoom+power+l2+centre")
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = Field(
        "32-true", description="bf16-mixed: convolutions in bfloat16, if the processor supports it"
    )
    start_from: str | None = Field(None, description="checkpoint whose weights the training starts from")
    seed: int = Field(0, ge=0, lt=2**63, description="seed of the weights, the episodes and the crops")
    backbone_settings: dict[str, Any] = Field(default_factory=dict)
    method_settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> "RunConfig":
        low, high = self.crop_area
        if not 0 < low <= high <= 1:
            raise ValueError(f"crop_area is {self.crop_area}; needed 0 < smallest <= largest <= 1")
        if list(self.milestones) != sorted(set(self.milestones)) or min(self.milestones, default=1) < 1:
            raise ValueError(f"milestones are {self.milestones}; they must increase, from 1 on")
        if self.milestone_factors is not None and len(self.milestone_factors) != len(self.milestones):
            raise ValueError(
                f"milestone_factors has {len(self.milestone_factors)} numbers for {len(self.milestones)} milestones; "
                "needed one for each, or null for 0.1 each"
            )
        FeatureTransform.parse(self.transform)
        return self

    @property
    def train_protocol(self) -> Protocol:
        return Protocol(self.n_way, self.n_shot, self.n_query)

    @property
    def first_protocol(self) -> Protocol:
        """Shape of the episodes in the first `first_share` of the training."""
        return Protocol(self.first_way or self.n_way, self.first_shot or self.n_shot, self.first_query or self.n_query)

    def images_of(self, episodes: int) -> int:
        """Images in that many episodes from the beginning of the training."""
        first = min(episodes, round(self.first_share * self.episodes))
        counts = ((first, self.first_protocol), (episodes - first, self.train_protocol))
        return sum(count * (sum(shape.shots) + shape.n_way * shape.n_query) for count, shape in counts)

    @property
    def validation_protocol(self) -> Protocol:
        return Protocol(self.validation_way, self.validation_shot or self.n_shot, self.validation_query)

    def with_episodes(self, episodes: int) -> "RunConfig":
        """The same run with another budget: milestones move in proportion, the warm-up takes a fifth at most."""
        factor = episodes / self.episodes
        factors = self.milestone_factors or (0.1,) * len(self.milestones)
        merged: dict[int, float] = {}  # in a very short run, milestones may fall together
        for milestone, fall in zip(self.milestones, factors, strict=True):
            moved = max(1, round(milestone * factor))
            merged[moved] = merged.get(moved, 1.0) * fall
        return self.model_copy(
            update={
                "episodes": episodes,
                "warmup": min(self.warmup, episodes // 5),
                "milestones": tuple(merged),
                "milestone_factors": None if self.milestone_factors is None else tuple(merged.values()),
            }
        )

    def flat(self) -> dict[str, Any]:
        """Every setting under its one name, defaults included: what is written to YAML."""
        own = self.model_dump(mode="json", exclude={"backbone_settings", "method_settings"})
        return {**own, **self.backbone_settings, **self.method_settings}

    def yaml(self) -> str:
        return yaml.safe_dump(self.flat(), sort_keys=False, default_flow_style=None, allow_unicode=True)


def make_config(settings: Mapping[str, Any]) -> RunConfig:
    """Sort flat settings to run, backbone and method, fill in defaults and check them all."""
    settings = dict(settings)
    method = _entry(KNOWN, "method", settings.get("method", RunConfig.model_fields["method"].default))
    backbone = _entry(BACKBONES, "backbone", settings.get("backbone", RunConfig.model_fields["backbone"].default))
    method_model, backbone_model = settings_model(method), settings_model(backbone)
    own = {name for name in RunConfig.model_fields if not name.endswith("_settings")}
    _check_names(
        method, set(method_model.model_fields), {"the run": own, "the backbone": set(backbone_model.model_fields)}
    )
    known = own | set(method_model.model_fields) | set(backbone_model.model_fields)
    for name in settings:
        if name not in known:
            hint = did_you_mean(str(name), known) or f"settings are: {', '.join(sorted(known))}"
            raise ConfigError(f"unknown setting {shortened(repr(name))}: {hint}")
    try:
        return RunConfig(
            **{name: value for name, value in settings.items() if name in own},
            backbone_settings=_filled(backbone_model, settings),
            method_settings=_filled(method_model, settings),
        )
    except ValidationError as error:
        raise ConfigError(_readable(error)) from error


def _check_names(method: type, names: set[str], others: Mapping[str, set[str]]) -> None:
    """Settings have one name each, in a file and on the command line."""
    for whose, theirs in others.items():
        if taken := sorted(names & theirs):
            raise ConfigError(
                f"{method.__name__} has a setting {taken[0]!r}, and so has {whose}: give the argument of its "
                "constructor another name"
            )


def load_config(path: Path, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Read a flat YAML file; `overrides` win over it. With another method or backbone, the settings of the one in the
    file are left out."""
    if not path.exists():
        raise ConfigError(f"there is no configuration file {path}: give a YAML file of settings, or settings alone")
    if not path.is_file():
        raise ConfigError(f"{path} cannot be read; needed a YAML file of settings")
    with border(f"{path} is not readable YAML", "needed a YAML file of settings", ConfigError):
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ConfigError(f"{path} has more than {_MOST_BYTES} bytes; needed lines of 'name: value'")
        settings = yaml.safe_load(content.decode("utf-8"))
    if not isinstance(settings, dict):
        raise ConfigError(f"{path} holds {type(settings).__name__}; needed lines of 'name: value'")
    overrides = overrides or {}
    try:
        return make_config(replaced(settings, overrides))
    except ConfigError as error:
        also = " and the command line" if overrides else ""
        raise ConfigError(f"{error} (settings of {path}{also})") from error


def replaced(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Flat settings with changes. With another method or backbone than they name, the settings of that one are left
    out: they mean nothing to the other, even under the same name."""
    kept = dict(settings)
    tables: dict[str, Mapping[str, type]] = {"method": KNOWN, "backbone": BACKBONES}
    for kind, table in tables.items():
        before = settings.get(kind)
        if isinstance(before, str) and before in table and changes.get(kind, before) != before:
            kept = {name: v for name, v in kept.items() if name not in settings_model(table[before]).model_fields}
    return {**kept, **changes}


_GIVEN = ("backbone", "channels", "n_classes", "feature_shape")  # by the run


@cache
def settings_model(owner: type) -> type[BaseModel]:
    """A pydantic model of the settings of a method or backbone: the arguments of its constructor that have a default,
    and those of the class above it where it passes on `**others`."""
    fields: dict[str, Any] = {}
    for cls in owner.__mro__:
        if (make := vars(cls).get("__init__")) is None:
            continue
        hints, parameters = get_type_hints(make), inspect.signature(make).parameters.values()
        for one in parameters:
            if one.default is not one.empty and one.name not in _GIVEN:
                fields.setdefault(one.name, (hints.get(one.name, Any), one.default))
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            break
    return create_model(f"{owner.__name__}Settings", __config__=ConfigDict(extra="forbid"), **fields)


def meanings(owner: type) -> dict[str, str]:
    """What the docstring of a method or backbone says of its settings: setting -> meaning.

    It says so in the form `name: meaning.` or `name, other: meaning.`; a class that says nothing of a setting inherits
    what the class above it says.
    """
    name = "|".join(sorted(settings_model(owner).model_fields, key=len, reverse=True))
    found: dict[str, str] = {}
    for described in owner.__mro__ if name else ():
        text = " ".join(inspect.cleandoc(described.__doc__ or "").split())
        text = re.sub(r"`[^`]*`", lambda quoted: quoted.group().replace(": ", ":\xa0"), text)  # an example of a setting
        heads = list(re.finditer(rf"(?<![\w`])((?:{name})(?:, (?:{name}))*): ", text))
        for head, after in zip(heads, [*heads[1:], None], strict=False):
            meaning = text[head.end() : after.start() if after else None].strip()
            for setting in head.group(1).split(", "):
                found.setdefault(setting, meaning.replace("\xa0", " "))
    return found


def _filled(model: type[BaseModel], settings: Mapping[str, Any]) -> dict[str, Any]:
    return model(**{k: v for k, v in settings.items() if k in model.model_fields}).model_dump(mode="json")


def _entry(table: Mapping[str, type], kind: str, name: Any) -> type:
    if isinstance(name, str) and name in table:
        return table[name]
    if kind == "method" and isinstance(name, str) and ":" in name:
        raise ConfigError(
            f"method {shortened(name)!r} is a class of your own: pass it as method=, e.g. remp.load(path, method=Mine)"
        )
    shown = shortened(name) if isinstance(name, str) else reprlib.repr(name)
    raise ConfigError(f"unknown {kind} {shown!r}; {nearest(shown, table)}")


# What a setting needs, by the kind of problem that pydantic names.
_NEEDED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list, as in [1, 2]",
    "too_short": "{min_length} entries or more",
    "too_long": "{max_length} entries or fewer",
    "literal_error": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
}


def _readable(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        name, *inside = map(str, problem["loc"]) if problem["loc"] else [""]
        needed = _NEEDED.get(problem["type"], "").format(**problem.get("ctx", {}))
        message = f"needed {needed}" if needed else problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "missing" and inside:
            lines.append(f"{name} has too few entries: got {reprlib.repr(problem['input'])}")
        elif problem["type"] == "missing":
            flag = "--" + "-".join(name.split("_"))
            lines.append(f"{name} is needed: {flag} VALUE, or a line '{name}: VALUE' in the file")
        else:
            # a list of YAML may hold a list twice, and so on: its text would have no end
            lines.append(f"{name}: got {reprlib.repr(problem['input'])}; {message}" if name else message)
    return "; ".join(lines)
