"""What the rows of onnxruntime's quantised operators are made of.

Its kernels for uint8 times int8 saturate sums of two products to 16 bits on processors without VNNI, so signed weights
stay within 7 bits here, as its quantiser's ``reduce_range`` has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.operators.harness import Array, Case, at_sizes, contrib

TYPES = ["uint8", "int8"]


def single(value: float) -> Array:
    """A rank 0 scale."""
    return np.array(value, np.float32)


def every(dtype: str) -> Array:
    """All 256 numbers of a type."""
    return (np.arange(256) + np.iinfo(dtype).min).astype(dtype)


def drawn(*dims: int, dtype: str = "uint8", seed: int = 0, limit: int = 256) -> Array:
    """Reproducible numbers over the whole range of a type, or within ``limit`` numbers around its middle."""
    low = np.iinfo(dtype).min + max(256 - limit, 0) // 2
    return np.random.default_rng(seed).integers(low, low + limit, dims).astype(dtype)


def points(count: int, dtype: str, seed: int) -> list[Array]:
    """Zero points."""
    return [np.array(point) for point in drawn(count, dtype=dtype, seed=seed)]


def row(op_type: str, inputs: dict[str, Array | None], dtype: str = "", **more: Any) -> Case:
    """A row of an operator whose single output has a type; scales and zero points are constants."""
    known = [name for name in inputs if name[1:] in ("s", "z") and inputs[name] is not None]
    case = contrib(op_type, inputs, constants=known, output_dtypes=(dtype,) if dtype else ())
    return replace(case, **more)


def weights(*dims: int, dtype: str) -> Array:
    """Signed ones within 7 bits."""
    return drawn(*dims, dtype=dtype, seed=3, limit=256 if dtype == "uint8" else 126)


def resized(case: Case, symbols: Mapping[str, Sequence[Any]], **dims: tuple[int, ...]) -> Case:
    """The case with symbols, run also on its own numbers backwards in other dims."""

    def filled(name: str) -> Array:
        given = case.inputs[name]
        assert given is not None
        return np.resize(given[::-1], dims[name])

    return at_sizes(case, symbols, {name: filled(name) for name in dims})
