"""Operators on sequences and optionals become plain operators on the items.

Condition: the items are known at conversion; a loop that carries such lists makes a known number of trips, not too
many. Reason: what exporters write (a sequence made of known tensors, taken apart again) leaves nothing in the script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.definitions import inline_body
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Array, Attribute, Graph, Node, OptionalType

RULE = "known-lists"
MOST_TRIPS = 256  # of a loop that carries lists and is written out
MOST_ITEMS = 256  # of a sequence that a tensor is split into

Fresh = Callable[[str], str]
Rule = Callable[["ListNode"], "tuple[Node, ...] | None"]


class ListNode:
    """A node on lists, and the means to write nodes in its place."""

    def __init__(self, facts: NodeFacts, fresh: Fresh) -> None:
        self.facts = facts
        self.fresh = fresh
        self._written: list[Node] = []

    @property
    def node(self) -> Node:
        """The node that is to be replaced."""
        return self.facts.node

    def items(self, position: int) -> tuple[str, ...] | None:
        """The names of the items of an input, None where they are not known."""
        return self.facts.value(position).items if self.facts.has(position) else None

    def number(self, position: int) -> int | None:
        """A single integer that is known, else None."""
        content = self.facts.constant(position)
        return None if content is None or content.size != 1 else int(content.ravel()[0])

    def position(self, position: int, count: int) -> int | None:
        """A position in a list of ``count`` items, counted from the front. Raises UnsupportedCase when out of range."""
        found = self.number(position)
        if found is None:
            return None
        if not -count <= found < count:
            raise UnsupportedCase(f"position {found} is out of range for a sequence of {count}")
        return found + count if found < 0 else found

    def write(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Attribute
    ) -> tuple[Node, ...]:
        """The nodes written so far and another one."""
        version = self.node.version if self.node.domain == "" else 13
        name = f"{self.node.name or self.node.op_type}/{op_type}"
        self._written.append(
            Node(op_type, "", tuple(inputs), tuple(outputs), attributes, name, "", self.node.index, version)
        )
        return tuple(self._written)

    def constant(self, content: Array, output: str = "") -> str:
        """A known tensor: its name."""
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
        return tuple(self._written)

    def list_of(self, items: Sequence[str], output: str) -> tuple[Node, ...]:
        """A sequence of these items."""
        return self.write("SequenceConstruct", items, (output,))


def resolve_known_lists(facts: InferenceFacts, before: Sequence[Node]) -> tuple[Node, ...] | None:
    """The nodes that stand for a node on known lists, None where it stays as it is."""
    node, context = facts.node, facts.context
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    if rule is None:
        return None
    nodes = rule(ListNode(facts, lambda hint: f"{node.outputs[0]}/{hint}{context.next_expansion()}"))
    if nodes is not None:
        context.notes.fired(RULE, node, "on items that are known by name")
    elif reason := _obstacle(facts):
        context.notes.left(RULE, node, reason)
    return nodes


def _obstacle(facts: NodeFacts) -> str:
    """Why a node that handles lists stays, "" for one that handles none."""
    given = [facts.value(position) for position in range(facts.input_count) if facts.has(position)]
    if facts.node.op_type == "Loop":
        knows_items = any(value.items is not None for value in given)
        return f"its trips are not known, or more than {MOST_TRIPS}, or it may end before" if knows_items else ""
    if facts.node.op_type == "SplitToSequence":
        return f"its parts are not known, or more than {MOST_ITEMS}"
    if any(value.is_list and value.items is None for value in given):
        return "the items are only known when the model runs"
    return "the position is only known when the model runs" if any(value.is_list for value in given) else ""


def _at(node: ListNode) -> tuple[Node, ...] | None:
    items = node.items(0)
    position = None if items is None else node.position(1, len(items))
    if items is None or position is None:
        return None
    return node.write("Identity", (items[position],), node.node.outputs)


def _length(node: ListNode) -> tuple[Node, ...] | None:
    items = node.items(0)
    return None if items is None else node.known(len(items), np.int64)


def _concat(node: ListNode) -> tuple[Node, ...] | None:
    items = node.items(0)
    if not items:
        return None
    axis = int(node.facts.attribute("axis"))
    if node.facts.attribute("new_axis"):
        stacked = [node.fresh("item") for _ in items]
        for item, wider in zip(items, stacked):
            node.on_axis("Unsqueeze", item, wider, axis)
        items = tuple(stacked)
    return node.write("Concat", items, node.node.outputs, axis=axis)


def _split(node: ListNode) -> tuple[Node, ...] | None:
    facts = node.facts
    axis = facts.axis()
    size = facts.dims(0)[axis]
    sizes = _split_sizes(node, size if isinstance(size, int) else None)
    if sizes is None or not sizes:
        return None
    items = [node.fresh("item") for _ in sizes]
    if sizes == (size,):
        node.write("Identity", facts.node.inputs[:1], items)
    elif facts.version < 13:
        node.write("Split", facts.node.inputs[:1], items, axis=axis, split=sizes)
    else:
        given = (facts.node.inputs[0], node.constant(np.array(sizes, dtype=np.int64)))
        node.write("Split", given, items, axis=axis)
    if not facts.has(1) and not facts.attribute("keepdims"):
        squeezed = [node.fresh("item") for _ in items]
        for item, narrower in zip(items, squeezed):
            node.on_axis("Squeeze", item, narrower, axis)
        items = squeezed
    return node.list_of(items, facts.node.outputs[0])


def _split_sizes(node: ListNode, size: int | None) -> tuple[int, ...] | None:
    """The sizes along the axis, None where their number is not known, or large."""
    facts = node.facts
    if not facts.has(1):
        return None if size is None or size > MOST_ITEMS else (1,) * size
    content = facts.constant(1)
    if content is None:
        return None
    if content.ndim == 1:
        return tuple(int(item) for item in content)
    step = int(content.ravel()[0])
    if step < 1:
        raise InvalidModel(f"parts of size {step}")
    if size is None or size > step * MOST_ITEMS:
        return None
    return tuple(min(step, size - start) for start in range(0, size, step))


def _map(node: ListNode) -> tuple[Node, ...] | None:
    """SequenceMap: the body once for each item."""
    facts = node.facts
    given: list[tuple[str, ...]] = []
    first = node.items(0)
    if first is None:
        return None
    for position, name in enumerate(facts.node.inputs):
        if not facts.value(position).is_list:
            given.append((name,) * len(first))
            continue
        items = node.items(position)
        if items is None or len(items) < len(first):
            return None
        given.append(items)
    body = facts.graph_attribute("body")
    results: list[list[str]] = []
    written: list[Node] = []
    for number in range(len(first)):
        outputs = [node.fresh(f"item{number}") for _ in facts.node.outputs]
        inputs = [items[number] for items in given]
        written += inline_body(facts.node, body, node.fresh(f"body{number}"), inputs, outputs)
        results.append(outputs)
    for position, output in enumerate(facts.node.outputs):
        if output:
            written += ListNode(facts, node.fresh).list_of([outputs[position] for outputs in results], output)
    return tuple(written)


def _loop(node: ListNode) -> tuple[Node, ...] | None:
    """A loop that carries lists with known items for a known number of trips is written out."""
    facts = node.facts
    carried = range(2, facts.input_count)
    if not any(facts.value(position).items is not None for position in carried):
        return None
    trips = node.number(0)
    start = facts.constant(1)
    body = facts.graph_attribute("body")
    if trips is None or trips > MOST_TRIPS or (facts.has(1) and (start is None or not np.all(start))):
        return None
    if not _goes_on(body):
        return None
    names = list(facts.node.inputs[2:])
    collected: list[list[str]] = [[] for _ in facts.node.outputs[len(names) :]]
    written: list[Node] = []
    for trip in range(trips):
        counter = ListNode(facts, node.fresh)
        given = [counter.constant(np.array(trip, dtype=np.int64)), counter.constant(np.array(True))]
        written += counter._written
        outputs = [node.fresh(f"trip{trip}") for _ in range(1 + len(names) + len(collected))]
        written += inline_body(facts.node, body, node.fresh(f"body{trip}"), [*given, *names], outputs)
        names = outputs[1 : 1 + len(names)]
        for rows, output in zip(collected, outputs[1 + len(names) :]):
            rows.append(output)
    for output, name in zip(facts.node.outputs, names):
        if output:
            written += ListNode(facts, node.fresh).write("Identity", (name,), (output,))
    for output, rows in zip(facts.node.outputs[len(names) :], collected):
        if output:
            written += _stacked(ListNode(facts, node.fresh), rows, output)
    return tuple(written)


def _goes_on(body: Graph) -> bool:
    """Whether the loop's condition stays as it comes in."""
    name = body.outputs[0].name
    producers = {output: node for node in body.nodes for output in node.outputs}
    while name in producers and producers[name].op_type == "Identity":
        name = producers[name].inputs[0]
    content = body.initializers.get(name)
    if name in producers and producers[name].op_type == "Constant":
        content = np.asarray(producers[name].attributes.get("value", False))
    return name == body.inputs[1].name or (content is not None and bool(np.all(content)))


