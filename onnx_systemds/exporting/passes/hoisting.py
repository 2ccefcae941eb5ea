"""Takes out of loops what is the same in all their iterations: `hoist`."""

from __future__ import annotations

from onnx_systemds.correspondence import ELEMENTWISE, REDUCTIONS
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import Node
from onnx_systemds.exporting.passes.dataflow import all_nodes

_MOVES = ("Concat", "Expand", "Reshape", "Shape", "Transpose")
HARMLESS = frozenset((*ELEMENTWISE, *REDUCTIONS, *_MOVES, "MatMul", "Softmax"))
"""Operators that do not fail when a loop that has no iterations would not have reached them."""


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
        if node.op not in HARMLESS or any(tensor in body.outputs for tensor in node.outputs):
            continue
        if all(tensor is None or tensor.node is None or tensor.node.scope in around for tensor in node.inputs):
            body.scope.nodes.remove(node)
            node.scope = scope
            scope.nodes.insert(place, node)
            place += 1
