"""What of a finished graph is calculated from what: nodes, and edges to their results, into bodies and out of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Union

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import Node, Scope, SubGraph, Tensor

Edge = tuple[Sequence[Union[Tensor, None]], Tensor]
"""What a tensor is made of, and that tensor."""


def all_nodes(builder: GraphBuilder) -> Iterator[Node]:
    """Yield the needed nodes of a graph, those of bodies before what they are the bodies of."""
    return _nodes_in(builder.main, [tensor for _, tensor in builder.outputs])


def _nodes_in(scope: Scope, outputs: Iterable[Tensor]) -> Iterator[Node]:
    for node in needed_nodes(scope, outputs):
        for body in node.subgraphs():
            yield from _nodes_in(body.scope, body.outputs)
        yield node


def edges_of(node: Node) -> Iterator[Edge]:
    """Yield what the results of a node, or the inputs and results of its bodies, are made of."""
    bodies = node.subgraphs()
    for body in bodies:
        results, states = given_back(node, body), fed_back(node, body)
        # a loop that does not run gives the states as they are
        pairs = (node.inputs, body.inputs), (results, states), (results, node.outputs), (states, node.outputs)
        for given, taken in pairs:
            yield from (((tensor,), to) for tensor, to in zip(given, taken))
    if not bodies:
        yield from ((node.inputs, tensor) for tensor in node.outputs)


def reached(edges: Sequence[Edge], begin: Iterable[Tensor], kinds: Collection[str]) -> set[Tensor]:
    """Return the tensors of some kinds that are calculated from those of `begin`, and these."""
    found, before = set(begin), -1
    while before != len(found):
        before = len(found)
        found.update(to for given, to in edges if to.kind in kinds and any(tensor in found for tensor in given))
    return found


def fed_back(node: Node, body: SubGraph) -> Sequence[Tensor]:
    """Return the inputs of a body that are what it gave the time before."""
    if node.op == "Scan":
        return body.inputs[: len(body.inputs) - node.integer("num_scan_inputs")]
    return body.inputs[2:] if node.op == "Loop" else ()


def given_back(node: Node, body: SubGraph) -> Sequence[Tensor]:
    """Return the outputs of a body that are those of its node, without the condition of a loop."""
    return body.outputs[len(body.outputs) - len(node.outputs) :]
