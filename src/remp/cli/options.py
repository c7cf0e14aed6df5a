"""Options that several commands share, and what they describe."""

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from remp.errors import ConfigError

Ways = Annotated[int, typer.Option(help="Classes per episode.")]
Queries = Annotated[int, typer.Option(help="Images per class to be recognised.")]
EpisodeCount = Annotated[int, typer.Option(help="How many episodes to draw.")]
Seed = Annotated[int, typer.Option(help="The same seed draws the same episodes on every machine.")]
Shots = Annotated[str, typer.Option(help="Labelled images per class; or one number per class: 1,1,2,5,5.")]
SeveralShots = Annotated[
    list[str], typer.Option(help="Labelled images per class, one number or several: 1 5. 1,1,2,5,5: one per class.")
]
Distribution = Annotated[
    str, typer.Option(help="How queries are distributed over the classes: balanced, or dirichlet:A.")
]
PictureBackbone = Annotated[
    str | None,
    typer.Option(
        help="The network for features: efficientnet-lite0 (default) or -lite2, a checkpoint of remp, dinov2-small, "
        "dinov2-base, siglip2-base, timm:NAME or timm:local-dir:PATH."
    ),
]
PictureSide = Annotated[
    int | None, typer.Option(help="Side in pixels of the square images for the backbone; smaller is faster.")
]
EngineName = Annotated[str, typer.Option("--engine", help="Where to compute: local (this process) or ray.")]
Address = Annotated[str | None, typer.Option(help="The Ray cluster: auto or HOST:6379; default: this machine.")]


class Command(TyperCommand):
    """A command that refuses an option which is given twice and takes one value: silently, the last would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        read: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]
        given = [one for one in read if one.param_type_name == "option" and not one.multiple and not one.is_flag]
        if twice := [option.opts[0] for i, option in enumerate(given) if option in given[:i]]:
            raise ConfigError(f"{twice[0]} is given twice; it takes one value")
        return super().parse_args(ctx, args)


class SeveralCommand(Command):
    """A command whose --n-shot takes several numbers, and --methods several names: --n-shot 1 5 is --n-shot 1 --n-shot
    5. A word that is no number ends the numbers: it may be the file of the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeated: list[str] = []
        option = ""  # the one that a word that comes now is for
        has_one = False  # whether that option has a word already
        for argument in args:
            if argument.startswith("-"):
                name, equals, _ = argument.partition("=")
                option, has_one = name if name in ("--n-shot", "--methods") else "", bool(equals)
            elif option == "--n-shot" and not argument.replace(",", "").isdigit():
                option = ""
            elif option and has_one:
                repeated.append(option)
            else:
                has_one = True
            repeated.append(argument)
        return super().parse_args(ctx, repeated)


def make_protocol(n_way: int, n_shot: str, n_query: int, distribution: str) -> Any:
    """The protocol that the options ask for."""
    from remp.episodes import Protocol
    from remp.errors import EpisodeError

    try:
        shots = [int(number) for number in n_shot.split(",")]
    except ValueError as error:
        raise EpisodeError(f"--n-shot is {n_shot!r}; give a number, or one number per class: 1,1,2,5,5") from error
    return Protocol(n_way, shots[0] if len(shots) == 1 else tuple(shots), n_query, distribution)


def file_and_settings(first: str | None, rest: list[str]) -> tuple[str | None, dict[str, Any]]:
    """The file, None where there is none, and the settings that flags change; values are read as YAML.

    first, rest: what the command line left over. Where a flag came before the file, the flag is the first of it.

    >>> file_and_settings("a.yaml", ["--alpha", "0.5", "--crop-area=[0.3, 1]"])
    ('a.yaml', {'alpha': 0.5, 'crop_area': [0.3, 1]})
    """
    files: list[str] = []
    settings: dict[str, Any] = {}
    arguments = iter([*([] if first is None else [first]), *rest])
    for argument in arguments:
        if not argument.startswith("--"):
            files.append(argument)
            continue
        name, equals, text = argument[2:].partition("=")
        value = text if equals else next(arguments, None)
        setting = name.replace("-", "_")
        if value is None or (not equals and value.startswith("--")):
            raise ConfigError(f"--{name} needs a value: --{name} VALUE; a switch is --{name} true or --{name} false")
        if setting in settings:
            raise ConfigError(f"--{name} is given twice; a setting has one value")
        settings[setting] = _read_value(name, value)
    if len(files) > 1:
        raise ConfigError(f"got {' and '.join(map(repr, files))}; needed one file, and settings as --name value")
    return files[0] if files else None, settings


def _read_value(name: str, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--{name} is {text!r}; needed a value as in YAML: 0.5, true, word, [0.3, 1]") from error


def make_engine(name: str, address: str | None) -> Any:
    """The engine of this name; None for this process."""
    if name == "local":
        if address is not None:
            raise ConfigError("--address is for --engine ray: give both or none")
        return None
    if name != "ray":
        raise ConfigError(f"there is no engine {name!r}: give local or ray")
    from remp.engine.ray import RayEngine

    return RayEngine(address)
