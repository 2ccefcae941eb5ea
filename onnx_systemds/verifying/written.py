"""Converts what a script has written to the outputs of its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count, takewhile
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
_TRUTHS = {"TRUE": 1.0, "FALSE": 0.0, "true": 1.0, "false": 0.0, "": np.nan}


def outputs_of(name: str, value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs that a value is written as: one for each item of a list, and for the columns of each kind.

    given: the outputs of the model, which say which columns of a frame are of one kind. Errors stay what they are.
    """
    found: dict[str, Any] = {}
    for item_name, item in _items(name, value):
        found |= _by_kinds(item_name, item, given)
    return found


def as_matrix(value: Any) -> Array:
    """Return a value as a matrix of doubles, or of texts."""
    found = np.asarray(getattr(value, "cells", value))
    return np.atleast_2d(found.astype(object if found.dtype.kind in "OU" else np.float64))


def alike(value: Any, other: Array) -> Array:
    """Return a value as a matrix of numbers or texts, as another one is; booleans are 1 or 0."""
    matrix = as_matrix(value)
    if matrix.dtype == object and other.dtype.kind not in "OU":
        return np.array([[float(_TRUTHS.get(cell, cell)) for cell in row] for row in matrix]).reshape(matrix.shape)
    if matrix.dtype != object and other.dtype.kind in "OU":
        return np.array([[str(cell) for cell in row] for row in matrix], object)
    return matrix


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        named = value.items() if isinstance(value, dict) else enumerate(value, 1)
        for key, item in named:
            yield from _items(f"{name}_{key}", item)
    else:
        yield name, value


def _by_kinds(name: str, value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs that a frame of texts and numbers is, `name_1`, `name_2` ..: columns of a kind side by side."""
    parts = list(takewhile(given.__contains__, (f"{name}_{place}" for place in count(1))))
    if name in given or len(parts) < 2 or isinstance(value, Exception):
        return {name: value}
    cells, widths = as_matrix(value), [as_matrix(given[part]).shape[1] for part in parts]
    if sum(widths) != cells.shape[1]:
        return {name: value}
    return dict(zip(parts, np.split(cells, np.cumsum(widths)[:-1], axis=1), strict=True))
