"""`Expansion`: what an `expander` of the registry gets, to replace a node by other nodes.

An operator that equals a few ONNX operators needs no generator: its expander writes those, and they are generated
as in any model. Their shapes are inferred as usual, so an expander may leave sizes to them (Reshape's 0 and -1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_systemds.inference.facts import Input, NodeFacts
from onnx_systemds.inference.node_writer import NodeWriter

OPSET = 23  # of the ONNX nodes that are written
TO_END = 2**63 - 1
"""Where a Slice that goes up to the end ends."""


class Expansion(NodeFacts, NodeWriter):
    """A node, its facts, and the nodes that it is expanded to."""

    def __init__(self, facts: NodeFacts, prefix: str) -> None:
        NodeFacts.__init__(self, facts.node, facts.values, facts.graph_name)
        NodeWriter.__init__(self, facts.node, prefix, OPSET)
        self.run_sizes, self.assumptions = facts.run_sizes, facts.assumptions

    def input(self, given: Input) -> str:
        """The name of an input, "" if it is omitted."""
        return self.name(given) if self.has(given) else ""

    def first_inputs(self, count: int) -> list[str]:
        """The names of the first so many inputs, "" for those that are omitted."""
        return [self.input(position) for position in range(count)]

    def output(self, position: int = 0) -> str:
        """The name of an output, "" if the node does not have it."""
        return self.node.outputs[position] if self.has_output(position) else ""

    def attributes(self, *names: str) -> dict[str, Any]:
        """The attributes that have a value, by name."""
        return {name: value for name in names if (value := self.attribute(name)) is not None}

    def number(self, value: float) -> str:
        """Emit a number in the type of the first input."""
        return self.known(value, self.dtype(0))

    def numeric(self, attribute: str) -> str:
        """Emit an attribute that is a number, in the type of the first input."""
        return self.number(float(self.attribute(attribute)))

    def silu(self, name: str, to: str = "") -> str:
        """Emit a value times its sigmoid."""
        return self.emit("Mul", name, self.emit("Sigmoid", name), to=to)

    def over_root_mean_square(self, name: str, epsilon: str = "") -> str:
        """Emit a value over the root of its mean square along the last axis; ``epsilon``: by default the attribute."""
        mean = self.emit("ReduceMean", self.emit("Mul", name, name), self.known([-1]), keepdims=1)
        return self.emit("Div", name, self.emit("Sqrt", self.emit("Add", mean, epsilon or self.numeric("epsilon"))))

    def reshape(self, name: str, *dims: int, to: str = "") -> str:
        """Emit a Reshape: 0 keeps the dim at its position, -1 is inferred."""
        return self.emit("Reshape", name, self.known(dims), to=to)

    def give(self, name: str, position: int = 0) -> None:
        """Make a value an output, if the node has that output."""
        if self.output(position):
            self.emit("Identity", name, to=self.output(position))

    def length(self, name: str, axis: int) -> str:
        """Emit the size of an axis, an integer of rank 0."""
        return self.emit("Gather", self.emit("Shape", name), self.known(axis), axis=0)

    def count_up(self, limit: str, start: str = "") -> str:
        """Emit the integers from ``start`` up to ``limit``, without it."""
        return self.emit("Range", start or self.known(0), limit, self.known(1))

    def split(self, name: str, hints: Sequence[str], sizes: Sequence[int] | str = "", axis: int = -1) -> list[str]:
        """Emit a Split: into known sizes, into sizes that a value holds, or into equal parts.

        hints: for the names of the parts.
        """
        parts = [self.fresh(hint) for hint in hints]
        given = sizes if isinstance(sizes, str) else self.known(sizes)
        alike: dict[str, Any] = {} if given else {"num_outputs": len(parts)}
        self.emit_several("Split", parts, name, given, axis=axis, **alike)
        return parts

    def channels_first(self, name: str, rank: int) -> str:
        """Transpose images from channels last to channels first."""
        return self.emit("Transpose", name, perm=(0, rank - 1, *range(1, rank - 1)))

    def channels_last(self, name: str, rank: int, to: str) -> str:
        """Transpose images from channels first to channels last."""
        return self.emit("Transpose", name, to=to, perm=(0, *range(2, rank), 1))

    def slice(self, name: str, axis: int, start: int, end: int | None = None, step: int = 1) -> str:
        """Emit a Slice along one axis, to its end by default."""
        given = (self.known([number]) for number in (start, TO_END if end is None else end, axis, step))
        return self.emit("Slice", name, *given)
