"""Which matrices are equal in every bit, without a copy and mostly without reading them whole."""

from __future__ import annotations

from collections.abc import Hashable

from onnx_systemds.model.ir import Array

_SAMPLES = 8  # by axis
_BLOCK = 2**20  # elements that are compared at once


def sample(matrix: Array) -> Hashable:
    """What equal matrices have in common: dtype, dims, and some elements."""
    rows, cols = (max(1, size // _SAMPLES) for size in matrix.shape)
    return matrix.dtype, matrix.shape, matrix[::rows, ::cols].tobytes()


def is_same(left: Array, right: Array) -> bool:
    """Whether two arrays are the same view of the same memory."""
    form = (left.dtype, left.shape, left.strides)
    return left.ctypes.data == right.ctypes.data and form == (right.dtype, right.shape, right.strides)


def equal(left: Array, right: Array) -> bool:
    """Whether two matrices of the same dtype and dims have the same bits; views of the same memory are not read."""
    if is_same(left, right):
        return True
    if left.flags.f_contiguous and right.flags.f_contiguous:
        left, right = left.T, right.T  # rows that lie one after the other in a file
    bits = f"u{left.itemsize}"
    step = max(1, _BLOCK // max(1, left.shape[1]))
    return all(
        bool((left[row : row + step].view(bits) == right[row : row + step].view(bits)).all())
        for row in range(0, len(left), step)
    )
