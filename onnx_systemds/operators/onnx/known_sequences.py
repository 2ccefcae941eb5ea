"""Sequences and optionals whose items are known by name: nothing of them is left in the script."""

from __future__ import annotations

from functools import partial

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.definitions import inline_body
from onnx_systemds.inference.expansion import OPSET, Expansion
from onnx_systemds.inference.list_node import ListNode
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.registry import expander, list_rule
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node, OptionalType, TensorType, ValueInfo

_MOST_ITEMS = 256  # of a sequence that a tensor is split into


@list_rule("SequenceAt")
def sequence_at_known(node: ListNode) -> tuple[Node, ...] | None:
    """The item itself."""
    items = node.items(0)
    position = None if items is None else node.position(1, len(items))
    if items is None or position is None:
        return None
    return node.write("Identity", (items[position],), node.node.outputs)


@list_rule("SequenceLength")
def known_length(node: ListNode) -> tuple[Node, ...] | None:
    """A constant."""
    items = node.items(0)
    return None if items is None else node.known(len(items), np.int64)


@list_rule("ConcatFromSequence")
def concat_known(node: ListNode) -> tuple[Node, ...] | None:
    """Concat of the items, with a new axis if asked for."""
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


@list_rule("SplitToSequence")
def split_to_known_sequence(node: ListNode) -> tuple[Node, ...] | str:
    """Split, and a known list of the parts."""
    facts = node.facts
    axis = facts.axis()
    size = facts.dims(0)[axis]
    sizes = _split_sizes(node, size if isinstance(size, int) else None)
    if not sizes:
        return f"its parts are not known, or more than {_MOST_ITEMS}"
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
        return None if size is None or size > _MOST_ITEMS else (1,) * size
    content = facts.constant(1)
    if content is None:
        return None
    if content.ndim == 1:
        return tuple(int(item) for item in content)
    step = int(content.ravel()[0])
    if step < 1:
        raise InvalidModel(f"parts of size {step}")
    if size is None or size > step * _MOST_ITEMS:
        return None
    return tuple(min(step, size - start) for start in range(0, size, step))


@list_rule("SequenceMap")
def map_known(node: ListNode) -> tuple[Node, ...] | None:
    """The body once for each item."""
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


@expander("SequenceMap", since=17)
def map_by_loop(n: Expansion) -> None:
    """A loop over the items, whose number only the run knows.

    ONNX's definition knows no names from around the body, and takes its nodes for those of opset 17.
    """
    body = n.graph_attribute("body")
    first = n.input(0)
    count = n.emit("SequenceLength", first)
    inner = NodeWriter(n.node, f"{n.prefix}/each", OPSET)
    trip, goes_on = inner.fresh("trip"), inner.fresh("goes_on")
    lists = [f"{n.prefix}/list{position}" for position in range(len(n.node.outputs))]
    given = [inner.emit("SequenceAt", name, trip) if n.value(position).is_list else name
             for position, name in enumerate(n.node.inputs)]
    results = [inner.fresh(f"result{position}_") for position in range(len(lists))]
    nodes = inner.nodes + list(inline_body(n.node, body, f"{n.prefix}/body", given, results))
    after = NodeWriter(n.node, f"{n.prefix}/after", OPSET)
    outputs = [after.emit("Identity", goes_on), *map(partial(after.emit, "SequenceInsert"), lists, results)]
    inputs = [ValueInfo(trip, TensorType("int64", ())), ValueInfo(goes_on, TensorType("bool", ()))]
    graph = Graph(body.name, "", (*inputs, *(ValueInfo(name, None) for name in lists)),
                  tuple(ValueInfo(name, None) for name in outputs), {}, (*nodes, *after.nodes), {})
    starts = [n.emit("SequenceEmpty") for _ in lists]
    n.emit_several("Loop", n.node.outputs, count, n.known(True, "bool"), *starts, body=graph)


@list_rule("OptionalHasElement")
def has_known_element(node: ListNode) -> tuple[Node, ...] | None:
    """A constant."""
    if not node.facts.has(0):
        return node.known(False, np.bool_)
    value = node.facts.value(0)
    if _is_optional(value):
        return None if value.items is None else node.known(bool(value.items), np.bool_)
    return node.known(True, np.bool_)


@list_rule("OptionalGetElement")
def known_element(node: ListNode) -> tuple[Node, ...] | None:
    """The element itself."""
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
