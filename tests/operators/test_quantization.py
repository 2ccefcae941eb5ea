"""Quantised operators: granularities, types, rounding and saturation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from onnx_systemds.dml.printer import print_statement
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.convert import import_model
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, random

X = random(2, 3, 4, 5) * np.float32(3)
TIES = np.array([0.25, 0.35, 0.45, -0.25, 12.75, 1e9, -1e9, np.inf, -np.inf], np.float32)
SCALES = np.array([0.1, 0.02, 1.5], np.float32)


def scale(value: float) -> Array:
    """A rank 0 scale."""
    return np.array(value, np.float32)


def quantized(dtype: str) -> Array:
    """Some integers of a type."""
    return random(2, 3, 4, dtype=dtype)


A, B = random(2, 4, dtype="uint8"), random(4, 3, dtype="uint8", seed=1)


def blocked(x: Array, scales: Array, zero: Array | None, axis: int, block_size: int, **_: Any) -> Array:
    """Quantised or dequantised with scales and zero points repeated by block; the last block is cut."""

    def repeated(parts: Array) -> Array:
        return np.take(np.repeat(parts, block_size, axis), range(x.shape[axis]), axis)

    shift = 0 if zero is None else repeated(zero).astype(np.float32)
    if x.dtype == np.int8:
        return (x - shift) * repeated(scales)
    return np.clip(np.rint(x / repeated(scales)) + shift, -128, 127).astype(np.int8)


ROWS = np.array([0.1, 0.03], np.float32)


def qlinear_matmul(*inputs: Array) -> Array:
    """The product in FP64; the zero points and scales of A are by row."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (item.astype(np.float64) for item in inputs)
    a_scale, a_zero = (item[:, None] if item.ndim else item for item in (a_scale, a_zero))
    product = (a - a_zero) @ (b - b_zero) * a_scale * b_scale / y_scale
    limits = np.iinfo(inputs[-1].dtype)
    return np.clip(np.rint(product) + y_zero, limits.min, limits.max).astype(inputs[-1].dtype)


def qlinear_conv(dims: tuple[int, ...], weight: tuple[int, ...], weight_scale: Array, bias: bool, dtype: str,
                 **attributes: Any) -> Case:
    """A QLinearConv whose weights have a zero point of 0, as onnxruntime wants it with scales by filter."""
    zero = np.zeros(weight_scale.shape, "int8") if weight_scale.ndim else np.array(2, "int8")
    inputs = {
        "x": random(*dims, dtype=dtype), "xs": scale(0.0213), "xz": np.array(4, dtype),
        "w": random(*weight, dtype="int8", seed=1), "ws": weight_scale, "wz": zero,
        "ys": scale(0.0517), "yz": np.array(7, dtype),
        "b": random(weight[0], dtype="int32") * 10 if bias else None,
    }
    return Case("QLinearConv", 10, inputs, attributes, constants=["w", "ws", "wz"], note=f"{dtype} {attributes}")


