"""How to label: the settings of `remp label`."""

from dataclasses import dataclass, field

from remp.backbones.embedding import Embedder
from remp.errors import ConfigError
from remp.labelling.output.class_folders import Way
from remp.models import DEFAULT_EMBEDDER
from remp.propagation.adaptive import Adaptive
from remp.rectification.propagate import Propagation


@dataclass(frozen=True)
class LabelOptions:
    """How to label.

    Parameters
    ----------
    backbone : str or Embedder
        What makes features of pictures: "efficientnet-lite0", a checkpoint of remp, the folder of a run, a shipped
        name, "timm:NAME", or an Embedder.
    side : int, optional
        Pixels of the squares that the backbone is fed, if not those that it is made for. Fewer are faster, more are
        better.
    reject : float, optional
        Leave items below this probability without a label.
    unknown : bool
        Leave items without a label that resemble no class.
    n_next : int
        How many items to propose for labelling.
    class_folders : {"copy", "link"}, optional
        Copy the pictures, or link to them, class by class.
    propagation : Propagation
        Settings of the rectification.

    Examples
    --------
    >>> from remp import LabelOptions
    >>> LabelOptions(reject=0.9, class_folders="copy").n_next
    10
    """

    backbone: str | Embedder = DEFAULT_EMBEDDER
    side: int | None = None
    reject: float | None = None
    unknown: bool = True
    n_next: int = 10
    class_folders: Way | None = None
    propagation: Adaptive | Propagation = field(default_factory=Adaptive)

    def __post_init__(self) -> None:
        if self.reject is not None and not 0 <= self.reject <= 1:
            raise ConfigError(f"reject is {self.reject}; needed a probability: 0 … 1")
        if self.n_next < 0:
            raise ConfigError(f"{self.n_next} items to label next were asked for; needed 0 or more")
