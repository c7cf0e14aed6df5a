"""`remp train`, whose --help lists every setting of the run, of its method and of its backbone.

Not by jsonargparse: which settings there are depends on the method and the backbone that are asked for, and the models
of `remp.config` check them already.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from remp.cli.options import Command, file_and_settings
from remp.errors import RempError
from remp.system.progress import is_first_process


def train(
    context: typer.Context,
    config: Annotated[str | None, typer.Argument(help="A YAML file of settings.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; default: runs/DATA-METHOD-SHOT.")] = None,
    budget: Annotated[str | None, typer.Option(help="1h, 300s or 20000 (episodes) instead of the full length.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of an interrupted run to continue.")] = None,
) -> None:
    """Train a method. Any setting of the file can be changed: --alpha 0.5 --learning-rate 0.05 …"""
    from remp import training
    from remp.config import load_config, make_config

    file, overrides = file_and_settings(config, context.args)
    if resume:
        if file or overrides or out or budget:
            raise RempError("--resume continues a run with its own settings; give nothing else with it")
        best = training.resume(resume)
    else:
        settings = load_config(Path(file), overrides) if file else make_config(overrides)
        best = training.train(settings, out=out, budget=budget)
    if is_first_process():
        print(f"weights to use: {best}\nevaluate them with: remp evaluate {shlex.quote(str(best))}")


class TrainCommand(Command):
    """The command with its settings in --help, those of the method and backbone that are asked for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["remp.given"] = list(args)  # --help acts before they are read
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from rich.console import Console

        super().format_help(ctx, formatter)
        for table in _tables([argument for argument in ctx.meta["remp.given"] if argument != "--help"]):
            Console().print(table)


def _tables(arguments: list[str]) -> Iterable[Any]:
    """One table of settings each for the run, the method and the backbone."""
    from rich.table import Table

    from remp.backbones import BACKBONES
    from remp.config import RunConfig, load_config, make_config, meanings, settings_model
    from remp.methods import KNOWN

    file, given = file_and_settings(None, arguments)
    chosen: dict[str, Any] = {name: given[name] for name in ("method", "backbone") if name in given}
    config = load_config(Path(file), chosen) if file else make_config({"data": "", **chosen})
    shown: dict[str, tuple[Any, dict[str, str]]] = {
        "the run": (RunConfig, {name: field.description or "" for name, field in RunConfig.model_fields.items()})
    }
    owners: list[tuple[str, type]] = [("method", KNOWN[config.method]), ("backbone", BACKBONES[config.backbone])]
    for kind, owner in owners:
        shown[f"the {kind} {getattr(config, kind)}; for another one: --{kind} NAME --help"] = (
            settings_model(owner),
            meanings(owner),
        )
    for title, (model, meaning) in shown.items():
        table = Table("setting", "default", "meaning", title=f"Settings of {title}", title_justify="left", box=None)
        for name, field in model.model_fields.items():
            if not name.endswith("_settings"):
                default = "needed" if field.is_required() else _as_typed(field.default)
                table.add_row(f"--{name.replace('_', '-')}", default, _with_choices(meaning[name], field.annotation))
        yield table


def _with_choices(meaning: str, kind: Any) -> str:
    """The meaning of a setting with the words it takes, where it names not all of them itself."""
    choices = [choice for choice in get_args(kind) if isinstance(choice, str)]
    listed = f" ({', '.join(choices)})" if any(choice not in meaning for choice in choices) else ""
    return meaning.removesuffix(".") + listed


def _as_typed(value: Any) -> str:
    """A default in the form in which it is given: null, true, [0.5, 1.0]."""
    import yaml

    typed = yaml.safe_dump(list(value) if isinstance(value, tuple) else value, default_flow_style=True)
    return typed.partition("\n")[0]
