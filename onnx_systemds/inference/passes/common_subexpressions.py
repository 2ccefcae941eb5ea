"""Common-subexpression elimination: of nodes that compute the same, the first one is left.

Exporters write a mask for each layer that adds it, and quantizers two nodes for each reader of a value. Condition: the
operator and its attributes are the same, the inputs are the same values or equal constants, it draws no random numbers
and has no sub-graph, and both are of one layer, or near each other: a layer that computes all that it needs can be a
function. Reason: what they compute is written, and calculated, once. The engine finds some of it
by itself, but not across the blocks that it compiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace

import numpy as np

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.graph_editor import Producer
from onnx_systemds.model.ir import ML, Array, Attribute, Graph, Node

_DOMAINS = ("", ML, CONTRIB)
_DRAWING = frozenset((
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
))
_NEAR = 30
"""Places between nodes of which nobody says of which layer they are."""
_LARGEST = 1024
"""Elements of constants that are compared by content; of larger ones it takes time, and they differ."""


def eliminate_common_subexpressions(graph: Graph, notes: PassNotes) -> Graph:
    """The graph without nodes that compute what another one does: what reads them reads that one."""
    counts = Counter(node.identity for node in graph.nodes)
    constants = _equal_constants(graph)
    same: dict[str, str] = {}
    first: dict[Hashable, Producer] = {}
    nodes: list[Node] = []
    for position, node in enumerate(graph.nodes):
        if not same.keys().isdisjoint(node.inputs):
            node = replace(node, inputs=tuple(same.get(name, name) for name in node.inputs))
        key = _key(node, constants) if counts[node.identity] > 1 else None
        found = None if key is None else first.get(key)
        if found is None or not _stands_for(found, node, position):
            nodes.append(node)
            first[key] = Producer(position, node)
            continue
        made = found.node
        notes.fired(node, f"as {made.label}")
        for own, other in zip(node.outputs, made.outputs):
            if own:
                same[own] = other
                # for sub-graphs and outputs of the graph, which read it by its name
                nodes.append(node.inner("Identity", [other], [own], {}))
    return replace(graph, nodes=tuple(nodes)) if same else graph


def _stands_for(made: Producer, node: Node, position: int) -> bool:
    """Whether a node that computes the same gives all that the later one does, and is near if its layer is unknown."""
    is_near = bool(node.scope) or position - made.position <= _NEAR
    return is_near and all(other or not own for own, other in zip(node.outputs, made.node.outputs))


def _equal_constants(graph: Graph) -> dict[str, str]:
    """Of small constants with equal contents, the name of the first, by name."""
    first: dict[Hashable, str] = {}
    return {name: first.setdefault(_content(array), name) for name, array in graph.initializers.items()
            if array.size <= _LARGEST and array.dtype != object}


def _key(node: Node, constants: Mapping[str, str]) -> Hashable | None:
    """What is equal for nodes that compute the same; None if there is none for a node."""
    if node.domain not in _DOMAINS or node.op_type == "Identity" or node.op_type in _DRAWING:
        return None
    attributes: list[Hashable] = []
    for name, value in sorted(node.attributes.items()):
        content = _attribute(value)
        if content is None:
            return None
        attributes.append((name, content))
    inputs = tuple(constants.get(name, name) for name in node.inputs)
    return node.identity, node.version, inputs, len(node.outputs), tuple(attributes), _layer(node)


def _layer(node: Node) -> tuple[str, ...]:
    """The layer that a node is of: the words of its module up to the first number; none of others."""
    numbers = [place for place, word in enumerate(node.scope) if word.isdigit()]
    return node.scope[: numbers[0] + 1] if numbers else ()


def _attribute(value: Attribute) -> Hashable | None:
    """What is equal for attributes of equal contents; None for graphs and others that are not compared."""
    if isinstance(value, np.ndarray):
        return _content(value) if value.dtype != object else None
    if isinstance(value, (str, bytes, int)):
        return value
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        items = tuple(map(_attribute, value))
        return None if None in items else items
    return None


def _content(array: Array) -> Hashable:
    # by the name of the type: many types of 4 and 8 bits have one code, "V1"
    return array.dtype.name, array.shape, array.tobytes()
