"""How to label: the settings of `remp label`."""

from dataclasses import dataclass, field

from remp.backbones.embedding import Embedder
from remp.errors import ConfigError
from remp.labelling.output.class_folders import Way
from remp.models import DEFAULT_EMBEDDER
from remp.rectification.propagate import Propagation


@dataclass(frozen=True)
class LabelOptions:
    """backbone: what makes features of pictures: a name, a checkpoint of ours, `timm:NAME`, or an Embedder.
    side: pixels of the squares it is fed, if not those it is made for: fewer are faster, more are better.
    reject: leave items below this probability without a label. unknown: leave those without that resemble no class.
    n_next: how many items to propose for labelling. class_folders: copy the pictures, or link to them, class by class.
    """

    backbone: str | Embedder = DEFAULT_EMBEDDER
    side: int | None = None
    reject: float | None = None
    unknown: bool = True
    n_next: int = 10
    class_folders: Way | None = None
    propagation: Propagation = field(default_factory=Propagation)

    def __post_init__(self) -> None:
        if self.reject is not None and not 0 <= self.reject <= 1:
            raise ConfigError(f"reject is {self.reject}; needed a probability: 0 … 1")
        if self.n_next < 0:
            raise ConfigError(f"{self.n_next} items to label next were asked for; needed 0 or more")
