"""The memory that the matrices of a graph take in the engine, if all sizes are known."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnx_systemds.inference.dims import product, substitute
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Node
from onnx_systemds.model.walk import names_read

NUMBER = 8
"""Bytes of a number: the engine has FP64 only."""

# What they give is what they take, in another view at most, which the engine does not copy.
_VIEWS = frozenset(["Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"])


@dataclass(frozen=True, slots=True)
class Step:
    """What is there while a node is computed. alive: bytes of all matrices, weights left out. own: those of its inputs
    and results, and its work space."""

    node: Node
    alive: int
    own: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The steps of a graph with most matrices at once and with the largest own ones.

    unknown: values whose sizes are not known, which are not counted.
    """

    peak: Step
    largest: Step
    unknown: tuple[str, ...]


def memory_of(graph: TypedGraph) -> Memory | None:
    """The memory of one call, weights left out; None for a graph without nodes."""
    steps, unknown = [], dict.fromkeys(name for name, value in graph.own.items() if bytes_of(value) is None)
    for step, more in steps_of(graph):
        steps.append(step)
        unknown |= dict.fromkeys(more)
    if not steps:
        return None
    return Memory(max(steps, key=lambda s: s.alive), max(steps, key=lambda s: s.own), tuple(unknown))


def steps_of(graph: TypedGraph) -> Iterator[tuple[Step, tuple[str, ...]]]:
    """The steps in the order of the nodes, and the names of unknown sizes in their sub-graphs."""
    holders = _holders(graph)
    last: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        last |= {holders.get(name, name): position for name in (*names_read(node), *node.outputs)}
    last |= {holders.get(name, name): len(graph.nodes) for name in (*graph.outputs, *graph.inputs)}
    alive = {name: _size(graph, name) for name in graph.inputs}
    for position, node in enumerate(graph.nodes):
        given = {holders.get(name, name) for name in names_read(node)}
        made = {holders.get(name, name) for name in node.outputs if name} - given
        alive |= {name: _size(graph, name) for name in made}
        own = sum(_size(graph, name) for name in given | made) + _work_space(graph, node)
        inner = [found for body in graph.bodies_at(position) if (found := memory_of(body)) is not None]
        inside = max((found.peak.alive for found in inner), default=0)
        names = tuple(name for found in inner for name in found.unknown)
        yield Step(node, sum(alive.values()) + _work_space(graph, node) + inside, own + inside), names
        for name in [name for name in alive if last.get(name, -1) <= position]:
            del alive[name]


def _holders(graph: TypedGraph) -> dict[str, str]:
    """The name of the value that owns the memory, for each value that is a view."""
    found: dict[str, str] = {}
    for node in graph.nodes:
        if node.domain == "" and node.op_type in _VIEWS and node.inputs and node.inputs[0]:
            found[node.outputs[0]] = found.get(node.inputs[0], node.inputs[0])
    return found


def _size(graph: TypedGraph, name: str) -> int:
    """Bytes of a value; 0 for constants, which are weights, and for unknown sizes."""
    value = graph.values.get(name)
    return 0 if value is None else bytes_of(value) or 0


def bytes_of(value: Value, sizes: Mapping[str, int] | None = None) -> int | None:
    """Bytes of the matrix of a value, 0 for constants; None if ``sizes`` (by symbol) do not determine its size."""
    if value.is_known:
        return 0
    size = None if value.dims is None else substitute(product(value.dims), sizes or {})
    return NUMBER * size if isinstance(size, int) else None


def _work_space(graph: TypedGraph, node: Node) -> int:
    """The windows of one image for each processor, which the engine's convolution copies into a matrix."""
    if node.domain != "" or node.op_type not in ("Conv", "ConvInteger", "ConvTranspose"):
        return 0
    images = graph.values[node.outputs[0] if node.op_type != "ConvTranspose" else node.inputs[0]].dims or ()
    filters = graph.values[node.inputs[1]].dims or ()
    windows = NUMBER * (os.cpu_count() or 1)
    for size in (*images[2:], *filters[1:]):
        if not isinstance(size, int):
            return 0
        windows *= size
    return windows
