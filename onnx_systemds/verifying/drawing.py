"""Nodes that draw random numbers: no two runs of a model with them agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx_systemds.importing.dropout import may_train
from onnx_systemds.inference.registry import batch_rules, find
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Node


def drawing_nodes(graph: TypedGraph) -> Iterator[Node]:
    """The nodes of a graph, then those of its sub-graphs and functions, that draw random numbers."""
    for node in graph.nodes:
        rule = find(batch_rules, node.identity, node.version)
        if (rule is not None and rule.draws) or _drops(node, graph.values):
            yield node
    for body in graph.bodies.values():
        yield from drawing_nodes(body)


def _drops(node: Node, values: Mapping[str, Value]) -> bool:
    """Whether a node is a Dropout that may train, as far as the values tell."""
    mode = node.inputs[2] if len(node.inputs) > 2 else ""
    known = values[mode].constant if mode in values else None
    return may_train(node) and (known is None or bool(known.any()))
