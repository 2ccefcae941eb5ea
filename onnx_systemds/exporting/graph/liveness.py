"""What of a graph is needed for its outputs."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_systemds.exporting.graph.nodes import FunctionBody, Node, Scope, SubGraph, Tensor


def needed_nodes(scope: Scope, outputs: Iterable[Tensor], extra: Iterable[Node] = ()) -> list[Node]:
    """Return the nodes of a scope, and of `extra` after it, that its outputs need, in their order."""
    return _needed(scope, outputs, extra)[0]


def needed_tensors(scope: Scope, outputs: Iterable[Tensor]) -> set[Tensor]:
    """Return the tensors that the outputs of a scope need, these included."""
    return _needed(scope, outputs)[1]


def captured(body: SubGraph) -> set[Tensor]:
    """Return the tensors that a branch or body uses, also those of outer graphs."""
    return _needed(body.scope, body.outputs)[1]


def _needed(scope: Scope, outputs: Iterable[Tensor], extra: Iterable[Node] = ()) -> tuple[list[Node], set[Tensor]]:
    """Return the nodes and the tensors that outputs need; each body within is looked at once."""
    needed = set(outputs)
    found: list[Node] = []
    for node in reversed([*scope.nodes, *extra]):
        if any(tensor in needed for tensor in node.outputs):
            found.append(node)
            needed.update(node.given())
            for body in node.subgraphs():
                if not isinstance(body, FunctionBody):  # which sees nothing but its inputs
                    needed |= captured(body)
    return found[::-1], needed
