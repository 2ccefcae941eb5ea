"""Operators that keep the elements and change the dims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import (
    Dim,
    Dims,
    Expression,
    divide_exactly,
    is_non_negative,
    is_non_negative_from_one,
    may_be_zero,
    product,
)
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.known_dims import as_ints, differ
from onnx_systemds.inference.registry import (
    batch_rule,
    fold,
    generator,
    gradient,
    integer_rule,
    shape_rule,
    size_rule,
    takes_text,
)
from onnx_systemds.inference.values import Elements
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.support.batch_rules import mixes_nothing, mixes_other_inputs
from onnx_systemds.operators.support.integer_rules import moved
from onnx_systemds.operators.support.size_rules import known_elements

takes_text("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
batch_rule("Identity", "Squeeze", "Unsqueeze")(mixes_nothing)
batch_rule("Reshape", sizes=(1,), reshapes=True)(mixes_other_inputs)
batch_rule("Flatten", reshapes=True)(mixes_other_inputs)
integer_rule("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")(moved)
size_rule("Identity", moves=True)(lambda node, inputs: inputs[0])
fold("Identity")(lambda node, outputs: (node.constant(0),))


@shape_rule("Identity")
def identity_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The same value."""
    return (node.value("input"),)


@generator("Flatten", since=(1, 9, 11))
@generator("Identity", since=1)
@generator("Reshape", since=(1, 5, 14))
@generator("Squeeze", since=(1, 13))
@generator("Unsqueeze", since=(1, 13))
def identity(node: NodeView) -> Fragment:
    """The same elements."""
    return node.same_elements()


@shape_rule("Reshape")
def reshape_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims by attribute, since opset 5 by input; as many elements: of zeros alone the engine makes more, or fewer."""
    shape = tuple(node.attribute("shape")) if node.version < 5 else node.sizes("shape", "the shape", signed=True)
    keep_zero = bool(node.attribute("allowzero"))
    if may_be_zero(shape):
        dims = _followed_dims(node, shape, keep_zero=keep_zero) or _run_time_dims(node, shape, keep_zero=keep_zero)
    else:
        dims = reshaped_dims(node.dims("data"), shape, keep_zero=keep_zero)
        _assume_positive(node, shape)
    node.assume_equal(node.size("data"), product(dims), "the number of elements", "that of the shape")
    return (node.tensor(dims),)


def _followed_dims(node: NodeFacts, shape: Dims, *, keep_zero: bool) -> Dims | None:
    """Dims after a reshape to sizes whose product is certainly that of the input; None where that is not known.

    An entry of 0 copies the input's dim, which must be 0 as well: a multiple of the entry. Beside -1 none is 0.
    """
    dims = node.dims("data")
    sizes = [entry for entry in shape if entry != -1]
    if len(shape) - len(sizes) > 1 or 0 in sizes or not all(map(is_non_negative, sizes)):
        return None
    left = divide_exactly(product(dims), product(sizes))
    if left is None or (left != 1 if -1 not in shape else left == 0):
        return None
    unsure = [axis for axis, entry in enumerate(shape) if entry != -1 and not is_non_negative_from_one(entry - 1)]
    copied = [] if keep_zero else [(shape[axis], dims[axis]) for axis in unsure if axis < len(dims)]
    if any(divide_exactly(size, entry) is None for entry, size in copied):
        return None
    if -1 not in shape:
        return shape
    for axis in unsure:
        node.assume(shape[axis], Relation.AT_LEAST, 1, _entry_words(axis))
    return tuple(left if entry == -1 else entry for entry in shape)


def _run_time_dims(node: NodeFacts, shape: Dims, *, keep_zero: bool) -> Dims:
    """Dims after a reshape to a shape of which only the run knows which entries are 0, -1 or sizes."""
    dims = node.dims("data")
    entries: list[Dim] = []
    for axis, entry in enumerate(shape):
        copied = dims[axis] if axis < len(dims) and not keep_zero else 0
        if may_be_zero(entry) and copied not in (0, entry):
            entry = node.computed("shape_entry", entry, copied, hint=f"entry{axis}", signed=True)
        entries.append(copied if entry == 0 else entry)
    left = [axis for axis, entry in enumerate(shape) if may_be_zero(entry)]
    total = product(dims)
    if len(left) == 1 and -1 not in entries:
        exact = divide_exactly(total, product(entry for axis, entry in enumerate(entries) if axis != left[0]))
        if exact is not None and exact != 0:  # whatever the entry says, it can mean nothing else
            return (*entries[: left[0]], exact, *entries[left[0] + 1 :])
    if -1 in entries:
        others = product(entry for entry in entries if entry != -1)
        for axis in left:
            node.assume(entries[axis], Relation.AT_LEAST, 1, _entry_words(axis))
        return tuple(total // others if entry == -1 else entry for entry in entries)
    every = product(entries)
    sizes = tuple(
        node.computed("open_size", entry, total, every, hint=f"size{axis}") if axis in left else entry
        for axis, entry in enumerate(entries)
    )
    for axis in left if len(left) > 1 else ():  # two that are negative give as many elements
        node.assume(sizes[axis], Relation.AT_LEAST, 0, _entry_words(axis))
    return sizes


def _assume_positive(node: NodeFacts, shape: Dims) -> None:
    """Take computed entries for sizes where -1 or a second negative entry would let others fill the tensor as well."""
    has_open = -1 in shape
    unsure = [axis for axis, entry in enumerate(shape) if isinstance(entry, Expression)
              and entry not in node.dims("data")
              and not (is_non_negative_from_one(entry - 1) if has_open else is_non_negative(entry))]
    if len(unsure) > (not has_open):
        for axis in unsure:
            node.assume(shape[axis], Relation.AT_LEAST, 1, _entry_words(axis))


def _entry_words(axis: int) -> str:
    return f"entry {axis} of the shape"


def reshaped_dims(dims: Dims, shape: tuple[Dim, ...], *, keep_zero: bool) -> Dims:
    """Dims after a reshape: 0 copies the input's dim (unless ``keep_zero``), -1 takes what is left."""
    result: list[Dim] = []
    for axis, size in enumerate(shape):
        if size == 0 and not keep_zero:
            if axis >= len(dims):
                raise UnsupportedCase(f"the shape copies dim {axis} of an input of rank {len(dims)}")
            size = dims[axis]
        if isinstance(size, int) and size < -1:
            raise InvalidModel(f"the shape has an axis of {size} places")
        result.append(size)
    if -1 in result:
        position = result.index(-1)
        others = product(size for axis, size in enumerate(result) if axis != position)
        if others == 0:
            raise UnsupportedCase("the shape leaves a dim open beside a zero")
        exact = divide_exactly(product(dims), others)
        if exact is None and isinstance(others, int) and isinstance(product(dims), int):
            raise UnsupportedCase(f"{product(dims)} elements do not fill the shape {tuple(shape)}")
        result[position] = product(dims) // others if exact is None else exact
    elif differ(product(result), product(dims)):
        raise UnsupportedCase(f"{product(dims)} elements do not fill the shape {tuple(shape)}")
    return tuple(result)


