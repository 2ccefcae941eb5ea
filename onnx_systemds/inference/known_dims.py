"""Dimensions that are integers, not expressions."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_systemds.inference.dims import Dim


def all_known(dims: Iterable[Dim]) -> bool:
    """Whether every dimension is a plain integer."""
    for dim in dims:  # noqa: SIM110 - asked for each value of a graph
        if not isinstance(dim, int):
            return False
    return True


def differ(one: Dim, other: Dim) -> bool:
    """Whether two dimensions are known not to be equal."""
    return isinstance(one, int) and isinstance(other, int) and one != other


def as_int(dim: Dim) -> int:
    """A dimension that is known to be an integer."""
    assert isinstance(dim, int)
    return dim


def as_ints(dims: Iterable[Dim]) -> tuple[int, ...] | None:
    """The dimensions as integers, None where one of them is an expression."""
    found: list[int] = []
    for dim in dims:
        if not isinstance(dim, int):
            return None
        found.append(dim)
    return tuple(found)
