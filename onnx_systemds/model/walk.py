"""Reverse topological order: from the outputs to the inputs, a node after all its consumers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx_systemds.model.ir import Function, FunctionKey, Graph, Node


def reverse_order(nodes: Sequence[Node]) -> Iterator[int]:
    """Positions of the nodes, each after all nodes that read its outputs, sub-graphs included.

    Of the nodes that are ready the one with the highest position comes first, so the reverse of the result
    keeps the given order wherever that is a topological one.
    """
    producer = {name: position for position, node in enumerate(nodes) for name in node.outputs if name}
    reads = [{producer[name] for name in names_read(node) if name in producer} for node in nodes]
    consumers = [0] * len(nodes)
    for position, read in enumerate(reads):
        read.discard(position)
        for source in read:
            consumers[source] += 1
    return ready_first(consumers, reads, sign=-1)


def ready_first(waits: list[int], releases: Sequence[Iterable[int]], sign: int = 1) -> Iterator[int]:
    """Positions, each after those that release it; of those that are ready the lowest (sign -1: the highest) first.

    waits: for how many others each waits. releases: those that wait for each. What waits for itself never comes.
    """
    ready = [sign * position for position, count in enumerate(waits) if count == 0]
    heapq.heapify(ready)
    while ready:
        position = sign * heapq.heappop(ready)
        yield position
        for other in releases[position]:
            waits[other] -= 1
            if waits[other] == 0:
                heapq.heappush(ready, sign * other)


def needed_positions(nodes: Sequence[Node], outputs: Iterable[str]) -> set[int]:
    """Positions of the nodes that these values are computed from."""
    names, needed = set(outputs), set()
    for position in reverse_order(nodes):
        if not names.isdisjoint(nodes[position].outputs):
            needed.add(position)
            names |= names_read(nodes[position])
    return needed


def nodes_written(main: Graph, functions: Mapping[FunctionKey, Function]) -> int:
    """Number of nodes of a model."""
    return sum(1 for _ in nodes_of_model(main, functions))


def nodes_of_model(main: Graph, functions: Mapping[FunctionKey, Function]) -> Iterator[Node]:
    """The nodes of a model: of its graph, its functions and all their sub-graphs."""
    called = (node for function in functions.values() for node in function.nodes)
    return all_nodes([*main.nodes, *called])


def all_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes and those of all their sub-graphs, in no order."""
    stack = [*nodes]
    while stack:
        node = stack.pop()
        yield node
        for graph in sub_graphs(node):
            stack += graph.nodes


def sub_graphs(node: Node) -> Iterator[Graph]:
    """The sub-graphs of a node, each by itself or among others in one attribute."""
    for content in node.attributes.values():
        if isinstance(content, Graph):
            yield content
        elif isinstance(content, tuple) and content and isinstance(content[0], Graph):  # all are of one type
            yield from (item for item in content if isinstance(item, Graph))


def handed_on(nodes: Iterable[Node], name: str) -> str:
    """The value that a chain of Identity nodes passes on by this name."""
    made = {output: node for node in nodes for output in node.outputs}
    while name in made and made[name].identity == ("", "Identity"):
        name = made[name].inputs[0]
    return name


def names_read(node: Node) -> set[str]:
    """Names that a node reads: its inputs and what its sub-graphs capture."""
    read = names_captured_by(node).union(node.inputs)
    read.discard("")
    return read


def names_captured_by(node: Node) -> set[str]:
    """Names that the sub-graphs of a node take from the graphs around it; they may be inputs of the node, too."""
    return set[str]().union(*map(names_captured, sub_graphs(node)))


def names_used(graph: Graph) -> set[str]:
    """Names that the nodes of a graph read, and those of its outputs."""
    return {output.name for output in graph.outputs}.union(*map(names_read, graph.nodes))


def names_captured(graph: Graph) -> set[str]:
    """Names that a sub-graph takes from the graphs around it."""
    own = {given.name for given in graph.inputs} | set(graph.initializers)
    for node in graph.nodes:
        own.update(node.outputs)
    return names_used(graph) - own
