"""The table of methods: one line a method."""

from remp.methods.base import Method
from remp.methods.protonet import ProtoNet
from remp.methods.remp import ReMP

METHODS: dict[str, type[Method]] = {
    "protonet": ProtoNet,
    "remp": ReMP,
}

__all__ = ["METHODS", "Method", "ProtoNet", "ReMP"]
