"""A Gather of one place goes before what is computed for all places of its axis, down to what needs all of them.

``Gather(LayerNormalization(X + MatMul(h, W)), 0, axis=1)`` becomes that of ``Gather(X, 0)`` and ``Gather(h, 0)``. So
classifiers read the first token of a transformer, and language models the last one.
Condition: the place is known, nothing else reads the results in between, and there is a MatMul among their nodes.
Reason: the last layer is computed for one token instead of all; only its keys and values are of all tokens.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_systemds.correspondence import ACTIVATIONS, ELEMENTWISE
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.inference.movements import order_of
from onnx_systemds.inference.values import FLOAT_DTYPES, Value
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Array, Graph, Node
from onnx_systemds.model.walk import names_read

_BROADCASTING = 7
"""The opset from which on operators broadcast from the last axis on."""
_OF_ELEMENTS = frozenset((*ELEMENTWISE, *ACTIVATIONS))
_PRODUCTS = ("MatMul", "FusedMatMul")
_NORMALIZATIONS = ("LayerNormalization", "RMSNormalization")
_OTHER_ORDERS = ("transA", "transBatchA")
_SOFTMAX = ("Softmax", "LogSoftmax")
_SIZES = (("", "Shape"), ("", "Size"))  # what reads no element of its input
_SHARED = "other nodes, or the graph's outputs, read other places, too"

Operands = Sequence[int | None]
"""For each input of a node the axis of which one place is needed, counted from the last one; None: all of it is."""


def hoist_gather(
    facts: InferenceFacts, outputs: Sequence[Value], rest: Sequence[Node], graph: Graph
) -> Rewriting:
    """The nodes that stand for a Gather, and the rest of its graph; None where it stays."""
    node = facts.node
    if node.identity != ("", "Gather") or facts.dtype(0) not in FLOAT_DTYPES:
        return None
    place, dims = facts.constant(1), facts.value(0).dims
    if place is None or place.ndim or dims is None or dims[facts.axis()] == 1:
        return None
    axis, source = facts.axis() - len(dims), node.inputs[0]
    made = facts.makers.get(source)
    if made is None or _operands(NodeFacts(made, facts.values), axis) is None:
        return None
    if any(output.name == source for output in graph.outputs) or any(_reads(other, source) for other in rest):
        return _SHARED
    region = _Region(facts, axis, {0: "first", -1: "last"}.get(int(place), "chosen"))
    region.grow(rest, (output.name for output in graph.outputs))
    if not region.operands:
        return _SHARED
    if not any(made.op_type in _PRODUCTS for made in region.operands):
        return None
    return (*region.rewritten(), *rest), f"before {len(region.operands)} nodes, which are computed for this place alone"


@dataclass
class _Region:
    """The nodes before a Gather that have to be computed for its place alone.

    axis: that of the Gather, counted from the last one. word: for its place, in names. axes: of each value the axis of
    which one place is needed. operands: what each node needs of its inputs, from the last node to the first.
    """

    facts: InferenceFacts
    axis: int
    word: str
    axes: dict[str, int] = field(default_factory=dict)
    operands: dict[Node, Operands] = field(default_factory=dict)

    def grow(self, rest: Iterable[Node], outputs: Iterable[str]) -> None:
        """Find the nodes. rest: the nodes after the Gather. outputs: of the graph."""
        makers = self.facts.makers
        source, index = self.facts.node.inputs
        whole = {*outputs, index}  # of which all places are needed
        readers = _readers((*dict.fromkeys(makers.values()), *rest), (*whole, source))
        self.axes[source] = self.axis
        waiting = [(-makers[source].index, source)]
        while waiting:
            made = makers[name := heapq.heappop(waiting)[1]]
            if name in whole or not readers.get(name, set()) <= self.operands.keys():
                continue
            found = _operands(NodeFacts(made, self.facts.values), self.axes[name])
            if found is None:
                continue
            self.operands[made] = found
            for given, axis in zip(made.inputs, found):
                if axis is None or self.axes.get(given, axis) != axis:
                    whole.add(given)
                elif given not in self.axes:
                    self.axes[given] = axis
                    if given in makers:
                        heapq.heappush(waiting, (-makers[given].index, given))

    def rewritten(self) -> Iterator[Node]:
        """The nodes for one place, and the one that gives what the Gather gave."""
        node, index = self.facts.node, f"{self.facts.node.outputs[0]}/place"
        yield self._constant(index, np.ravel(self.facts.require_constant(1, "the index")))
        there: set[str] = set()
        for made, operands in reversed(self.operands.items()):
            inputs, result = list(made.inputs), self._taken(made.outputs[0])
            for number, (name, axis) in enumerate(zip(made.inputs, operands)):
                if axis is None:
                    continue
                inputs[number] = self._taken(name)
                if inputs[number] not in there:
                    there.add(inputs[number])
                    attributes = {"axis": axis + len(self.facts.dims_of(name))}
                    gather = replace(node, inputs=(name, index), outputs=(inputs[number],), attributes=attributes)
                    yield replace(gather, scope=made.scope)
            if made.op_type == "Reshape":
                inputs[1] = f"{result}/dims"
                yield self._constant(inputs[1], self._dims_of_one(made.outputs[0]))
                made = replace(made, attributes={})  # a zero among the dims is for a size that stays
            there.add(result)
            yield replace(made, inputs=tuple(inputs), outputs=(result,))
        axes = f"{node.outputs[0]}/axes"
        yield self._constant(axes, np.array([self.axis]))
        yield replace(node, op_type="Squeeze", inputs=(self._taken(node.inputs[0]), axes), attributes={}, version=13)

    def _dims_of_one(self, name: str) -> Array:
        """What a Reshape makes of one place: the dims before it as they come, those after it as they are known."""
        dims, axis = self.facts.dims_of(name), self.axes[name]
        before = len(dims) + axis
        return np.array([*[0] * before, 1, *(as_ints(dims[before + 1 :]) or ())])

    def _constant(self, name: str, content: Array) -> Node:
        constant = replace(self.facts.node, op_type="Constant", inputs=(), outputs=(name,), version=13)
        return replace(constant, attributes={"value": content})

    def _taken(self, name: str) -> str:
        """The name of one place of a value; others may take that of a value that is computed for all."""
        if self.facts.makers.get(name) in self.operands:
            return f"{name}/{self.word}"
        return f"{name}/{self.facts.node.outputs[0]}"


def _readers(nodes: Sequence[Node], outputs: Iterable[str]) -> dict[str, set[Node]]:
    """The nodes that read elements of each value, but for those of which nothing of these outputs comes."""
    found: dict[str, set[Node]] = {name: set() for name in outputs}
    for node in reversed(nodes):
        if found.keys().isdisjoint(node.outputs):
            continue
        for name in names_read(node):
            readers = found.setdefault(name, set())
            if node.identity not in _SIZES:
                readers.add(node)
    return found


def _reads(node: Node, name: str) -> bool:
    """Whether a node reads elements of a value."""
    return node.identity not in _SIZES and name in names_read(node)


def _operands(facts: NodeFacts, axis: int) -> Operands | None:
    """What a node needs of its inputs for one place of an axis of its result; None where that is more, or not known."""
    node = facts.node
    results = [name for name in node.outputs if name]
    dims = facts.values[results[0]].dims if len(results) == 1 else None
    given = [facts.values[name].dims if name else () for name in node.inputs]
    if dims is None or len(dims) < -axis or None in given:
        return None
    shapes = [shape or () for shape in given]
    if node.identity == (CONTRIB, "FusedMatMul") and not any(map(node.attributes.get, _OTHER_ORDERS)):
        return (-2, None) if axis == -2 else None
    if node.domain:
        return None
    if node.op_type in _OF_ELEMENTS and node.version >= _BROADCASTING:
        return _broadcast(shapes, dims[axis], axis)
    if node.op_type == "MatMul" and min(map(len, shapes)) > 1:
        if axis >= -2:
            return (-2, None) if axis == -2 else (None, -1)
        return _broadcast(shapes, dims[axis], axis)
    if node.op_type in _NORMALIZATIONS and axis < facts.axis(default=-1) - len(dims):
        return (axis, *[None] * (len(shapes) - 1)) if max(map(len, shapes[1:]), default=0) < -axis else None
    if node.op_type in _SOFTMAX and axis < facts.axis(default=-1 if node.version >= 13 else 1) - len(dims):
        return (axis,)
    if node.op_type == "Transpose":
        return (order_of(node, len(dims))[axis] - len(dims),)
    if node.op_type == "Reshape" and len(shapes) == 2:
        return _reshaped(shapes[0], dims, axis)
    return None


def _broadcast(shapes: Iterable[Dims], size: Dim, axis: int) -> Operands | None:
    """For operands that broadcast to a result of this size of the axis; None where one may or may not."""
    found = [None if len(shape) < -axis or shape[axis] == 1 else axis for shape in shapes]
    same = all(where is None or shape[axis] == size for where, shape in zip(found, shapes))
    return found if same else None


def _reshaped(before: Dims, after: Dims, axis: int) -> Operands | None:
    """For a Reshape that leaves the axis and those in front of it as they are; the sizes of the others are known."""
    place = len(after) + axis
    others = as_ints(after[place + 1 :])
    known = others is not None and 0 not in others
    return (place - len(before), None) if known and before[: place + 1] == after[: place + 1] else None
