"""Transposes go after functions of single elements, reductions and Concats, and meet the next ones there.

Two that meet are one, or none where the second undoes the first. Condition: all other inputs are constants, which are
transposed at conversion, or transposed in the same way, and the graph gets fewer Transposes. Reason: networks of
channels-last frameworks (Keras) transpose before and after each convolution, and so nothing could be put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_systemds.correspondence import ACTIVATIONS, ELEMENTWISE, REDUCTIONS
from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.inference.passes.requantization import QUANTIZING
from onnx_systemds.model.ir import Array, Attribute, Graph, Node, TensorType
from onnx_systemds.model.walk import names_captured_by

NEEDS = ("Transpose",)
_OF_ELEMENTS = frozenset((*ELEMENTWISE, *ACTIVATIONS, *QUANTIZING, "Sum", "Mean"))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A value that is another one with its axes in this order, by a Transpose that is not there yet."""

    source: str
    order: tuple[int, ...]
    transpose: Node

    @property
    def is_source(self) -> bool:
        return self.order == tuple(range(len(self.order)))


def sink_transposes(graph: Graph, notes: PassNotes) -> Graph:
    """The graph with fewer Transposes; the same one where there is no such."""
    transposes = [node for node in graph.nodes if node.identity == ("", "Transpose")]
    if len(transposes) < 2:
        return graph
    sinking = _Sinking(graph)
    found = sinking.graph()
    made = {node.outputs[0] for node in found.nodes if node.identity == ("", "Transpose")}
    if len(made) < len(transposes):
        for node in transposes:
            if node.outputs[0] not in made:
                notes.fired(node, "it meets another one, and there are fewer of them")
        return found
    for node in transposes if sinking.has_moved else ():
        notes.left(node, "there would not be fewer of them")
    return graph


