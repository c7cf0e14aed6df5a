"""`remp evaluate`, `episodes`, `compare` and `audit`: methods scored, against each other, and checked for leaks."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from remp.cli.options import (
    Distribution,
    EpisodeCount,
    Queries,
    Seed,
    SeveralShots,
    Shots,
    Ways,
    file_and_settings,
    make_protocol,
)
from remp.errors import ConfigError, RempError
from remp.system.files import numbered

if TYPE_CHECKING:
    from remp.evaluation.frozen_features import FrozenFeatures


def evaluate(
    context: typer.Context,
    checkpoint: Annotated[str, typer.Argument(help="A checkpoint, the folder of a run, or a shipped model.")],
    data: Annotated[str | None, typer.Option(help="A prepared data set; default: the one it was trained on.")] = None,
    split: Annotated[str, typer.Option(help="Which classes: train, val or test.")] = "test",
    n_way: Ways = 5,
    n_shot: SeveralShots = ["1"],
    n_query: Queries = 15,
    n_episodes: EpisodeCount = 600,
    seed: Seed = 0,
    distribution: Distribution = "balanced",
    transform: Annotated[
        str | None, typer.Option(help="Parts of mirror+zoom+power+l2+centre, all, or none; default: the model's.")
    ] = None,
    episodes: Annotated[
        Path | None, typer.Option(help="Score the episodes of this file instead of drawing some.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to save the result; default: runs/evaluations/.")] = None,
) -> None:
    """Score a trained method on episodes. Settings of the method can be changed: --layers 0 …"""
    from remp.datasets import open_data
    from remp.episodes.files import load_episodes
    from remp.evaluation.evaluate import evaluate as run
    from remp.models import load

    file, overrides = file_and_settings(checkpoint, context.args)
    if file is None:
        raise RempError("no checkpoint was given: give a file, the folder of a run, or the name of a shipped model")
    if "method" in overrides:
        raise ConfigError(
            f"the method is fixed by training: leave --method out, or score others on the features of {file} with: "
            f"remp compare --features {file} --methods {overrides['method']}"
        )
    trained = load(file, **overrides)
    images = open_data(data or trained.config.data, split)
    tasks: list[tuple[Any, Any, int | None]] = [
        (make_protocol(n_way, shots, n_query, distribution), None, seed) for shots in n_shot
    ]
    if episodes:
        drawn_by = ("n_way", "n_shot", "n_query", "n_episodes", "seed", "distribution")
        sources = {name: context.get_parameter_source(name) for name in drawn_by}
        if given := [name for name, source in sources.items() if source and source.name == "COMMANDLINE"]:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise ConfigError(f"--episodes {episodes} says which episodes to score: leave out {flags}")
        saved_episodes = load_episodes(episodes, images)
        tasks = [(saved_episodes.protocol, saved_episodes.episodes, saved_episodes.seed)]
    for protocol, drawn, drawn_from in tasks:
        result = run(
            trained, images, protocol, n_episodes=n_episodes, seed=drawn_from, transform=transform, episodes=drawn
        )
        stem = trained.name.removesuffix(".safetensors")
        shown = f"{stem}-{images.name}-{protocol.n_way}way-{result.episode_hash[:8]}"
        saved = result.save(out or Path("runs/evaluations") / f"{shown}.json")
        print(f"{result.card()}\n  every episode's accuracy: {saved}")


def episodes(
    data: Annotated[str, typer.Argument(help="A prepared data set.")],
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    split: Annotated[str, typer.Option(help="Which classes: train, val or test.")] = "test",
    n_way: Ways = 5,
    n_shot: Shots = "1",
    n_query: Queries = 15,
    n_episodes: EpisodeCount = 600,
    seed: Seed = 0,
    distribution: Distribution = "balanced",
) -> None:
    """Draw episodes and write them to a file, so that others can score exactly the same ones."""
    from remp.datasets import open_data
    from remp.episodes.files import save_episodes
    from remp.evaluation.evaluate import draw_episodes

    images = open_data(data, split)
    protocol = make_protocol(n_way, n_shot, n_query, distribution)
    drawn = draw_episodes(images, protocol, n_episodes=n_episodes, seed=seed)
    digest = save_episodes(out, drawn, protocol=protocol, images=images, seed=seed)
    print(f"{out}: {n_episodes} episodes, {n_way}-way {n_shot}-shot, seed {seed}, hash {digest}")


def compare(
    features: Annotated[
        str, typer.Option(help="A checkpoint, the folder of a run, a shipped model, efficientnet-lite0 or timm:NAME.")
    ],
    data: Annotated[str | None, typer.Option(help="A prepared data set; default: the one it was trained on.")] = None,
    split: Annotated[str, typer.Option(help="Which classes: train, val or test.")] = "test",
    methods: Annotated[
        list[str], typer.Option(help="Names: remp protonet, or remp,protonet; or all for frozen features.")
    ] = ["all"],
    reference: Annotated[str, typer.Option(help="The method that the others are compared with.")] = "protonet",
    n_way: Ways = 5,
    n_shot: SeveralShots = ["1"],
    n_query: Queries = 15,
    n_episodes: EpisodeCount = 1000,
    seed: Seed = 0,
    distribution: Distribution = "balanced",
    transform: Annotated[str, typer.Option(help="Parts of mirror+zoom+power+l2+centre, all, or none.")] = "none",
    side: Annotated[
        int | None, typer.Option(help="Pixels that images are scaled to for a pretrained backbone.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the files; default: runs/comparisons/…")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a comparison in that folder.")] = False,
) -> None:
    """Score classifiers on the same features and episodes; write a table, the numbers and a figure."""
    from remp.datasets import open_data, read_index
    from remp.evaluation.compare import chosen_methods, compare_features
    from remp.report.comparison import check_free, write_comparison

    protocols = [make_protocol(n_way, shots, n_query, distribution) for shots in n_shot]
    names = chosen_methods(",".join(methods), reference)
    name, data, embed = _source(features, data, side)
    images = open_data(data, split)
    default = Path("runs/comparisons") / f"{name}-{images.name}-{split}"
    folder = out or next(free for free in numbered(default) if not free.exists())
    check_free(folder, overwrite=overwrite)
    training_images = open_data(images.name, "train") if "train" in read_index(images.name)["splits"] else None
    made = embed(images, training_images=training_images, transform=transform)
    comparison = compare_features(made, protocols, methods=names, reference=reference, n_episodes=n_episodes, seed=seed)
    paths = write_comparison(comparison, folder, overwrite=overwrite)
    print(f"{comparison}\n\n{folder}: {', '.join(path.name for path in paths)}")


def _source(features: str, data: str | None, side: int | None) -> "tuple[str, str, Callable[..., FrozenFeatures]]":
    """Where features come from: a name for the folder, the data that they are made of, and what makes them."""
    from remp.evaluation.frozen_features import frozen_features, pretrained_features
    from remp.models import find_embedder, is_checkpoint, load

    if is_checkpoint(features):
        if side is not None:
            raise ConfigError(f"--side {side} is for pretrained backbones; {features} takes images as it was trained")
        trained = load(features)
        name = trained.name.removesuffix(".safetensors")
        return name, data or trained.config.data, partial(frozen_features, trained)
    if data is None:
        raise ConfigError(f"{features} comes without a data set: give --data with the name of a prepared set")
    name = features.replace(":", "-").replace("/", "-")
    return name, data, partial(pretrained_features, find_embedder(features, side=side))


def audit(
    method: Annotated[str, typer.Argument(help="A name from the table, a checkpoint, or a name in the --module file.")],
    module: Annotated[
        Path | None, typer.Option(help="A Python file of your own that defines the method. The file is executed.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the made-up episodes.")] = 0,
) -> None:
    """Check a method for leaks: pass or fail for each property, with the numbers. Exit code 1 if any fails."""
    from remp.evaluation.audit import audit as run
    from remp.evaluation.audit.subject import findings_text

    subject = _subject(method, module)
    findings = run(subject.method, image_size=subject.image_size, seed=seed)
    kind = "transductive" if subject.method.transductive else "inductive"
    balance = "assumes" if subject.method.assumes_balance else "does not assume"
    print(f"{method}: declared {kind}, {balance} balanced queries; asked about items of shape {subject.item_shape}")
    print(findings_text(findings))
    if not all(finding.passed for finding in findings):
        raise typer.Exit(1)


def _subject(name: str, module: Path | None) -> Any:
    """From the user's file, from the table with fresh weights, or trained."""
    from remp.checks import nearest
    from remp.evaluation.audit.subject import Subject, method_from_file, tiny_method
    from remp.methods import METHODS
    from remp.models import load, shipped_models

    if module:
        found = method_from_file(module, name)
        return Subject(tiny_method(found) if isinstance(found, type) else found)
    if name in METHODS:
        return Subject(tiny_method(METHODS[name]))
    if name in shipped_models() or Path(name).exists():
        trained = load(name)
        return Subject(trained.method, trained.image_size)
    raise ConfigError(f"{name!r} is neither a method nor a checkpoint; {nearest(name, [*METHODS, *shipped_models()])}")
