"""Drops a Cast to the element type that its input already has.

Types follow from inputs, initializers, other Casts, and operators whose result has the type of an input. Condition: the
result is none of the graph's, and no sub-graph reads it. Reason: Keras writes several in each layer, between operators
that other passes put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from onnx import TensorProto

from onnx_systemds.inference.facts import find_schema
from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.ir import Graph, Node, TensorType
from onnx_systemds.model.protos import dtype_of, element_name
from onnx_systemds.model.walk import names_captured_by

NEEDS = ("Cast",)


def eliminate_casts(graph: Graph, notes: PassNotes) -> Graph:
    """The graph without Casts that change nothing."""
    types = {given.name: given.type.dtype for given in graph.inputs if isinstance(given.type, TensorType)}
    types |= {name: dtype_of(array) for name, array in graph.initializers.items()}
    captured = (names_captured_by(node) for node in graph.nodes)
    kept = {output.name for output in graph.outputs}.union(*captured)
    same: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if not same.keys().isdisjoint(node.inputs):
            node = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        dtype = _dtype(node, types)
        if dtype is not None:
            types[node.outputs[0]] = dtype
        is_needless = node.identity == ("", "Cast") and dtype is not None and types.get(node.inputs[0]) == dtype
        if is_needless and node.outputs[0] not in kept:
            same[node.outputs[0]] = node.inputs[0]
            notes.fired(node, "its input is of that type")
            continue
        if is_needless:
            notes.left(node, "its result is one of the graph's, or a sub-graph reads it")
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes)) if same else graph


def _dtype(node: Node, types: Mapping[str, str]) -> str | None:
    """The element type of a node's first output, None if it is unknown."""
    if node.identity == ("", "Cast"):
        to = node.attributes.get("to")
        if isinstance(to, int):
            return element_name(to) if to in TensorProto.DataType.values() else None  # another one is refused later
        return to.lower() if isinstance(to, str) else None
    place = _input_of_the_same_type(node.domain, node.op_type, node.version)
    return types.get(node.inputs[place]) if place is not None and place < len(node.inputs) else None


@lru_cache(maxsize=2048)
def _input_of_the_same_type(domain: str, op_type: str, version: int) -> int | None:
    """The place of an input that always has the element type of the first output."""
    schema = find_schema(domain, op_type, version)
    if schema is None or not schema.outputs:
        return None
    if not schema.outputs[0].is_homogeneous:  # of a Scan, say
        return None
    types = [given.type_str for given in schema.inputs]
    return types.index(schema.outputs[0].type_str) if schema.outputs[0].type_str in types else None
