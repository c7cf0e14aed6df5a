"""The table of methods: one line per method. A class of one's own is passed to `remp.train` instead."""

from collections import ChainMap

from remp.errors import ConfigError
from remp.methods.base import Method as Method
from remp.methods.bd_cspn import BDCSPN
from remp.methods.can import CAN, CANT
from remp.methods.dfmn_mct import DFMNMCT
from remp.methods.epnet import EPNet
from remp.methods.feat import FEAT
from remp.methods.ilpc import ILPC
from remp.methods.label_shift import LabelShiftEM
from remp.methods.label_spreading import LabelSpreading
from remp.methods.laplacian_shot import LaplacianShot
from remp.methods.maml import MAML
from remp.methods.meta_baseline import MetaBaseline
from remp.methods.metaoptnet import MetaOptNetRidge, MetaOptNetSVM
from remp.methods.paddle import PADDLE
from remp.methods.proto_lp import ProtoLP
from remp.methods.protonet import ProtoNet
from remp.methods.pt_map import PTMAP
from remp.methods.relation_net import RelationNet
from remp.methods.remp import ReMP
from remp.methods.scikit import LogisticRegression, NearestNeighbours
from remp.methods.simpleshot import SimpleShot, SimpleShotL2N, SimpleShotUN
from remp.methods.soft_kmeans import SoftKMeans
from remp.methods.tadam import TADAM
from remp.methods.tim import TIMADM, TIMGD, AlphaTIM
from remp.methods.tpn import TPN
from remp.methods.unem import UNEM

METHODS: dict[str, type[Method]] = {
    "alpha-tim": AlphaTIM,
    "bd-cspn": BDCSPN,
    "can": CAN,
    "can-t": CANT,
    "dfmn-mct": DFMNMCT,
    "epnet": EPNet,
    "feat": FEAT,
    "ilpc": ILPC,
    "label-shift-em": LabelShiftEM,
    "label-spreading": LabelSpreading,
    "laplacian-shot": LaplacianShot,
    "logistic-regression": LogisticRegression,
    "maml": MAML,
    "meta-baseline": MetaBaseline,
    "metaoptnet-ridge": MetaOptNetRidge,
    "metaoptnet-svm": MetaOptNetSVM,
    "nearest-neighbours": NearestNeighbours,
    "paddle": PADDLE,
    "protolp": ProtoLP,
    "protonet": ProtoNet,
    "pt-map": PTMAP,
    "relationnet": RelationNet,
    "remp": ReMP,
    "simpleshot": SimpleShot,
    "simpleshot-l2n": SimpleShotL2N,
    "simpleshot-un": SimpleShotUN,
    "soft-kmeans": SoftKMeans,
    "tadam": TADAM,
    "tim-adm": TIMADM,
    "tim-gd": TIMGD,
    "tpn": TPN,
    "unem": UNEM,
}

# Classes of the user's own, by "own:Class"; known in this process only, since a file never names code to import. The
# module is no part of the name: it is __main__ in a script, and another where the class is imported from it.
_OWN: dict[str, type[Method]] = {}
KNOWN = ChainMap(_OWN, METHODS)


def make_known(method: type[Method]) -> str:
    """Let settings and checkpoints of this process name a class of one's own; return that name."""
    for name, known in METHODS.items():
        if known is method:
            return name
    if not (isinstance(method, type) and issubclass(method, Method)):  # type: ignore[redundant-expr]
        raise ConfigError(f"method is {method!r}; needed a subclass of remp.Method, not an instance or a name")
    name = f"own:{method.__qualname__}"
    _OWN[name] = method
    return name
