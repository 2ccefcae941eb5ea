"""Casts between numbers and text, and operators that move, pad or sort text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Case, at_sizes, case_model, check_case, dtype_named, random

TO = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
      "float16": 10, "double": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}
WORDS = np.array([["b", "a", "é"], ["", "😀", "a"]], object)
UNSORTED = np.array(["b", "a", "", "\uffee", "😀", "a", "B", "b", "", "zz"], object)
NUMBERS = np.array([["1", "-2.5", "+3"], ["1e2", " 40", "0.1"]], object)
FLOATS = np.array([[0, 1, -2.5], [0.1, 1e-5, 3e20], [np.nan, np.inf, -np.inf]], np.float32)


def cast(x: Any, to: str, opset: int = 19, expected: Any = None, **more: Any) -> Case:
    """A case of Cast; numpy says how numbers are written."""
    if expected is None and to == "string":
        def expected(x: Any, **_: Any) -> Any:
            return x.astype(np.float32).astype(str).astype(object) if x.dtype.name == "bfloat16" else x.astype(str).astype(object)
    return Case("Cast", opset, {"x": x}, {"to": TO[to], **more}, expected=expected, note=f"{x.dtype} to {to}")


TO_TEXT = [
    cast(FLOATS, "string"),
    cast(np.clip(FLOATS, -9, 9).astype(np.float16), "string"),
    cast(FLOATS.astype(np.float64) / 3, "string", 13),
    cast(np.array([[1, 0.5], [2.5, 100]], dtype_named("bfloat16")), "string"),
    cast(np.array([True, False]), "string"),
    cast(np.array(7.5, np.float32), "string", 9),
    cast(np.array([[-5], [7]], np.float32).reshape(2, 1, 1), "string", 24),
    *[cast(random(2, 3, dtype=dtype), "string") for dtype in ("int8", "uint16", "int32", "int64", "uint64")],
]
FROM_TEXT = [
    *[cast(NUMBERS, dtype, opset) for dtype, opset in (("float", 9), ("double", 13), ("float16", 19))],
    *[cast(np.array([["1", "-2"], [" 30", "+0"]], object), dtype) for dtype in ("int8", "int16", "int32", "int64")],
    *[cast(np.array(["1", "200", "0"], object), dtype) for dtype in ("uint8", "uint32", "uint64", "bool")],
    cast(np.array(["3.7", "-3.7"], object), "int64"),
    cast(np.array("3.25", object), "float"),
    cast(np.array("3", object), "int64"),
    cast(np.array(["NaN", "INF", "-inf", "+Inf", "1E-2"], object), "float", 19,
         lambda x, **_: np.array([np.nan, np.inf, -np.inf, np.inf, 0.01], np.float32)),
    cast(np.array(["1.00390625", "3"], object), "bfloat16", 19,
         lambda x, **_: np.array([1, 3], dtype_named("bfloat16"))),
]
LIKE = [
    Case("CastLike", 19, {"x": FLOATS, "like": WORDS}, expected=lambda x, like: x.astype(str).astype(object)),
    Case("CastLike", 19, {"x": NUMBERS, "like": np.array([1], np.int32)}, expected=lambda x, like: np.array(
        [[1, -2, 3], [100, 40, 0]], np.int32)),
]
MOVED = [
    Case("Unique", 11, {"x": UNSORTED}, outputs=4),
    Case("Unique", 11, {"x": UNSORTED}, outputs=1, note="values only"),
    Case("Unique", 11, {"x": UNSORTED}, {"sorted": 0}, outputs=4),
    Case("Unique", 11, {"x": WORDS}, outputs=["out0", "", "", "out3"], note="rank 2"),
    Case("Unique", 11, {"x": WORDS[[0, 1, 0]]}, {"axis": 0}, outputs=4),
    Case("Unique", 11, {"x": WORDS[:, [1, 0, 2, 1]]}, {"axis": -1}, outputs=4),
    Case("Equal", 19, {"a": WORDS, "b": WORDS[:, [1, 1, 2]]}),
    Case("Where", 16, {"c": random(2, 3, dtype="bool"), "a": WORDS, "b": WORDS[:, ::-1].copy()}),
    Case("OneHot", 11, {"i": np.array([0, 2, -1]), "depth": np.array(3), "values": np.array(["off", "on"], object)},
         constants=("depth",), expected=lambda i, depth, values: values[np.eye(3, dtype=int)[[0, 2, 2]]]),
    Case("Pad", 18, {"x": WORDS, "pads": np.array([1, 0, 0, 2])}, constants=("pads",),
         expected=lambda x, pads: np.pad(x, ((1, 0), (0, 2)), constant_values="")),
    Case("Pad", 18, {"x": WORDS, "pads": np.array([1, 0, 0, 2]), "value": np.array("?", object)}, constants=("pads",),
         expected=lambda x, pads, value: np.pad(x, ((1, 0), (0, 2)), constant_values="?"), note="value"),
    Case("CenterCropPad", 18, {"x": WORDS, "shape": np.array([4, 2])}, constants=("shape",),
         expected=lambda x, shape: np.pad(x, ((1, 1), (0, 0)), constant_values="")[:, :2]),
    Case("TensorScatter", 24, {"cache": WORDS.reshape(1, 2, 3), "new": np.array([[["u", "v", "w"]]], object),
                               "at": np.array([1])},
         expected=lambda cache, new, at: np.concatenate([cache[:, :1], new], axis=1)),
]


ROWS = {"x": ("n", 3)}
SIZED = [
    at_sizes(cast(NUMBERS, "float"), ROWS, {"x": NUMBERS[:1]}),
    at_sizes(cast(FLOATS, "string"), ROWS, {"x": FLOATS[1:]}),
    at_sizes(Case("Unique", 11, {"x": WORDS}, outputs=4), ROWS, {"x": np.array([["zz", "b", "zz"]], object)}),
    at_sizes(Case("Pad", 18, {"x": WORDS, "pads": np.array([1, 0, 0, 2])}, constants=("pads",),
                  expected=lambda x, pads: np.pad(x, ((1, 0), (0, 2)), constant_values="")), ROWS, {"x": WORDS[:1]}),
]
CASES = [*TO_TEXT, *FROM_TEXT, *LIKE, *MOVED, *SIZED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("op_type", ["Trilu", "NonZero"])
def test_refused(op_type: str) -> None:
    with pytest.raises(TranspileError, match="not supported on text"):
        import_model(case_model(Case(op_type, 14, {"x": WORDS})))
