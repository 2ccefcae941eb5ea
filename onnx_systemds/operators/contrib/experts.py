"""MoE and QMoE of onnxruntime: each token is served by the few experts that its router prefers.

All experts lie side by side in two products; what a token does not use is multiplied by 0 in between.
T: tokens, E: experts, I: inner size of an expert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.contrib.block_quantized import unpacked

INTERLEAVED, CONCATENATED = 1, 2  # how the gates and the values of SwiGLU share the first product


@dataclass(frozen=True)
class Experts:
    """Weights [E, out, in] of the three products by name, "" where there is none.

    count: E. inner: I. width: the size of a token.
    """

    weights: tuple[str, str, str]
    count: int
    inner: int
    width: int


@expander("MoE", domain=CONTRIB)
def mixture_of_experts(node: Expansion) -> None:
    """Experts whose weights are numbers."""
    count, width, inner = node.known_dims("fc2_experts_weights", "the second weight of MoE")
    weights = (node.input("fc1_experts_weights"), node.input("fc2_experts_weights"), node.input("fc3_experts_weights"))
    write_experts(node, Experts(weights, count, inner, width))


@expander("QMoE", domain=CONTRIB)
def quantized_mixture_of_experts(node: Expansion) -> None:
    """Experts whose weights are quantised, as a whole row or in blocks of it; they are dequantised at conversion.

    What chooses the experts need not be what weighs them.
    """
    if node.attribute("quant_type") != "int":
        raise UnsupportedCase(f"experts quantised as {node.attribute('quant_type')}; known are integers")
    found = [_dequantised(node, which) if node.has(_WEIGHTS[which]) else None for which in range(3)]
    second = found[1]
    assert second is not None
    count, width, inner = second.shape
    first, between, third = ("" if weight is None else node.known(weight, "float") for weight in found)
    write_experts(node, Experts((first, between, third), count, inner, width), node.input("router_weights"))


_WEIGHTS = (2, 5, 8)


def _dequantised(node: Expansion, which: int) -> Array:
    """One of the three weights as numbers, [E, out, in]; without zero points these are in the middle of the range."""
    name = f"fc{which + 1}_expert_weight_bits"
    bits = int(node.attribute(name) or node.attribute("expert_weight_bits"))
    numbers = unpacked(node.require_constant(_WEIGHTS[which], "the quantised weight"), bits).astype(np.float32)
    scales = node.require_constant(_WEIGHTS[which] + 1, "the scales").astype(np.float32)
    whole = scales.reshape(*numbers.shape[:2], -1)
    zeros = np.full_like(whole, 2 ** (bits - 1))
    if node.has(11 + which):
        given = unpacked(node.require_constant(11 + which, "the zero points"), bits)
        zeros = given[..., : scales.shape[-1]].reshape(whole.shape).astype(np.float32)
    block = -(-numbers.shape[2] // whole.shape[2])
    group = np.arange(numbers.shape[2]) // block
    return np.asarray((numbers - zeros[:, :, group]) * whole[:, :, group])


def write_experts(node: Expansion, experts: Experts, mixing: str = "") -> None:
    """The sum of the chosen experts' results, each times what the router, or else ``mixing``, gives it."""
    if node.attribute("use_sparse_mixer"):
        raise UnsupportedCase("routing by a sparse mixer, which onnxruntime computes on no CPU either")
    tokens = node.reshape(node.input("input"), -1, experts.width)
    shares = _shares(node, experts.count, mixing)
    hidden = _hidden(node, experts, tokens)
    scaled = node.reshape(node.emit("Mul", hidden, node.unsqueeze(shares, 2)), -1, experts.count * experts.inner)
    second = node.emit("Transpose", experts.weights[1], perm=(0, 2, 1))
    y = node.emit("MatMul", scaled, node.reshape(second, experts.count * experts.inner, experts.width))
    if node.has("fc2_experts_bias"):
        y = node.emit("Add", y, node.emit("MatMul", shares, node.input("fc2_experts_bias")))
    node.emit("Reshape", y, node.emit("Shape", node.input("input")), to=node.output())


