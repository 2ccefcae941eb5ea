"""Sequences and optionals: what is known of their items.

Both are DML lists; an optional is a list of at most one item. Where the items are known at conversion, they are
followed by name, and operators on them leave nothing in the script (see `registry.list_rule`). Else the list is one
value at run time, of whose items the common part is known: a dim in which they may differ is `varying`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_systemds.errors import ShapeUnknown, UnsupportedCase
from onnx_systemds.inference.dims import Dim, substitute, symbol, symbols
from onnx_systemds.inference.facts import NodeFacts, unknown_size
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import OptionalType, SequenceType, TensorType, Type

_MARK = "*"  # begins the symbols of dims that differ from item to item; no model's name becomes such a symbol


def varying(axis: int) -> Dim:
    """A dim that may differ between the items."""
    return symbol(f"{_MARK}item{axis}")


def is_varying(size: Dim) -> bool:
    """Whether a dim may differ between the items."""
    return any(name.startswith(_MARK) for name in symbols(size))


def list_value(element: Value | None, items: Sequence[str] | None = None, *, optional: bool = False) -> Value:
    """A sequence or optional; ``element``: the common value of all items, None if unknown."""
    inner = item_type(element)
    kind: Type = OptionalType(inner) if optional else SequenceType(inner)
    return Value("", None, type=kind, element=None if element is None else _plain(element),
                 items=None if items is None else tuple(items))


def declared_list(type_: SequenceType | OptionalType) -> Value:
    """A sequence or optional with a declared type; dims that are no numbers may differ between the items."""
    return list_value(_declared(type_.element), optional=isinstance(type_, OptionalType))


def _declared(type_: Type) -> Value | None:
    if isinstance(type_, (SequenceType, OptionalType)):
        return declared_list(type_)
    if not isinstance(type_, TensorType):
        raise UnsupportedCase("a sequence of maps is not supported")
    if type_.dims is None:
        return Value(type_.dtype, None)
    dims = tuple(dim if isinstance(dim, int) and dim >= 0 else varying(axis) for axis, dim in enumerate(type_.dims))
    return Value(type_.dtype, dims)


def item_type(element: Value | None) -> Type:
    """The ONNX type of an item, or another value, as far as it is known."""
    if element is None:
        return TensorType("float", None)
    if element.type is not None:
        return element.type
    dims = element.dims
    return TensorType(element.dtype, None if dims is None else
                      tuple(dim if isinstance(dim, int) else None for dim in dims))


def _plain(element: Value) -> Value:
    """The value without its content and items, which hold for one item only."""
    return replace(element, constant=None, elements=None, items=None, ramp=None)


def joined(elements: Sequence[Value | None]) -> Value | None:
    """The common value of items; None (no item) is neutral."""
    result: Value | None = None
    for element in elements:
        if element is None:
            continue
        result = _plain(element) if result is None else _join(result, element)
    return result


def _join(one: Value, other: Value) -> Value:
    if one.is_list and other.is_list:
        return list_value(joined([one.element, other.element]), optional=isinstance(one.type, OptionalType))
    if one.is_list or other.is_list or one.dtype != other.dtype:
        raise UnsupportedCase("the items of a sequence have different types")
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return Value(one.dtype, None)
    return Value(one.dtype, tuple(mine if mine == theirs else varying(axis)
                                  for axis, (mine, theirs) in enumerate(zip(one.dims, other.dims))))


def local_dims(element: Value | None, local: set[str]) -> Value | None:
    """The element as an enclosing graph sees it: dims over symbols of the sub-graph become varying."""
    if element is None or element.dims is None:
        return element
    dims = tuple(varying(axis) if local.intersection(symbols(size)) else size for axis, size in enumerate(element.dims))
    return replace(element, dims=dims)


def outer_list(value: Value, element: Value | None, local: set[str]) -> Value:
    """A list that leaves a sub-graph, without the names of its items and sizes of the sub-graph."""
    return list_value(local_dims(element, local), optional=isinstance(value.type, OptionalType))


def same_element(one: Value | None, other: Value | None) -> bool:
    """Whether the items of two lists have the same common value."""
    if one is None or other is None:
        return one is other
    if one.is_list and other.is_list:
        return same_element(one.element, other.element)
    return one.is_list == other.is_list and (one.dtype, one.dims) == (other.dtype, other.dims)


def item_position(facts: NodeFacts, position: int, count: int, last: int) -> int | None:
    """The number that an input is, as a position up to ``last`` in a list of ``count`` items, counted from the front.

    None if it is unknown. Raises UnsupportedCase if it is out of range.
    """
    found = number_of(facts, position)
    if found is not None and not -count <= found <= last:
        raise UnsupportedCase(f"position {found} is out of range for a sequence of {count}")
    return found if found is None or found >= 0 else found + count


def number_of(facts: NodeFacts, position: int) -> int | None:
    """The content of an input of one integer; None if it is unknown."""
    content = facts.constant(position)
    return None if content is None or content.size != 1 else int(content.ravel()[0])


def item_value(facts: NodeFacts, element: Value | None) -> Value:
    """One item as the first output of a node: what differs from item to item becomes a size that the run decides.

    Raises ShapeUnknown when the item's type or rank is unknown.
    """
    if element is None:
        raise ShapeUnknown("nothing is known of the items of the sequence")
    if element.is_list:
        return element
    if element.dims is None:
        raise ShapeUnknown("the rank of the items of the sequence is unknown", hint="declare their shape")
    sizes = {f"{_MARK}item{axis}": unknown_size(facts, 0, axis) for axis in range(len(element.dims))}
    return Value(element.dtype, tuple(substitute(size, sizes) for size in element.dims))