def _stacked(node: ListNode, rows: Sequence[str], output: str) -> tuple[Node, ...]:
    if not rows:
        raise UnsupportedCase("a loop without trips collects nothing")
    wider = [node.fresh("row") for _ in rows]
    for row, name in zip(rows, wider):
        node.on_axis("Unsqueeze", row, name, 0)
    return node.write("Concat", wider, (output,), axis=0)


def _has_element(node: ListNode) -> tuple[Node, ...] | None:
    if not node.facts.has(0):
        return node.known(False, np.bool_)
    value = node.facts.value(0)
    if _is_optional(value):
        return None if value.items is None else node.known(bool(value.items), np.bool_)
    return node.known(True, np.bool_)


def _get_element(node: ListNode) -> tuple[Node, ...] | None:
    value = node.facts.value(0)
    if not _is_optional(value):
        return node.write("Identity", node.node.inputs[:1], node.node.outputs)
    if value.items is None:
        return None
    if not value.items:
        raise UnsupportedCase("the optional has no element")
    return node.write("Identity", value.items, node.node.outputs)


def _is_optional(value: Value) -> bool:
    return isinstance(value.type, OptionalType)


_RULES: dict[str, Rule] = {
    "ConcatFromSequence": _concat,
    "Loop": _loop,
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "SequenceMap": _map,
    "SplitToSequence": _split,
}

