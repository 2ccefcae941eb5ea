"""The chain rule for operators that move elements: derivatives move back, and add up where elements were repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.gradient_tape import Backward, rule
from onnx_systemds.model import protos


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def _reshape(n: Backward) -> Sequence[str]:
    return [n.shaped(n.grad)]


@rule("Transpose")
def _transpose(n: Backward) -> Sequence[str]:
    perm = n.attribute("perm") or tuple(reversed(range(n.rank(0))))
    return [n.emit("Transpose", n.grad, perm=tuple(int(axis) for axis in np.argsort(perm)))]


@rule("Expand")
def _expand(n: Backward) -> Sequence[str]:
    return [n.fit(n.grad, 0)]


def _sizes(n: Backward, names: Sequence[str], axis: int) -> str:
    """The sizes of several values along an axis."""
    parts = [n.emit("Shape", name, start=axis, end=axis + 1) for name in names]
    return n.emit("Concat", *parts, axis=0)


@rule("Concat")
def _concat(n: Backward) -> Sequence[str]:
    axis = n.normalize_axis(int(1 if n.attribute("axis") is None else n.attribute("axis")), n.rank(0))
    if n.input_count == 1:
        return [n.grad]
    sizes = _sizes(n, n.node.inputs, axis)
    return n.tape.emit_several("Split", n.input_count, n.grad, sizes, axis=axis)


@rule("Split")
def _split(n: Backward) -> Sequence[str]:
    axis = n.normalize_axis(int(n.attribute("axis") or 0), n.rank(0))
    parts = [
        given or n.tape.filled_like(name, n.dtype(0), 0.0) for given, name in zip(n.given, n.node.outputs)
    ]
    return [n.emit("Concat", *parts, axis=axis)]


@rule("Slice")
def _slice(n: Backward) -> Sequence[str]:
    """The derivative scattered to the positions that were taken: those of a slice of the axis' numbers."""
    if n.version < 10:
        starts, ends, axes, steps = n.attribute("starts"), n.attribute("ends"), n.attribute("axes"), None
    else:
        given = [n.constant(position) for position in (1, 2, 3, 4)]
        if any(n.has(position) and content is None for position, content in zip((1, 2, 3, 4), given)):
            raise UnsupportedCase("the derivative of a Slice whose positions are not constants")
        starts, ends, axes, steps = (None if item is None else item.ravel().tolist() for item in given)
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    found, shape = n.grad, n.known_dims(0, "the derivative of a Slice")
    sizes = list(n.values[n.out].dims or ())
    for axis, start, end, step in reversed(list(zip(axes, starts, ends, steps))):
        at = n.normalize_axis(int(axis), n.rank(0))
        taken = np.arange(shape[at])[int(start) : int(end) : int(step)]
        if step < 0 and end < -shape[at]:
            taken = np.arange(shape[at])[int(start) :: int(step)]
        sizes[at] = shape[at]
        chosen = np.zeros((len(taken), shape[at]), protos.numpy_dtype(n.dtype(0)))
        chosen[np.arange(len(taken)), taken] = 1
        found = _along(n, found, at, n.emit("Constant", value=chosen))
    return [found]


def _along(n: Backward, name: str, axis: int, matrix: str) -> str:
    """The product of an axis, moved to the end, with a matrix."""
    last = n.rank(0) - 1
    if axis == last:
        return n.emit("MatMul", name, matrix)
    perm = list(range(last + 1))
    perm[axis], perm[last] = last, axis
    turned = n.emit("MatMul", n.emit("Transpose", name, perm=tuple(perm)), matrix)
    return n.emit("Transpose", turned, perm=tuple(perm))


@rule("Gather")
def _gather(n: Backward) -> Sequence[str]:
    """Slices added to where they came from, by way of the first axis."""
    axis = n.normalize_axis(int(n.attribute("axis") or 0), n.rank(0))
    taken, rank = n.rank(1), n.rank(0)
    index = n.emit("Unsqueeze", n.node.inputs[1], n.tape.integers([-1]))
    if n.dtype(1) != "int64":
        index = n.emit("Cast", index, to=7)
    whole = range(axis, axis + taken)
    first = (*whole, *range(axis), *range(axis + taken, rank + taken - 1))
    source = n.tape.filled_like(n.x, n.dtype(0), 0.0)
    perm = (axis, *range(axis), *range(axis + 1, rank))
    if axis:
        source = n.emit("Transpose", source, perm=perm)
    grad = n.emit("Transpose", n.grad, perm=first) if axis else n.grad
    found = n.emit("ScatterND", source, index, grad, reduction="add")
    back = tuple(int(position) for position in np.argsort(perm))
    return [n.emit("Transpose", found, perm=back) if axis else found]


@rule("GatherElements")
def _gather_elements(n: Backward) -> Sequence[str]:
    zeros = n.tape.filled_like(n.x, n.dtype(0), 0.0)
    axis = int(n.attribute("axis") or 0)
    return [n.emit("ScatterElements", zeros, n.node.inputs[1], n.grad, axis=axis, reduction="add")]


@rule("Trilu")
def _trilu(n: Backward) -> Sequence[str]:
    return [n.emit("Trilu", n.grad, *n.node.inputs[1:2], upper=int(n.attribute("upper")))]


@rule("GatherND")
def _gather_nd(n: Backward) -> Sequence[str]:
    if n.attribute("batch_dims"):
        raise UnsupportedCase("the derivative of a GatherND with batch_dims")
    zeros = n.tape.filled_like(n.x, n.dtype(0), 0.0)
    return [n.emit("ScatterND", zeros, n.node.inputs[1], n.grad, reduction="add")]


@rule("Pad")
def _pad(n: Backward) -> Sequence[str]:
    """What was padded is cut off."""
    if n.attribute("mode") != "constant" or n.needs(2):
        raise UnsupportedCase("the derivative of a Pad that repeats elements, or by what it pads with")
    pads = n.attribute("pads") if n.version < 11 else n.require_constant(1, "the padding").ravel().tolist()
    cut = n.tape.integers([-int(pad) for pad in pads])
    return [n.emit("Pad", n.grad, cut, "", *n.node.inputs[3:4])]
