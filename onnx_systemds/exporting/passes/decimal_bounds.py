"""Known bounds of inputs in float32: they divide decimals as they do in doubles, `put_decimal_bounds`.

An input of 0.3 is below 0.1 + 0.2, as of ``seq(0.1, 1, 0.1)``, in doubles, and equal to it once both are rounded. What
is calculated from inputs is rounded itself, so that its bounds stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from onnx_systemds.exporting.float_rounding import dividing
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import FLOAT, TEXT, Node, Tensor
from onnx_systemds.exporting.passes.dataflow import all_nodes
from onnx_systemds.exporting.passes.magnitudes import KEEPING

_BELOW_THE_BOUND = {"LessOrEqual": True, "Greater": True, "Less": False, "GreaterOrEqual": False}
"""By comparison of data with a bound: whether the bound is on the side below, or else on that above."""
_MOST = 1 << 16


def put_decimal_bounds(builder: GraphBuilder) -> None:
    """Change the bounds that would divide decimals in another way, where a model of float32 compares its inputs."""
    if builder.dtype != "float32" or builder.narrow:
        return
    given: set[Tensor] = {tensor for tensor in builder.inputs if tensor.kind == FLOAT}
    for node in all_nodes(builder):
        if _keeps(node, given):
            given.update(tensor for tensor in node.outputs if tensor.kind == FLOAT)
        elif node.op in _BELOW_THE_BOUND:
            _put_bounds(node, given)


def _keeps(node: Node, given: Collection[Tensor]) -> bool:
    """Whether a node gives numbers that are given, as they are, or those that texts show."""
    floats = [tensor for tensor in node.given() if tensor.kind == FLOAT]
    if not floats:
        return node.op == "Cast" and node.operand().kind == TEXT
    return node.op in KEEPING and all(tensor.constant is not None or tensor in given for tensor in floats)


def _put_bounds(node: Node, given: Collection[Tensor]) -> None:
    for place, is_on_the_left in ((1, False), (0, True)):
        bounds, data = node.operand(place), node.operand(1 - place)
        known = bounds.constant
        if known is None or bounds.kind != FLOAT or data not in given or known.size > _MOST:
            continue
        inclusive = _BELOW_THE_BOUND[node.op] != is_on_the_left
        moved = [_bound(number, inclusive=inclusive) for number in known.ravel().tolist()]
        if moved != known.ravel().tolist():
            fitting = Tensor(FLOAT, bounds.dims, bounds.hint, np.array(moved).reshape(known.shape), bounds.graph)
            node.inputs = (node.inputs[0], fitting) if place else (fitting, node.inputs[1])


def _bound(number: float, *, inclusive: bool) -> float:
    """Return the number itself where rounding it divides as well."""
    with np.errstate(over="ignore"):
        found, rounded = dividing(number, inclusive=inclusive), float(np.float32(number))
    return number if found == rounded or not np.isfinite(rounded) or not rounded else found
