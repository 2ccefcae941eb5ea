"""Layers of linear attention and state spaces of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, contrib, random


def causal(steps: int = 5, *, bias: bool = False, state: bool = False, taps: int = 3, last: bool = False, **attributes: Any
           ) -> Case:
    kept = (taps - 1) * attributes.get("dilation", 1)
    x, past = random(2, 4, steps), random(2, 4, kept, seed=3)
    if last:
        x, past = (np.ascontiguousarray(part.transpose(0, 2, 1)) for part in (x, past))
        attributes["channels_last"] = 1
    inputs = {"x": x, "w": random(4, 1, taps, seed=1), "b": random(4, seed=2) if bias else None, "s": past if state else None}
    return contrib("CausalConvWithState", inputs, attributes=attributes, outputs=2)


def gate(*, key: Array = random(2, 3, 2, 4), outputs: int = 2) -> Case:
    inputs = {"key": key, "query": random(*key.shape, seed=1), "value": random(*key.shape[:2], key.shape[3], seed=2),
              **{name: random(*key.shape[2:], seed=3 + place) for place, name in enumerate("kqc")}}
    return contrib("EngramGate", inputs, outputs=outputs)


def swiglu(gate: Array, up: Array | None = None, activation_alpha: float = 1, activation_beta: float = 0, limit: float = 0) -> Array:
    """The formula: the CPU package has no kernel."""
    if up is None:
        gate, up = np.split(gate, 2, axis=-1)
    assert up is not None
    if limit > 0:
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
    return np.asarray(gate / (1 + np.exp(-activation_alpha * gate)) * (up + activation_beta), gate.dtype)


def attention(rule: str, heads: int = 2, shared: int = 2, keys: int = 2, *, steps: int = 4, decays: int = 1, betas: int = 0,
              state: bool = False, **attributes: Any) -> Case:
    """Of keys of 3 elements and values of 5."""
    inputs = {
        "q": random(2, steps, 3 * heads), "k": random(2, steps, 3 * keys, seed=1) / 3, "v": random(2, steps, 5 * shared, seed=2),
        "s": random(2, shared, 3, 5, seed=3) if state else None,
        "g": -np.abs(random(2, steps, decays * shared, seed=4)) if "gated" in rule else None,
        "b": np.abs(random(2, steps, betas or shared, seed=5)) / 3 if "delta" in rule else None,
    }
    given = {"q_num_heads": heads, "kv_num_heads": shared, "update_rule": rule, **attributes}
    return contrib("LinearAttention", inputs, attributes=given, outputs=2, note=f"{rule}-{heads}-{shared}-{keys}-{decays}-{betas}")


HEADS = {"a": random(2, 3, 4), "bias": random(4, seed=1), "scale": -np.abs(random(4, seed=2)), "b": random(2, 3, 4, seed=3)}
SIZED = [
    at_sizes(causal(bias=True, state=True), {"x": ["n", 4, "t"], "s": ["n", 4, 2]},
             {"x": random(1, 4, 1), "s": random(1, 4, 2)}, {"x": random(3, 4, 2), "s": random(3, 4, 2)}),
    at_sizes(gate(), {"key": ["n", "t", 2, 4], "query": ["n", "t", 2, 4], "value": ["n", "t", 4]},
             {"key": random(1, 5, 2, 4), "query": random(1, 5, 2, 4, seed=1), "value": random(1, 5, 4)}),
    at_sizes(attention("gated_delta", state=True), {"q": ["n", "t", 6], "k": ["n", "t", 6], "v": ["n", "t", 10], "s": ["n", 2, 3, 5],
                                                    "g": ["n", "t", 2], "b": ["n", "t", 2]},
             {"q": random(1, 1, 6), "k": random(1, 1, 6) / 3, "v": random(1, 1, 10), "s": random(1, 2, 3, 5),
              "g": -np.abs(random(1, 1, 2)), "b": np.abs(random(1, 1, 2)) / 3}),
    at_sizes(contrib("LinearAttentionGate", HEADS, outputs=2), {"a": ["n", "t", 4], "b": ["n", "t", 4]},
             {"a": random(1, 5, 4), "b": random(1, 5, 4)}),
    at_sizes(contrib("SwiGLU", {"gate": 3 * random(2, 3, 4), "up": 3 * random(2, 3, 4, seed=1)}, expected=swiglu,
                     attributes={"limit": 1.5, "activation_alpha": 1.7, "activation_beta": 1.0}),
             {"gate": ["n", 3, 4], "up": ["n", 3, 4]}, {"gate": random(1, 3, 4), "up": random(1, 3, 4)}),
]
CASES = [
    *SIZED,
    causal(),
    causal(1, state=True, activation="silu"),
    causal(activation="swish", dilation=2, state=True),
    causal(bias=True, last=True),
    causal(4, state=True, dilation=3, taps=2, last=True),
    gate(outputs=1),
    attention("linear"),
    attention("gated", decays=3, scale=0.5),
    attention("delta", betas=1),
    attention("gated_delta", 1, 4, 2, decays=3, state=True),
    attention("linear", 4, 2, 2),
    contrib("LinearAttentionGate", {name: HEADS[name] for name in ("a", "bias", "scale")}),
    contrib("SwiGLU", {"gate": random(2, 3, 6)}, expected=swiglu),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (causal(state_window=2), "several axes or states"),
        (causal(activation="relu"), "the activation .relu."),
        (attention("linear", state_window=1), "several states"),
        (attention("linear", 2, 3, 3), "2 heads for 3"),
        (contrib("SwiGLU", {"gate": random(2, 4)}, attributes={"round_activation": 1}), "rounds in between"),
    ],
    ids=str,
)
def test_refused(case: Case, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(case_model(case))
