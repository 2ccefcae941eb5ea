"""Compares two tensors, for ``verify`` and the tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from onnx_systemds.model.protos import dtype_text, numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

# relative tolerance, and absolute one as a share of the spread of the expected numbers
_TOLERANCES = {"float64": (1e-7, 1e-9), "float32": (1e-3, 1e-5)}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference of a tensor from the expected one.

    absolute, relative: the largest differences; infinite where only one side is NaN or infinite, or texts differ.
    severity: the largest difference as a multiple of what is tolerated; more than 1 fails. where: the element with
    it, None for tensors that are equal. problem: why the elements cannot be compared at all, else "". ulps: the largest
    difference in units in the last place of the expected number, in its type; None where that is no float. through:
    the narrower float type by which the tensor is judged, "" where that is its own.
    """

    name: str
    dtype: str
    dims: tuple[int, ...]
    absolute: float = 0.0
    relative: float = 0.0
    severity: float = 0.0
    where: tuple[int, ...] | None = None
    actual: object = None
    expected: object = None
    failed: int = 0
    problem: str = ""
    ulps: float | None = None
    through: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything is within the tolerance."""
        return not self.problem and self.failed == 0

    def __str__(self) -> str:
        if self.problem or self.where is None:
            return f"{self.name}: {self.problem or 'equal'}"
        return (
            f"{self.name}{list(self.where)} is {self.actual}, expected {self.expected}: {self.failed} elements of "
            f"{list(self.dims)} differ by more than tolerated, this one {self.severity:.3g} times as much"
        )


def spread(expected: Array) -> float:
    """The range of the finite numbers of a tensor, including zero."""
    wide = expected.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return max(float(np.ptp(finite)), float(np.abs(finite).max()), 1e-6) if finite.size else 1e-6


def compare_tensors(
    name: str, actual: Array, expected: Array, rtol: float | None = None, atol: float | None = None, rounded: str = ""
) -> Comparison:
    """Compare dtype, dims and elements: a difference up to ``atol + rtol * |expected|`` is tolerated.

    By default floats differ by what rounding in their type explains, ``atol`` being a share of the `spread`; integers,
    booleans and texts are equal, and only ``atol`` makes integers differ. rounded: the element type in which what the
    tensor is computed of was rounded, if that is a narrower one.
    """
    dtype, found, dims = dtype_text(expected), dtype_text(actual), expected.shape
    if found != dtype or actual.shape != dims:
        problem = f"it is {found} {list(actual.shape)}, expected {dtype} {list(dims)}"
        return Comparison(name, dtype, dims, problem=problem)
    if dtype == "string":
        differences = np.where(actual == expected, 0.0, np.inf)
        return _compared(name, actual, expected, differences, differences, np.zeros(dims))
    is_float = not dtype.startswith(("bool", "int", "uint"))
    wide, judge = actual.astype(np.float64), expected.astype(np.float64)
    through = ""
    if is_float:
        kind = _narrower(rounded, expected.dtype)
        through = "" if kind == expected.dtype else str(kind)
        default = _tolerances(kind)
        rtol = default[0] if rtol is None else rtol
        atol = default[1] * spread(judge) if atol is None else atol
    tolerated = np.full(dims, atol or 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        same = (actual == expected) | (np.isnan(wide) & np.isnan(judge))
        away = np.abs(wide - judge)
        if not is_float:
            away = np.maximum(away, 1.0)  # integers that differ beyond 2^53
        differences = np.where(same, 0.0, np.where(np.isfinite(away), away, np.inf))
        relative = np.where(same, 0.0, differences / np.abs(judge))
        if is_float:
            tolerated += (rtol or 0.0) * np.where(np.isfinite(judge), np.abs(judge), 0.0)
    relative = np.nan_to_num(relative, nan=np.inf, posinf=np.inf)
    found_apart = _compared(name, actual, expected, differences, relative, tolerated)
    if not is_float:
        return found_apart
    with np.errstate(over="ignore"):  # infinitely many: a number of FP64 for a denormal one
        places = differences / _last_places(judge, expected.dtype)
    return replace(found_apart, ulps=float(places.max(initial=0.0)), through=through)


def _narrower(rounded: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of fewer digits."""
    other = numpy_dtype(rounded) if rounded else dtype
    return max(dtype, other, key=lambda each: float(ml_dtypes.finfo(each).eps))  # type: ignore[no-untyped-call]


def _last_places(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """The unit in the last place of each number in a float type."""
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    least = max(float(info.smallest_subnormal), 5e-324)
    _, exponents = np.frexp(np.where(np.isfinite(numbers) & (numbers != 0), numbers, least))
    return np.asarray(np.maximum(np.ldexp(float(info.eps), exponents - 1), least))


def _tolerances(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Relative and absolute tolerance of a float type; those of few digits are rounded after each operator."""
    if str(dtype) in _TOLERANCES:
        return _TOLERANCES[str(dtype)]
    step = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    return 4 * step, 4 * step


def _compared(
    name: str, actual: Array, expected: Array, differences: Array, relative: Array, tolerated: Array
) -> Comparison:
    dtype, dims = dtype_text(expected), expected.shape
    if not differences.any():
        return Comparison(name, dtype, dims)
    with np.errstate(invalid="ignore", divide="ignore"):
        severity = np.where(differences == 0, 0.0, differences / tolerated)
    where = np.unravel_index(int(severity.argmax()), dims)
    return Comparison(
        name, dtype, dims, float(differences.max()), float(relative.max()), float(severity[where]),
        tuple(map(int, where)), actual[where], expected[where], int((differences > tolerated).sum()),
    )
