"""Extracts a part of a graph: from some of its values to others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from onnx_systemds.errors import InvalidModel, TranspileError, quoted, quoted_list
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.context import Context
from onnx_systemds.inference.infer import infer
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Model, Node, TensorType, Type, ValueInfo
from onnx_systemds.model.walk import names_read, needed_positions


def part_of(model: Model, starts: Sequence[str], ends: Sequence[str]) -> Model:
    """The model of the nodes that compute ``ends`` (its outputs, if there are none) from its inputs and ``starts``.

    ``starts`` become inputs, after those of the model that are still needed, with the type that the model declares for
    them or that follows from its nodes; where neither says one it stays open, for `import_model(types=...)`. Raises
    InvalidModel for names that are no such values, or of which nothing depends.
    """
    graph = model.graph
    if not starts and not ends:
        return model
    infos = {info.name: info for info in (*graph.value_info.values(), *graph.inputs, *graph.outputs)}
    _check_names(graph, starts, ends)
    wanted = list(dict.fromkeys(ends or [info.name for info in graph.outputs]))
    nodes = _without(graph.nodes, set(starts), wanted)
    needed = [nodes[position] for position in sorted(needed_positions(nodes, wanted))]
    read = {name for node in needed for name in names_read(node)} | set(wanted)
    unneeded = [name for name in starts if name not in read]
    if unneeded:
        raise InvalidModel(f"{quoted_list(wanted)} does not depend on {quoted_list(unneeded)}")
    if not needed:
        of = f" of {quoted_list(starts)}" if starts else ""
        raise InvalidModel(f"no node computes {quoted_list(wanted)}{of}")
    inputs = [info for info in graph.inputs if info.name in read]
    given = {info.name for info in inputs}
    fresh = [name for name in dict.fromkeys(starts) if name not in given]
    types = _types_of(model, [name for name in fresh if name not in infos or infos[name].type is None])
    inputs += [ValueInfo(name, types[name] if name in types else infos[name].type) for name in fresh]
    outputs = tuple(infos.get(name, ValueInfo(name, None)) for name in wanted)
    weights = {name: array for name, array in graph.initializers.items() if name in read}
    return replace(model, graph=replace(
        graph, inputs=tuple(inputs), outputs=outputs, nodes=tuple(needed), initializers=weights
    ))


def _check_names(graph: Graph, starts: Sequence[str], ends: Sequence[str]) -> None:
    computed = [name for node in graph.nodes for name in node.outputs if name]
    known = {*computed, *(info.name for info in graph.inputs)}
    for name in (*starts, *ends):
        if name in graph.initializers:
            raise InvalidModel(f"{quoted(name)} is a weight of the graph, which no part begins or ends with")
        if name not in known:
            near = get_close_matches(name, known, 3)
            hint = f"there is {quoted_list(near)}" if near else "names of values are those of nodes' outputs"
            raise InvalidModel(f"{quoted(name)} is no value of the graph", hint=hint)


def _without(nodes: Sequence[Node], given: set[str], wanted: Sequence[str]) -> list[Node]:
    """The nodes without those that compute these values. Raises InvalidModel if such a node computes others as well.

    wanted: the values that are read after all nodes.
    """
    read = {name for node in nodes for name in names_read(node)}.union(wanted)
    remaining: list[Node] = []
    for node in nodes:
        own = given.intersection(node.outputs)
        others = [name for name in node.outputs if name and name not in own and name in read]
        if own and others:
            raise InvalidModel(
                f"{quoted_list(sorted(own))} is computed together with {quoted_list(others)}: begin with all of them"
            )
        if not own:
            remaining.append(node)
    return remaining


def _types_of(model: Model, names: Sequence[str]) -> dict[str, Type | None]:
    """The types of values that can be inferred from the nodes before them."""
    if not names:
        return {}
    context = Context({}, model.functions, simplify=False)
    try:
        values = infer(_before(model.graph, names), context).values
    except TranspileError:
        return dict.fromkeys(names)
    return {name: _type_of(values[name]) if name in values else None for name in names}


def _before(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph that computes these values."""
    nodes = tuple(graph.nodes[position] for position in sorted(needed_positions(graph.nodes, names)))
    return replace(graph, nodes=nodes, outputs=tuple(ValueInfo(name, None) for name in names))


def _type_of(value: Value) -> Type | None:
    if value.type is not None:
        return value.type
    if not value.dtype or value.dims is None:
        return None
    # a size that is computed from others is left open
    dims = (size if isinstance(size, int) else dim.lone_symbol(size) for size in value.dims)
    return TensorType(value.dtype, tuple(dims))
