"""Differences from a judge that docs/differences.md tells, or that say nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto

from tests.fuzz.judge_faults import Feeds, constants, has_wide_numbers, interpolates, reals
from tests.fuzz.zero_factors import passed_over

_PRODUCTS = frozenset({"Mul", "Div", "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "FusedMatMul", "LRN",
                       "BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization",
                       "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "PRelu",
                       "Softsign", "HardSwish", "Softmax", "LogSoftmax", "SkipSimplifiedLayerNormalization", "RNN",
                       "GRU", "LSTM", "FusedGemm", "Normalizer", "TransposeMatMul", "ComplexMul", "ComplexMulConj",
                       "Attention", "CDist", "DeformConv", "Resize", "Upsample", "RoiAlign", "GridSample",
                       "LpNormalization", "CausalConvWithState", "SwiGLU", "BiasSplitGelu", "BiasSoftmax",
                       "SparseAttention"})

_Floats = np.ndarray[Any, np.dtype[np.float64]]


def _is_lowest(ours: _Floats, judged: _Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether onnxruntime has begun a maximum of float32 with its lowest finite number."""
    return np.isneginf(ours) & (judged == np.finfo(np.float32).min)


# single elements that differ for a reason, by ours and the judge's
_EXPLAINED: dict[str, Callable[[_Floats, _Floats], np.ndarray[Any, np.dtype[np.bool_]]]] = {
    "MaxPool": _is_lowest,
    "GlobalMaxPool": _is_lowest,
}

# written as products with the zeros between the taps, through which NaN and infinities reach other elements
_WINDOWS = frozenset({"Conv", "ConvTranspose", "DeformConv", "FusedConv"})
# of what is left of sums of large numbers that cancel, which is rounding, these make numbers of size 1
_OF_SIZE_ONE = frozenset({"Tanh", "Sigmoid", "HardSigmoid", "Softsign", "Erf", "Sign", "Sin", "Cos", "Tan"})
_SUMS = frozenset({"MatMul", "Gemm", "Conv", "ReduceSum", "ReduceMean", "CumSum"})


def tolerated(model: ModelProto, feeds: Feeds, actual: Any, judged: Any) -> bool:
    """Whether a difference is one that docs/differences.md tells: products of sparse matrices pass over zeros times NaN.

    What is an infinity for one and NaN for the other differs in comparisons and integers, too. Or a difference says
    nothing: of rows that a loop without trips collects, onnxruntime takes open dims for 0.
    """
    if _is_empty_alike(actual, judged):
        return any(node.op_type in ("Loop", "Scan") for node in model.graph.node)
    one, other = np.asarray(actual), np.asarray(judged)
    op_types = {node.op_type for node in model.graph.node}
    is_cancelled = one.shape == other.shape and op_types & _OF_SIZE_ONE and op_types & _SUMS
    if is_cancelled and has_wide_numbers(model.graph.node[0], {**constants(model), **feeds}):
        return True
    if one.shape == other.shape and other.dtype.kind in "iu" and interpolates(model.graph.node[-1]):
        # what the float32 of the judge makes of a third loses one of an integer, or keeps it, where it is cut off
        return bool((np.abs(one.astype(np.float64) - other.astype(np.float64)) <= 1).all())
    if one.shape != other.shape or other.dtype.kind in "OU":
        return False
    if other.dtype.kind in "biu":
        has_product = any(node.op_type in _PRODUCTS for node in model.graph.node[:-1])
        return has_product and any(not np.isfinite(value).all() for value in reals(feeds))
    narrow = other.dtype.itemsize < 4  # bfloat16 has 8 bits
    one, other = one.astype(np.float64), other.astype(np.float64)
    explained = [_EXPLAINED[node.op_type] for node in model.graph.node if node.op_type in _EXPLAINED]
    if explained and len(model.graph.node) == 1:
        with np.errstate(invalid="ignore"):
            different = ~((one == other) | (np.isnan(one) & np.isnan(other)) | np.isclose(one, other, 1e-4, 1e-37))
            return bool((different <= explained[0](one, other)).all())
    if not any(node.op_type in _PRODUCTS for node in model.graph.node):
        return False
    if np.isnan(one).any() and any(node.op_type in _WINDOWS for node in model.graph.node):
        return True
    rtol = 0.03 if narrow else 1e-3
    different = ~((one == other) | (np.isnan(one) & np.isnan(other)) | np.isclose(one, other, rtol, 1e-5))
    return bool((different <= passed_over(model, {**constants(model), **feeds}, ~np.isfinite(other))).all())


def _is_empty_alike(actual: Any, judged: Any) -> bool:
    one, other = np.asarray(actual), np.asarray(judged)
    return one.size == other.size == 0 and one.dtype == other.dtype and one.ndim == other.ndim
