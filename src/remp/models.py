"""Models by their name: trained methods, those that ship with the package, and what makes embeddings of images."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from remp.backbones import PRETRAINED
from remp.backbones.embedding import Embedder, embedding_hash
from remp.backbones.timm_models import TIMM, load_timm
from remp.checkpoint import load_trained
from remp.errors import CheckpointError, ConfigError
from remp.methods import Method, make_known
from remp.propagation.saved import read_labelling
from remp.trained import Trained

if TYPE_CHECKING:
    from remp.estimator import ReMPClassifier

FOLDER = Path(__file__).parent / "weights"
DEFAULT_EMBEDDER = "efficientnet-lite0"
SIDES = range(32, 1025)


def shipped_models() -> dict[str, Path]:
    """Name -> checkpoint."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.safetensors"))}


def find_checkpoint(name: str | Path) -> Path:
    """The checkpoint of a file, of a run folder, or of a shipped model by its name."""
    path = Path(name)
    if path.is_dir():
        path = path / "best.safetensors"
    if path.is_file():
        return path
    if str(name) in shipped_models():
        return shipped_models()[str(name)]
    raise CheckpointError(
        f"there is no checkpoint {str(name)!r}: give a .safetensors file, the folder of a run, or one of the models "
        f"that ship with remp: {', '.join(shipped_models()) or 'none'}"
    )


def load(name: str | Path, *, method: type[Method] | None = None, **settings: Any) -> Trained:
    """Load a trained method.

    Parameters
    ----------
    name : str or Path
        A checkpoint, the folder of a run, or the name of a model that ships with remp.
    method : class, optional
        The class it was trained with, if that is one of your own.
    **settings
        Settings of the method to change, for example layers=0.

    Returns
    -------
    Trained
        With `predict` for pictures of your own; `evaluate` takes it, too.

    Examples
    --------
    >>> import remp
    >>> trained = remp.load("cifar-fs-convnet64-1shot")
    >>> trained.config.method, trained.image_size
    ('remp', (32, 32, 3))
    >>> remp.load("cifar-fs-convnet64-1shot", layers=0).method.transductive
    False
    """
    asked = None if method is None else make_known(method)
    trained = load_trained(find_checkpoint(name), settings)
    if asked not in (None, trained.config.method):
        raise ConfigError(f"{name} was trained with the method {trained.config.method!r}, not {asked!r}: leave it out")
    return trained


def load_labelling(path: str | Path) -> "ReMPClassifier":
    """Load a model that `remp label --save`, `ReMPClassifier.save` or `remp studio` wrote.

    Parameters
    ----------
    path : str or Path
        The folder of the model, or its file.

    Returns
    -------
    ReMPClassifier
        Fitted: `predict` and `predict_proba` take rows of features made as those it learned from, each by itself;
        `refit` learns again with new rows as the unlabelled ones.

    Raises
    ------
    CheckpointError
        If there is no such model, or it is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import remp
    >>> X = [[1.0, 0.1], [0.1, 1.0], [0.9, 0.2], [0.8, 0.1], [0.2, 0.9]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = remp.ReMPClassifier().fit(X, ["cat", "dog", "", "", ""]).save(f"{folder}/model")
    ...     model = remp.load_labelling(f"{folder}/model")
    >>> model.predict([[0.7, 0.3]]).tolist()
    ['cat']
    """
    from remp.estimator import ReMPClassifier

    return ReMPClassifier._of(read_labelling(Path(path)))


def find_embedder(name: str | Path | Embedder = DEFAULT_EMBEDDER, *, side: int | None = None) -> Embedder:
    """Find the network that turns pictures into embeddings, by the name of its backbone.

    Parameters
    ----------
    name : str, Path or Embedder
        A pretrained backbone ("efficientnet-lite0"), "timm:NAME", or a checkpoint of remp: a file, the folder of a run
        or a shipped name. An embedder is returned as it is.
    side : int, optional
        Side in pixels of the square images that it gets; by default the side it was made for.

    Returns
    -------
    Embedder
        With `embed(images)`: uint8 (n, height, width, 3) -> float32 (n, dim), and its `name`, `dim`, `side` and `hash`.

    Examples
    --------
    >>> import numpy as np
    >>> from remp import find_embedder
    >>> embedder = find_embedder("cifar-fs-convnet64-1shot")
    >>> embedder.embed(np.zeros((2, 50, 40, 3), np.uint8)).shape
    (2, 256)
    """
    if isinstance(name, Embedder):
        if side not in (None, name.side):
            raise ConfigError(f"got a side of {side} pixels and an embedder for {name.side}: leave the side out")
        return name
    name = str(name)
    if side is not None and side not in SIDES:
        raise ConfigError(f"got a side of {side!r} pixels; needed a whole number: {SIDES.start} … {SIDES.stop - 1}")
    if name in PRETRAINED:
        return PRETRAINED[name](side)
    if name.startswith(TIMM):
        return load_timm(name, side)
    try:
        path = find_checkpoint(name)
    except CheckpointError as error:
        raise ConfigError(
            f"there is no backbone {name!r}: give {', '.join(PRETRAINED)}, {TIMM}NAME, a .safetensors file of remp, "
            f"the folder of a run, or a model that ships with remp: {', '.join(shipped_models()) or 'none'}"
        ) from error
    return _embedder_of(load_trained(path), name, side)


def is_checkpoint(name: str) -> bool:
    """Whether the name is for a checkpoint of ours rather than a backbone from elsewhere."""
    return name not in PRETRAINED and not name.startswith(TIMM)


def vector_method(trained: Trained) -> Method:
    """What makes a vector of an image: the method, or its backbone alone where the method works on maps."""
    return Method(trained.method.backbone) if trained.method.uses_maps else trained.method


def _embedder_of(trained: Trained, name: str, side: int | None) -> Embedder:
    height, width, channels = trained.image_size
    if height != width or side not in (None, height):
        raise ConfigError(
            f"{name} was trained on images of {height} x {width} pixels and takes no others: "
            + ("leave the side out" if height == width else "use a backbone that was trained on square images")
        )
    method = vector_method(trained).eval()
    with torch.inference_mode():
        dim = method.embed(torch.zeros(1, channels, height, width)).shape[1]
    return Embedder(
        name=name,
        hash=embedding_hash(trained.hash, height, trained.normalisation),
        dim=dim,
        side=height,
        trained_on=trained.config.data,
        network=method.embed,
        normalisation=trained.normalisation,
    )
