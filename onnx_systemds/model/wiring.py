"""Who produces which value: duplicate producers, undefined names, cycles, and the order of nodes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from onnx_systemds.errors import InvalidModel, NodePlace, Reasons, quoted, quoted_list
from onnx_systemds.model.ir import Function, FunctionKey, Graph, Node
from onnx_systemds.model.walk import all_nodes, ready_first

_MOST_NODES_EXPANDED = 10_000_000


def place_of(node: Node, graph: str) -> NodePlace:
    """Return the place of a node in the graph of this name."""
    return NodePlace(graph, node.label, node.op_type, node.domain, node.version)


def sort_nodes(
    nodes: Sequence[Node],
    captured: Mapping[int, Mapping[str, NodePlace]],
    outputs: Iterable[str],
    given: Iterable[str],
    graph: str,
    reasons: Reasons,
) -> tuple[list[int], dict[str, NodePlace | None]]:
    """Order the nodes of one graph so that each stands after those it needs.

    captured: for each node with sub-graphs, the names they take from outside and who takes them.
    given: names of inputs and initializers. outputs: names the graph must yield.
    Returns the positions in order (the given order where that is valid, else the smallest position first) and the
    names that are used but not produced here, each with its first user (None: the graph's outputs).
    Adds a reason for every duplicate producer and every cycle; linear in the number of inputs and outputs.
    """
    producers = _producers(nodes, given, graph, reasons)
    free: dict[str, NodePlace | None] = {}
    needs: list[list[int]] = []
    in_order = True
    for position, node in enumerate(nodes):
        needed = []
        read = ((name, None) for name in node.inputs if name)
        for name, user in (*read, *captured.get(position, {}).items()):
            producer = producers.get(name)
            if producer is None:
                free.setdefault(name, user or place_of(node, graph))
            elif producer >= 0:
                needed.append(producer)
        if needed and max(needed) >= position:
            in_order = False
        needs.append(needed)
    for name in outputs:
        if name not in producers:
            free.setdefault(name, None)
    if in_order:
        return list(range(len(nodes))), free
    order = _smallest_first(needs)
    if len(order) < len(nodes):
        reasons.add(_cycle(nodes, needs, set(order), graph))
        order = list(range(len(nodes)))
    return order, free


def check_calls(functions: Mapping[FunctionKey, Function], main: Graph, reasons: Reasons) -> None:
    """Add a reason when model functions call each other in a circle, or would expand beyond all measure.

    Function bodies and main graph hold at most a few nodes each, yet n functions that call the previous one twice
    expand to 2^n nodes.
    """
    called = {key: _calls(function.nodes, functions) for key, function in functions.items()}
    order = TopologicalSorter({key: calls for key, (calls, _) in called.items()})
    sizes: dict[FunctionKey, int] = {}
    try:
        for key in order.static_order():
            calls, count = called[key]
            sizes[key] = count + sum(sizes[callee] for callee in calls)
    except CycleError as error:
        circle = quoted_list(name for _, name, _ in error.args[1][:0:-1])
        reasons.add(InvalidModel(f"model functions call each other in a circle: {circle}"))
        return
    calls, count = _calls(main.nodes, functions)
    total = count + sum(sizes[key] for key in calls)
    if total > _MOST_NODES_EXPANDED:
        reasons.add(InvalidModel(f"the calls of model functions expand to more than {_MOST_NODES_EXPANDED} nodes"))


def _calls(nodes: Iterable[Node], functions: Container[FunctionKey]) -> tuple[list[FunctionKey], int]:
    """Return the model functions called in `nodes` and their sub-graphs, once per call, and the number of nodes."""
    written = list(all_nodes(nodes))
    return [node.function_key for node in written if node.function_key in functions], len(written)


def _producers(nodes: Sequence[Node], given: Iterable[str], graph: str, reasons: Reasons) -> dict[str, int]:
    """Return the position of the node that produces each name, -1 for given ones."""
    producers = dict.fromkeys(given, -1)
    for position, node in enumerate(nodes):
        for name in node.outputs:
            if not name:
                continue
            other = producers.setdefault(name, position)
            if other != position or node.outputs.count(name) > 1:
                by = "an input or initializer" if other < 0 else f"node {quoted(nodes[other].label)}"
                message = f"produces {quoted(name)}, which is already produced by {by}"
                reasons.add(InvalidModel(message, place_of(node, graph)))
    return producers


def _smallest_first(needs: Sequence[Sequence[int]]) -> list[int]:
    """Return positions so that each stands after its needs, as many as no cycle holds up."""
    users: list[list[int]] = [[] for _ in needs]
    for position, needed in enumerate(needs):
        for producer in needed:
            users[producer].append(position)
    return list(ready_first([len(needed) for needed in needs], users))


def _cycle(nodes: Sequence[Node], needs: Sequence[Sequence[int]], done: set[int], graph: str) -> InvalidModel:
    """Name the nodes of one cycle: each node left over needs another one left over, so going back ends in it."""
    position = next(p for p in range(len(nodes)) if p not in done)
    path: dict[int, None] = {}
    while position not in path:
        path[position] = None
        position = next(p for p in needs[position] if p not in done)
    cycle = [*path][[*path].index(position) :][::-1]
    names = quoted_list(nodes[p].label for p in cycle)
    return InvalidModel(f"the nodes {names} form a cycle", place_of(nodes[cycle[0]], graph))
