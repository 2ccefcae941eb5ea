"""MoE, QMoE and MoEGroupRouter of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random

COUNT, WIDTH, INNER = 4, 6, 5
X, ROUTER = random(7, WIDTH), random(7, COUNT, seed=1)
FIRST, SECOND, THIRD = (random(COUNT, *dims, seed=seed) for dims, seed in
                        (((INNER, WIDTH), 2), ((WIDTH, INNER), 3), ((INNER, WIDTH), 4)))
BIASES = {"b1": random(COUNT, INNER, seed=5), "b2": random(COUNT, WIDTH, seed=6), "b3": random(COUNT, INNER, seed=7)}
FUSED, FUSED_BIAS = random(COUNT, 2 * INNER, WIDTH, seed=8), random(COUNT, 2 * INNER, seed=9)


def experts(inputs: dict[str, Array | None] | None = None, **others: Any) -> Case:
    given = {"x": X, "router": ROUTER, "w1": FIRST, "b1": None, "w2": SECOND, **(inputs or {})}
    return contrib("MoE", given, **others)


def by_token(
    x: Array, router: Array, w1: Array, b1: Array | None, w2: Array, b2: Array | None = None, w3: Array | None = None,
    b3: Array | None = None, *, k: int = 1, activation_type: str = "relu", swiglu_fusion: int = 0, **_: Any,
) -> Array:
    """Token for token: for what the CPU kernel leaves out."""
    y = np.zeros_like(x, np.float64)
    shares = np.exp(router) / np.exp(router).sum(1, keepdims=True)

    def linear(weights: Array, biases: Array | None, expert: int, token: Array) -> Array:
        return weights[expert] @ token + (0 if biases is None else biases[expert])

    for token, (row, share) in enumerate(zip(x, shares)):
        for expert in np.argsort(-share)[:k]:
            first = linear(w1, b1, expert, row)
            if swiglu_fusion == 2:
                first, third = first[:INNER], first[INNER:]
            else:
                assert w3 is not None
                third = linear(w3, b3, expert, row)
            hidden = first / (1 + np.exp(-first)) if activation_type in ("silu", "swiglu") else np.maximum(first, 0)
            y[token] += share[expert] * linear(w2, b2, expert, hidden * third)
    return np.asarray(y, x.dtype)


SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2}
QUANTIZED = ("x", "router", "w1", "s1", "b1", "w2", "s2", "b2", "w3", "s3", "b3", "z1", "z2", "z3", "mixing")
SWIGLU_OF_QUANTIZED = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7}


def quantized(
    bits: int = 4, block: int = 0, zeros: bool = False, fused: int = 1, extra: dict[str, Array] | None = None,
    **attributes: Any,
) -> Case:
    """A row of QMoE: tokens of 32 numbers, and as many between the two products."""
    generator = np.random.default_rng(0)
    given: dict[str, Array | None] = dict.fromkeys(QUANTIZED)
    given |= {"x": random(7, 32), "router": ROUTER}
    for which, rows in (("1", 32 * fused), ("2", 32)):
        blocks = [32 // block] if block else []
        given[f"w{which}"] = generator.integers(0, 256, (COUNT, rows, 32 * bits // 8)).astype(np.uint8)
        given[f"s{which}"] = generator.uniform(0.01, 0.02, (COUNT, rows, *blocks)).astype(np.float32)
        if zeros:
            packed = (COUNT, rows, -(-blocks[0] * bits // 8)) if block else (COUNT, rows * bits // 8)
            given[f"z{which}"] = generator.integers(0, 256, packed).astype(np.uint8)
    given |= extra or {}
    while given[list(given)[-1]] is None:
        given.popitem()
    constants = [name for name in given if name[0] in "wszb" and given[name] is not None]
    attributes |= {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
    return contrib("QMoE", given, attributes=attributes, constants=constants, tolerance=1e-4)


def routed(*dims: int, outputs: Any = 1, weight: bool = False, bias: Array = random(8, seed=5) / 3, **attributes: Any) -> Case:
    """A row of MoEGroupRouter: 8 experts."""
    given = {"logits": random(*dims), "bias": bias, "weight": random(8, dims[-1], seed=6) if weight else None}
    return contrib("MoEGroupRouter", given, attributes={"top_k": 2, **attributes}, outputs=outputs)


GROUPS = {"n_group": 4, "topk_group": 2, "group_topk": 1}


CASES = [
    routed(5, 8),
    routed(5, 8, **GROUPS),
    routed(2, 3, 8, n_group=2, group_topk=3, top_k=3, router_sentinel=-50.0),
    routed(2, 8, n_group=4, top_k=4),  # more than the group has
    routed(3, 8, outputs=["", "ranked", "scores"]),
    routed(3, 256, outputs=["", "ranked", "scores"], weight=True),
    at_sizes(routed(5, 8, **GROUPS), {"logits": ["n", 8]}, {"logits": random(1, 8)}),
    experts(),
    experts({"b1": BIASES["b1"], "b2": BIASES["b2"]}, attributes={"k": 2, "normalize_routing_weights": 1}),
    experts({"x": X[:6].reshape(2, 3, WIDTH), "router": ROUTER[:6]}, attributes={"k": 3, "activation_type": "gelu"}),
    *[experts(attributes={"activation_type": name}) for name in ("silu", "identity")],
    experts({"router": np.zeros_like(ROUTER)}, attributes={"k": 2}, note="equal"),
    experts({"w1": FUSED, "b1": FUSED_BIAS, "b2": BIASES["b2"]}, attributes=SWIGLU),
    experts({"w1": FUSED}, attributes={**SWIGLU, "swiglu_limit": 0.5, "activation_alpha": 1.7, "activation_beta": 1.0}),
    experts({"w1": FUSED, "b1": FUSED_BIAS}, attributes={**SWIGLU, "swiglu_fusion": 2}, expected=by_token),
    experts({"b2": None, "w3": THIRD}, attributes={"k": 2}, expected=by_token, note="third"),
    contrib("MoE", {"x": X, "router": ROUTER, "w1": FIRST, "b1": BIASES["b1"], "w2": SECOND, "b2": BIASES["b2"],
                    "w3": THIRD, "b3": BIASES["b3"]}, attributes={"activation_type": "silu"}, expected=by_token),
    at_sizes(experts({"b1": BIASES["b1"], "b2": BIASES["b2"]}, attributes={"k": 2}, constants=["w1", "b1", "w2", "b2"]),
             {"x": ["tokens", WIDTH], "router": ["tokens", COUNT]},
             {"x": random(3, WIDTH, seed=10), "router": random(3, COUNT, seed=11)}),
    quantized(),
    quantized(bits=8, extra={"b1": random(COUNT, 32, seed=5), "b2": random(COUNT, 32, seed=6)}, k=2,
              normalize_routing_weights=1),
    quantized(block=16, k=2),
    quantized(block=16, zeros=True, k=2),
    quantized(fused=2, block=16, k=2, **SWIGLU_OF_QUANTIZED),
    quantized(fused=2, zeros=True, **SWIGLU_OF_QUANTIZED),
    quantized(extra={"mixing": np.abs(random(7, COUNT, seed=7))}, k=2),
    at_sizes(quantized(k=2), {"x": ["tokens", 32], "router": ["tokens", COUNT]},
             {"x": random(3, 32, seed=10), "router": random(3, COUNT, seed=11)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