class _Sinking:
    """A graph as it is built again, node by node."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[Node] = []
        self._initializers = dict(graph.initializers)
        self._ranks = {name: array.ndim for name, array in graph.initializers.items()}
        for given in graph.inputs:
            if isinstance(given.type, TensorType) and given.type.dims is not None:
                self._ranks[given.name] = len(given.type.dims)
        self._waiting: dict[str, _Waiting] = {}
        self._made: set[str] = set()
        self.has_moved = False

    def graph(self) -> Graph:
        """The graph with Transposes as late as they can be."""
        for node in self._graph.nodes:
            waiting = self._transposed(node) or self._after_elements(node) or self._after_reduction(node)
            waiting = waiting or self._after_concat(node)
            if waiting is not None:
                self._waiting[node.outputs[0]] = waiting
                continue
            for name in sorted(names_captured_by(node)):  # sub-graphs know it by its name
                self._keep(name)
            self._nodes.append(replace(node, inputs=tuple(map(self._given, node.inputs))))
        for output in self._graph.outputs:
            self._keep(output.name)
        return replace(self._graph, nodes=tuple(self._nodes), initializers=self._initializers)

    def _given(self, name: str) -> str:
        """The name of a value that is there, made if need be."""
        waiting = self._waiting.get(name)
        if waiting is None or name in self._made:
            return name
        if waiting.is_source:
            return waiting.source
        self._made.add(name)
        attributes = {"perm": waiting.order}
        self._nodes.append(
            replace(waiting.transpose, inputs=(waiting.source,), outputs=(name,), attributes=attributes)
        )
        return name

    def _keep(self, name: str) -> None:
        """Make a value under its own name."""
        if self._given(name) != name:
            source = self._waiting.pop(name).source
            node = self._graph_node(name)
            self._nodes.append(replace(node, op_type="Identity", domain="", inputs=(source,), attributes={}))

    def _graph_node(self, name: str) -> Node:
        return next(node for node in self._graph.nodes if name in node.outputs)

    def _transposed(self, node: Node) -> _Waiting | None:
        order = node.integers("perm")
        if node.identity != ("", "Transpose") or order is None:
            return None
        waiting = self._waiting.get(node.inputs[0])
        rank = self._ranks.get(node.inputs[0], len(order)) if waiting is None else len(waiting.order)
        before = tuple(range(rank)) if waiting is None else waiting.order
        if sorted(order) != list(range(rank)):
            return None  # type inference reports it
        source = node.inputs[0] if waiting is None else waiting.source
        return _Waiting(source, tuple(before[axis] for axis in order), node)

    def _after_elements(self, node: Node) -> _Waiting | None:
        if node.domain or node.op_type not in _OF_ELEMENTS or len(node.outputs) != 1 or "broadcast" in node.attributes:
            return None
        waiting = self._common(node.inputs)
        if waiting is None:
            return None
        inputs: list[str] = []
        for place, name in enumerate(node.inputs):
            content = self._initializers.get(name)
            if not name or name in self._waiting:
                inputs.append(self._waiting[name].source if name else "")
            elif content is None or content.ndim > len(waiting.order):
                return None
            elif content.size == 1:
                inputs.append(name)
            elif node.op_type in QUANTIZING or (node.op_type == "PRelu" and node.version < 7):  # of channels
                return None
            else:
                inputs.append(f"{node.outputs[0]}/transposed{place}")
                self._initializers[inputs[-1]] = _transposed_back(content, waiting.order)
        return self._moved(node, waiting, tuple(inputs), node.attributes)

    def _after_reduction(self, node: Node) -> _Waiting | None:
        if node.domain or node.op_type not in REDUCTIONS:
            return None
        waiting = self._common(node.inputs[:1])
        given = node.axes(self._initializers)
        if waiting is None or not given:
            return None
        rank = len(waiting.order)
        found = [_axis(axis, rank) for axis in given]
        axes = {axis for axis in found if axis is not None}
        if None in found:
            return None
        places = tuple(sorted(waiting.order[axis] for axis in axes))
        inputs: tuple[str, ...] = (waiting.source,)
        attributes: Mapping[str, Attribute] = node.attributes
        if len(node.inputs) > 1:
            inputs = (waiting.source, f"{node.outputs[0]}/axes")
            self._initializers[inputs[1]] = np.array(places)
        else:
            attributes = {**attributes, "axes": places}
        if not node.attributes.get("keepdims", 1):
            left = [place for axis, place in enumerate(waiting.order) if axis not in axes]
            waiting = replace(waiting, order=tuple(sorted(left).index(place) for place in left))
        return self._moved(node, waiting, inputs, attributes)

    def _after_concat(self, node: Node) -> _Waiting | None:
        axis = node.attributes.get("axis")
        if node.identity != ("", "Concat") or not isinstance(axis, int):
            return None
        waiting = self._common(node.inputs)
        place = None if waiting is None else _axis(axis, len(waiting.order))
        if waiting is None or place is None or any(name not in self._waiting for name in node.inputs):
            return None
        inputs = tuple(self._waiting[name].source for name in node.inputs)
        attributes = {**node.attributes, "axis": waiting.order[place]}
        return self._moved(node, waiting, inputs, attributes)

    def _common(self, names: Sequence[str]) -> _Waiting | None:
        """What is waiting for some of these names, where it is the same order for all, and not that of the source."""
        waiting = [self._waiting[name] for name in names if name in self._waiting]
        if not waiting or waiting[0].is_source or any(other.order != waiting[0].order for other in waiting):
            return None
        return waiting[0]

    def _moved(
        self, node: Node, waiting: _Waiting, inputs: tuple[str, ...], attributes: Mapping[str, Attribute]
    ) -> _Waiting:
        """Put a node before the Transpose that waits for its input."""
        name = f"{node.outputs[0]}/moved"
        self._nodes.append(replace(node, inputs=inputs, outputs=(name,), attributes=attributes))
        self.has_moved = True
        return replace(waiting, source=name)


def _axis(axis: int, rank: int) -> int | None:
    """An axis counted from the front; None for one out of range, which type inference reports."""
    return axis % rank if -rank <= axis < rank else None


def _transposed_back(content: Array, order: Sequence[int]) -> Array:
    """A constant for what is transposed later, of as many axes."""
    whole = content.reshape(*[1] * (len(order) - content.ndim), *content.shape)
    return whole.transpose(np.argsort(order))
