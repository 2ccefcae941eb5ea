"""Takes out of loops what is the same in all their iterations: `hoist`."""

from __future__ import annotations

from onnx_systemds.correspondence import ELEMENTWISE, REDUCTIONS
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import INT, Node
from onnx_systemds.exporting.passes.dataflow import all_nodes

_MOVES = ("Concat", "Expand", "Reshape", "Shape", "Transpose")
HARMLESS = frozenset((*ELEMENTWISE, *REDUCTIONS, *_MOVES, "MatMul", "Softmax"))
"""Operators that do not fail where a loop that has no iterations would not have reached them, but for integer division:
see `may_divide_by_zero`."""


def may_divide_by_zero(node: Node) -> bool:
    """Whether a node divides integers by what may be 0, which ends the run."""
    if node.op not in ("Div", "Mod") or node.outputs[0].kind != INT:
        return False
    divisor = node.operand(1).constant
    return divisor is None or not divisor.all()


def hoist(builder: GraphBuilder) -> None:
    """Move nodes out of the bodies of loops, of inner ones first."""
    for node in all_nodes(builder):
        if node.op == "Loop":
            _move_out(node)


def _move_out(loop: Node) -> None:
    scope, (body,) = loop.scope, loop.subgraphs()
    assert scope is not None
    around = list(scope.with_parents())
    place = scope.nodes.index(loop)
    for node in needed_nodes(body.scope, body.outputs):
        if node.op not in HARMLESS or may_divide_by_zero(node) or any(it in body.outputs for it in node.outputs):
            continue
        if all(tensor is None or tensor.node is None or tensor.node.scope in around for tensor in node.inputs):
            body.scope.nodes.remove(node)
            node.scope = scope
            scope.nodes.insert(place, node)
            place += 1
