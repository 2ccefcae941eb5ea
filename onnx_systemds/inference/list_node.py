"""`ListNode`: what a list rule gets, to replace a node on sequences or optionals with known items."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.lists import item_position, number_of
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.model.ir import Node

Fresh = Callable[[str], str]
_OPSET = 13  # of the ONNX nodes that replace one of another domain


class ListNode(NodeFacts, NodeWriter):
    """A node on lists, its facts, and the nodes that replace it, which are of the same opset."""

    def __init__(self, facts: NodeFacts, fresh: Fresh) -> None:
        NodeFacts.__init__(self, facts.node, facts.values, facts.graph_name)
        NodeWriter.__init__(self, facts.node, "", facts.version if facts.node.domain == "" else _OPSET)
        self.run_sizes, self.assumptions = facts.run_sizes, facts.assumptions
        self._fresh = fresh

    def fresh(self, hint: str) -> str:
        """A name for a value that no other node of the model has."""
        return self._fresh(hint)

    def items(self, position: int) -> tuple[str, ...] | None:
        """The names of the items of an input; None if they are unknown."""
        return self.value(position).items if self.has(position) else None

    def number(self, position: int) -> int | None:
        """The content of an input of one integer; None if it is unknown."""
        return number_of(self, position)

    def position(self, position: int, count: int) -> int | None:
        """A position in a list of ``count`` items, counted from the front. Raises UnsupportedCase when out of range."""
        return item_position(self, position, count, count - 1)

    def same_as(self, name: str) -> tuple[Node, ...]:
        """Make a value the first output; return all nodes."""
        self.emit("Identity", name, to=self.node.outputs[0])
        return tuple(self.nodes)

    def known_result(self, content: object, dtype: str) -> tuple[Node, ...]:
        """Write the first output as a known scalar; return all nodes."""
        self.known(content, dtype, to=self.node.outputs[0])
        return tuple(self.nodes)

    def on_axis(self, op_type: str, items: Sequence[str], axis: int, hint: str = "item") -> list[str]:
        """Write a Squeeze or Unsqueeze of one axis for each item, as the opset says it; return their names."""
        results = [self.fresh(hint) for _ in items]
        for item, result in zip(items, results):
            if self.opset < 13:
                self.emit(op_type, item, to=result, axes=(axis,))
            else:
                self.emit(op_type, item, self.known([axis]), to=result)
        return results
