"""`remp compare`: classifiers on frozen features against each other."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remp.cli.options import Distribution, SeveralShots, make_protocol
from remp.errors import ConfigError

if TYPE_CHECKING:
    from remp.evaluation.frozen_features import FrozenFeatures

SEVERAL_SHOTS = {"allow_extra_args": True}  # --n-shot 1 5: an option takes one value, the others come as extra ones


def compare(
    context: typer.Context,
    features: Annotated[
        str, typer.Option(help="A checkpoint, the folder of a run, a shipped model, efficientnet-lite0 or timm:NAME.")
    ],
    data: Annotated[str | None, typer.Option(help="A prepared data set; default the one trained on.")] = None,
    split: Annotated[str, typer.Option(help="Whose classes.")] = "test",
    methods: Annotated[str, typer.Option(help="Names joined by commas, or all that work on frozen features.")] = "all",
    reference: Annotated[str, typer.Option(help="The method that differences are taken to.")] = "protonet",
    n_way: int = 5,
    n_shot: SeveralShots = ["1"],
    n_query: int = 15,
    n_episodes: int = 1000,
    seed: int = 0,
    distribution: Distribution = "balanced",
    transform: Annotated[str, typer.Option(help="Parts of mirror+zoom+power+l2+centre, all, or none.")] = "none",
    side: Annotated[
        int | None, typer.Option(help="Pixels that images are scaled to for a pretrained backbone.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the files; default runs/comparisons/….")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a comparison in that folder.")] = False,
) -> None:
    """Score classifiers on the same features and episodes; write table, numbers and picture."""
    from remp.datasets import open_data, read_index
    from remp.evaluation.compare import chosen_methods, compare_features
    from remp.report.comparison import check_free, comparison_text, write_comparison

    protocols = [make_protocol(n_way, shots, n_query, distribution) for shots in (*n_shot, *context.args)]
    names = chosen_methods(methods, reference)
    source = _Source.find(features, data, side)
    images = open_data(source.data, split)
    folder = out or _free_folder(f"{source.name}-{images.name}-{split}")
    check_free(folder, overwrite=overwrite)
    training_images = open_data(images.name, "train") if "train" in read_index(images.name)["splits"] else None
    made = source.embed(images, training_images=training_images, transform=transform)
    comparison = compare_features(made, protocols, methods=names, reference=reference, n_episodes=n_episodes, seed=seed)
    paths = write_comparison(comparison, folder, overwrite=overwrite)
    print(f"{comparison_text(comparison)}\n\n{folder}: {', '.join(path.name for path in paths)}")


@dataclass(frozen=True)
class _Source:
    """Where features come from: a name for the folder, the data that they are made of, and what makes them."""

    name: str
    data: str
    embed: "Callable[..., FrozenFeatures]"

    @classmethod
    def find(cls, features: str, data: str | None, side: int | None) -> "_Source":
        from remp.evaluation.frozen_features import frozen_features, pretrained_features
        from remp.models import find_embedder, is_checkpoint, load

        if is_checkpoint(features):
            if side is not None:
                raise ConfigError(
                    f"--side {side} is for pretrained backbones; {features} takes images as it was trained"
                )
            trained = load(features)
            name = trained.name.removesuffix(".safetensors")
            return cls(name, data or trained.config.data, partial(frozen_features, trained))
        if data is None:
            raise ConfigError(
                f"{features} was not trained on data of yours: give --data with the name of a prepared set"
            )
        name = features.replace(":", "-").replace("/", "-")
        return cls(name, data, partial(pretrained_features, find_embedder(features, side=side)))


def _free_folder(name: str) -> Path:
    """A folder of that name under runs/comparisons that is not there yet, with a number if need be."""
    folder, number = Path("runs/comparisons") / name, 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{name}-{number}")
    return folder
