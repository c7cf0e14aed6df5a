"""The table of methods: one line a method."""

from remp.methods.base import Method
from remp.methods.bd_cspn import BDCSPN
from remp.methods.epnet import EPNet
from remp.methods.feat import FEAT
from remp.methods.label_spreading import LabelSpreading
from remp.methods.laplacian_shot import LaplacianShot
from remp.methods.meta_baseline import MetaBaseline
from remp.methods.protonet import ProtoNet
from remp.methods.relation_net import RelationNet
from remp.methods.remp import ReMP
from remp.methods.simpleshot import SimpleShot, SimpleShotL2N, SimpleShotUN
from remp.methods.soft_kmeans import SoftKMeans
from remp.methods.tpn import TPN

METHODS: dict[str, type[Method]] = {
    "bd-cspn": BDCSPN,
    "epnet": EPNet,
    "feat": FEAT,
    "label-spreading": LabelSpreading,
    "laplacian-shot": LaplacianShot,
    "meta-baseline": MetaBaseline,
    "protonet": ProtoNet,
    "relationnet": RelationNet,
    "remp": ReMP,
    "simpleshot": SimpleShot,
    "simpleshot-l2n": SimpleShotL2N,
    "simpleshot-un": SimpleShotUN,
    "soft-kmeans": SoftKMeans,
    "tpn": TPN,
}

__all__ = [
    "BDCSPN",
    "FEAT",
    "METHODS",
    "TPN",
    "EPNet",
    "LabelSpreading",
    "LaplacianShot",
    "MetaBaseline",
    "Method",
    "ProtoNet",
    "ReMP",
    "RelationNet",
    "SimpleShot",
    "SimpleShotL2N",
    "SimpleShotUN",
    "SoftKMeans",
]
