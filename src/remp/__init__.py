"""remp: few-shot image classification by rectified metric propagation."""

from remp.version import __version__

__all__ = ["__version__"]
