"""Which of the ways to convert an operator serves it."""

from __future__ import annotations

from enum import Enum, auto

from onnx_systemds.inference.facts import find_schema, has_definition
from onnx_systemds.inference.passes.differentiation import GRADIENT
from onnx_systemds.inference.registry import Identity, expanders, find, operator_generators


class Service(Enum):
    """How an operator is converted."""

    CONSTANT = auto()  # a weight, or part of the script
    GENERATOR = auto()
    CHAIN_RULE = auto()
    EXPANDER = auto()
    DEFINITION = auto()  # by other operators, in ONNX


def service_of(identity: Identity, version: int) -> Service | None:
    """What serves an operator that is no function of the model, in that version; None if nothing does."""
    if identity == ("", "Constant"):
        return Service.CONSTANT
    if find(operator_generators, identity, version) is not None:
        return Service.GENERATOR
    if identity == GRADIENT:
        return Service.CHAIN_RULE
    if find(expanders, identity, version) is not None:
        return Service.EXPANDER
    return Service.DEFINITION if has_definition(find_schema(*identity, version)) else None
