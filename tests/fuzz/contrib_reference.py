"""What onnxruntime's own operators give that have kernels for accelerators only, by numpy.

As ONNX's reference implementation takes them: classes of `OPERATORS`, in the types of what they get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from scipy.special import erf

from tests.fuzz.drawing import Array
from tests.operators.test_contrib_fourier import backward, forward
from tests.operators.test_contrib_image_layers import activated
from tests.operators.test_contrib_linear_attention import swiglu
from tests.operators.test_contrib_movement import channels_last_convolution, softmax_of_sum
from tests.operators.test_contrib_normalization import by_groups
from tests.operators.test_contrib_packing import removed, restored
from tests.operators.test_contrib_position_bias import biased, gated
from tests.operators.test_contrib_sparse_attention import by_definition

OPERATORS: list[type[OpRun]] = []


def _gives(*op_types: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function below as what these operators give: one output or a list of all of them."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
            found = function(*inputs, **attributes)
            return tuple(found if isinstance(found, list) else [found])[: len(self.onnx_node.output)]

        OPERATORS.extend(type(name, (OpRun,), {"op_domain": "com.microsoft", "_run": run}) for name in op_types)
        return function

    return decorate


_gives("BiasSoftmax")(softmax_of_sum)
_gives("GatedRelativePositionBias")(gated)
_gives("NhwcConv")(channels_last_convolution)
_gives("NhwcFusedConv")(activated)
_gives("SparseAttention")(by_definition)
_gives("SwiGLU")(swiglu)
_gives("RelativePositionBias")(biased)
_gives("RemovePadding")(removed)
_gives("RestorePadding")(restored)


@_gives("GroupNorm", "SkipGroupNorm")
def _group_norm(x: Array, gamma: Array, beta: Array, skip: Array | None = None, bias: Array | None = None, **attributes: Any
                ) -> list[Array]:
    if skip is not None and skip.ndim == 4 and not attributes.get("channels_last", 1):
        skip = skip.transpose(0, 2, 3, 1)
    return by_groups(x, gamma, beta, skip, bias, **attributes)


@_gives("BiasAdd")
def _bias_add(x: Array, bias: Array, skip: Array) -> Array:
    return x + bias + skip


@_gives("BiasDropout")
def _bias_dropout(data: Array, bias: Array, residual: Array | None = None, *_: Any, **__: Any) -> list[Array]:
    """Outside of training nothing is dropped."""
    total = data + bias
    return [total if residual is None else total + residual, np.ones(data.shape, bool)]


@_gives("BiasSplitGelu")
def _bias_split_gelu(x: Array, bias: Array) -> Array:
    left, right = np.split(x + bias, 2, axis=-1)
    below = (1 + erf(right.astype(np.float64) / np.sqrt(2))) / 2
    return (left * (right * below)).astype(x.dtype)


def _fast_gelu(x: Array) -> Array:
    return (x / (1 + np.exp(-np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)))).astype(x.dtype)


@_gives("GemmFastGelu")
def _gemm_fast_gelu(x: Array, weight: Array, bias: Array | None = None) -> Array:
    return _fast_gelu(x @ weight if bias is None else x @ weight + bias)


def _complex(sign: int) -> Callable[[Array, Array], Array]:
    """A product by parts; -1: with the conjugate of the second factor."""

    def product(one: Array, other: Array) -> Array:
        (a, b), (c, d) = ((x[..., 0], x[..., 1]) for x in (one, other))
        return np.stack([a * c - sign * b * d, b * c + sign * a * d], -1)

    return product


_gives("ComplexMul")(_complex(1))
_gives("ComplexMulConj")(_complex(-1))


@_gives("Rfft")
def _rfft(x: Array, signal_ndim: int = 1, **_: Any) -> Array:
    return forward(x, signal_ndim).astype(x.dtype)


@_gives("Irfft")
def _irfft(x: Array, signal_ndim: int, **_: Any) -> Array:
    return backward(x, signal_ndim).astype(x.dtype)


_ACTIVATIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "Relu": lambda x, alpha, beta: np.maximum(x, 0),
    "Tanh": lambda x, alpha, beta: np.tanh(x),
    "Sigmoid": lambda x, alpha, beta: 1 / (1 + np.exp(-x)),
    "LeakyRelu": lambda x, alpha, beta: np.where(x < 0, alpha * x, x),
    "HardSigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
}


def _factor(x: Array, swaps: int, moves: int) -> Array:
    if x.ndim > 1:
        x = np.moveaxis(x, 0, -2) if moves else x
        x = np.swapaxes(x, -1, -2) if swaps else x
    return x


@_gives("FusedMatMulActivation")
def _fused_matmul(a: Array, b: Array, *, activation: str, activation_alpha: float = 0.01, activation_beta: float = 0.5,
                  activation_axis: int = -1, alpha: float = 1.0, **flags: int) -> Array:
    left = _factor(a, flags.get("transA", 0), flags.get("transBatchA", 0))
    right = _factor(b, flags.get("transB", 0), flags.get("transBatchB", 0))
    y = (alpha * (left @ right)).astype(a.dtype)
    if activation != "Softmax":
        return np.asarray(_ACTIVATIONS[activation](y, activation_alpha, activation_beta).astype(a.dtype))
    powers = np.exp(y - y.max(activation_axis, keepdims=True))
    return powers / powers.sum(activation_axis, keepdims=True)


@_gives("GemmaRotaryEmbedding")
def _gemma_rotary(angles: Array, *heads: Array) -> list[Array]:
    cosines, sines = (function(angles)[:, None].astype(heads[0].dtype) for function in (np.cos, np.sin))
    return [x * cosines + turned * sines for x, turned in (heads[:2], heads[2:])]


@_gives("IsAllFinite")
def _is_all_finite(*inputs: Array, isinf_only: int = 0, isnan_only: int = 0) -> Array:
    wide = [x.astype(np.float64) for x in inputs]
    found = any((np.isnan(x).any() and not isinf_only) or (np.isinf(x).any() and not isnan_only) for x in wide)
    return np.asarray(not found)


@_gives("MulInteger")
def _mul_integer(a: Array, az: Array | None, b: Array, bz: Array | None = None) -> Array:
    one, other = (np.asarray(x, np.int32) - (0 if zero is None else np.int32(zero)) for x, zero in ((a, az), (b, bz)))
    return np.asarray(one * other, np.int32)


@_gives("ReduceSumInteger")
def _reduce_sum_integer(x: Array, axes: Sequence[int], keepdims: int = 1) -> Array:
    wide = np.int32 if x.dtype == np.int8 else np.uint32
    return np.asarray(x.sum(tuple(axes), keepdims=bool(keepdims), dtype=wide))


@_gives("QLinearReduceMean")
def _qlinear_reduce_mean(x: Array, scale: Array, zero: Array | None, to_scale: Array, to_zero: Array | None = None,
                         *, axes: Sequence[int], keepdims: int = 1) -> Array:
    if not x.size:
        raise ValueError("no numbers to take a mean of")
    numbers = (x.astype(np.int32) - (0 if zero is None else np.int32(zero))).astype(scale.dtype) * scale
    means = numbers.mean(tuple(axes), keepdims=bool(keepdims), dtype=scale.dtype)
    limits = np.iinfo(x.dtype)
    shifted = np.rint(means / to_scale) + (0 if to_zero is None else np.int32(to_zero))
    return np.asarray(np.clip(shifted, limits.min, limits.max).astype(x.dtype))


@_gives("TorchEmbedding")
def _torch_embedding(table: Array, indices: Array, *_: Any) -> Array:
    return table[indices]


# --- packed sequences ------------------------------------------------------------------------------------------------


def _attended(parts: Sequence[Array], stops: Array, heads: int, bias: Array | None, scale: float | None) -> Array:
    """Sample for sample and head for head, of queries, keys and values below each other."""
    query, key, value = (np.stack(np.split(part, heads, 1)) for part in parts)
    y = np.zeros_like(value)
    for sample, (start, stop) in enumerate(pairwise(stops.tolist())):
        scores = query[:, start:stop] @ key[:, start:stop].swapaxes(1, 2) * (scale or 1 / np.sqrt(query.shape[2]))
        if bias is not None:
            scores = scores + bias[sample % len(bias), :, : stop - start, : stop - start]
        powers = np.exp(scores - scores.max(2, keepdims=True, initial=-np.inf))
        y[:, start:stop] = powers / powers.sum(2, keepdims=True) @ value[:, start:stop]
    return np.asarray(np.concatenate(y, 1))


@_gives("PackedAttention")
def _packed_attention(x: Array, weight: Array, bias: Array, places: Array, stops: Array, attention_bias: Array | None = None,
                      *, num_heads: int, qkv_hidden_sizes: Sequence[int] | None = None, scale: float | None = None
                      ) -> Array:
    widths = qkv_hidden_sizes or [weight.shape[1] // 3] * 3
    parts = np.split(x @ weight + bias, np.cumsum(widths)[:-1], 1)
    return _attended(parts, stops, num_heads, attention_bias, scale)


@_gives("PackedMultiHeadAttention")
def _packed_heads(query: Array, key: Array | None, value: Array | None, bias: Array | None, places: Array, stops: Array,
                  attention_bias: Array | None = None, *, num_heads: int, scale: float | None = None, **_: Any
                  ) -> Array:
    parts = [query, key, value]
    if key is None or value is None:
        parts = [query[:, :, which].reshape(len(query), -1) for which in range(3)]
    if bias is not None:
        widths = np.cumsum([part.shape[1] for part in parts if part is not None])[:-1]
        parts = [part + own for part, own in zip(parts, np.split(bias, widths))]
    return _attended(parts, stops, num_heads, attention_bias, scale)  # type: ignore[arg-type]
