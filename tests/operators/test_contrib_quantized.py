"""Quantised elementwise operators and rearrangements of onnxruntime: every integer as its CPU kernels give it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, check_case, random
from tests.operators.quantized_cases import TYPES, drawn, every, points, resized, row, single

SCALES = [(0.1, 0.05, 0.2), (0.5, 0.5, 1.0), (0.0213, 0.0517, 0.0371), (1 / 3, 0.25, 0.5), (0.02, 0.01, 0.005)]


def binary(op_type: str, dtype: str, scales: tuple[float, float, float], a: Array, b: Array, **more: Any) -> Case:
    zeros = points(3, dtype, len(dtype))
    a_scale, b_scale, c_scale = scales
    c_scale = c_scale * a_scale * 10 if op_type == "QLinearMul" else c_scale
    inputs: dict[str, Array | None] = {
        "a": a, "as": single(a_scale), "az": zeros[0], "b": b, "bs": single(b_scale), "bz": zeros[1],
        "cs": single(c_scale), "cz": zeros[2],
    }
    return row(op_type, inputs, dtype, note=f"{dtype} {a.shape} {b.shape} {scales}", **more)


def clipped(x: Array) -> Array:
    """Rounded to uint8."""
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)


def pairs(dtype: str) -> tuple[Array, Array]:
    """Every number with every number."""
    return np.repeat(every(dtype), 256).reshape(256, 256), np.tile(every(dtype), 256).reshape(256, 256)


ELEMENTWISE = [
    *[binary(op_type, dtype, scales, *pairs(dtype))
      for op_type in ("QLinearAdd", "QLinearMul") for dtype in TYPES for scales in SCALES[1:3]],
    *[binary(op_type, dtype, SCALES[2], drawn(*left, dtype=dtype), drawn(*right, dtype=dtype, seed=1))
      for op_type in ("QLinearAdd", "QLinearMul") for dtype in TYPES for left, right in [
          ((2, 3, 40), (40,)), ((2, 3, 40), (3, 1)), ((3, 1), (2, 3, 40)), ((1,), (50,)), ((2, 3, 4, 5), (3, 1, 1)),
          ((2, 3, 4, 5), (1, 3, 4, 1)), ((64,), ())]],
    *[replace(binary(op_type, "uint8", SCALES[4], drawn(7, 9), drawn(7, 9, seed=1)), constants=(), note="computed")
      for op_type in ("QLinearAdd", "QLinearMul")],
    # onnxruntime's shape inference refuses omitted zero points, though its kernels take them
    *[row(op_type, {"a": drawn(5, 6), "as": single(0.5), "az": None, "b": drawn(6), "bs": single(0.25), "bz": None,
                        "cs": single(1), "cz": None}, "uint8", expected=expected)
      for op_type, expected in [("QLinearAdd", lambda *x: clipped(x[0] * 0.5 + x[3] * 0.25)),
                                ("QLinearMul", lambda *x: clipped(x[0] * 0.5 * (x[3] * 0.25)))]],
]


def unary(op_type: str, dtype: str, x_scale: float, y_scale: float, x: Array | None = None, **more: Any) -> Case:
    zeros = points(2, dtype, 7)
    inputs = {"x": every(dtype).reshape(4, 8, 8) if x is None else x, "xs": single(x_scale), "xz": zeros[0],
              "ys": single(y_scale), "yz": zeros[1]}
    return row(op_type, inputs, dtype, note=f"{dtype} {x_scale} {y_scale} {more}", **more)


UNARY = [
    *[unary(op_type, dtype, x_scale, y_scale, attributes=attributes)
      for op_type, attributes in [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}), ("QLinearLeakyRelu", {"alpha": 0.1}),
                                  ("QLinearLeakyRelu", {"alpha": -1.5})]
      for dtype in TYPES for x_scale, y_scale in [(0.1, 0.05), (0.0213, 1 / 256), (0.5, 0.25), (1 / 3, 0.01)]],
    replace(unary("QLinearLeakyRelu", "uint8", 0.5, 0.25), constants=(), note="computed"),
    replace(unary("QLinearSigmoid", "uint8", 0.5, 0.25, np.array(200, np.uint8)), note="scalar"),
    row("QLinearLeakyRelu", {"x": every("uint8"), "xs": single(0.1), "xz": None, "ys": single(0.05), "yz": None}),
]


def softmax(dtype: str, dims: tuple[int, ...], zero: int, y_scale: float, **attributes: Any) -> Case:
    inputs = {"x": drawn(*dims, dtype=dtype), "xs": single(0.03), "xz": np.array(5, dtype), "ys": single(y_scale),
              "yz": np.array(np.iinfo(dtype).min + zero, dtype)}
    return row("QLinearSoftmax", inputs, dtype, attributes=attributes, note=f"{dtype} {zero} {y_scale} {attributes}")


SOFTMAX = [
    *[softmax(dtype, dims, zero, y_scale, axis=axis, opset=opset)
      for dtype in TYPES for zero in (0, 3) for y_scale in (1 / 256, 0.0039)
      for opset, axis, dims in [(13, -1, (64, 32)), (13, 1, (4, 16, 32)), (12, 1, (4, 16, 8)), (13, -1, (2, 512))]],
    *[row("QLinearSoftmax", {"x": np.array([[127, 0, 0], [0, 0, 0]], dtype), "xs": single(1.0), "xz": None,
                                 "ys": single(1 / 256), "yz": np.array(np.iinfo(dtype).min, dtype)}, dtype,
              attributes={"opset": 13}, note=f"{dtype} saturates") for dtype in TYPES],
]


def where(dtype: str, condition: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], same: bool) -> Case:
    zeros = points(3, dtype, 11)
    inputs = {
        "c": random(*condition, dtype="bool"), "x": drawn(*x, dtype=dtype), "xs": single(0.1), "xz": zeros[0],
        "y": drawn(*y, dtype=dtype, seed=1), "ys": single(0.05), "yz": zeros[1], "zs": single(0.1 if same else 0.07),
        "zz": zeros[0] if same else zeros[2],
    }
    return row("QLinearWhere", inputs, dtype, note=f"{dtype} {condition} {x} {y} {same}")


def concat(dtype: str, axis: int, *shapes: tuple[int, ...]) -> Case:
    inputs: dict[str, Array | None] = {"zs": single(0.07), "zz": np.array(3, dtype)}
    for number, (dims, scale) in enumerate(zip(shapes, (0.05, 0.07, 0.14))):
        letter = "abc"[number]
        inputs |= {letter: drawn(*dims, dtype=dtype, seed=number), f"{letter}s": single(scale),
                   f"{letter}z": np.array(3 + 9 * number * (number - 1), dtype)}
    return row("QLinearConcat", inputs, dtype, attributes={"axis": axis}, note=f"{dtype} {axis}")


REARRANGED = [
    *[where(dtype, *dims, same) for dtype in TYPES for same in (False, True) for dims in [
        ((16, 16), (16, 16), (16, 16)), ((16, 1), (16,), ()), ((2, 1, 4), (2, 3, 1), (3, 4)), ((3,), (1,), ())]],
    *[concat(dtype, axis, *shapes) for dtype in TYPES for axis, shapes in [
        (1, [(2, 64, 3), (2, 5, 3), (2, 1, 3)]), (-1, [(8, 8), (8, 9)]), (0, [(4, 3, 2, 5), (2, 3, 2, 5)])]],
    replace(concat("uint8", 0, (5, 7), (3, 7)), constants=(), note="computed"),
]

SIZED = [
    resized(binary("QLinearAdd", "uint8", SCALES[0], drawn(2, 3, 4), drawn(3, 1)), {"a": ["n", 3, 4]}, a=(5, 3, 4)),
    resized(binary("QLinearMul", "int8", SCALES[2], drawn(2, 8, dtype="int8"), drawn(2, 8, dtype="int8")),
            {"a": ["n", 8], "b": ["n", 8]}, a=(3, 8), b=(3, 8)),
    resized(unary("QLinearSigmoid", "uint8", 0.1, 0.05, drawn(2, 3)), {"x": ["n", 3]}, x=(4, 3)),
    resized(unary("QLinearLeakyRelu", "uint8", 0.1, 0.05, drawn(2, 3)), {"x": ["n", 3]}, x=(4, 3)),
    resized(softmax("uint8", (2, 3, 8), 0, 1 / 256, opset=13), {"x": ["n", "seq", 8]}, x=(3, 5, 8)),
    resized(where("uint8", (2, 6), (2, 6), (6,), False), {"c": ["n", 6], "x": ["n", 6]}, c=(4, 6), x=(4, 6)),
    resized(concat("uint8", 1, (2, 4, 3), (2, 5, 3)), {"a": ["n", 4, 3], "b": ["n", 5, 3]}, a=(3, 4, 3), b=(3, 5, 3)),
]
CASES = [*ELEMENTWISE, *UNARY, *SOFTMAX, *REARRANGED, *SIZED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
