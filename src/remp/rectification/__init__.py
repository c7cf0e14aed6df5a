"""The paper, nothing else: its switches, similarity, a layer, rectification of episodes and of any number of rows."""

from dataclasses import dataclass
from typing import Literal

from remp.checks import check_choice, require_at_least, require_below_one, require_share
from remp.errors import ConfigError

Repulsion = Literal["negative", "zero", "none"]
RowNorm = Literal["absolute", "signed"]
Metric = Literal["euclidean", "plain-euclidean", "cosine"]


@dataclass(frozen=True, kw_only=True)
class Rectification:
    """The switches of `rectify`. "The method" in the documentation says what the paper leaves open.

    Parameters
    ----------
    layers : int
        Number of layers L. Without any, prototypes stay class means.
    repulsion : {"negative", "zero", "none"}
        What an attention P below β becomes: -min(P), 0, or it stays.
    row_norm : {"absolute", "signed"}
        Rows of the attention are divided by the sum of their absolute or of their signed values.
    similarity : {"euclidean", "plain-euclidean", "cosine"}
        κ of the attention: minus the squared distance (as in most codes), minus the distance itself, or the cosine.
    scale : float
        Factor of κ.
    residual : bool
        C ← h(AZ) + C and Z ← h(Z) + Z, as in the paper. Without it C ← AZ, and Z stays.
    threshold : float
        β of layer l is threshold / (N (L - l)).
    step : float
        Share of the way from C to its update; 1 in the paper.
    label_share : float
        The support has at least this share of the weight of all items; 0 in the paper, where every item counts as one.
        Many queries would otherwise outvote the labels, and the prototypes would drift to clusters of their own.
    balanced : bool
        Assume classes of equal size, by a bias of each class that every layer corrects by the class masses. Not in the
        paper.

    Examples
    --------
    >>> from remp import Rectification
    >>> Rectification(layers=10, repulsion="none").beta(layer=0, n_way=5)
    0.03
    >>> Rectification(repulsion="sometimes")
    Traceback (most recent call last):
        ...
    remp.errors.ConfigError: repulsion is 'sometimes'...
    """

    layers: int = 10
    repulsion: Repulsion = "negative"
    row_norm: RowNorm = "absolute"
    similarity: Metric = "euclidean"
    scale: float = 1.0
    residual: bool = True
    threshold: float = 1.5
    step: float = 1.0
    label_share: float = 0.0
    balanced: bool = False

    def __post_init__(self) -> None:
        check_choice("repulsion", self.repulsion, Repulsion)
        check_choice("row_norm", self.row_norm, RowNorm)
        check_choice("similarity", self.similarity, Metric)
        require_at_least(0, layers=self.layers, threshold=self.threshold)
        require_share(step=self.step)
        require_below_one(label_share=self.label_share)
        if not 0 < self.scale <= 1e30:
            raise ConfigError(f"scale is {self.scale}; needed a number above 0, at most 1e30")

    def beta(self, layer: int, n_way: int) -> float:
        """β of a layer, counted from 0: below it, attention becomes the repulsive force."""
        return self.threshold / (n_way * (self.layers - layer))
