"""Sequences and optionals as DML lists, where their items are only known when the script runs.

Operators on lists with known items never come here (see `known_sequences`). An optional is a list of at
most one item.
"""

from __future__ import annotations

from onnx_systemds.dml.operands import is_name
from onnx_systemds.errors import ShapeUnknown, UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.lists import is_varying, item_position, item_value, joined, list_value, varying
from onnx_systemds.inference.registry import generator, gives_boundary_form, shape_rule, takes_text
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, View, split_view, unknown_size
from onnx_systemds.operators.api.layout import LIST, item_form

takes_text(
    "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct",
    "SequenceErase", "SequenceInsert", "SequenceLength", "SplitToSequence",
)
gives_boundary_form("ConcatFromSequence", "OptionalGetElement", "SequenceAt")

# --- made of known items -----------------------------------------------------------------------------------------


@shape_rule("SequenceConstruct")
def sequence_construct_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A list of the inputs."""
    values = [node.value(position) for position in range(node.input_count)]
    return (list_value(joined(values), node.node.inputs),)


@shape_rule("SequenceEmpty")
def sequence_empty_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A list without items."""
    return (list_value(None, ()),)


@shape_rule("Optional")
def optional_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A list of the input, or of nothing, whose type the attribute gives."""
    if not node.has("input"):
        return (list_value(None, (), optional=True),)
    return (list_value(node.value("input"), node.node.inputs[:1], optional=True),)


@generator("SequenceConstruct", since=11)
@generator("SequenceEmpty", since=11)
@generator("Optional", since=15)
def written_at_use(node: NodeView) -> Fragment:
    """Nothing: a list of known items is written where it is used."""
    return node.fragment()


# --- insert and erase --------------------------------------------------------------------------------------------


@shape_rule("SequenceInsert")
def sequence_insert_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The list with one more item; known by name when list and position are."""
    value = node.value("input_sequence")
    element = joined([value.element, node.value("tensor")])
    if value.items is None:
        return (list_value(element),)
    position = _position(node, 2, len(value.items), len(value.items))
    if position is None:
        return (list_value(element),)
    items = (*value.items[:position], node.node.inputs[1], *value.items[position:])
    return (list_value(element, items),)


@shape_rule("SequenceErase")
def sequence_erase_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The list with one item less; known by name when list and position are."""
    value = node.value("input_sequence")
    if value.items is None:
        return (list_value(value.element),)
    position = _position(node, 1, len(value.items), len(value.items) - 1)
    if position is None:
        return (list_value(value.element),)
    return (list_value(value.element, value.items[:position] + value.items[position + 1 :]),)


def _position(node: NodeFacts, position: int, count: int, last: int) -> int | None:
    """As `item_position`; the last one where none is given."""
    return item_position(node, position, count, last) if node.has(position) else last


@generator("SequenceInsert", since=11)
def sequence_insert_11(node: NodeView) -> Fragment:
    """Appended, or copied item by item around the new one."""
    items, item = _list(node), _item(node, 1)
    if not node.has("position"):
        return node.result(node.call("list_append", items, item), LIST)
    return node.result(node.call("list_insert", items, item, node.scalar("position")), LIST)


@generator("SequenceErase", since=11)
def sequence_erase_11(node: NodeView) -> Fragment:
    """Copied item by item, but for one."""
    position = node.scalar("position") if node.has("position") else "-1"
    return node.result(node.call("list_erase", _list(node), position), LIST)


def _list(node: NodeView, position: int = 0) -> str:
    return node.view(position, LIST)


def _item(node: NodeView, position: int) -> str:
    """A value in the form that it has in a list."""
    value = node.value(position)
    if value.is_list:
        return node.view(position, LIST)
    return node.view(position, item_form(node.dims(position)))


# --- taken apart ---------------------------------------------------------------------------------------------------


@shape_rule("SequenceAt")
def sequence_at_rule(node: NodeFacts) -> tuple[Value, ...]:
    """An item."""
    return (item_value(node, node.value("input_sequence").element),)


@generator("SequenceAt", since=11)
def sequence_at_11(node: NodeView) -> Fragment:
    """An item, counted from 0 or, below it, from the end."""
    items = _identifier(node)
    known = node.constant("position")
    if known is not None and int(known.ravel()[0]) >= 0:
        return _taken(node, f"{items}[{int(known.ravel()[0]) + 1}]")
    position = node.named("position", node.scalar("position"))
    node.write(f"{position} = {position} + 1 + as.integer({position} < 0) * length({items})")
    return _taken(node, f"{items}[as.integer({position})]")


def _identifier(node: NodeView) -> str:
    """A list as an identifier, which alone can be indexed."""
    text = _list(node)
    return text if is_name(text) else node.named("items", text)


def _taken(node: NodeView, text: str) -> Fragment:
    if node.values[node.node.outputs[0]].is_list:
        return node.result(f"as.list({text})", LIST)
    form = item_form(node.output_dims())
    if form != View(1, 1):
        return node.result(f"as.matrix({text})", form)
    cell = node.named("cell", f"as.matrix({text})")  # engine/faults: scalar-of-item
    return node.result(f"{node.named('twice', f'rbind({cell}, {cell})')}[1, 1]", form)


@generator("SequenceLength", since=11)
def sequence_length_11(node: NodeView) -> Fragment:
    """The number of items."""
    return node.result(f"length({_list(node)})", SCALAR)


@shape_rule("ConcatFromSequence")
def concat_from_sequence_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The items' dims, the axis as long as all items together, or new."""
    element = node.value("input_sequence").element
    if element is None or element.dims is None or element.is_list:
        raise ShapeUnknown("the rank of the items of the sequence is unknown", hint="declare their shape")
    dims: list[Dim] = list(element.dims)
    stacked = bool(node.attribute("new_axis"))
    axis = node.normalize_axis(int(node.attribute("axis")), len(dims) + stacked)
    if stacked:
        dims.insert(axis, unknown_size(node, 0, axis))
    else:
        dims[axis] = unknown_size(node, 0, axis)
    return (node.tensor([unknown_size(node, 0, at) if is_varying(size) else size for at, size in enumerate(dims)],
                        element.dtype),)


