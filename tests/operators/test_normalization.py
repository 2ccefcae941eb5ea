"""Normalizations in every version, rank and form of their statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, check_case, random

X = random(2, 4, 3, 5)
RANKS = [(3, 4), (2, 4, 5), (2, 4, 3, 5), (1, 4, 3, 5), (2, 4, 3, 2, 2)]
STATISTICS = {"scale": random(4, seed=1), "b": random(4, seed=2), "mean": random(4, seed=3),
              "var": np.abs(random(4, seed=4))}


def _per_channel(values: Array, rank: int) -> Array:
    return values.reshape(1, -1, *[1] * (rank - 2))


def _batch(x: Array, scale: Array, b: Array, mean: Array, var: Array, epsilon: float = 1e-5, **_: Any) -> Array:
    scale, b, mean, var = (_per_channel(values, x.ndim) for values in (scale, b, mean, var))
    return ((x - mean) / np.sqrt(var + epsilon) * scale + b).astype(np.float32)


def _trained(x: Array, scale: Array, b: Array, mean: Array, var: Array, momentum: float = 0.9, **_: Any) -> list[Array]:
    axes = (0, *range(2, x.ndim))
    own, spread = x.mean(axis=axes), x.var(axis=axes)
    return [_batch(x, scale, b, own, spread), mean * momentum + own * (1 - momentum),
            var * momentum + spread * (1 - momentum)]


def _trained_9(x: Array, *statistics: Array, **attributes: Any) -> list[Array]:
    axes = (0, *range(2, x.ndim))
    return [*_trained(x, *statistics, **attributes), x.mean(axis=axes), x.var(axis=axes)]


def _elements(x: Array, scale: Array, b: Array, mean: Array, var: Array, spatial: int) -> Array:
    return ((x - mean) / np.sqrt(var + 1e-5) * scale + b).astype(np.float32)


def _group(x: Array, scale: Array, b: Array, num_groups: int, epsilon: float = 1e-5) -> Array:
    y = x.reshape(x.shape[0], num_groups, -1)
    y = (y - y.mean(axis=2, keepdims=True)) / np.sqrt(y.var(axis=2, keepdims=True) + epsilon)
    if len(scale) == num_groups:
        return (y * scale[None, :, None] + b[None, :, None]).reshape(x.shape)
    return y.reshape(x.shape) * _per_channel(scale, x.ndim) + _per_channel(b, x.ndim)


def _rms(x: Array, scale: Array, axis: int = -1, epsilon: float = 1e-5) -> Array:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return (x / np.sqrt((x**2).mean(axis=axes, keepdims=True) + epsilon) * scale).astype(np.float32)


def _without_mean(x: Array, s: Array) -> list[Array]:
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
    return [(x - x.mean(axis=-1, keepdims=True)) / deviation * s, 1 / deviation]


def _mvn(x: Array, axes: tuple[int, ...] = (0, 2, 3)) -> Array:
    axes = tuple(axes)
    return (x - x.mean(axis=axes, keepdims=True)) / (x.std(axis=axes, keepdims=True) + 1e-9)


def _lrn(x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    padded = np.pad(x**2, [(0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)])
    total = sum(padded[:, i : i + x.shape[1]] for i in range(size))
    return (x / (bias + alpha / size * total) ** beta).astype(np.float32)


_OLD = {1: {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]}, 6: {"is_test": 1}}
PIXELS = {name: random(4, 3, 5, seed=seed) for seed, name in enumerate(["scale", "b", "mean"])} | {
    "var": np.abs(random(4, 3, 5, seed=9))}
S4 = random(4, seed=1)
ONES = np.ones(4, np.float32)

CASES = [
    *[Case("BatchNormalization", 15, {"x": random(*dims), **STATISTICS}, {"epsilon": 1e-3}, constants)
      for dims in RANKS for constants in (tuple(STATISTICS), ())],
    *[Case("BatchNormalization", opset, {"x": X, **STATISTICS}, _OLD.get(opset, {}), expected=_batch)
      for opset in (1, 6, 7, 9, 14)],
    Case("BatchNormalization", 7, {"x": X, **PIXELS}, {"spatial": 0}, tuple(PIXELS), expected=_elements),
    *[Case("BatchNormalization", opset, {"x": random(*dims), **STATISTICS}, {"training_mode": 1, "momentum": 0.7},
           outputs=3, expected=_trained) for opset in (14, 15) for dims in RANKS],
    Case("BatchNormalization", 15, {"x": X, **STATISTICS}, {"training_mode": 1, "momentum": 0.0}, outputs=3, expected=_trained),
    Case("BatchNormalization", 15, {"x": X, **STATISTICS}, {"training_mode": 1}, outputs=["y", "", "v"],
         expected=lambda *given, **attributes: _trained(*given, **attributes)[::2]),
    Case("BatchNormalization", 9, {"x": X, **STATISTICS}, {"momentum": 0.7}, outputs=5, expected=_trained_9),
    *[Case("LayerNormalization", 17, {"x": X, "s": random(*X.shape[axis:], seed=1)} | (
          {"b": random(*X.shape[axis:], seed=2)} if has_bias else {}), {"axis": axis}, outputs=outputs)
      for axis, outputs in [(-1, 1), (2, 3), (1, 3), (-4, 1)] for has_bias in (False, True)],
    Case("LayerNormalization", 17, {"x": X, "s": np.ones(5, np.float32), "b": np.zeros(5, np.float32)},
         constants=("s", "b"), note="nothing trained"),
    Case("LayerNormalization", 17, {"x": random(1, 1, 5), "s": random(5, seed=1), "b": random(5, seed=2)}, note="one row"),
    Case("LayerNormalization", 17, {"x": np.full((1, 5), np.inf, np.float32), "s": random(5, seed=1)}, note="infinite"),
    Case("LayerNormalization", 17, {"x": random(1, 5), "s": random(5, seed=1)}, outputs=["y", "m", "d"], note="one row"),
    Case("LayerNormalization", 17, {"x": random(2, 3, 5), "s": random(5, seed=1)}, outputs=["y", "", "d"],
         expected=_without_mean),  # onnxruntime 1.31 crashes on it
    *[Case("InstanceNormalization", opset, {"x": random(*dims), "s": random(4), "b": random(4, seed=2)},
           {"epsilon": 1e-3}) for opset in (6, 22) for dims in RANKS[1:]],
    *[Case("InstanceNormalization", 6, {"x": random(*dims), "s": s, "b": b}, constants=("s", "b"), note=f"nothing trained, {number}")
      for dims in RANKS[1:2] for number, (s, b) in enumerate([(ONES, ONES * 0), (ONES, random(4)), (random(4), ONES * 0)])],
    Case("InstanceNormalization", 1, {"x": X, "s": random(4), "b": random(4, seed=2)},
         expected=lambda x, s, b: _group(x, s, b, 4)),
    *[Case("GroupNormalization", 18, {"x": random(*dims), "s": random(2), "b": random(2, seed=2)}, {"num_groups": 2},
           expected=lambda x, s, b, num_groups: _group(x, s, b, num_groups)) for dims in RANKS[1:]],
    *[Case("GroupNormalization", 21, {"x": random(*dims), "s": random(4), "b": random(4, seed=2)},
           {"num_groups": 2, "epsilon": 1e-3}, expected=_group) for dims in RANKS[1:]],
    *[Case("RMSNormalization", 23, {"x": X, "s": random(*X.shape[axis:], seed=1)}, {"axis": axis}, expected=_rms)
      for axis in (-1, 2, 1)],
    Case("RMSNormalization", 23, {"x": X, "s": random(5, seed=1)}, {"axis": 2}, expected=_rms, note="repeated scale"),
    Case("RMSNormalization", 23, {"x": X, "s": random(3, 1, seed=1)}, {"axis": 2}, expected=_rms, note="scale 3x1"),
    *[Case("LRN", opset, {"x": x}, {"size": size, "alpha": 0.5, "beta": 0.6, "bias": 2.0}, expected=_lrn)
      for opset, size, x in [(1, 3, X), (13, 4, X), (13, 5, random(1, 4, 3, 3))]],
    Case("LRN", 13, {"x": X}, {"size": 3}),
    Case("MeanVarianceNormalization", 13, {"x": random(4, 31, 1, 10)}, {"axes": [0, 2]}, expected=_mvn),
    *[Case("MeanVarianceNormalization", opset, {"x": X}, attributes, expected=_mvn) for opset, attributes in [
        (9, {}), (13, {}), (13, {"axes": [1]}), (13, {"axes": [-1]}), (13, {"axes": [0, 1, 2, 3]}),
        (13, {"axes": [1, 3]})]],
    *[Case("LpNormalization", opset, {"x": X}, {"axis": axis, "p": p}) for opset in (1, 22)
      for axis, p in [(-1, 2), (1, 1), (0, 2), (2, 2)]],
    Case("LpNormalization", 22, {"x": np.zeros((2, 3), np.float32)}, expected=lambda x: x),
    *[at_sizes(Case(op, opset, {"x": X, **rest}, attributes, tuple(rest), expected=expected), {"x": ["n", 4, "h", "w"]},
               {"x": random(1, 4, 6, 2)}, {"x": random(3, 4, 2, 7)})
      for op, opset, rest, attributes, expected in [
          ("BatchNormalization", 15, STATISTICS, {}, None),
          ("BatchNormalization", 9, STATISTICS, {}, None),
          ("InstanceNormalization", 6, {"s": S4, "b": S4}, {}, None),
          ("GroupNormalization", 21, {"s": S4, "b": S4}, {"num_groups": 2}, _group),
          ("GroupNormalization", 18, {"s": S4[:2], "b": S4[:2]}, {"num_groups": 2},
           lambda x, s, b, num_groups: _group(x, s, b, num_groups)),
          ("LRN", 13, {}, {"size": 5}, None),
          ("MeanVarianceNormalization", 13, {}, {}, _mvn),
          ("LpNormalization", 1, {}, {"axis": 2}, None)]],
    at_sizes(Case("BatchNormalization", 15, {"x": X, **STATISTICS}, {"training_mode": 1, "momentum": 0.7}, outputs=3,
                  expected=_trained), {"x": ["n", 4, "h", "w"]}, {"x": random(3, 4, 6, 2)}),
    at_sizes(Case("LayerNormalization", 17, {"x": random(2, 3, 5), "s": random(5), "b": random(5, seed=2)}, {},
                  ("s", "b"), outputs=3), {"x": ["batch", "seq", 5]}, {"x": random(1, 7, 5)}),
    at_sizes(Case("RMSNormalization", 23, {"x": random(2, 3, 4, 5), "s": random(4, 5)}, {"axis": -2}, expected=_rms),
             {"x": ["batch", "seq", 4, 5]}, {"x": random(1, 7, 4, 5)}),
]


DERIVATIVES = [
    Derivative("LpNormalization", {"x": near(3, 4, 2)}, {"axis": 1}),
    Derivative("LpNormalization", {"x": np.abs(near(3, 4, 2)) + 0.1}, {"p": 1}),  # ONNX's reference sums signs, too
    Derivative("BatchNormalization", {"x": near(2, 3, 2), "s": near(3), "b": near(3), "m": near(3, seed=1), "v": np.abs(near(3)) + 0.1}),
    Derivative("BatchNormalization", {"x": near(4, 3, 2), "s": near(3), "b": near(3), "m": near(3, seed=1), "v": np.abs(near(3)) + 0.1},
         {"training_mode": 1}, fixed=["m", "v"]),
    Derivative("LayerNormalization", {"x": near(2, 5), "s": near(5), "b": near(5, seed=1)}),
    Derivative("LayerNormalization", {"x": near(2, 3, 4), "s": near(3, 4)}, {"axis": 1, "epsilon": 0.1}),
    Derivative("LayerNormalization", {"x": near(2, 3, 4), "s": near(4), "b": near(4, seed=1)}, {"axis": -1}),
    *[Derivative("RMSNormalization", {"x": near(2, 3, 4), "s": near(*scale)}, attributes, opset=23)
      for scale, attributes in (((4,), {}), ((3, 4), {"axis": 1, "epsilon": 0.1}), ((1, 1), {"axis": -2}))],
    Derivative("LRN", {"x": near(6, 6, 2, 1)}, {"size": 3, "alpha": 0.9, "beta": 0.75, "bias": 1.5}),
    Derivative("LRN", {"x": near(5, 5, 1, 2)}, {"size": 4, "alpha": 2.0, "beta": 0.6}),  # the reference sums as many channels as samples
    Derivative("GroupNormalization", {"x": near(2, 4, 3, 2), "s": near(4), "b": near(4, seed=1)}, {"num_groups": 2, "stash_type": 11}, 21),
    Derivative("GroupNormalization", {"x": near(2, 4, 3), "s": near(2), "b": near(2, seed=1)}, {"num_groups": 2}),
    Derivative("InstanceNormalization", {"x": near(2, 3, 4, 2), "s": near(3), "b": near(3, seed=1)}),
    Derivative("InstanceNormalization", {"x": near(2, 2, 5), "s": near(2), "b": near(2, seed=1)}, {"epsilon": 0.1}),
    Derivative("InstanceNormalization", {"x": near(2, 3), "s": near(3), "b": near(3, seed=1)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
