"""The operators that builtins are made of, each with the dims of its result: `Operators`.

Reshapes of reshapes and transposed transposes vanish as they are made.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import onnx

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.images import as_images, as_planes
from onnx_systemds.exporting.graph.nodes import (
    BOOL,
    FLOAT,
    INT,
    TEXT,
    WIDE,
    Node,
    Operand,
    Tensor,
    cut_of,
    made_by,
    repeated_number,
    source_of,
)
from onnx_systemds.exporting.graph.positions import position_tensor
from onnx_systemds.exporting.limits import MOST_PARTS
from onnx_systemds.inference.broadcast_dims import broadcast_dims, of_rank
from onnx_systemds.inference.dims import Dim, Dims, is_non_negative_from_one, product
from onnx_systemds.inference.known_dims import as_ints, differ

_BOOLEAN_RESULTS = frozenset(
    ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf")
)
_ONNX_TYPES = {INT: 7, TEXT: 8, BOOL: 9, WIDE: 11}
TO_THE_END = 2**62  # where a Slice to the end of an axis of any size ends
_ALLOWZERO_SINCE = 14
_AXES_ARE_INPUTS_SINCE = 18


class Operators(GraphBuilder):
    """A graph under construction, and the usual operators as methods."""

    def knows(self, op: str) -> bool:
        """Whether ONNX has an operator in the opset of the model."""
        return onnx.defs.has(op, max_inclusive_version=self.opset, domain="")

    def unary(self, op: str, x: Tensor) -> Tensor:
        """Return an operator of one input and the same dims."""
        turned = source_of(x, op) if op == "Not" else None
        if turned is not None and self.visible(turned):
            return turned
        return self.node(op, [x], x.dims, BOOL if op in _BOOLEAN_RESULTS else x.kind)

    def binary(self, op: str, a: Tensor, b: Tensor, dims: Dims | None = None) -> Tensor:
        """Return an elementwise operator; the operands broadcast as in ONNX. Both are of one kind."""
        dims = broadcast(a.dims, b.dims) if dims is None else dims
        one, other = self._repeated(a), self._repeated(b)
        if one is not None and other is not None:
            return self.expand(self.binary(op, one, other), dims)
        a = self._unexpanded(a, b)
        b = self._unexpanded(b, a)  # beside what is left of `a`: one of them must have the dims of the result
        if a.kind != b.kind:
            a, b = self.floating(a), self.floating(b)
        return self.node(op, [a, b], dims, BOOL if op in _BOOLEAN_RESULTS else a.kind)

    def _repeated(self, x: Tensor) -> Tensor | None:
        """Return the number (rank 0) that an Expand repeats, None for anything else."""
        source = source_of(x, "Expand")
        return source if source is not None and not source.dims and self.visible(source) else None

    def _unexpanded(self, x: Tensor, other: Tensor) -> Tensor:
        """Return what `x` repeats, where it broadcasts to the same beside `other`."""
        source = source_of(x, "Expand")
        if source is None or not self.visible(source) or other.dims != broadcast(x.dims, other.dims):
            return x
        return source if source.rank <= other.rank else x

    def cast(self, x: Tensor, kind: str) -> Tensor:
        """Return `x` in another kind; a cast of numbers to int cuts off, to bool tests for not 0."""
        if x.kind == kind:
            return x
        to = _ONNX_TYPES.get(kind) or (1 if self.dtype == "float32" else 11)
        return self.node("Cast", [x], x.dims, kind, to=to)

    def floating(self, x: Tensor) -> Tensor:
        """Return `x` as floats."""
        return self.cast(x, FLOAT)

    def number(self, value: float) -> Tensor:
        """Return a float constant of rank 0."""
        return self.constant(np.float64(value), FLOAT)

    def truth(self, x: Tensor) -> Tensor:
        """Return whether each element is not 0; NaN is not 0."""
        known = x if x.kind == BOOL else source_of(x, "Cast")
        return known if known is not None and known.kind == BOOL and self.visible(known) else ~x.equals(0)

    def reshape(self, x: Tensor, dims: Dims) -> Tensor:
        """Return the elements of `x` in row-major order with other dims. Raises UnsupportedCase."""
        if x.dims == dims:
            return x
        count, after = product(x.dims), product(dims)
        if differ(count, after):
            raise UnsupportedCase(f"{count} elements do not fill {' x '.join(map(str, dims)) or 'one scalar'}")
        if x.stored is not None and isinstance(after, int):
            return self.stored(x.stored, dims, x.hint)
        before = source_of(x, "Reshape")
        if before is not None and self.visible(before):
            return self.reshape(before, dims)
        repeated = source_of(x, "Expand")
        if repeated is not None and not repeated.dims:
            return self.expand(repeated, dims)
        target = self.target(x, dims)
        # of computed sizes one may be 0, and is meant so, as are known ones
        means_zero = (target.constant is None or 0 in dims) and self.opset >= _ALLOWZERO_SINCE
        zero = {"allowzero": 1} if means_zero else {}
        found = self.node("Reshape", [x, target], dims, x.kind, **zero)
        if not found.hint and x.node is None and found.constant is not None:
            found.hint = x.hint
        return found

    def target(self, x: Tensor, dims: Dims) -> Tensor:
        """Return the shape input of a Reshape: plain numbers with 0 and -1 where possible.

        onnxruntime finds no size for -1 beside one that is 0.
        """
        target: list[int] = []
        for axis, dim in enumerate(dims):
            if isinstance(dim, int):
                target.append(dim)
            elif axis < x.rank and x.dims[axis] == dim and all(isinstance(d, int) or d == e
                                                               for d, e in zip(dims[:axis], x.dims)):
                target.append(0)
            else:
                target.append(-1)
        may_vanish = any(not is_non_negative_from_one(dim - 1) for dim, entry in zip(dims, target) if entry == 0)
        if target.count(-1) > 1 or 0 in dims or (-1 in target and may_vanish):
            if 0 in dims:
                return self.node("Identity", [self.sizes_tensor(dims)], (len(dims),), INT)
            return self.sizes_tensor(dims)
        return self.constant(np.array(target, np.int64))

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """Return `x` with its axes in another order."""
        perm = tuple(perm)
        if perm == tuple(range(x.rank)):
            return x
        before = made_by(x, "Transpose")
        if before is not None:
            return self.transpose(before.operand(), [before.integers("perm")[axis] for axis in perm])
        dims = tuple(x.dims[axis] for axis in perm)
        if [axis for axis in perm if x.dims[axis] != 1] == [axis for axis in range(x.rank) if x.dims[axis] != 1]:
            return self.reshape(x, dims)
        found = self.node("Transpose", [x], dims, x.kind, perm=perm)
        if x.entries is not None:
            found.entries = x.entries.transposed
        return found

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the product of two matrices or two stacks of them."""
        if a.row_choice is not None and b.rank == 2:
            return self.gather(b, a.row_choice, 0)
        if b.column_choice is not None and a.rank == 2:
            return self.gather(a, b.column_choice, 1)
        dims = (*broadcast(a.dims[:-2], b.dims[:-2]), a.dims[-2], b.dims[-1])
        return self.node("MatMul", [self.floating(a), self.floating(b)], dims)

    def reduce(self, op: str, x: Tensor, axes: Sequence[int], keepdims: bool = True) -> Tensor:
        """Return ``ReduceSum`` and its like over `axes`."""
        dims = tuple(1 if i in axes else dim for i, dim in enumerate(x.dims) if keepdims or i not in axes)
        inputs, attributes = self.along(op, axes)
        return self.node(op, [x, *inputs], dims, x.kind, **attributes, keepdims=int(keepdims))

    def along(self, op: str, axes: Sequence[int]) -> tuple[list[Tensor], dict[str, tuple[int, ...]]]:
        """Return the inputs behind the first and the attributes that tell a Reduce operator its axes."""
        if op == "ReduceSum" or self.opset >= _AXES_ARE_INPUTS_SINCE:
            return [self.constant(np.array(axes, np.int64))], {}
        return [], {"axes": tuple(axes)}

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Return tensors of one kind joined along an axis."""
        flat = [piece for part in parts for piece in pieces(part, axis)]
        parts = flat if len(flat) <= MOST_PARTS else parts
        if len(parts) == 1:
            return parts[0]
        padded = self._with_last(parts, axis)
        if padded is not None:
            return padded
        images = as_images(parts) if axis == 1 else as_planes(parts)
        if images and all(map(self.visible, images)):
            joined = self._joined(images, 1)
            return self.reshape(joined, (product(joined.dims[: 2 - axis]), product(joined.dims[2 - axis :])))
        return self._joined(parts, axis)

    def _with_last(self, parts: Sequence[Tensor], axis: int) -> Tensor | None:
        """Return a matrix beside which one number stands everywhere, so often as only the run knows, as a Pad."""
        first, last = parts[0], parts[-1]
        number, width = self.filling(last), last.dims[axis]
        if len(parts) > 2 or number is None or last.constant is not None or not isinstance(width, int):
            return None
        if first.kind != FLOAT or first.node is None or first.node.op == "Pad" or self.filling(first) is not None:
            return None
        widths = [0] * (2 * first.rank)
        widths[first.rank + axis] = width
        dims = first.dims_with(axis, first.dims[axis] + width)
        return self.node("Pad", [first, self.constant(np.array(widths)), number], dims)

    def _joined(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        total = total_size(parts, axis)
        dims = tuple(total if i == axis else self._joined_dim(parts, i) for i in range(parts[0].rank))
        return self.node("Concat", parts, dims, parts[0].kind, axis=axis)

    @staticmethod
    def _joined_dim(parts: Sequence[Tensor], axis: int) -> Dim:
        """Return what is known of a dim that all parts share."""
        return next((part.dims[axis] for part in parts if isinstance(part.dims[axis], int)), parts[0].dims[axis])

    def slice(
        self, x: Tensor, axis: int, start: Dim, stop: Dim | None, step: int = 1, size: Dim | None = None
    ) -> Tensor:
        """Return ``x[start:stop:step]`` along an axis, counted from 0; `stop` None: to the end.

        size: of the result, where it is not ``stop - start``.
        """
        whole = x.dims[axis]
        end = whole if stop is None else stop
        if step == 1 and start == 0 and end == whole:
            return x
        if step == 1:
            found = self._sliced(x, axis, start, end)
            if found is not None:
                return found
        size = end - start if size is None else size
        last = self.constant([TO_THE_END if step > 0 else -TO_THE_END]) if stop is None else self.size_tensor(stop)
        first = position_tensor(self, start) if step == 1 and isinstance(size, int) else self.size_tensor(start)
        steps = [self.constant([step])] if step != 1 else []
        inputs = [x, first, last, self.constant([axis]), *steps]
        dims = x.dims_with(axis, size)
        return self.node("Slice", inputs, dims, x.kind)

    def _sliced(self, x: Tensor, axis: int, start: Dim, stop: Dim) -> Tensor | None:
        """Return a slice of joined, cut or filled tensors by what these are made of, None for anything else."""
        node = x.node
        if node is None or not node.inputs or node.inputs[0] is None:
            return None
        source = node.inputs[0]
        if node.op == "Expand" and not source.dims:
            length = stop - start
            return self.expand(source, x.dims_with(axis, length))
        if node.op == "Concat":
            return self._sliced_pieces(pieces(x, axis), axis, start, stop)
        if node.op == "Slice" and isinstance(start, int) and isinstance(stop, int):
            cut = cut_of(node)
            is_along = cut is not None and cut[2] == axis and cut[0] >= 0
            return self.slice(source, axis, cut[0] + start, cut[0] + stop) if cut is not None and is_along else None
        if node.op == "Pad" and isinstance(start, int) and isinstance(stop, int):
            return self._sliced_padded(node, axis, start, stop)
        return None

    def _sliced_padded(self, node: Node, axis: int, start: int, stop: int) -> Tensor | None:
        """Return a range of a matrix with a border that lies in the matrix or in the border; None for others."""
        source, widths, number = node.inputs
        size = None if source is None else source.dims[axis]
        if source is None or widths is None or widths.constant is None or number is None or number.constant is None:
            return None
        if not isinstance(size, int) or any(np.delete(widths.constant, (axis, axis + source.rank))):
            return None
        first = int(widths.constant[axis])
        if first <= start and stop <= first + size:
            return self.slice(source, axis, start - first, stop - first)
        if stop <= first or first + size <= start:
            dims = source.dims_with(axis, stop - start)
            return self.filled(float(number.constant), dims)
        return None

    def _sliced_pieces(self, parts: Sequence[Tensor], axis: int, start: Dim, stop: Dim) -> Tensor | None:
        """Return a range of joined tensors that is some of them, or lies in one of them."""
        if len(parts) < 2:
            return None
        sizes = [part.dims[axis] for part in parts]
        known = as_ints(sizes)
        if known is not None and isinstance(start, int) and isinstance(stop, int):
            return self._sliced_known(parts, list(accumulate(known, initial=0)), axis, start, stop)
        places = list(accumulate(sizes, initial=0))
        if start in places and stop in places and places.index(start) < places.index(stop):
            return self._joined(parts[places.index(start) : places.index(stop)], axis)
        return None

    def _sliced_known(
        self, parts: Sequence[Tensor], places: list[int], axis: int, start: int, stop: int
    ) -> Tensor | None:
        """Return the same where `places`, at which the parts begin, are known."""
        first = bisect_right(places, start) - 1
        if start < stop and 0 <= first < len(parts) and places[first] <= start and stop <= places[first + 1]:
            return self.slice(parts[first], axis, start - places[first], stop - places[first])
        last = bisect_left(places, stop)
        if first < last < len(places) and places[first] == start and places[last] == stop:
            return self._joined(parts[first:last], axis)
        return None

    def gather(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """Return what stands at `indices` (int, from 0) along an axis."""
        first, known = pieces(x, axis)[0], indices.constant
        size = first.dims[axis]
        if known is not None and known.size and isinstance(size, int) and 0 <= known.min() <= known.max() < size:
            x = first
            if known.tolist() == list(range(size)):
                return x
        dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
        return self.node("Gather", [x, indices], dims, x.kind, axis=axis)

    def where(self, condition: Tensor, a: Operand, b: Operand) -> Tensor:
        """Return `a` where the condition (bool) holds, else `b`, one of which is no number of Python; all broadcast."""
        known = a if isinstance(a, Tensor) else b
        assert isinstance(known, Tensor)
        a, b = known.of(a), known.of(b)
        if a.kind != b.kind:
            a, b = self.floating(a), self.floating(b)
        dims = broadcast(condition.dims, broadcast(a.dims, b.dims))
        return self.node("Where", [condition, a, b], dims, a.kind)

    def choice(self, condition: Tensor, one: Callable[[], Tensor], other: Callable[[], Tensor], dims: Dims) -> Tensor:
        """Return what `one` makes where the condition (bool) holds, else what `other` makes, by an If.

        dims: of both; sizes in which they differ are new symbols.
        """
        ends = []
        for make in (one, other):
            with self.subgraph() as scope:
                ends.append((scope, [make()]))
        return self.branches(condition, ends, [(ends[0][1][0].kind, dims)])[0]

    def expand(self, x: Tensor, dims: Dims) -> Tensor:
        """Return `x` broadcast to `dims`."""
        if x.dims == dims:
            return x
        return self.node("Expand", [x, self.sizes_tensor(dims)], dims, x.kind)

    def filled(self, value: float, dims: Dims) -> Tensor:
        """Return a float tensor that holds one value everywhere."""
        sizes = as_ints(dims)
        if sizes is not None and math.prod(sizes) <= 1 << 16:
            return self.constant(np.full(sizes, value), FLOAT)
        return self.expand(self.number(value), dims)

    def filling(self, x: Tensor) -> Tensor | None:
        """Return the number (rank 0) that a float tensor holds everywhere, None for others."""
        number = repeated_number(x)
        return None if number is None else self.number(number)

    def size_number(self, dim: Dim) -> Tensor:
        """Return a size as an int tensor of rank 0."""
        return self.reshape(self.size_tensor(dim), ())

    def count(self, start: Dim, stop: Dim) -> Tensor:
        """Return the ints from `start` to `stop`, without `stop`, as a tensor of rank 1."""
        ends = [self.size_number(end) for end in (start, stop)]
        return self.node("Range", [*ends, self.constant(1)], (stop - start,), INT)


def pieces(x: Tensor, axis: int) -> Sequence[Tensor]:
    """Return what a tensor was joined from along an axis, or the tensor alone."""
    node = made_by(x, "Concat")
    if node is None or node.attributes["axis"] != axis:
        return [x]
    found = node.given()
    return found if total_size(found, axis) == x.dims[axis] else [x]


def total_size(parts: Sequence[Tensor], axis: int) -> Dim:
    """Return the size along an axis of what is joined along it."""
    total: Dim = sum([part.dims[axis] for part in parts])  # of integers, that of thousands is fast
    return total


def broadcast(a: Dims, b: Dims) -> Dims:
    """Return the dims of an elementwise result. Two sizes that are not known to be equal are taken to be.

    Raises UnsupportedCase where they cannot be.
    """
    dims = broadcast_dims((a, b))
    for own in (a, b):
        if any(size != 1 and differ(size, whole) for size, whole in zip(of_rank(own, len(dims)), dims)):
            shown = " and ".join("x".join(map(str, dims)) or "scalar" for dims in (a, b))
            raise UnsupportedCase(f"operands of {shown} do not fit together")
    return dims
