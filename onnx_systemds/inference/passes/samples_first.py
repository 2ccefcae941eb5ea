"""Layers that keep samples behind tokens, as PyTorch's MultiheadAttention does, are computed with samples first.

What only transposes and reshapes, and what treats each row alone in between (products with weights, biases, one place
of an axis), is done again from where samples came first. Condition: a Transpose brings them back, a Gemm takes the
rows of samples one by one in turns, or a Reshape takes such rows apart. Where samples never came first, what the heads
of an attention are made of is transposed instead of each of them.
Reason: fewer Transposes; samples stay one below the other, so they can be divided, and products of heads are those
that other exporters write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.movements import Movement, Part, order_of, parts_of, unmoved
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node

_PRODUCTS = ("Gemm", "MatMul")
_AT = ("Transpose", "Reshape", *_PRODUCTS)
_OF_ONE_AXIS = ("Slice", "Split")
_MOVEMENTS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
_OF_ELEMENTS = ("Add", "Sub", "Mul", "Div")
_BROADCASTING = 7
_DEPTH = 32
"""The number of nodes that are followed back at most."""


def put_samples_first(
    facts: InferenceFacts, outputs: Sequence[Value], rest: Sequence[Node], graph: Graph
) -> Rewriting:
    """The nodes that stand for a Transpose, Reshape or product, and the rest of its graph; None where it stays."""
    node = facts.node
    if node.domain or node.op_type not in _AT or facts.value(0).constant is not None:
        return None
    chain = _Chain(facts)
    if node.op_type in _PRODUCTS:
        found = chain.product()
    else:
        found = chain.brought_back(outputs[0].dims)
    if found is None:
        return None
    writer = NodeWriter(node, node.outputs[0], node.version)
    if not _write(found, writer):
        return "the numbers of samples and tokens are not known apart"
    return (*chain.nodes, *writer.nodes, *rest), f"from {found.source} on"


def _write(found: Movement, writer: NodeWriter) -> bool:
    """Write what stands for the node; keys of heads beside samples are transposed last, for the product to do that."""
    to, last = writer.replaced.outputs[0], len(found.axes) - 1
    if not found.mixes or last < 2 or found.axes[last - 1] < found.axes[last]:
        return found.write(writer, to)
    swap = (*range(last - 1), last, last - 1)
    plain = writer.fresh("plain")
    if not found.transposed(swap).write(writer, plain):
        return False
    writer.emit("Transpose", plain, to=to, perm=swap)
    return True


class _Chain:
    """The values before a node, as movements of others. nodes: what has to be computed for these."""

    def __init__(self, facts: InferenceFacts) -> None:
        self._facts = facts
        self._transposed: dict[str, Movement] = {}
        self._written: set[str] = set()
        self.nodes: list[Node] = []

    def brought_back(self, dims: Dims | None) -> Movement | None:
        """What a Transpose or Reshape to these dims gives, where it brings samples to the front or takes them apart."""
        node = self._facts.node
        before = self._movement(node.inputs[0], _DEPTH)
        if node.op_type == "Transpose":
            order = order_of(node, len(before.axes))
            if before.keeps_first and _splits_heads(before.transposed(order)):
                self._transpose_source(before.source)
                before = self._movement(node.inputs[0], _DEPTH)
            after = before.transposed(order)
            return after if after.keeps_first and not before.keeps_first else None
        if dims is None or not before.mixes:
            return None
        found = before.reshaped(dims)
        return found if found is not None and not found.mixes else None

    def product(self) -> Movement | None:
        """What a Gemm of rows of samples in turns gives, or a MatMul to whose rows heads of tokens are joined."""
        node = self._facts.node
        if node.op_type == "MatMul":
            before = self._movement(node.inputs[0], _DEPTH).units
            return self._row_by_row(node, 0, _DEPTH) if before and len(before[-1]) > 1 else None
        found = self._row_by_row(node, 0, _DEPTH)
        return found if found is not None and found.mixes else None

    def _transpose_source(self, name: str) -> None:
        """Write what a value is computed from row by row, with its first two axes swapped."""
        for _ in range(_DEPTH):
            made = self._facts.makers.get(name)
            place = None if made is None else _place_of_rows(NodeFacts(made, self._facts.values))
            if made is None or place is None:
                break
            name = self._movement(made.inputs[place], _DEPTH).source
        dims = None if name in self._written else self._facts.values[name].dims
        if dims is None or len(dims) != 3:
            return
        writer = NodeWriter(self._facts.node, name, self._facts.version)
        result, order = f"{name}/swapped", (1, 0, 2)
        turned = unmoved(name, dims).transposed(order)
        there = self._is_there(result, turned)
        if there is None:
            return
        if not there:
            writer.emit("Transpose", name, to=result, perm=order)
            self._keep(result, turned, writer.nodes)
        self._transposed[name] = unmoved(result, tuple(dims[axis] for axis in order)).transposed(order)

    def _movement(self, name: str, depth: int) -> Movement:
        """A value as a movement of another one, or of itself."""
        if name in self._transposed:
            return self._transposed[name]
        dims = self._facts.values[name].dims
        made = self._facts.makers.get(name)
        found = None
        if dims is not None and depth and made is not None and not made.domain:
            if made.op_type == "Transpose":
                found = self._movement(made.inputs[0], depth - 1)
                found = found.transposed(order_of(made, len(dims)))
            elif made.op_type in _MOVEMENTS:
                found = self._movement(made.inputs[0], depth - 1).reshaped(dims)
            else:
                found = self._row_by_row(made, made.outputs.index(name), depth)
        return unmoved(name, dims or ()) if found is None else found

    def _row_by_row(self, node: Node, output: int, depth: int) -> Movement | None:
        """An output of a node that treats rows alone, computed before these were put into another order."""
        facts = NodeFacts(node, self._facts.values)
        place = _place_of_rows(facts)
        if place is None or facts.value(place).dims is None:
            return None
        before = self._movement(node.inputs[place], depth - 1)
        units = before.units
        axis = facts.axis() if node.op_type == "Gather" else len(units) - 1
        others = Movement(before.source, before.dims, before.axes[:axis] + before.axes[axis + 1 :])
        kept = before.axes[axis] if before.axes else ()
        if not kept or others.keeps_first or min(parts_of(before.axes)) in kept:
            return None
        if node.op_type == "Gather" and len(units[axis]) > 1:
            return None
        units = units[:axis] + units[axis + 1 :]
        ordered = sorted(unit for whole in units for unit in whole)
        where = len(ordered)
        if node.op_type == "Gather":
            where = sum(unit < kept for unit in ordered)
        arranged = Movement(before.source, before.dims, (*ordered[:where], kept, *ordered[where:]))
        if not self._compute(facts, place, arranged, where):
            return None
        name, size = _by_sample(node.outputs[output]), _row_size(facts, output)
        dims = [product(part.size for part in unit) for unit in ordered]
        axes: list[tuple[Part, ...]] = [
            tuple(Part((ordered.index(unit),), dims[ordered.index(unit)]) for unit in whole) for whole in units
        ]
        if size is not None:
            dims.append(size)
            axes.append(() if size == 1 else (Part((where,), size),))
        return Movement(name, tuple(dims), tuple(axes))

    def _compute(self, facts: NodeFacts, place: int, arranged: Movement, axis: int) -> bool:
        """Write a node for rows in this order; whether it is there then. axis: that of the places, for a Gather."""
        node = facts.node
        names = tuple(map(_by_sample, node.outputs))
        if (there := self._is_there(names[0], arranged)) is not False:
            return there is True
        writer = NodeWriter(node, names[0], node.version)
        rows = arranged.source
        if arranged.axes != unmoved(rows, arranged.dims).axes:
            rows = f"{arranged.source}/rows"
            if (there := self._is_there(rows, arranged)) is None:
                rows = f"{names[0]}/rows"
            if not there:
                if not arranged.write(writer, rows):
                    return False
                self._keep(rows, arranged, ())
        if node.op_type == "Gemm":
            weights = self._turned(node.inputs[1], writer) if facts.attribute("transB") else node.inputs[1]
            products = writer.emit("MatMul", rows, weights, to="" if facts.has(2) else names[0])
            if facts.has(2):
                writer.emit("Add", products, node.inputs[2], to=names[0])
            self._keep(names[0], arranged, writer.nodes)
            return True
        inputs, attributes = [*node.inputs], dict(node.attributes)
        inputs[place] = rows
        if node.op_type == "Slice" and len(inputs) > 3:
            inputs[3] = writer.known([-1])
        elif node.op_type == "Slice":
            attributes["axes"] = (-1,)
        elif node.op_type in ("Gather", "Split"):
            attributes["axis"] = axis
        computed = replace(node, inputs=tuple(inputs), outputs=names, attributes=attributes)
        self._keep(names[0], arranged, (*writer.nodes, computed))
        return True

    def _turned(self, name: str, writer: NodeWriter) -> str:
        """Write the Transpose of a matrix of weights, if it is not there; its name."""
        result, turned = f"{name}/transposed", unmoved(name, self._facts.dims_of(name)).transposed((1, 0))
        there = self._is_there(result, turned)
        if there:
            return result
        if there is None:
            return writer.emit("Transpose", name, perm=(1, 0))
        self._keep(result, turned, ())
        return writer.emit("Transpose", name, to=result, perm=(1, 0))

    def _is_there(self, name: str, content: Movement) -> bool | None:
        """Whether a name is of what this movement gives; None where something else has it."""
        if name not in self._facts.values and name not in self._written:
            return False
        return True if self._facts.remembered.get(name) == content else None

    def _keep(self, name: str, content: Movement, nodes: Sequence[Node]) -> None:
        """Keep the nodes that give a name to what this movement gives."""
        self._facts.remembered[name] = content
        self._written.add(name)
        self.nodes += nodes


def _splits_heads(movement: Movement) -> bool:
    """Whether the second axis comes to the front, and the third is of several parts, in a value with tokens first."""
    parts = parts_of(movement.axes)
    return bool(parts) and parts[0].place == (1,) and sum(part.place[0] == 2 for part in parts) > 1


def _place_of_rows(facts: NodeFacts) -> int | None:
    """The input of which a node treats each row alone, or of which a Gather takes one place; None for other nodes."""
    node = facts.node
    dims = [facts.values[name].dims if name else () for name in node.inputs]
    if None in dims:
        return None
    shapes = [shape or () for shape in dims]
    if node.op_type == "MatMul":
        return 0 if len(shapes[0]) >= 2 == len(shapes[1]) else None
    if node.op_type == "Gemm":
        plain = not facts.attribute("transA") and facts.attribute("alpha") == facts.attribute("beta") == 1
        fits = not facts.has(2) or all(size == 1 for size in shapes[2][:-1])
        return 0 if plain and fits and node.version >= _BROADCASTING else None
    if node.op_type == "Gather":
        return 0 if facts.value(1).constant is not None and not shapes[1] else None
    if node.op_type in _OF_ONE_AXIS:
        return 0 if len(shapes[0]) >= 2 and _of_last_axis(facts, len(shapes[0])) else None
    if node.op_type in _OF_ELEMENTS and node.version >= _BROADCASTING:
        for place, other in ((0, 1), (1, 0)):
            if len(shapes[other]) <= 1 and facts.value(place).constant is None and len(shapes[place]) >= 2:
                return place if shapes[other] in ((), (1,), shapes[place][-1:]) else None
    return None


def _row_size(facts: NodeFacts, output: int) -> Dim | None:
    """The size of the rows that a node gives; None for a Gather, which gives none of the axis."""
    if facts.node.op_type == "Gather":
        return None
    if facts.node.op_type in _PRODUCTS:
        return facts.dims(1)[0 if facts.node.integer("transB", 0) else 1]
    return (facts.values[facts.node.outputs[output]].dims or ())[-1]


def _by_sample(name: str) -> str:
    """The name of what is computed with samples first."""
    return f"{name}/by_sample"


def _of_last_axis(facts: NodeFacts, rank: int) -> bool:
    """Whether a Slice or Split, all outputs of which have a name, is of the last axis alone."""
    node = facts.node
    if node.op_type == "Split":
        return all(node.outputs) and facts.axis() == rank - 1
    given = facts.constant(3) if len(node.inputs) > 3 and node.inputs[3] else node.integers("axes")
    return given is not None and [int(axis) % rank for axis in np.ravel(given)] == [rank - 1]