def ties(step: float) -> Array:
    """Numbers on and next to the middle between two steps."""
    middles = np.arange(-300, 300, dtype=np.float32) / np.float32(2) * np.float32(step)
    near = [np.nextafter(middles, np.float32(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([middles, *near]).astype(np.float32)


SCATTERED = np.where(np.arange(60).reshape(5, 12) % 9 == 4, 5, 0).astype(np.int8)
WHOLE = np.random.default_rng(0).integers(-128, 128, (90, 64)).astype(np.int8)

CASES = [
    *[at_sizes(Case(op_type, 10, {"x": x, "scale": np.array([0.5, 0.25, 2], np.float32)}, note="scales"),
               {"x": ["n", 3]}, {"x": x[:1]})
      for op_type, x in [("QuantizeLinear", random(4, 3)), ("DequantizeLinear", random(4, 3, dtype="uint8"))]],
    # opset 10 speaks of one scale only; onnxruntime and ONNX's reference take several along axis 1
    *[Case(op_type, 10, {"x": x, "scale": np.array([0.5, 0.25, 2], np.float32), "zero": np.array([3, 0, 7], np.uint8)},
           note="scales")
      for dims in ((2, 3), (2, 3, 4), (2, 3, 2, 2)) for op_type, x in
      [("QuantizeLinear", random(*dims)), ("DequantizeLinear", random(*dims, dtype="uint8"))]],
    *[Case("QuantizeLinear", opset, {"x": X, "scale": scale(0.05), "zero": np.array(zero, dtype)}, note=str(dtype))
      for opset in (10, 13, 19, 21) for zero, dtype in ((128, np.uint8), (-5, np.int8))],
    *[Case("QuantizeLinear", 21, {"x": X, "scale": scale(0.001), "zero": np.array(5, dtype)}, note=str(dtype))
      for dtype in (np.uint16, np.int16)],
    Case("QuantizeLinear", 13, {"x": TIES, "scale": scale(0.1), "zero": np.array(3, np.uint8)}, note="ties"),
    *[Case("QuantizeLinear", 21, {"x": ties(step), "scale": scale(step), "zero": np.array(7, dtype)}, note=f"ties {step}")
      for step in (0.1, 0.02, 1 / 3, 0.0517) for dtype in ("uint8", "int8", "uint16")],
    *[Case("QuantizeLinear", 19, {"x": ties(step), "scale": scale(step), "zero": np.zeros((), dtype)}, constants=constants,
           expected=lambda x, s, zero: (x / s).astype(zero.dtype), note=f"ties {step}")
      for step, dtype, constants in ((49, "float8_e4m3fn", ["scale"]), (0.1, "float8_e5m2", []))],
    *[Case("QuantizeLinear", 25, {"x": x, "scale": scale(2)}, {"output_dtype": 23}, expected=lambda x, s, **_: np.nan_to_num(
        np.clip(x / s, -6, 6)).astype("float4_e2m1fn")) for x in (np.float32([[np.nan, 3, np.inf]]), np.float32(np.nan))],
    Case("QuantizeLinear", 19, {"x": SCATTERED.astype(np.float16), "scale": np.array(1.74, np.float16), "zero": np.array(51, np.int8)}),
    # onnxruntime's quantizer gives masks of -Infinity an infinite scale
    *[Case("QuantizeLinear", 13, {"x": np.array(x, np.float32), "scale": scale(size), "zero": np.array(3, dtype)},
           constants=["scale"], note=f"{size} {np.ndim(x)}")
      for size, x, dtype in ((np.inf, [[0, -np.inf], [np.inf, 1]], "int8"), (np.inf, -np.inf, "uint8"),
                             (0, [[0, -1], [-np.inf, 1]], "uint8"))],
    *[Case("QuantizeLinear", 21, {"x": np.float32([[1, np.nan, -np.inf], [np.nan, 0, 90]]), "scale": size,
                                  "zero": np.full(size.shape, 3, dtype)}, constants=constants, note=f"nan {constants}")
      for dtype in ("uint8", "int8", "int16") for size in (scale(0.5), np.float32([2, 0.25, 1]))
      for constants in ([], ["scale", "zero"])],
    Case("QuantizeLinear", 21, {"x": scale(np.nan), "scale": scale(0.5), "zero": np.array(3, np.int8)}, note="nan"),
    # among the products of zeros and scales that are no finite numbers
    *[Case("DequantizeLinear", 13, {"x": SCATTERED, "scale": scales}, constants=constants, note=f"{scales} {constants}")
      for scales in (scale(np.nan), np.resize(np.float32([np.inf, 1, np.nan]), 12)) for constants in ([], ["scale"])],
    Case("DequantizeLinear", 21, {"x": np.float32([[np.inf, 1, 0]]).astype("float8_e5m2"), "scale": scale(0)},
         constants=["scale"], expected=lambda x, s: np.float32([[np.nan, 0, 0]])),
    Case("DynamicQuantizeLinear", 11, {"x": np.arange(4096, dtype=np.float32).reshape(64, 64) / 7}, outputs=3),
    *[Case("QLinearMatMul", 10, {"a": WHOLE, "as": scale(0.5), "az": np.array(5, np.int8), "b": WHOLE.T, "bs": b_scale,
                                 "bz": np.array(3, np.int8) if b_scale.ndim == 0 else np.full(90, 3, np.int8),
                                 "ys": scale(15), "yz": np.array(1, np.int8)}, constants=constants, note="ties")
      for b_scale in (scale(0.5), np.repeat(SCALES, 30)) for constants in ((), ("as", "bs", "ys"))],
    Case("MatMulInteger", 10, {"a": np.full((2, 70000), 255, np.uint8), "b": np.full((70000, 1), 255, np.uint8)},
         note="wraps", expected=lambda a, b: a.astype(np.int32) @ b.astype(np.int32)),
    Case("QuantizeLinear", 13, {"x": X, "scale": scale(0.1), "zero": None}),
    *[Case("QuantizeLinear", opset, {"x": X, "scale": SCALES, "zero": np.array([0, 10, 255], np.uint8)}, {"axis": axis})
      for opset in (13, 19, 21) for axis in (1, -3)],
    Case("QuantizeLinear", 21, {"x": random(3, 4), "scale": np.abs(random(3, 2)) + np.float32(0.05),
                                "zero": random(3, 2, dtype="uint8")}, {"axis": 1, "block_size": 2}),
    *[Case("DequantizeLinear", opset, {"x": quantized(dtype), "scale": scale(0.1), "zero": np.array(3, dtype)},
           note=dtype)
      for opset in (10, 13, 19, 21) for dtype in ("uint8", "int8")],
    Case("DequantizeLinear", 13, {"x": quantized("int32"), "scale": scale(0.1)}),
    at_sizes(Case("DequantizeLinear", 13, {"x": quantized("uint8"), "scale": np.float32([0.5]), "zero": np.uint8([3])},
                  expected=lambda x, s, z: ((x.astype(np.int32) - z) * s).astype(np.float32)),
             {"x": ["batch", 3, 4], "zero": ["z"]}, {"x": random(1, 3, 4, dtype="uint8"), "zero": np.uint8([5])}),
    *[Case("DequantizeLinear", 21, {"x": quantized("int8"), "scale": SCALES, "zero": random(3, dtype="int8")},
           {"axis": axis}) for axis in (1, -2)],
    Case("DequantizeLinear", 21, {"x": quantized("int8"), "scale": random(2, 3, 2),
                                  "zero": random(2, 3, 2, dtype="int8")},
         {"axis": -1, "block_size": 2}),
    *[Case("DynamicQuantizeLinear", 11, {"x": x}, outputs=3) for x in (X, np.abs(X), -np.abs(X), random(3, 4))],
    Case("DynamicQuantizeLinear", 11, {"x": np.array([[1, 2], [np.inf, -1]], np.float32)}, outputs=3, note="infinite"),
    Case("MatMulInteger", 10, {"a": A, "b": B}),
    Case("MatMulInteger", 10, {"a": A, "b": B, "az": np.array(7, np.uint8), "bz": np.array(9, np.uint8)},
         constants=["b", "bz"], note="known weight"),
    Case("MatMulInteger", 10, {"a": A, "b": B, "az": np.array(7, np.uint8), "bz": np.array(9, np.uint8)}),
    Case("MatMulInteger", 10, {"a": random(2, 3, 4, dtype="uint8"), "b": random(2, 4, 5, dtype="uint8"),
                               "az": np.array(7, np.uint8), "bz": np.array(9, np.uint8)}),
    Case("QLinearMatMul", 10, {"a": A, "as": scale(0.1), "az": np.array(5, np.uint8), "b": B, "bs": scale(0.2),
                               "bz": np.array(3, np.uint8), "ys": scale(0.05), "yz": np.array(100, np.uint8)}),
    Case("QLinearMatMul", 10, {"a": random(2, 3, 4, dtype="int8"), "as": scale(0.1), "az": np.array(5, np.int8),
                               "b": random(2, 4, 2, dtype="int8"), "bs": scale(0.2), "bz": np.array(3, np.int8),
                               "ys": scale(0.05), "yz": np.array(-10, np.int8)}),
    *[Case("QLinearMatMul", opset, {
        "a": random(*left, 4, dtype="int8"), "as": a_scale, "az": random(a_scale.size, dtype="int8") if a_scale.ndim
        else np.array(5, np.int8), "b": random(*right, 4, 3, dtype="int8"), "bs": b_scale,
        "bz": random(b_scale.size, dtype="int8", seed=3) if b_scale.ndim else np.array(-3, np.int8),
        "ys": scale(0.0503), "yz": np.array(-10, np.int8)}, expected=qlinear_matmul, note=f"{a_scale.size} {b_scale.size}")
      for opset in (10, 21) for left, right, a_scale, b_scale in [
          ((2,), (), ROWS, scale(0.2)), ((2,), (), scale(0.1), SCALES), ((2,), (), ROWS, SCALES),
          ((3, 2), (), scale(0.1), SCALES), ((3, 2), (3,), scale(0.1), SCALES)]],
    *[Case("MatMulInteger", 10, {"a": random(*left, dtype="uint8"), "b": random(*right, dtype="int8", seed=1),
                                 "az": np.array(7, np.uint8), "bz": np.array(-2, np.int8)})
      for left, right in [((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 2)), ((4,), (2, 4, 2)), ((3, 4), (4,)),
                          ((2, 3, 4), (1, 2, 4, 5))]],
    *[Case(op_type, 21, {"x": random(*dims, dtype=dtype), "scale": np.abs(random(*scales)) + np.float32(0.05),
                         "zero": random(*scales, dtype="int8") if zero else None},
           {"axis": axis, "block_size": 3, **more}, expected=blocked, note=f"{op_type} {axis} {zero}")
      for op_type, dtype, more in [("QuantizeLinear", "float", {"output_dtype": 3}), ("DequantizeLinear", "int8", {})]
      for dims, scales, axis in [((2, 7), (2, 3), 1), ((7, 4), (3, 4), 0), ((2, 7, 4), (2, 3, 4), -2)]
      for zero in (False, True)],
    *[qlinear_conv(dims, weight, weight_scale, bias, dtype, **attributes)
      for dtype in ("uint8", "int8") for dims, weight, weight_scale, bias, attributes in [
          ((1, 2, 6, 5), (3, 2, 3, 3), scale(0.03), False, {}),
          ((2, 2, 6, 5), (3, 2, 3, 3), SCALES, True, {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
          ((1, 2, 6, 5), (3, 2, 1, 1), SCALES, True, {}),
          ((1, 3, 6, 5), (3, 1, 3, 3), SCALES, True, {"group": 3, "pads": [1, 1, 1, 1]}),
          ((2, 4, 7), (2, 2, 3), np.array([0.03, 0.05], np.float32), True, {"group": 2, "dilations": [2]})]],
    *[at_sizes(Case(op_type, opset, {"x": random(2, 3, 4, 5, dtype=dtype), "scale": SCALES, "zero": random(3, dtype="uint8")}),
               {"x": ["batch", 3, "height", 5]}, {"x": random(1, 3, 2, 5, dtype=dtype)})
      for op_type, dtype in [("QuantizeLinear", "float"), ("DequantizeLinear", "uint8")] for opset in (13, 23)],
    Case("QuantizeLinear", 21, {"x": random(2, 8), "scale": np.abs(random(2, 3)) + np.float32(0.05),
                                "zero": random(2, 3, dtype="int8")}, {"axis": 1, "block_size": 3}, expected=blocked,
         symbols={"x": ["batch", "time"], "scale": ["batch", "blocks"], "zero": ["batch", "blocks"]},
         sizes=[{"x": random(1, 5), "scale": np.abs(random(1, 2)) + np.float32(0.05), "zero": random(1, 2, dtype="int8")}]),
    at_sizes(qlinear_conv((2, 2, 6, 5), (3, 2, 3, 3), SCALES, True, "uint8"), {"x": ["batch", 2, 6, 5]},
             {"x": random(1, 2, 6, 5, dtype="uint8")}),
    at_sizes(Case("DynamicQuantizeLinear", 11, {"x": X}, outputs=3), {"x": ["batch", 3, "height", 5]},
             {"x": random(1, 3, 2, 5)}),
    at_sizes(Case("MatMulInteger", 10, {"a": random(2, 3, 4, dtype="uint8"), "b": B, "az": np.array(7, np.uint8)}),
             {"a": ["batch", "seq", 4]}, {"a": random(1, 5, 4, dtype="uint8")}),
    at_sizes(Case("QLinearMatMul", 10, {
        "a": random(2, 3, 4, dtype="uint8"), "as": scale(0.1), "az": np.array(5, np.uint8), "b": random(2, 4, 3, dtype="uint8"),
        "bs": scale(0.2), "bz": np.array(3, np.uint8), "ys": scale(0.05), "yz": np.array(100, np.uint8)}),
        {"a": ["batch", "seq", 4], "b": ["batch", 4, 3]},
        {"a": random(1, 5, 4, dtype="uint8"), "b": random(1, 4, 3, dtype="uint8")}),
    at_sizes(Case("QLinearMatMul", 10, {  # scales of open lengths
        "a": random(2, 4, dtype="int8"), "as": ROWS, "az": random(2, dtype="int8"), "b": random(4, 3, dtype="int8"), "bs": SCALES,
        "bz": random(3, dtype="int8", seed=3), "ys": scale(0.05), "yz": np.array(-10, np.int8)}, expected=qlinear_matmul),
        {"a": ["n", 4], "as": ["k"], "az": ["l"], "bs": ["p"], "bz": ["q"]},
        {"a": random(1, 4, dtype="int8"), "as": ROWS[:1], "az": random(1, dtype="int8")}),
    at_sizes(Case("MatMulInteger", 10, {"a": random(2, 3, 4, dtype="uint8"), "b": random(2, 4, 3, dtype="uint8")}),
             {"a": ["batch", "seq", 4], "b": ["other", 4, 3]},  # two names of one size
             {"a": random(3, 5, 4, dtype="uint8"), "b": random(3, 4, 3, dtype="uint8")}),
    *[Case(op_type, 13, {"x": x, "scale": SCALES, "zero": np.full(3, zero, x.dtype if x.dtype.kind == "i" else "int8")},
           {"axis": 1}, ["scale", "zero"], note=f"{op_type} {zero} known")
      for op_type, x in [("QuantizeLinear", X), ("DequantizeLinear", quantized("int8"))] for zero in (0, -7)],
    Case("QuantizeLinear", 13, {"x": X, "scale": SCALES, "zero": np.array([0, 10, 255], np.uint8)}, {"axis": 1},
         ["scale", "zero"], note="known"),
    *[Case(op_type, 21, {"x": x, "scale": np.abs(random(2, 3)) + np.float32(0.05), "zero": np.full((2, 3), 3, "int8")},
           {"axis": 1, "block_size": 3}, ["scale", "zero"], expected=blocked, note=f"{op_type} known")
      for op_type, x in [("QuantizeLinear", random(2, 7)), ("DequantizeLinear", random(2, 7, dtype="int8"))]],
    *[Case(op_type, 23, {"x": x, "scale": scale(0.05), "zero": np.array(3, np.uint8)}, note=f"{op_type} {x.shape}")
      for x in (random(2, 3, 4), np.array(0.7, np.float32)) for op_type in ("QuantizeLinear",)],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_a_zero_point_of_0_does_not_stand_there() -> None:
    zeros, x = np.zeros(3, np.int8), quantized("int8")
    script = import_model(case_model(Case("DequantizeLinear", 13, {"x": x, "scale": SCALES, "zero": zeros}, {"axis": 1}, ["scale", "zero"])))
    text = print_statement(script.main)
    assert " * matrix(cbind(scale_, scale_)" in text
    assert " - " not in text and "(-" not in text and "zero" not in text


def test_only_what_may_be_nan_is_looked_at_for_it() -> None:
    """Numbers that come from integers, by operators and weights that are finite, are not."""
    text = import_model(onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        chain (float[2, 4] x, float[4, 4] v) => (float[2, 4] y, float[2, 4] z)
        <float s = {0.5}, int8 o = {3}, float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}>
        { q0 = QuantizeLinear(x, s, o) d0 = DequantizeLinear(q0, s, o) p = MatMul(d0, w) r = Sigmoid(p)
          q1 = QuantizeLinear(r, s, o) y = DequantizeLinear(q1, s, o) u = MatMul(y, v)
          q2 = QuantizeLinear(u, s, o) z = DequantizeLinear(q2, s, o) }""")).text
    assert text.count("pattern=NaN") == 2 and "q1 = nearest_integer_plus(single_precision(min(max(1 / " in text


@pytest.mark.parametrize("size, is_rounded", [(0.5, False), (1e38, True)])
def test_integers_that_are_beyond_fp32_are_infinite(size: float, is_rounded: bool) -> None:
    case = Case("DequantizeLinear", 13, {"x": quantized("uint8"), "scale": scale(size)}, constants=["scale"])
    assert ("round_to_float" in print_statement(import_model(case_model(case)).main)) == is_rounded


def test_scales_whose_quotient_is_infinite_are_refused() -> None:
    given = {"a": A, "as": scale(1e20), "az": np.array(5, np.uint8), "b": B, "bs": scale(1e20), "bz": np.array(3, np.uint8),
             "ys": scale(1e10), "yz": np.array(1, np.uint8)}
    with pytest.raises(TranspileError, match="a step that is no finite number"):
        import_model(case_model(Case("QLinearMatMul", 10, given, constants=["as", "bs", "ys"])))


def test_a_known_number_is_that_of_fp32() -> None:
    """The exponent of a quantised T5 is 2, to the power of which negative numbers have a result."""
    contents = {"x": np.uint8([255]), "scale": scale(2 / 255)}
    script = import_model(case_model(Case("DequantizeLinear", 13, contents, constants=["x", "scale"])))
    assert "= matrix(2, rows=1, cols=1)" in print_statement(script.main)
