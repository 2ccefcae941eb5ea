"""A model's own functions: DML functions that are called, not copied.

A body is typed for each call, as a sub-graph is. Calls that render to the same text share one DML function. Functions
of a few nodes are put where they are called, which reads better; so are those that handle known lists.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.definitions import function_graph
from onnx_systemds.inference.dims import symbols
from onnx_systemds.inference.facts import NodeFacts, unknown_size
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.lists import outer_list
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import INTEGER_DTYPES, Value
from onnx_systemds.model.ir import Function

SMALLEST = 4
"""The fewest nodes, without constants, of a function that is called and not inlined."""

BODY = "function"
"""The key of a called function's body among the sub-graphs of a node."""

_LARGEST_CONTENT = 64  # elements of a known integer input whose content the body gets: shapes, axes


def is_called(facts: NodeFacts, function: Function) -> bool:
    """Whether a node calls its function; else the function is inlined."""
    nodes = sum(node.op_type != "Constant" for node in function.nodes)
    given = [facts.value(position) for position in range(facts.input_count) if facts.has(position)]
    return nodes >= SMALLEST and all(value.items is None for value in given)


def call_values(facts: InferenceFacts, function: Function) -> tuple[Value, ...]:
    """The outputs of a call, its body typed and noted in ``facts.bodies``."""
    graph = function_graph(facts.node, function)
    given = [facts.value(position) for position in range(facts.input_count) if facts.has(position)]
    inputs = [value if _is_structure(value) else replace(value, constant=None, ramp=None) for value in given]
    typed = facts.type_graph(graph, inputs)
    facts.bodies[BODY] = typed
    return tuple(_outer(facts, position, typed) for position in range(len(facts.node.outputs)))


def _is_structure(value: Value) -> bool:
    """Whether the content of an input may change the body. Weights do not: they would prevent shared bodies."""
    content = value.constant
    if content is None:
        return False
    return content.size <= 1 or (content.size <= _LARGEST_CONTENT and value.dtype in {*INTEGER_DTYPES, "bool"})


def _outer(facts: InferenceFacts, position: int, typed: TypedGraph) -> Value:
    """An output as the caller sees it: sizes that the body decides at run time get symbols of the caller."""
    value = typed.values[typed.outputs[position]]
    local = typed.own_sizes
    if value.is_list:
        return outer_list(value, value.element, local)
    if value.elements is not None and local.intersection(symbols(value.elements.ravel().tolist())):
        value = replace(value, elements=None)
    value = value if value.ramp is None else replace(value, ramp=None)  # its steps may be sizes of the body
    if value.dims is None:
        return value
    dims = tuple(unknown_size(facts, position, axis) if local.intersection(symbols(size)) else size
                 for axis, size in enumerate(value.dims))
    return replace(value, dims=dims)
