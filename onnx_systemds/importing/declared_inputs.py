"""Inputs of a graph as the user declares them: of other types, or with a content that is known at conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.errors import InvalidModel, quoted
from onnx_systemds.model.given_inputs import given_value
from onnx_systemds.model.ir import Array, Graph, MapType, Node, OptionalType, SequenceType, TensorType, Type


def with_types(graph: Graph, types: Mapping[str, Type]) -> Graph:
    """The graph with other declared types of inputs. Raises InvalidModel for names that are no inputs, or no types."""
    _check_names(graph, types, "types")
    for name, type_ in types.items():
        if not isinstance(type_, (TensorType, SequenceType, OptionalType, MapType)):
            raise InvalidModel(f"the type of {quoted(name)} is {type_!r}, no TensorType or other type",
                               hint='such as TensorType("float", ("batch", 3)), of onnx_systemds.model.ir')
    inputs = tuple(replace(given, type=types.get(given.name, given.type)) for given in graph.inputs)
    return replace(graph, inputs=inputs)


def with_constants(graph: Graph, constants: Mapping[str, Array | Sequence[Array]]) -> Graph:
    """The graph with inputs turned into initializers. Raises InvalidModel for names that are no inputs."""
    _check_names(graph, constants, "constants")
    known = {given.name: given.type for given in graph.inputs}
    initializers = dict(graph.initializers)
    nodes: list[Node] = []
    for name, content in constants.items():
        type_ = known[name]
        if isinstance(content, np.ndarray) or isinstance(type_, TensorType):
            initializers[name] = given_value(name, content, type_ if isinstance(type_, TensorType) else None)
            continue
        items = {f"{name}/{number}": given_value(f"{name}/{number}", item, _item_type(type_))
                 for number, item in enumerate(content)}
        initializers |= items
        nodes += _list_nodes(name, tuple(items), type_)
    inputs = tuple(given for given in graph.inputs if given.name not in constants)
    return replace(graph, inputs=inputs, initializers=initializers, nodes=(*nodes, *graph.nodes))


def _check_names(graph: Graph, given: Mapping[str, object], what: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidModel(f"{what} are a mapping by the names of inputs, not {given!r}")
    for name in given.keys() - {port.name for port in graph.inputs}:
        raise InvalidModel(f"{quoted(str(name))} is no input of the graph")


def _item_type(type_: Type | None) -> Type | None:
    """The type of the tensors in a sequence, an optional, or an optional sequence."""
    return _item_type(type_.element) if isinstance(type_, (SequenceType, OptionalType)) else type_


def _list_nodes(name: str, items: tuple[str, ...], type_: Type | None) -> list[Node]:
    """The nodes that make a list of constant items."""
    if not isinstance(type_, OptionalType):
        return [_plain_node("SequenceConstruct", items, name)]
    if not isinstance(type_.element, SequenceType):
        return [_plain_node("Optional", items[:1], name)]
    return [_plain_node("SequenceConstruct", items, f"{name}/items"), _plain_node("Optional", (f"{name}/items",), name)]


def _plain_node(op_type: str, inputs: tuple[str, ...], output: str) -> Node:
    return Node(op_type, "", inputs, (output,), {}, output, "", 0, 18)
