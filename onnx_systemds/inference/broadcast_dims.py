"""Dims of operands that are broadcast, as numpy does it."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.inference.dims import Dim, Dims


def of_rank(dims: Dims, rank: int) -> Dims:
    """Dims with axes of size 1 in front, up to a rank."""
    return (*[1] * (rank - len(dims)), *dims)


def broadcast_dims(all_dims: Sequence[Dims]) -> Dims:
    """Dims of the result. Two differing expressions are taken to be equal at run time; known ones win."""
    rank = max(map(len, all_dims), default=0)
    result: list[Dim] = []
    for sizes in zip(*(of_rank(dims, rank) for dims in all_dims)):
        found: Dim = 1
        for dim in sizes:
            if dim != 1 and (found == 1 or isinstance(dim, int)):
                found = dim
        result.append(found)
    return tuple(result)
