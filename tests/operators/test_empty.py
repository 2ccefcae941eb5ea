"""Tensors without elements, for the operators that allow them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, check_case, ints, random


def none(*dims: int, dtype: str = "float32") -> Array:
    """A tensor without elements."""
    return np.zeros(dims, dtype)


def same(x: Array, *_: Array, **__: Any) -> Array:
    return x


def gives(*outputs: Array) -> Any:
    """Outputs that do not depend on the inputs."""
    return lambda *_, **__: outputs


NOTHING = none(0, dtype="int64")
WINDOW = {"kernel_shape": [2, 2]}
LAYER = {"w": random(2, 8, 3), "r": random(2, 8, 2)}

CASES = [
    *[Case(op, 18, {"x": none(*dims), "axes": ints(1)}, constants=["axes"])
      for op in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare") for dims in ((2, 0, 4), (0, 3, 4))],
    *[Case(op, 20, {"x": none(2, 0, 4), "axes": ints(1)}, constants=["axes"],
           expected=gives(np.full((2, 1, 4), limit, np.float32)))
      for op, limit in [("ReduceMax", -np.inf), ("ReduceMin", np.inf), ("ReduceLogSum", -np.inf), ("ReduceLogSumExp", -np.inf)]],
    *[Case(op, 13, {"x": none(2, 0, 4)}, {"axis": axis}) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (1, -1)],
    *[Case("MatMul", 13, {"a": none(*left) if 0 in left else random(*left), "b": none(*right) if 0 in right else random(*right)})
      for left, right in [((2, 0), (0, 3)), ((0, 3), (3, 4)), ((2, 0, 3), (3, 4)), ((2, 3), (3, 0))]],
    Case("Gemm", 13, {"a": none(2, 0), "b": none(0, 4), "c": random(4)}),
    *[Case("Gather", 13, {"x": random(3, 4), "i": NOTHING}, {"axis": axis}, constants=known)
      for axis in (0, -1) for known in ([], ["i"])],
    Case("GatherElements", 13, {"x": random(3, 4), "i": none(0, 4, dtype="int64")}),
    Case("GatherND", 13, {"x": random(3, 4), "i": none(0, 1, dtype="int64")}),
    Case("ScatterElements", 18, {"x": random(3, 4), "i": none(0, 4, dtype="int64"), "u": none(0, 4)}),
    Case("ScatterND", 18, {"x": random(3, 4), "i": none(0, 1, dtype="int64"), "u": none(0, 4)}),
    Case("Slice", 13, {"x": random(3, 4), "s": ints(2), "e": ints(2)}, constants=["s", "e"]),
    Case("Split", 13, {"x": none(0, 4)}, {"axis": 1}, outputs=2),
    Case("Reshape", 14, {"x": none(0, 4), "s": ints(0, 2, 2)}, constants=["s"]),
    *[Case("Flatten", 13, {"x": none(2, 0, 3)}, {"axis": axis}) for axis in (1, 2)],
    *[Case("Cast", 13, {"x": none(0, 3)}, {"to": to}) for to in (7, 10)],
    Case("Where", 16, {"c": none(0, 3, dtype="bool"), "a": random(3), "b": random(1)}),
    *[Case("OneHot", 11, {"i": none(0, 1, dtype="int64"), "d": np.array(3), "v": np.array([0, 1], np.float32)}, constants=known)
      for known in (["d", "v"], [])],
    *[Case("CumSum", 14, {"x": none(0, 3), "a": np.array(axis)}, constants=["a"]) for axis in (0, 1)],
    Case("TopK", 11, {"x": random(3, 4), "k": ints(0)}, constants=["k"], outputs=2),
    Case("TopK", 11, {"x": none(0, 4), "k": ints(2)}, constants=["k"], outputs=2),
    Case("TopK", 11, {"x": none(2, 0, 3), "k": ints(0)}, {"axis": 1}, outputs=2),
    Case("ArgMax", 13, {"x": none(0, 4)}, {"axis": 1}),
    *[Case("NonZero", 13, {"x": none(*dims)}, expected=gives(none(len(dims), 0, dtype="int64"))) for dims in ((0, 3), (0,), (2, 3))],
    Case("Unique", 11, {"x": none(0)}, outputs=4, expected=gives(none(0), NOTHING, NOTHING, NOTHING)),
    Case("Unique", 11, {"x": none(3, 0, 2)}, {"axis": 1}, outputs=["y", "", "inverse", ""],
         expected=gives(none(3, 0, 2), NOTHING)),
    *[Case("Compress", 11, {"x": random(3, 4), "c": np.zeros(3, bool)}, {"axis": 0}, constants=known) for known in ([], ["c"])],
    Case("BatchNormalization", 15, {"x": none(0, 3, 4, 4), **{name: np.abs(random(3)) for name in "sbmv"}}),
    Case("LayerNormalization", 17, {"x": none(0, 3, 4), "s": random(4), "b": random(4)}),
    Case("LpNormalization", 22, {"x": none(0, 3)}, expected=same),
    Case("Conv", 11, {"x": none(0, 3, 5, 5), "w": random(4, 3, 3, 3)}),
    Case("ConvTranspose", 11, {"x": none(0, 3, 5, 5), "w": random(3, 4, 3, 3)}, expected=gives(none(0, 4, 7, 7))),
    Case("MaxPool", 12, {"x": none(0, 3, 5, 5)}, WINDOW, outputs=2,
         expected=gives(none(0, 3, 4, 4), none(0, 3, 4, 4, dtype="int64"))),
    *[Case(op, 19, {"x": none(0, 3, 5, 5)}, WINDOW, expected=gives(none(0, 3, 4, 4))) for op in ("AveragePool", "LpPool")],
    Case("GlobalAveragePool", 1, {"x": none(0, 3, 5, 5)}, expected=gives(none(0, 3, 1, 1))),
    *[Case("Einsum", 12, {"a": none(2, 0), "b": none(0, 4)}, {"equation": "ij,jk->ik"}, expected=gives(none(2, 4)))],
    Case("QuantizeLinear", 13, {"x": none(0, 3), "s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}),
    Case("MatMulInteger", 10, {"a": none(0, 3, dtype="uint8"), "b": none(3, 2, dtype="uint8")}),
    Case("NonMaxSuppression", 11, {"b": none(1, 0, 4), "s": none(1, 2, 0), "n": ints(3)}, expected=gives(none(0, 3, dtype="int64"))),
    Case("Resize", 13, {"x": none(0, 2, 3, 3), "r": None, "s": np.array([1, 1, 2, 2], np.float32)}, constants=["s"],
         expected=gives(none(0, 2, 6, 6))),
    Case("LSTM", 14, {"x": none(0, 2, 3), **LAYER}, {"hidden_size": 2, "direction": "bidirectional"}, outputs=3,
         expected=gives(none(0, 2, 2, 2), none(2, 2, 2), none(2, 2, 2))),
    Case("LSTM", 14, {"x": none(0, 2, 3), **LAYER, "b": None, "l": None, "h": random(2, 2, 2)},
         {"hidden_size": 2, "direction": "bidirectional"}, outputs=["", "h_last"],
         expected=lambda x, w, r, b, lengths, h, **_: h),
    Case("LSTM", 14, {"x": none(4, 0, 3), **LAYER}, {"hidden_size": 2, "direction": "bidirectional"}, outputs=3,
         expected=gives(none(4, 2, 0, 2), none(2, 0, 2), none(2, 0, 2))),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
