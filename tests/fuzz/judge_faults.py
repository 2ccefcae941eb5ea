"""Known faults of onnxruntime and of ONNX's reference implementation, and what our README says differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto

Feeds = Mapping[str, Any]


@dataclass(frozen=True)
class JudgeFault:
    """A judge that is not asked. applies: of a node and the model's feeds."""

    judges: tuple[str, ...]
    op_types: frozenset[str]
    reason: str
    applies: Callable[[NodeProto, Feeds], bool] = lambda node, feeds: True


_ONNXRUNTIME = ("onnxruntime", "optimised", "exact")
_REFERENCE = ("reference", "double")



def _has_nan(node: NodeProto, feeds: Feeds) -> bool:
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isnan(value).any()
               for value in feeds.values())  # fmt: skip


def _has_no_number(node: NodeProto, feeds: Feeds) -> bool:
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all()
               for value in feeds.values())  # fmt: skip


def _has_negative(node: NodeProto, feeds: Feeds) -> bool:
    return any(isinstance(value, np.ndarray) and value.dtype.kind in "if" and (value < 0).any()
               for value in feeds.values())  # fmt: skip


def _has_type(*kinds: str) -> Callable[[NodeProto, Feeds], bool]:
    """Whether an input of the model has one of these kinds of types, as numpy writes them."""
    return lambda node, feeds: any(getattr(value, "dtype", np.dtype("O")).kind in kinds for value in feeds.values())


FAULTS: tuple[JudgeFault, ...] = (
    JudgeFault(_REFERENCE, frozenset({"RNN", "GRU", "LSTM"}),
               "it knows neither lengths of sequences nor directions nor other activations"),
    JudgeFault(_ONNXRUNTIME, frozenset({"RNN", "GRU", "LSTM"}), "its activations make numbers of NaN", _has_no_number),
    JudgeFault(_REFERENCE, frozenset({"GlobalMaxPool"}), "it reduces the channels too where the rank is not 4"),
    JudgeFault(_REFERENCE, frozenset({"LpPool", "MaxPool", "AveragePool"}), "VALID and SAME forget the dilations",
               lambda node, feeds: {"auto_pad", "dilations"} <= {attribute.name for attribute in node.attribute}),
    JudgeFault(_ONNXRUNTIME, frozenset({"LpPool", "MaxPool", "AveragePool"}), "SAME pads for windows without dilations",
               lambda node, feeds: {"auto_pad", "dilations"} <= {attribute.name for attribute in node.attribute}),
    JudgeFault(_ONNXRUNTIME, frozenset({"ReduceMin", "ReduceMax"}), "it passes over NaN", _has_nan),
    JudgeFault(_ONNXRUNTIME, frozenset({"ConvTranspose"}), "SAME is no input size times stride for small windows",
               lambda node, feeds: any(attribute.name == "auto_pad" and attribute.s.startswith(b"SAME")
                                       for attribute in node.attribute)),
    JudgeFault(_REFERENCE, frozenset({"ReduceSumSquare"}), "of uint32 it gives uint64", _has_type("u")),
    JudgeFault(_REFERENCE, frozenset({"QuantizeLinear"}), "of x / 0 it gives 0, the specification saturates",
               lambda node, feeds: any(np.any(np.asarray(value) == 0) for value in feeds.values()
                                       if isinstance(value, np.ndarray) and value.dtype.kind == "f")),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"OneHot"}),
               "before opset 11 they take negative indices from the end", _has_negative),
    JudgeFault(_ONNXRUNTIME, frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}),
               "of a skip with more rows than the input it reads the first ones",
               lambda node, feeds: len({np.shape(value)[:1] for value in feeds.values()}) > 1 or len(feeds) == 1),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"Hardmax", "ArgMax", "ArgMin"}),
               "nothing is said of the largest of NaN", _has_nan),
    JudgeFault(_REFERENCE, frozenset({"LRN"}), "it takes five channels at the most"),
    JudgeFault(_REFERENCE, frozenset({"StringNormalizer"}), "it takes empty texts and accents away"),
    JudgeFault(_REFERENCE, frozenset({"CenterCropPad"}), "it pads texts with 0", _has_type("O", "U")),
    JudgeFault(_REFERENCE, frozenset({"LpNormalization"}), "it sums without signs taken off for p = 1"),
    JudgeFault(_REFERENCE, frozenset({"Erf"}), "it rounds to FP32 before it cuts to integers", _has_type("i", "u")),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"ReduceLogSum", "ReduceLogSumExp"}),
               "an integer of the logarithm of 0 is not defined", _has_type("i", "u")),
    JudgeFault(_REFERENCE, frozenset({"ReduceL2"}), "its sums of squares of integers overflow", _has_type("i", "u")),
    JudgeFault((*_ONNXRUNTIME, *_REFERENCE), frozenset({"MaxPool", "GlobalMaxPool"}),
               "both pass over NaN by the place it has", _has_nan),
)  # fmt: skip

_PRODUCTS = frozenset({"Mul", "Div", "MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "FusedMatMul", "LRN",
                       "BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization",
                       "RMSNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization", "PRelu", "Softsign", "Softmax", "LogSoftmax",
                       "SkipSimplifiedLayerNormalization", "RNN", "GRU", "LSTM", "FusedGemm", "Normalizer",
                       "TransposeMatMul", "Attention", "CDist", "DeformConv", "Resize", "Upsample"})  # fmt: skip

# written as products with the zeros between the taps, through which NaN and infinities reach other elements
_WINDOWS = frozenset({"Conv", "ConvTranspose", "DeformConv", "FusedConv"})


def is_untrusted(judge: str, model: ModelProto, feeds: Feeds) -> bool:
    """Whether a judge is known to be wrong on a model."""
    return any(
        judge in fault.judges and node.op_type in fault.op_types and fault.applies(node, feeds)
        for fault in FAULTS
        for node in model.graph.node
    )


def tolerated(model: ModelProto, actual: Any, judged: Any) -> bool:
    """Whether a difference is one that the README tells: products of sparse matrices pass over zeros times NaN.

    Or one that says nothing: of rows that a loop without trips collects, onnxruntime takes open dims for 0.
    """
    if _is_empty_alike(actual, judged):
        return any(node.op_type in ("Loop", "Scan") for node in model.graph.node)
    if not any(node.op_type in _PRODUCTS for node in model.graph.node):
        return False
    one, other = np.asarray(actual), np.asarray(judged)
    if one.shape != other.shape or other.dtype.kind in "OUbiu":
        return False
    one, other = one.astype(np.float64), other.astype(np.float64)
    if np.isnan(one).any() and any(node.op_type in _WINDOWS for node in model.graph.node):
        return True
    different = ~((one == other) | (np.isnan(one) & np.isnan(other)) | np.isclose(one, other, 1e-3, 1e-5))
    return bool((different <= ~np.isfinite(other)).all())


def _is_empty_alike(actual: Any, judged: Any) -> bool:
    one, other = np.asarray(actual), np.asarray(judged)
    return one.size == other.size == 0 and one.dtype == other.dtype and one.ndim == other.ndim
