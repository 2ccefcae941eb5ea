"""Bins of ``transformapply``: which of those that a meta frame notes a number is in, as the engine finds it.

Of bins of equal width it calculates the number of the bin, which rounds: 0.13 is in the second bin from 0.13 on.
Of others it takes the first that ends at the number or after it. Where there are more than ten of them, it halves: of
several that end at the same number, as of a column that is mostly 0, it takes the one that it comes to first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Tensor
from onnx_systemds.exporting.builtins.frames import numbers
from onnx_systemds.exporting.float_rounding import dividing
from onnx_systemds.exporting.graph.nodes import TEXT, WIDE

_EQUAL_WIDTH = "equi-width"
_METHODS = (_EQUAL_WIDTH, "equi-height", "equi-height-approx")
_FEW = 10


def binned(ctx: Context, column: Tensor, ends: list[tuple[float, float]], item: Any) -> Tensor:
    """Return the numbers of bins, NaN for NaN; what is outside of all is in the first or last.

    Texts are compared as FP64, as they are in the engine. item: what a spec says of the column. Raises UnsupportedCase.
    """
    g = ctx.g
    method = str(item.get("method") if isinstance(item, dict) else None).lower()
    if method not in _METHODS:
        raise UnsupportedCase(f"bins by {quoted(method)}", hint=f"the engine has {', '.join(_METHODS)}")
    uppers = [high for _, high in ends]
    column = numbers(ctx, column, WIDE if column.kind == TEXT else FLOAT)
    if method == _EQUAL_WIDTH:
        cuts = _equal_width_cuts(ends[0][0], uppers[-1], int(item.get("numbins", 1))) if ends else []
        moved: dict[float, int] = {}
    else:
        cuts, moved = uppers[:-1], _moved(uppers) if len(uppers) > _FEW else {}
    if column.kind == FLOAT and g.dtype == "float32":
        cuts = [dividing(cut, inclusive=True) for cut in cuts]
    above = column > g.constant(np.array([cuts]), column.kind)
    code = g.reduce("ReduceSum", g.floating(above), (1,)) + 1.0
    if moved:
        at_end = column.equals(g.constant(np.array([list(moved)]), column.kind))
        steps = g.constant(np.array([list(moved.values())], np.float64), FLOAT)
        code = code + g.reduce("ReduceSum", g.floating(at_end) * steps, (1,))
    return g.where(column.apply("IsNaN"), np.nan, code)


def _equal_width_cuts(low: float, high: float, count: int) -> list[float]:
    """Return the largest number of each bin but the last, whose place is ``(x - low) / (high - low) * count``."""
    found = []
    for place in range(1, count if low < high else 1):
        inside, outside = low, high
        while inside < (middle := inside / 2 + outside / 2) < outside:
            inside, outside = (middle, outside) if (middle - low) / (high - low) * count <= place else (inside, middle)
        found.append(inside)
    return found


def _moved(ends: list[float]) -> dict[float, int]:
    """Return how many bins after the first that ends at a number the engine comes to, where there are several."""
    steps = {end: _searched(ends, end) - ends.index(end) for end in sorted(set(ends))}
    return {end: step for end, step in steps.items() if step}


def _searched(ends: list[float], number: float) -> int:
    """Return the place of a number as Java's binarySearch finds it."""
    low, high = 0, len(ends) - 1
    while ends[middle := (low + high) // 2] != number:
        low, high = (middle + 1, high) if ends[middle] < number else (low, middle - 1)
    return middle
