"""Takes out of loops what is the same in all their iterations: `hoist`."""

from __future__ import annotations

from onnx_systemds.correspondence import ELEMENTWISE, REDUCTIONS
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import Node, Scope, SubGraph, Tensor

_MOVES = ("Concat", "Expand", "Reshape", "Shape", "Transpose")
HARMLESS = frozenset((*ELEMENTWISE, *REDUCTIONS, *_MOVES, "MatMul", "Softmax"))
"""Operators that do not fail when a loop that has no iterations would not have reached them."""


def hoist(builder: GraphBuilder) -> None:
    """Move nodes out of the bodies of loops, of inner ones first."""
    _hoist_in(builder.main, [tensor for _, tensor in builder.outputs])


def _hoist_in(scope: Scope, outputs: list[Tensor]) -> None:
    for node in needed_nodes(scope, outputs):
        for body in node.subgraphs():
            _hoist_in(body.scope, list(body.outputs))
            if node.op == "Loop":
                _move_out(scope, node, body)


def _move_out(scope: Scope, loop: Node, body: SubGraph) -> None:
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
