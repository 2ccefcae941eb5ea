"""`ListNode`: what a list rule gets, to replace a node on sequences or optionals with known items."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.lists import item_position, number_of
from onnx_systemds.model.ir import Array, Attribute, Node

Fresh = Callable[[str], str]


class ListNode:
    """A node on lists, and the nodes that replace it. written: those so far."""

    def __init__(self, facts: NodeFacts, fresh: Fresh) -> None:
        self.facts = facts
        self.fresh = fresh
        self.written: list[Node] = []

    @property
    def node(self) -> Node:
        """The node that is to be replaced."""
        return self.facts.node

    def items(self, position: int) -> tuple[str, ...] | None:
        """The names of the items of an input; None if they are unknown."""
        return self.facts.value(position).items if self.facts.has(position) else None

    def number(self, position: int) -> int | None:
        """The content of an input of one integer; None if it is unknown."""
        return number_of(self.facts, position)

    def position(self, position: int, count: int) -> int | None:
        """A position in a list of ``count`` items, counted from the front. Raises UnsupportedCase when out of range."""
        return item_position(self.facts, position, count, count - 1)

    def write(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute
    ) -> tuple[Node, ...]:
        """Add a node; return all nodes written so far."""
        self.written.append(self.node.inner(op_type, inputs, outputs, attributes))
        return tuple(self.written)

    def constant(self, content: Array, output: str = "") -> str:
        """Add a constant; return its name."""
        output = output or self.fresh("constant")
        self.write("Constant", (), (output,), value=content)
        return output

    def on_axis(self, op_type: str, given: str, output: str, axis: int) -> None:
        """Squeeze or Unsqueeze of one axis, as the opset in force writes it."""
        if self.node.version < 13:
            self.write(op_type, (given,), (output,), axes=(axis,))
        else:
            self.write(op_type, (given, self.constant(np.array([axis], dtype=np.int64))), (output,))

    def known(self, content: object, dtype: type) -> tuple[Node, ...]:
        """The first output as a known scalar."""
        self.constant(np.array(content, dtype=dtype), self.node.outputs[0])
        return tuple(self.written)

    def list_of(self, items: Sequence[str], output: str) -> tuple[Node, ...]:
        """A sequence of these items."""
        return self.write("SequenceConstruct", items, (output,))
