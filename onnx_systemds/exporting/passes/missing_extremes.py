"""The extremes of numbers that may be NaN are NaN then, as in the engine: `keep_missing`.

onnxruntime compares elements one by one: a NaN is what ReduceMax gives only where it comes first. Sums of absolute
numbers are NaN where an element is, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, TEXT, WIDE, Node, Tensor, source_of
from onnx_systemds.exporting.passes.dataflow import all_nodes, edges_of, reached
from onnx_systemds.exporting.passes.magnitudes import KEEPING

_EXTREMES = ("ReduceMax", "ReduceMin")
_FLOATS = (FLOAT, WIDE)


def keep_missing(builder: GraphBuilder) -> None:
    """Let maxima and minima be NaN where an element is, unless the script has replaced NaN before."""
    nodes = list(all_nodes(builder))
    extremes = [node for node in nodes if node.op in _EXTREMES]
    if not extremes:
        return
    missing = _may_be_missing(builder.inputs, nodes)
    for node in extremes:
        if node.operand() in missing:
            _keep(node)


def _may_be_missing(inputs: Iterable[Tensor], nodes: Sequence[Node]) -> set[Tensor]:
    """Return the floats that are calculated from those of inputs or of texts, or are quotients.

    What the script has filled has no NaN, however it is moved and chosen; what is calculated of it may have: Inf - Inf.
    """
    begin = [tensor for tensor in inputs if tensor.kind in _FLOATS]
    begin += [tensor for node in nodes if _may_make(node) for tensor in node.outputs if tensor.kind in _FLOATS]
    numbers = reached([edge for node in nodes for edge in edges_of(node)], begin, _FLOATS)
    calculated = (node.outputs for node in nodes if node.op not in KEEPING and not node.subgraphs())
    begin += [tensor for outputs in calculated for tensor in outputs if tensor in numbers]
    kept = (node for node in nodes if node.subgraphs() or (node.op in KEEPING and not _is_filled(node)))
    return reached([edge for node in kept for edge in edges_of(node)], begin, _FLOATS)


def _may_make(node: Node) -> bool:
    """Whether a node may give NaN for numbers that are none: counts have quotients 0 / 0, and texts may say so."""
    if node.op == "Div":
        return node.operand(1).constant is None
    return node.op == "Cast" and node.operand().kind == TEXT


def _is_filled(node: Node) -> bool:
    """Whether a node gives another number for NaN."""
    return node.op == "Where" and source_of(node.inputs[0], "IsNaN") is node.inputs[2]


def _keep(node: Node) -> None:
    result, scope = node.outputs[0], node.scope
    assert scope is not None
    extreme, total, mask = (Tensor(kind, result.dims) for kind in (result.kind, result.kind, BOOL))
    node.outputs, extreme.node = (extreme,), node
    further = [Node("ReduceL1", node.inputs, (total,), node.attributes, node.place, scope),
               Node("IsNaN", (total,), (mask,), {}, node.place, scope),
               Node("Where", (mask, total, extreme), (result,), {}, node.place, scope)]
    for made in further:
        made.outputs[0].node = made
    position = scope.nodes.index(node) + 1
    scope.nodes[position:position] = further
