"""Raw archives and folders in, prepared image sets out."""

from remp.datasets.base import ImageSet, open_prepared

__all__ = ["ImageSet", "open_prepared"]
