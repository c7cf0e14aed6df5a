"""Rectification in chunks: the same prototypes as all at once, in memory for one chunk of the queries.

python examples/03_rectify_a_million_queries.py [--n 20000]
"""

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from remp import Rectification, rectify
from remp.rectification import rectify_chunked

parser = argparse.ArgumentParser()
parser.add_argument("--n", type=int, default=20_000)
n = parser.parse_args().n

torch.manual_seed(0)
n_way, dim, chunk = 10, 64, 4096
centres = torch.randn(n_way, dim)
support, labels = centres + 0.8 * torch.randn(n_way, dim), torch.arange(n_way)
query = centres[torch.randint(n_way, (n,))] + 0.8 * torch.randn(n, dim)
settings = Rectification(layers=10, scale=0.5, residual=False)


def chunks() -> Iterator[Tensor]:  # could just as well read a file; called once a layer
    for start in range(0, n, chunk):
        yield query[None, start : start + chunk]


prototypes, logits = rectify_chunked(support[None], labels[None], chunks, n_way, settings)
dense = rectify(support[None], labels[None], query[None], n_way, settings)
print(f"{n} queries in chunks of {chunk}")
print(f"largest difference to the dense form: {(prototypes - dense.prototypes).abs().max():.1e}")
print(f"same answers: {bool((logits(query[None]).argmax(-1) == dense.logits.argmax(-1)).all())}")
