"""Known bounds in float32: they divide decimals as they do in doubles, and 1 stays beyond a limit just below it.

An input of 0.3 is below 0.1 + 0.2, as of ``seq(0.1, 1, 0.1)``, in doubles, and equal to it once both are rounded. What
is calculated from inputs is rounded itself, so that its bounds stay as they are. But a probability that is limited by
1 - 1e-15, for the sake of ``log(1 - p)``, must not become 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from onnx_systemds.exporting.float_rounding import dividing, meant
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import FLOAT, TEXT, Array, FunctionBody, Node, Tensor
from onnx_systemds.exporting.passes.dataflow import all_nodes, edges_of, reached
from onnx_systemds.exporting.passes.magnitudes import KEEPING

_BELOW_THE_BOUND = {"LessOrEqual": True, "Greater": True, "Less": False, "GreaterOrEqual": False}
"""By comparison of data with a bound: whether the bound is on the side below, or else on that above."""
_MOST = 1 << 16
_LIMITING = ("Min", "Max", "Clip", "Where")
_BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


def put_decimal_bounds(builder: GraphBuilder) -> None:
    """Change the bounds that would divide numbers in another way, where a model of float32 compares or limits them."""
    if builder.dtype != "float32" or builder.narrow:
        return
    nodes = list(all_nodes(builder))
    for node in nodes:
        if node.op in _LIMITING:
            node.inputs = tuple(map(_below_one, node.inputs))
    comparing = [node for node in nodes if node.op in _BELOW_THE_BOUND or node.op == "Equal"]
    if not comparing:
        return
    calculated, contents = _calculated(nodes), _contents(nodes)
    for node in comparing:
        _put_bounds(node, calculated, contents)


def _below_one(limit: Tensor | None) -> Tensor | None:
    """Return a limit that is between -1 and 1 as one that is so in float32, too."""
    known = None if limit is None or limit.kind != FLOAT else limit.constant
    if limit is None or known is None or known.size != 1 or not _BELOW_ONE < abs(known.item()) < 1:
        return limit
    return Tensor(FLOAT, limit.dims, limit.hint, np.copysign(_BELOW_ONE, known), limit.graph)


def _calculated(nodes: Iterable[Node]) -> Collection[Tensor]:
    """Return the floats that are not given as they are, by inputs or by texts that show them."""
    edges = [edge for node in nodes for edge in edges_of(node)]
    made = (tensor for node in nodes if not node.subgraphs() and not _keeps(node) for tensor in node.outputs)
    stored = (tensor for given, _ in edges for tensor in given if tensor is not None and tensor.stored is not None)
    return reached(edges, (tensor for tensor in (*made, *stored) if tensor.kind == FLOAT), (FLOAT,))


def _contents(nodes: Sequence[Node]) -> Mapping[Tensor, Array]:
    """Return what is known of the inputs of functions, each of which has one call."""
    found: dict[Tensor, Array] = {}
    for node in reversed(nodes):  # a call comes after what is in its function
        for body in node.subgraphs():
            if isinstance(body, FunctionBody):
                contents = (found.get(tensor, tensor.constant) for tensor in node.given())
                found.update((tensor, known) for tensor, known in zip(body.inputs, contents) if known is not None)
    return found


def _keeps(node: Node) -> bool:
    """Whether a node makes no new numbers of those that it is given."""
    if node.op == "Cast":
        return node.operand().kind in (FLOAT, TEXT)
    return node.op in KEEPING


def _put_bounds(node: Node, calculated: Collection[Tensor], contents: Mapping[Tensor, Array]) -> None:
    for place, is_on_the_left in ((1, False), (0, True)):
        bounds, data = node.operand(place), node.operand(1 - place)
        known = contents.get(bounds, bounds.constant)
        if known is None or bounds.kind != FLOAT or data in calculated:
            continue
        if known.size > (1 if node.op == "Equal" else _MOST):  # what a matrix is searched for may be of such data
            continue
        inclusive = None if node.op == "Equal" else _BELOW_THE_BOUND[node.op] != is_on_the_left
        moved = np.array([_bound(number, inclusive) for number in known.ravel().tolist()]).reshape(known.shape)
        if not np.array_equal(moved, known, equal_nan=True):
            fitting = Tensor(FLOAT, bounds.dims, bounds.hint, moved, bounds.graph)
            node.inputs = (node.inputs[0], fitting) if place else (fitting, node.inputs[1])


def _bound(number: float, inclusive: bool | None) -> float:
    """Return the number itself where rounding it divides as well; NaN for what (None) no decimal is equal to."""
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    if not math.isfinite(rounded) or not rounded:
        return number
    if inclusive is None:
        return number if meant(number) == number else math.nan
    found = dividing(number, inclusive=inclusive)
    return number if found == rounded else found
