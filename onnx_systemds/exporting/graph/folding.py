"""Computes small nodes whose inputs are all known, with numpy in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from onnx_systemds.exporting.graph.nodes import Array

LARGEST = 1 << 16
"""Results of more elements are left to the model, unless they only move or reinterpret what is stored anyway."""
_MOVES = frozenset(("Reshape", "Transpose", "Slice", "Squeeze", "Unsqueeze", "Identity"))
_NUMPY_KINDS = {1: np.float64, 11: np.float64, 7: np.int64, 9: np.bool_}


def fold(op: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any], size: int) -> Array | None:
    """Return the result of a node of known inputs, `size` elements, or None where it is not to be computed here."""
    rule = _RULES.get(op)
    if rule is None:
        return None
    largest = max((array.size for array in inputs if array is not None), default=0)
    if size > max(LARGEST, largest) or (largest > LARGEST and op not in _MOVES and op != "Cast"):
        return None
    with np.errstate(all="ignore"):
        found = rule(*inputs, **attributes)
    return None if found is None else np.asarray(found)


def moved(op: str) -> Callable[..., Any] | None:
    """Return what computes an operator that only moves elements of its first input, and may add others around them."""
    return _RULES[op] if op in _MOVES or op in ("Gather", "Pad") else None


def _reduced(function: Callable[..., Any], of_none: float | None = None) -> Callable[..., Any]:
    """Return the rule of a reduction; `of_none` is what it gives of no elements, where numpy has no such number."""

    def rule(data: Array, axes: Array | None = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        along = None if axes is None else tuple(int(axis) for axis in np.ravel(axes))
        initial = {} if of_none is None or data.size or data.dtype.kind != "f" else {"initial": of_none}
        return function(data, axis=along, keepdims=bool(keepdims), **initial)

    return rule


def _mean(data: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Any:
    """Return the mean, NaN of no elements (of which numpy warns)."""
    total = np.sum(data, axis=axis, keepdims=keepdims)
    return np.divide(total, data.size // max(np.size(total), 1))


def _reshape(data: Array, shape: Array, allowzero: int = 0) -> Array:
    target = [int(n) for n in shape]
    if not allowzero:
        target = [data.shape[i] if n == 0 else n for i, n in enumerate(target)]
    return data.reshape(target)


def _slice(data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    picked = [slice(None)] * data.ndim
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
        axis = i if axes is None else int(axes[i])
        step = 1 if steps is None else int(steps[i])
        length = data.shape[axis]
        stop: int | None = end
        if step < 0 and end < -length:
            stop = None
        picked[axis] = slice(start, stop, step)
    return data[tuple(picked)]


def _pad(data: Array, widths: Array, number: Array | None = None) -> Array:
    before, after = np.split(widths, 2)
    return np.pad(data, list(zip(before, after)), constant_values=0 if number is None else number.item())


def _cast(x: Array, to: int) -> Array | None:
    return x.astype(_NUMPY_KINDS[to]) if to in _NUMPY_KINDS else None


def _divide(a: Array, b: Array) -> Array:
    return a // b if a.dtype.kind == "i" else a / b


def _argmax(data: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    if select_last_index:
        found = data.shape[axis] - 1 - np.argmax(np.flip(data, axis), axis=axis)
    else:
        found = np.argmax(data, axis=axis)
    return np.expand_dims(found, axis) if keepdims else found


_RULES: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divide,
    "Mod": np.mod,
    "Pow": np.power,
    "Neg": np.negative,
    "Abs": np.abs,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Sign": np.sign,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Tanh": np.tanh,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Reciprocal": np.reciprocal,
    "Not": np.logical_not,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "IsNaN": np.isnan,
    "IsInf": np.isinf,
    "Where": np.where,
    "Identity": lambda x: x,
    "Relu": lambda x: np.maximum(x, 0.0),
    "Sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "Max": lambda *xs: reduce(np.maximum, xs),
    "Min": lambda *xs: reduce(np.minimum, xs),
    "Cast": _cast,
    "StringConcat": lambda a, b: a + b,
    "Reshape": _reshape,
    "Pad": _pad,
    "Transpose": lambda x, perm=None: np.transpose(x, perm),
    "Slice": _slice,
    "Concat": lambda *xs, axis: np.concatenate(xs, axis),
    "Gather": lambda x, i, axis=0: np.take(x, i, axis),
    "Expand": lambda x, shape: x * np.ones(shape.tolist(), x.dtype) if x.dtype.kind != "b" else None,
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes.tolist())),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes.tolist())),
    "Range": lambda a, b, c: np.arange(a, b, c),
    "MatMul": np.matmul,
    "ReduceSum": _reduced(np.sum),
    "ReduceMean": _reduced(_mean),
    "ReduceMax": _reduced(np.max, -np.inf),
    "ReduceMin": _reduced(np.min, np.inf),
    "ReduceProd": _reduced(np.prod),
    "ArgMax": _argmax,
    "CumSum": lambda x, axis, exclusive=0, reverse=0: None if exclusive or reverse else np.cumsum(x, int(axis)),
    "EyeLike": lambda x, dtype=None, k=0: np.eye(x.shape[0], x.shape[1], k),
}
