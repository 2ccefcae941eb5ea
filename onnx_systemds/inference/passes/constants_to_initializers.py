"""Constant nodes become initializers: the other passes on the untyped graph look for weights there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.ir import Array, Graph, Node

NEEDS = ("Constant",)


def constants_to_initializers(graph: Graph, notes: PassNotes) -> Graph:
    """Constant nodes that hold a dense tensor become initializers."""
    found: dict[str, Array] = {}
    others: list[Node] = []
    for node in graph.nodes:
        content = node.attributes.get("value")
        if node.identity == ("", "Constant") and isinstance(content, np.ndarray):
            found[node.outputs[0]] = content
        else:
            others.append(node)
    return replace(graph, nodes=tuple(others), initializers={**graph.initializers, **found}) if found else graph
