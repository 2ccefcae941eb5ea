"""The derivative of Slice: zeros around what it took, and between steps; what other selections have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.registry import gradient
from onnx_systemds.model import protos
from onnx_systemds.operators.api import Backward, Run
from onnx_systemds.operators.onnx.slicing import slice_ranges


@gradient("Slice")
def _slice_gradient(n: Backward) -> Sequence[str | Run]:
    """The derivative among zeros, at the positions that were taken."""
    if n.has(4) and n.integers(4) is None:
        raise UnsupportedCase("the derivative of a Slice by steps that only the run knows")
    ranges = slice_ranges(n)
    if len(ranges) == 1 and ranges[0][-1] == 1:
        return [run_of_axis(n, n.grad, *ranges[0][:-1])]
    found, rank = n.grad, n.rank(0)
    before, after = [[n.known([0])] * rank for _ in range(2)]
    for axis, start, count, step in reversed(ranges):
        size = n.dims(0)[axis]
        if step == 1:
            before[axis], after[axis] = _around(n, axis, start, count)
        elif isinstance(size, int) and isinstance(start, int) and isinstance(count, int) and isinstance(step, int):
            chosen = np.zeros((count, size), protos.numpy_dtype(n.dtype(0)))
            chosen[np.arange(count), start + step * np.arange(count)] = 1
            found = n.along(found, axis, chosen)
        elif isinstance(step, int):
            found, before[axis], after[axis] = _spread(n, found, axis, start, step)
        else:
            raise UnsupportedCase("the derivative of a Slice by steps that only the run knows")
    return [n.emit("Pad", found, n.emit("Concat", *before, *after, axis=0))]


def run_of_axis(n: Backward, derivative: str, axis: int, start: Dim, count: Dim) -> Run:
    """The derivative by a run of elements along an axis of the first input, the only ones that the node reads."""

    def whole() -> str:
        before, after = [[n.known([0])] * n.rank(0) for _ in range(2)]
        before[axis], after[axis] = _around(n, axis, start, count)
        return n.emit("Pad", derivative, n.emit("Concat", *before, *after, axis=0))

    return Run(derivative, axis, start, count, whole)


def _around(n: Backward, axis: int, start: Dim, count: Dim) -> tuple[str, str]:
    """How many zeros stand before a run of elements, and after it."""
    size = n.dims(0)[axis]
    of_axis = n.emit("Shape", n.x, start=axis, end=axis + 1)
    end, rest = size - start, size - start - count
    if isinstance(start, int):
        before = n.known([start])
    elif isinstance(end, int):
        before = n.emit("Sub", of_axis, n.known([end]))
    elif isinstance(rest, int):
        before = n.emit("Sub", n.emit("Sub", of_axis, _taken(n, axis, count)), n.known([rest]))
    else:
        before = _first_position(n, axis, of_axis)
    if isinstance(rest, int):
        return before, n.known([rest])
    return before, n.emit("Sub", n.emit("Sub", of_axis, before), _taken(n, axis, count))


def _taken(n: Backward, axis: int, count: Dim) -> str:
    """How many elements there are in a run."""
    return n.known([count]) if isinstance(count, int) else n.emit("Shape", n.out, start=axis, end=axis + 1)


def _spread(n: Backward, found: str, axis: int, start: Dim, step: int) -> tuple[str, str, str]:
    """A derivative with zeros between its elements, and how many stand before it, and after it: fewer than none if it
    is to be cut off there. Raises UnsupportedCase."""
    rank, stride = n.rank(0), abs(step)
    found = found if step > 0 else n.reversed(found, [axis])
    pads = np.zeros(2 * (rank + 1), np.int64)
    pads[rank + 1 + axis + 1] = stride - 1
    tall = n.emit("Pad", n.unsqueeze(found, axis + 1), n.known(pads))
    sizes = [n.known([0] * axis + [-1])] + [n.emit("Shape", found, start=axis + 1)] * (axis + 1 < rank)
    whole = n.emit("Reshape", tall, n.emit("Concat", *sizes, axis=0))
    of_axis, end = n.emit("Shape", n.x, start=axis, end=axis + 1), n.dims(0)[axis] - start
    spread = n.emit("Mul", n.emit("Shape", n.out, start=axis, end=axis + 1), n.known([stride]))
    if isinstance(start, int):  # where steps go back, it is that of the last one here
        before = n.known([start]) if step > 0 else n.emit("Sub", n.known([start + stride]), spread)
    elif isinstance(end, int):
        before = n.emit("Sub", of_axis, n.known([end]) if step > 0 else n.emit("Add", spread, n.known([end - stride])))
    else:
        raise UnsupportedCase("the derivative of a Slice with steps from a position that is computed")
    return whole, before, n.emit("Sub", n.emit("Sub", of_axis, before), spread)


def _first_position(n: Backward, axis: int, of_axis: str) -> str:
    """Where a run of elements begins, as the run computes it. of_axis: how many elements there are."""
    given = n.require_integers(3, "the axes") if n.has(3) else range(n.rank(0))
    place = next(place for place, each in enumerate(given) if each in (axis, axis - n.rank(0)))
    start = n.emit("Gather", n.node.inputs[1], n.known([place]))
    start = n.cast(start, "int64")
    start = n.emit("Where", n.emit("Less", start, n.known([0])), n.emit("Add", start, of_axis), start)
    return n.emit("Min", n.emit("Max", start, n.known([0])), of_axis)


def with_batch_axes(n: Backward) -> str:
    """The indices of a GatherND as those of one without batch_dims: ahead of each the places in the batch axes."""
    indices, rank, batch = n.node.inputs[1], n.rank(1), int(n.attribute("batch_dims") or 0)
    if not batch:
        return indices
    dims = n.emit("Concat", n.emit("Shape", indices, start=0, end=rank - 1), n.known([1]), axis=0)
    places = []
    for axis in range(batch):
        size = n.emit("Squeeze", n.emit("Shape", indices, start=axis, end=axis + 1))
        numbers = n.emit("Range", n.known(0), size, n.known(1))
        numbers = n.unsqueeze(numbers, *(other for other in range(rank) if other != axis))
        places.append(n.emit("Expand", numbers, dims))
    return n.emit("Concat", *places, indices, axis=rank - 1)
