"""Backbones of the timm library, where that is installed."""

import hashlib
from typing import Any

import torch
from torch import nn

from remp.backbones.embedding import Embedder, Normalisation, embedding_hash
from remp.checks import required
from remp.errors import CheckpointError, ConfigError

TIMM = "timm:"
_PLACES = ("local-dir:", "hf-hub:")  # timm takes these before the name of a folder or of a repository


def load_timm(name: str, side: int | None = None) -> Embedder:
    """`timm:NAME`: a model of timm without its classifier, with its authors' preprocessing. timm may download the
    weights; those of `timm:local-dir:PATH` are in a folder, with a config.json as timm writes it."""
    model = _make(name.removeprefix(TIMM))
    settings: dict[str, Any] = model.pretrained_cfg  # type: ignore[assignment]
    own_side = int(settings["input_size"][-1])
    side = side or own_side
    if settings.get("fixed_input_size") and side != own_side:
        raise ConfigError(f"{name} takes images of {own_side} pixels only, got {side}: leave the side out")
    with torch.inference_mode():
        dim = model(torch.zeros(1, 3, own_side, own_side)).shape[1]
    normalisation = Normalisation(tuple(settings["mean"]), tuple(settings["std"]))
    return Embedder(
        name=name,
        hash=embedding_hash(_hash(name, model), side, normalisation),
        dim=dim,
        side=side,
        trained_on=settings.get("tag") or "unknown data",
        network=model,
        normalisation=normalisation,
    )


def _make(name: str) -> nn.Module:
    timm = required("timm", f"{TIMM}{name}")
    if not name.startswith(_PLACES) and not timm.is_model(name):
        near = ", ".join(timm.list_models(f"*{name.partition('_')[0]}*", pretrained=True)[:5]) or "timm.list_models()"
        raise ConfigError(f"timm has no model {name!r}; it has e.g. {near}")
    try:
        return timm.create_model(name, pretrained=True, num_classes=0).eval()
    except Exception as error:  # no network, no such weights, a full disk: timm passes on whatever it meets
        raise CheckpointError(
            f"timm could not load the weights of {name!r} ({type(error).__name__}: {error}): check the network and the "
            f"disk, or give a folder that has them, {TIMM}local-dir:PATH"
        ) from error


def _hash(name: str, model: nn.Module) -> str:
    digest = hashlib.sha256(name.encode())
    for key, tensor in sorted(model.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
