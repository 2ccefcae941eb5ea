"""Where FP32 and FP64 differ by more than a rounding error: operators that jump.

0.3 / 0.1 is 3 in FP32, but slightly more or less in FP64, and Floor tells the difference. So operators that jump
round an input that other nodes computed in `float` to FP32 first. Where it is a single number, such as the size of an
image times a scale, each step before is rounded as well: 83 * (32 / 83) is less than 32 in FP32.
"""

from __future__ import annotations

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.inference.dims import product
from onnx_systemds.inference.values import INTEGER_DTYPES, Value
from onnx_systemds.model.ir import Array
from onnx_systemds.model.single_precision import has_other_decimals, largest_rounded, smallest_rounded
from onnx_systemds.operators.api.node_view import NodeView

# operators whose results are the same in FP32 and FP64
_EXACT = frozenset(["Floor", "Ceil", "Round", "Sign", "Cast", "Constant", "QuantizeLinear"])
_JUMPS = frozenset(["Floor", "Ceil", "Round"])
_STEPS = frozenset(["Add", "Div", "Mul", "Reciprocal", "Sub"])
_KEEPING = frozenset(["Abs", "Cast", "Identity", "Max", "Min", "Neg", "Reshape", "Squeeze", "Unsqueeze"])
"""Operators that round nothing: a number before them is as good as their result."""


def is_computed(node: NodeView) -> bool:
    """Whether the first input is a float that an inexact operator of the same graph computes."""
    if node.dtype(0) != "float" or node.constant(0) is not None:
        return False
    source = node.computing(0)
    return source is not None and source.op_type not in _EXACT


def as_float(node: NodeView, x: str, *, single: bool) -> str:
    """Text of the first input (given as ``x``; ``single``: a DML scalar) as FP32 holds it."""
    return node.call_on("nearest_float", x, single=single) if is_computed(node) else x


def limit_text(node: NodeView, limit: float, *, below: bool = False) -> str:
    """DML of the last number that is not above a limit, or ``below`` it, once it is rounded as the first input is."""
    number: Array = np.array(limit, np.float64)
    if node.dtype(0) == "float" and has_other_decimals(number):
        number = smallest_rounded(number) if below else largest_rounded(number)
    return literal(float(number))


def stepwise(node: NodeView, text: str, *, single: bool) -> str:
    """Text of the result, as FP32 holds it if it is one number of which a step makes one that an operator jumps at.

    single: whether ``text`` is a DML scalar.
    """
    is_rounded = _is_single(node.values[node.node.outputs[0]]) and _leads_to_jump(node)
    return node.call_on("nearest_float", text, single=single) if is_rounded else text


def _is_single(value: Value) -> bool:
    return value.dtype == "float" and value.dims is not None and product(value.dims) == 1


def _leads_to_jump(node: NodeView) -> bool:
    """Whether an operator jumps at what further steps make of the result; of the result itself it takes care."""
    same, made = {node.node.outputs[0]}, set[str]()
    for later in node.nodes_after():
        if later.domain or (same | made).isdisjoint(later.inputs):
            continue
        name = later.outputs[0]
        value = node.values[name]
        if later.op_type in _JUMPS or (later.op_type == "Cast" and value.dtype in INTEGER_DTYPES):
            if not made.isdisjoint(later.inputs):
                return True
        elif _is_single(value) and later.op_type in _STEPS | _KEEPING:
            is_step = later.op_type in _STEPS or not made.isdisjoint(later.inputs)
            (made if is_step else same).add(name)
    return False
