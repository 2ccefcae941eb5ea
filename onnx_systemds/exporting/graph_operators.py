"""The operators that builtins are made of, each with the dims of its result: `Operators`.

The peepholes of the exporter are here: reshapes of reshapes, transposed transposes, MatMul + Add (Gemm), Conv + Add.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_systemds.dims import Dim, Dims, add
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph import BOOL, FLOAT, INT, Tensor
from onnx_systemds.exporting.graph_builder import GraphBuilder

_BOOLEAN_RESULTS = frozenset(
    ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf")
)
_ONNX_TYPES = {INT: 7, BOOL: 9}
_ALL = 2**62


class Operators(GraphBuilder):
    """A graph under construction, and the usual operators as methods."""

    def unary(self, op: str, x: Tensor) -> Tensor:
        """Return an operator of one input and the same dims."""
        return self.node(op, [x], x.dims, BOOL if op in _BOOLEAN_RESULTS else x.kind)

    def binary(self, op: str, a: Tensor, b: Tensor, dims: Dims | None = None) -> Tensor:
        """Return an elementwise operator; the operands broadcast as in ONNX. Both are of one kind."""
        dims = broadcast(a.dims, b.dims) if dims is None else dims
        if a.kind != b.kind:
            a, b = self.floating(a), self.floating(b)
        if op == "Add":
            fused = self._with_bias(a, b, dims) or self._with_bias(b, a, dims)
            if fused is not None:
                return fused
        return self.node(op, [a, b], dims, BOOL if op in _BOOLEAN_RESULTS else a.kind)

    def _with_bias(self, x: Tensor, bias: Tensor, dims: Dims) -> Tensor | None:
        """Return ``MatMul + row`` as Gemm and ``Conv + channels`` as Conv with a bias, None for anything else."""
        node = x.node
        if node is None or node.scope is not self.scope or x.dims != dims:
            return None
        if node.op == "MatMul" and x.rank == 2 and bias.rank == 2 and bias.dims in ((1, x.dims[1]), x.dims, (1, 1)):
            a, b = node.inputs
            assert a is not None and b is not None
            attributes: dict[str, Any] = {}
            for operand, name in ((a, "transA"), (b, "transB")):
                if operand.node is not None and operand.node.op == "Transpose":
                    attributes[name] = 1
            a = a.node.inputs[0] if "transA" in attributes and a.node else a
            b = b.node.inputs[0] if "transB" in attributes and b.node else b
            return self.node("Gemm", [a, b, bias], dims, **attributes)
        if node.op == "Conv" and len(node.inputs) == 2:
            channels = x.dims[1]
            if bias.dims == (1, channels, *[1] * (x.rank - 2)) or bias.dims == (channels, *[1] * (x.rank - 2)):
                return self.node("Conv", [*node.inputs, self.reshape(bias, (channels,))], dims, **dict[str, Any](node.attributes))
        return None

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
        """Return whether each element is not 0 (NaN is not)."""
        if x.kind == BOOL:
            return x
        return self.node("Not", [self.binary("Equal", x, self.constant(0, x.kind))], x.dims, BOOL)

    def reshape(self, x: Tensor, dims: Dims) -> Tensor:
        """Return the elements of `x` in row-major order with other dims."""
        if x.dims == dims:
            return x
        node = x.node
        if node is not None and node.op == "Reshape" and node.inputs[0] is not None and self.visible(node.inputs[0]):
            return self.reshape(node.inputs[0], dims)
        found = self.node("Reshape", [x, self._target(x, dims)], dims, x.kind)
        if not found.hint and x.node is None and found.constant is not None:
            found.hint = x.hint
        return found

    def _target(self, x: Tensor, dims: Dims) -> Tensor:
        """Return the shape input of a Reshape: plain numbers with 0 and -1 where possible."""
        target: list[int] = []
        for axis, dim in enumerate(dims):
            if isinstance(dim, int):
                target.append(dim)
            elif axis < x.rank and x.dims[axis] == dim and all(isinstance(d, int) or d == e
                                                               for d, e in zip(dims[:axis], x.dims)):  # fmt: skip
                target.append(0)
            else:
                target.append(-1)
        if target.count(-1) > 1 or (-1 in target and 0 in dims) or (0 in dims and 0 in target and 0 in x.dims):
            if 0 in dims:
                return self.node("Identity", [self.sizes_tensor(dims)], (len(dims),), INT)
            return self.sizes_tensor(dims)
        return self.constant(np.array(target, np.int64))

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """Return `x` with its axes in another order."""
        perm = tuple(perm)
        if perm == tuple(range(x.rank)):
            return x
        if x.node is not None and x.node.op == "Transpose" and x.node.inputs[0] is not None:
            before = x.node.attributes["perm"]
            assert isinstance(before, tuple)
            return self.transpose(x.node.inputs[0], [int(before[axis]) for axis in perm])
        dims = tuple(x.dims[axis] for axis in perm)
        if [axis for axis in perm if x.dims[axis] != 1] == [axis for axis in range(x.rank) if x.dims[axis] != 1]:
            return self.reshape(x, dims)
        return self.node("Transpose", [x], dims, x.kind, perm=perm)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the product of two matrices or two stacks of them."""
        if a.row_choice is not None and b.rank == 2:
            return self.gather(b, a.row_choice, 0)
        dims = (*broadcast(a.dims[:-2], b.dims[:-2]), a.dims[-2], b.dims[-1])
        return self.node("MatMul", [self.floating(a), self.floating(b)], dims)

    def reduce(self, op: str, x: Tensor, axes: Sequence[int], keep: bool = True) -> Tensor:
        """Return ``ReduceSum`` and its like over `axes`."""
        axes = tuple(axes)
        dims = tuple(1 if i in axes else dim for i, dim in enumerate(x.dims) if keep or i not in axes)
        if op == "ReduceSum" or self.opset >= 18:
            return self.node(op, [x, self.constant(np.array(axes, np.int64))], dims, x.kind, keepdims=int(keep))
        return self.node(op, [x], dims, x.kind, axes=axes, keepdims=int(keep))

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Return tensors of one kind joined along an axis."""
        if len(parts) == 1:
            return parts[0]
        total: Dim = 0
        for part in parts:
            total = add(total, part.dims[axis])
        others = [self._joined_dim(parts, i) for i in range(parts[0].rank)]
        dims = tuple(total if i == axis else dim for i, dim in enumerate(others))
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
        if step == 1 and start == 0 and (stop is None or stop == whole):
            return x
        if size is None:
            end = whole if stop is None else stop
            size = add(end, -start if isinstance(start, int) else -start)
        last = self.constant([_ALL if step > 0 else -_ALL]) if stop is None else self.size_tensor(stop)
        inputs = [x, self.size_tensor(start), last, self.constant([axis])]
        if step != 1:
            inputs.append(self.constant([step]))
        dims = tuple(size if i == axis else dim for i, dim in enumerate(x.dims))
        return self.node("Slice", inputs, dims, x.kind)

    def gather(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """Return what stands at `indices` (int, from 0) along an axis."""
        dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
        return self.node("Gather", [x, indices], dims, x.kind, axis=axis)

    def where(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Return `a` where the condition (bool) holds, else `b`; all broadcast."""
        if a.kind != b.kind:
            a, b = self.floating(a), self.floating(b)
        dims = broadcast(condition.dims, broadcast(a.dims, b.dims))
        return self.node("Where", [condition, a, b], dims, a.kind)

    def expand(self, x: Tensor, dims: Dims) -> Tensor:
        """Return `x` broadcast to `dims`."""
        if x.dims == dims:
            return x
        return self.node("Expand", [x, self.sizes_tensor(dims)], dims, x.kind)

    def filled(self, value: float, dims: Dims) -> Tensor:
        """Return a float tensor that holds one value everywhere."""
        sizes = [dim for dim in dims if isinstance(dim, int)]
        if len(sizes) == len(dims) and math.prod(sizes) <= 1 << 16:
            return self.constant(np.full(sizes, value), FLOAT)
        return self.expand(self.number(value), dims)

    def count(self, start: Dim, stop: Dim) -> Tensor:
        """Return the ints from `start` to `stop`, without `stop`, as a tensor of rank 1."""
        length = add(stop, -1 * start)
        ends = [self.reshape(self.size_tensor(end), ()) for end in (start, stop)]
        return self.node("Range", [*ends, self.constant(1)], (length,), INT)


def broadcast(a: Dims, b: Dims) -> Dims:
    """Return the dims of an elementwise result. Two sizes that are not known to be equal are taken to be.

    Raises UnsupportedCase where they cannot be.
    """
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    found: list[Dim] = []
    for one, other in zip(left, right):
        if one == other or other == 1:
            found.append(one)
        elif one == 1 or not isinstance(one, int):
            found.append(other if isinstance(other, int) or one == 1 else one)
        elif not isinstance(other, int):
            found.append(one)
        else:
            shown = " and ".join("x".join(map(str, dims)) or "scalar" for dims in (a, b))
            raise UnsupportedCase(f"operands of {shown} do not fit together")
    return tuple(found)
