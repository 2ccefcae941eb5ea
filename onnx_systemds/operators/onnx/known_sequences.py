"""Sequences and optionals whose items are known by name: nothing of them is left in the script."""

from __future__ import annotations

from functools import partial

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
    return None if items is None or position is None else node.same_as(items[position])


@list_rule("SequenceLength")
def known_length(node: ListNode) -> tuple[Node, ...] | None:
    """A constant."""
    items = node.items(0)
    return None if items is None else node.known_result(len(items), "int64")


@list_rule("ConcatFromSequence")
def concat_known(node: ListNode) -> tuple[Node, ...] | None:
    """Concat of the items, with a new axis if asked for."""
    items = node.items(0)
    if not items:
        return None
    axis = int(node.attribute("axis"))
    joined = node.on_axis("Unsqueeze", items, axis) if node.attribute("new_axis") else items
    node.emit("Concat", *joined, to=node.node.outputs[0], axis=axis)
    return tuple(node.nodes)


@list_rule("SplitToSequence")
def split_to_known_sequence(node: ListNode) -> tuple[Node, ...] | str:
    """Split, and a known list of the parts."""
    axis = node.axis()
    size = node.dims(0)[axis]
    sizes = _split_sizes(node, size if isinstance(size, int) else None)
    if not sizes:
        return f"its parts are not known, or more than {_MOST_ITEMS}"
    items = [node.fresh("item") for _ in sizes]
    if sizes == (size,):
        node.emit("Identity", node.name(0), to=items[0])
    elif node.version < 13:
        node.emit_several("Split", items, node.name(0), axis=axis, split=sizes)
    else:
        node.emit_several("Split", items, node.name(0), node.known(sizes), axis=axis)
    if not node.has(1) and not node.attribute("keepdims"):
        items = node.on_axis("Squeeze", items, axis)
    node.emit("SequenceConstruct", *items, to=node.node.outputs[0])
    return tuple(node.nodes)


def _split_sizes(node: ListNode, size: int | None) -> tuple[int, ...] | None:
    """The sizes along the axis, None where their number is not known, or large."""
    if not node.has(1):
        return None if size is None or size > _MOST_ITEMS else (1,) * size
    content = node.constant(1)
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
    given: list[tuple[str, ...]] = []
    first = node.items(0)
    if first is None:
        return None
    for position, name in enumerate(node.node.inputs):
        if not node.value(position).is_list:
            given.append((name,) * len(first))
            continue
        items = node.items(position)
        if items is None or len(items) < len(first):
            return None
        given.append(items)
    body = node.graph_attribute("body")
    results: list[list[str]] = []
    for number in range(len(first)):
        results.append([node.fresh(f"item{number}") for _ in node.node.outputs])
        inputs = [items[number] for items in given]
        node.nodes += inline_body(node.node, body, node.fresh(f"body{number}"), inputs, results[-1])
    for position, output in enumerate(node.node.outputs):
        if output:
            node.emit("SequenceConstruct", *(outputs[position] for outputs in results), to=output)
    return tuple(node.nodes)


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
    if not node.has(0):
        return node.known_result(False, "bool")
    value = node.value(0)
    if _is_optional(value):
        return None if value.items is None else node.known_result(bool(value.items), "bool")
    return node.known_result(True, "bool")


@list_rule("OptionalGetElement")
def known_element(node: ListNode) -> tuple[Node, ...] | None:
    """The element itself."""
    value = node.value(0)
    if not _is_optional(value):
        return node.same_as(node.name(0))
    if value.items is None:
        return None
    if not value.items:
        raise UnsupportedCase("the optional has no element")
    return node.same_as(value.items[0])


def _is_optional(value: Value) -> bool:
    return isinstance(value.type, OptionalType)
