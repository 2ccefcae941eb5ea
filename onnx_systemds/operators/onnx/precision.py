"""Where FP32 and FP64 differ by more than a rounding error: operators that jump.

0.3 / 0.1 is 3 in FP32, but slightly more or less in FP64, and Floor tells the difference. So operators that jump
round an input that other nodes computed in `float` to FP32 first.
"""

from __future__ import annotations

from onnx_systemds.operators.api.node_view import NodeView

# operators whose results are the same in FP32 and FP64
_EXACT = frozenset(["Floor", "Ceil", "Round", "Sign", "Cast", "Constant", "QuantizeLinear"])


def is_computed(node: NodeView) -> bool:
    """Whether the first input is a float that an inexact operator of the same graph computes."""
    if node.dtype(0) != "float" or node.constant(0) is not None:
        return False
    source = node.computing(0)
    return source is not None and source.op_type not in _EXACT


def as_float(node: NodeView, x: str, *, single: bool) -> str:
    """Text of the first input (given as ``x``; ``single``: a DML scalar) as FP32 holds it."""
    return node.call_on("nearest_float", x, single=single) if is_computed(node) else x
