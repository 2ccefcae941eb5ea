"""Operators as other operators: what an `expander` of the registry sees and writes.

An operator that equals a few ONNX operators needs no generator: its expander writes those, and they are generated
as in any model. Their shapes are inferred as usual, so an expander may leave sizes to them (Reshape's 0 and -1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_systemds.inference.facts import Input, NodeFacts
from onnx_systemds.model import protos
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Attribute, Node

OPSET = 23  # of the ONNX nodes that are written


class Expansion(NodeFacts):
    """A node, its facts, and the nodes that it is expanded to."""

    def __init__(self, facts: NodeFacts, prefix: str) -> None:
        super().__init__(facts.node, facts.values, facts.graph_name)
        self.run_sizes = facts.run_sizes
        self.prefix = prefix
        self.nodes: list[Node] = []

    def input(self, given: Input) -> str:
        """The name of an input, "" where it is left out."""
        return self.name(given) if self.has(given) else ""

    def output(self, position: int = 0) -> str:
        """The name of an output, "" where the node does not give it."""
        return self.node.outputs[position] if self.has_output(position) else ""

    def attributes(self, *names: str) -> dict[str, Any]:
        """Those attributes that have a value, by name."""
        return {name: value for name in names if (value := self.attribute(name)) is not None}

    def emit(self, op_type: str, *inputs: str, to: str = "", domain: str = "", **attributes: Attribute) -> str:
        """Write a node of one output, named ``to`` or anew; returns its name."""
        return self.emit_several(op_type, [to or self.fresh(op_type)], *inputs, domain=domain, **attributes)[0]

    def emit_several(
        self, op_type: str, outputs: Sequence[str], *inputs: str, domain: str = "", **attributes: Attribute
    ) -> tuple[str, ...]:
        """Write a node of the given outputs ("": not wanted); returns their names."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        made = self.node.inner(op_type, inputs, tuple(outputs), attributes, 1 if domain == CONTRIB else OPSET)
        self.nodes.append(replace(made, domain=domain) if domain else made)
        return made.outputs

    def cast(self, name: str, dtype: str, to: str = "") -> str:
        """A value in another element type."""
        return self.emit_several("Cast", [to or self.fresh("Cast")], name, to=protos.element_type(dtype))[0]

    def fresh(self, hint: str) -> str:
        """A new name of a value."""
        return f"{self.prefix}/{hint}{len(self.nodes)}"

    def known(self, content: Any, dtype: str = "int64") -> str:
        """A known tensor: its name."""
        return self.emit("Constant", value=np.array(content, protos.numpy_dtype(dtype)))

    def reshape(self, name: str, *dims: int, to: str = "") -> str:
        """A value in other dims: 0 keeps the one at its place, -1 is what remains."""
        return self.emit("Reshape", name, self.known(dims), to=to)

    def give(self, name: str, position: int = 0) -> None:
        """Give a value as an output, if the node has it."""
        if self.output(position):
            self.emit("Identity", name, to=self.output(position))

    def length(self, name: str, axis: int) -> str:
        """The length of a value along an axis: an integer of rank 0."""
        return self.emit("Gather", self.emit("Shape", name), self.known(axis), axis=0)

    def count_up(self, limit: str, start: str = "") -> str:
        """The integers from 0, or ``start``, up to but without ``limit``."""
        return self.emit("Range", start or self.known(0), limit, self.known(1))

    def split(self, name: str, hints: Sequence[str], sizes: Sequence[int] | str = "", axis: int = -1) -> list[str]:
        """The parts of a value along an axis: of known sizes, of those that a value tells, else all alike.

        hints: for the names of the parts.
        """
        parts = [self.fresh(hint) for hint in hints]
        told = sizes if isinstance(sizes, str) else self.known(sizes)
        alike: dict[str, Any] = {} if told else {"num_outputs": len(parts)}
        self.emit_several("Split", parts, name, told, axis=axis, **alike)
        return parts

    def channels_first(self, name: str, rank: int) -> str:
        """Images whose channels lie last, with the channels after the batch."""
        return self.emit("Transpose", name, perm=(0, rank - 1, *range(1, rank - 1)))

    def channels_last(self, name: str, rank: int, to: str = "") -> str:
        """Images whose channels come after the batch, with the channels last."""
        return self.emit("Transpose", name, to=to, perm=(0, *range(2, rank), 1))

    def unsqueeze(self, name: str, *axes: int) -> str:
        """A value with new axes of size 1."""
        return self.emit("Unsqueeze", name, self.known(axes))

    def slice(self, name: str, axis: int, start: int, end: int, step: int = 1) -> str:
        """The part of a value along one axis."""
        given = (self.known([number]) for number in (start, end, axis, step))
        return self.emit("Slice", name, *given)