@shape_rule("Flatten")
def flatten_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The axes before ``axis``, and those from it on."""
    dims = node.dims("input")
    axis = int(node.attribute("axis"))
    axis = axis + len(dims) if axis < 0 else axis
    return (node.tensor((product(dims[:axis]), product(dims[axis:]))),)


def _axes(node: NodeFacts) -> tuple[int, ...] | None:
    """By attribute, since opset 13 by input; None where a Squeeze leaves them out."""
    if node.version < 13:
        axes: tuple[int, ...] | None = node.attribute("axes")
        return axes
    if node.node.op_type == "Squeeze" and not node.has("axes"):
        return None
    return tuple(int(axis) for axis in node.require_constant("axes", "the axes").ravel())


@shape_rule("Squeeze")
def squeeze_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The axes of size 1 go, or those that are named."""
    dims, axes = node.dims("data"), _axes(node)
    if axes is None:
        for axis, dim in enumerate(dims):
            if not isinstance(dim, int):
                node.assume(dim, Relation.OTHER, 1, node.axis_words("data", axis))
        return (node.tensor([dim for dim in dims if dim != 1]),)
    squeezed = {node.normalize_axis(axis, len(dims)) for axis in axes}
    for axis in squeezed:
        node.assume_equal(dims[axis], 1, node.axis_words("data", axis), "an axis that goes")
    return (node.tensor([dim for axis, dim in enumerate(dims) if axis not in squeezed]),)


@shape_rule("Unsqueeze")
def unsqueeze_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Axes of size 1 are inserted."""
    dims, axes = node.dims("data"), _axes(node) or ()
    rank = len(dims) + len(axes)
    new = {node.normalize_axis(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise UnsupportedCase("an axis is inserted twice")
    sizes = iter(dims)
    return (node.tensor([1 if axis in new else next(sizes) for axis in range(rank)]),)


@gradient("Identity")
def _identity_gradient(n: Backward) -> Sequence[str]:
    return [n.grad]


@gradient("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshape_gradient(n: Backward) -> Sequence[str]:
    return [n.shaped(n.grad)]


@size_rule("Reshape", moves=True)
def _reshaped_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    target = list(node.attribute("shape")) if node.version < 5 else known_elements(inputs[1])
    if target is None:
        return None
    dims = [inputs[0].shape[i] if size == 0 and not node.attribute("allowzero") else size
            for i, size in enumerate(target)]
    return inputs[0].reshape(dims)


@size_rule("Squeeze", "Unsqueeze", moves=True)
def _flat_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    """Squeeze and Unsqueeze of sizes: the rank is 0 or 1 before and after, or the axes say."""
    axes = node.attribute("axes") if node.version < 13 else (known_elements(inputs[1]) if len(inputs) > 1 else None)
    if node.node.op_type == "Squeeze":
        return np.squeeze(inputs[0], axis=None if axes is None else tuple(axes))
    if axes is None:
        return None
    rank = inputs[0].ndim + len(axes)
    wanted = {axis % rank for axis in axes}
    sizes = iter(inputs[0].shape)
    return inputs[0].reshape([1 if axis in wanted else next(sizes) for axis in range(rank)])


@fold("Reshape", since=5)
@fold("Flatten", "Squeeze", "Unsqueeze")
def _reshaped_contents(node: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None] | None:
    """A view, whatever the size."""
    dims = outputs[0].dims
    known = None if dims is None else as_ints(dims)
    if known is None:
        return by_reference(node, outputs)
    return (node.require_constant(0, "the tensor").reshape(known),)
