"""The narrowest float type in which a value, or one that it is computed from, was rounded: it is no more exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import Function, FunctionKey, Graph
from onnx_systemds.model.protos import dtype_of, element_name
from onnx_systemds.model.walk import names_read, nodes_of_model

FLOATS = ("double", "float", "float16", "bfloat16")
"""From the most digits to the fewest. Those of 8 bits and fewer hold codes, as integers do."""

_EXACT = frozenset([
    "Cast", "CastLike", "Concat", "Constant", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split",
    "Squeeze", "Transpose", "Unsqueeze",
])
"""Operators that both sides compute alike, to the last bit, of what is given alike."""


def are_types_mixed(graph: Graph, functions: Mapping[FunctionKey, Function]) -> bool:
    """Whether some of the model's floats have fewer digits than others, as far as its nodes and weights say."""
    said = {getattr(given.type, "dtype", "") for given in (*graph.inputs, *graph.outputs)}
    said.update(dtype_of(weight) for weight in graph.initializers.values())
    for node in nodes_of_model(graph, functions):
        to = node.attributes.get("to")
        if node.op_type == "Cast" and isinstance(to, int):
            said.add(element_name(to))
    return len(said.intersection(FLOATS)) > 1


def narrowest_types(typed: TypedGraph) -> dict[str, str]:
    """The type for each value that a node computes, "" where nothing is rounded. Integers in between end the way."""
    found: dict[str, str] = {}
    given = {*typed.inputs, *typed.source.initializers}
    for position, node in enumerate(typed.nodes):
        read = names_read(node)
        exact = node.op_type in _EXACT and all(name in given or found.get(name) == "" for name in read)
        inner = [body.own[name].dtype for body in typed.bodies_at(position) for name in body.own]
        for name in filter(None, node.outputs):
            own = typed.values[name].dtype if name in typed.values else ""
            if exact or own not in FLOATS:
                found[name] = ""
                continue
            found[name] = _narrowest([own, *inner, *(found.get(each, "") for each in read)])
    return found


def _narrowest(dtypes: Iterable[str]) -> str:
    return max((dtype for dtype in dtypes if dtype in FLOATS), key=FLOATS.index, default="")
