"""Episodes and settings that the tests of rectification share."""

import itertools
from dataclasses import replace

import torch

from remp.rectification import Rectification


def episode(shots=(2, 2, 2), n_query=7, dim=4, n_episodes=2, seed=0, dtype=torch.float64):
    """Clustered support and queries: labels come shuffled, classes overlap."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.full((k,), n) for n, k in enumerate(shots)])
    labels = torch.stack([labels[torch.randperm(len(labels), generator=generator)] for _ in range(n_episodes)])
    centres = torch.randn(n_episodes, len(shots), dim, dtype=dtype, generator=generator)
    ways = torch.randint(len(shots), (n_episodes, n_query), generator=generator)
    rows = torch.arange(n_episodes)[:, None]
    noise = torch.randn(n_episodes, labels.shape[1] + n_query, dim, dtype=dtype, generator=generator)
    items = centres[rows, torch.cat([labels, ways], 1)] + 0.6 * noise
    return items[:, : labels.shape[1]], labels, items[:, labels.shape[1] :]


def matrix(dim=4, seed=5, dtype=torch.float64):
    return torch.randn(dim, dim, dtype=dtype, generator=torch.Generator().manual_seed(seed)) / dim


SWITCHES = [
    Rectification(
        layers=3, repulsion=repulsion, row_norm=row_norm, similarity=similarity, residual=residual, scale=scale
    )
    for repulsion, row_norm, (similarity, scale), residual in itertools.product(
        ("negative", "zero", "none"),
        ("absolute", "signed"),
        (("euclidean", 0.3), ("cosine", 3.0), ("plain-euclidean", 1.5)),
        (True, False),
    )
]
SWITCHES += [replace(SWITCHES[0], label_share=0.7), replace(SWITCHES[1], label_share=0.3, row_norm="signed")]
SWITCHES += [replace(SWITCHES[0], step=0.4), replace(SWITCHES[1], step=0.4)]
SWITCHES += [replace(SWITCHES[0], balanced=True), replace(SWITCHES[-5], balanced=True, label_share=0.3)]


def name(settings: Rectification) -> str:
    """A short id of a case."""
    kind = "residual" if settings.residual else "replaced"
    share = f"-{settings.label_share}" if settings.label_share else ""
    step = f"-step {settings.step}" if settings.step != 1 else ""
    balanced = "-balanced" if settings.balanced else ""
    return f"{settings.repulsion}-{settings.row_norm}-{settings.similarity}-{kind}{share}{step}{balanced}"


SHAPES = {
    "unequal shots": {"shots": (1, 3, 2)},
    "one query": {"n_query": 1},
    "one class": {"shots": (3,), "n_query": 4},
    "twenty ways": {"shots": (1,) * 20, "n_query": 25},
}