@generator("ConcatFromSequence", since=11)
def concat_from_sequence_11(node: NodeView) -> Fragment:
    """Below each other along the first axis, else side by side over what is before the axis."""
    stacked = bool(node.attribute("new_axis"))
    dims = node.output_dims()
    axis = node.normalize_axis(int(node.attribute("axis")), len(dims))
    items = _identifier(node)
    if axis == 0 and not stacked:
        return node.result(node.call("list_rows", items), split_view(dims, 1))
    element = node.value("input_sequence").element
    in_front: Dims = () if element is None or element.dims is None else element.dims[:axis]
    if any(is_varying(size) for size in in_front):
        raise UnsupportedCase("the items' dims in front of the axis are only known when the model runs")
    # with the axis before it in the rows; its size shows in the result only
    text = node.named("joined", node.call("concat_items", items, node.dim(product(in_front))))
    if axis == 0:
        text = f"matrix({text}, rows=length({items}), cols=length({text}) / length({items}))"
    elif axis > 1:
        text = node.of_rows(text, dims[0])
    return node.result(text, split_view(dims, 1))


@shape_rule("SplitToSequence")
def split_to_sequence_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Items of the input's dims but for the axis."""
    dims = list(node.dims("input"))
    axis = node.axis()
    if not node.has("split") and not node.attribute("keepdims"):
        del dims[axis]
    elif not node.has("split"):
        dims[axis] = 1
    else:
        dims[axis] = varying(axis)
    return (list_value(node.tensor(dims)),)


@generator("SplitToSequence", since=11)
def split_to_sequence_11(node: NodeView) -> Fragment:
    """Cut into column blocks over what is before the axis; each item is then brought into its own form."""
    dims = node.dims("input")
    axis = node.axis()
    size, inner = dims[axis], product(dims[axis + 1 :])
    data = node.view("input", split_view(dims, axis))
    if not node.has("split"):
        sizes = node.filled(1, View(size, 1))
    elif node.rank("split") == 1:
        sizes = node.matrix("split", 1)
    else:
        sizes = node.call("chunk_sizes", node.dim(size), node.scalar("split"))
    keeps = node.has("split") or bool(node.attribute("keepdims"))
    rows = node.dim(dims[0]) if axis > 0 else ("0" if keeps else node.dim(dims[1]) if len(dims) > 1 else "1")
    return node.result(node.call("split_items", data, sizes, node.dim(inner), rows), LIST)


# --- optionals -------------------------------------------------------------------------------------------------------


@shape_rule("OptionalHasElement")
def optional_has_element_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A boolean."""
    return (node.tensor((), "bool"),)


@generator("OptionalHasElement", since=(15, 18))
def optional_has_element_15(node: NodeView) -> Fragment:
    """Whether the list has an item."""
    return node.result(f"as.double(length({_list(node)}) > 0)", SCALAR)


@shape_rule("OptionalGetElement")
def optional_get_element_rule(node: NodeFacts) -> tuple[Value, ...]:
    """What the optional holds."""
    return (item_value(node, node.value("input").element),)


@generator("OptionalGetElement", since=(15, 18))
def optional_get_element_15(node: NodeView) -> Fragment:
    """The only item; the engine's own error when there is none."""
    return _taken(node, f"{_identifier(node)}[1]")
