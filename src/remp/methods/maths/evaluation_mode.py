"""Evaluation mode for a while: no dropout, batch norm by its running statistics, which stay as they are."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """While it lasts `module` is in evaluation mode; then its mode is what it was."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