def _shares(node: Expansion, count: int, mixing: str) -> str:
    """For each token the part of each expert, 0 for those that are not chosen: [T, E].

    Of equally good experts the last ones are chosen.
    """
    probabilities = node.emit("Softmax", node.input("router_probs"), axis=-1)
    backwards = node.slice(probabilities, 1, -1, -count - 1, -1)
    values, places = node.fresh("best"), node.fresh("places")
    node.emit_several("TopK", [values, places], backwards, node.known([int(node.attribute("k"))]), axis=-1)
    if mixing:
        values = node.emit("GatherElements", node.slice(mixing, 1, -1, -count - 1, -1), places, axis=1)
    # of quantised experts the router's parts always add up to 1
    if node.attribute("normalize_routing_weights") or (node.node.op_type == "QMoE" and not mixing):
        values = node.emit("Div", values, node.emit("ReduceSum", values, node.known([-1]), keepdims=1))
    chosen = node.emit("OneHot", places, node.known(count), node.known([0.0, 1.0], node.dtype("input")), axis=-1)
    parts = node.emit("ReduceSum", node.emit("Mul", chosen, node.unsqueeze(values, 2)), node.known([1]), keepdims=0)
    return node.slice(parts, 1, -1, -count - 1, -1)


def _hidden(node: Expansion, experts: Experts, tokens: str) -> str:
    """What all experts have between their products: [T, E, I]."""
    is_gated = node.attribute("activation_type") == "swiglu"
    fused = int(node.attribute("swiglu_fusion")) if is_gated else 0
    if fused in (INTERLEAVED, CONCATENATED):
        dims, axis = ((experts.inner, 2), 3) if fused == INTERLEAVED else ((2, experts.inner), 2)
        both = _projected(node, experts, tokens, 0, (experts.count, *dims))
        gates, values = (node.emit("Gather", both, node.known(which), axis=axis) for which in (0, 1))
        return _swiglu(node, gates, values)
    first = _projected(node, experts, tokens, 0, (experts.count, experts.inner))
    if not is_gated and not experts.weights[2]:
        return _activated(node, first)
    if not experts.weights[2]:
        raise UnsupportedCase("experts with SwiGLU need a third weight, or both in the first one")
    third = _projected(node, experts, tokens, 2, (experts.count, experts.inner))
    return _swiglu(node, first, third) if is_gated else node.emit("Mul", _activated(node, first), third)


def _projected(node: Expansion, experts: Experts, tokens: str, which: int, dims: tuple[int, ...]) -> str:
    """The tokens' products with one of the weights of all experts, with ``dims`` after the tokens."""
    weight = node.reshape(experts.weights[which], -1, experts.width)
    name = f"fc{which + 1}_experts_bias"
    bias = node.reshape(node.input(name), -1) if node.has(name) else ""
    return node.reshape(node.emit("Gemm", tokens, weight, bias, transB=1), -1, *dims)


def _swiglu(node: Expansion, gates: str, values: str) -> str:
    """Gates times their sigmoid times the values, both limited where a limit is given."""
    limit = node.attribute("swiglu_limit")
    if limit is not None:
        low, high = (node.number(sign * float(limit)) for sign in (-1, 1))
        gates, values = node.emit("Clip", gates, "", high), node.emit("Clip", values, low, high)
    alpha, beta = node.numeric("activation_alpha"), node.numeric("activation_beta")
    gated = node.emit("Mul", gates, node.emit("Sigmoid", node.emit("Mul", gates, alpha)))
    return node.emit("Mul", gated, node.emit("Add", values, beta))


def _activated(node: Expansion, x: str) -> str:
    name = str(node.attribute("activation_type"))
    if name not in _ACTIVATIONS:
        raise UnsupportedCase(f"the activation {quoted(name)} of experts is unknown")
    return _ACTIVATIONS[name](node, x)


_ACTIVATIONS: dict[str, Callable[[Expansion, str], str]] = {
    "relu": lambda node, x: node.emit("Relu", x),
    "gelu": lambda node, x: node.emit("Gelu", x, approximate="tanh"),
    "silu": lambda node, x: node.silu(x),
    "identity": lambda node, x: x,
}
