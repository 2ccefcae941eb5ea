"""One function per operator, in topical modules; importing this package fills the registries."""

from onnx_systemds.operator_generators import (
    activation,
    elementwise,
    linear,
    shaping,
)
from onnx_systemds.operator_generators.registry import generator, operator_generators, shape_rule

__all__ = [
    "activation",
    "elementwise",
    "generator",
    "linear",
    "operator_generators",
    "shape_rule",
    "shaping",
]
