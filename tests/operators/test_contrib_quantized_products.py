"""Products and convolutions of quantised numbers, and quantisation itself, as onnxruntime's CPU kernels have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.operators.harness import Array, Case, at_sizes, check_case, contrib, random
from tests.operators.quantized_cases import TYPES, drawn, resized, row, single, weights


def float_product(op_type: str, dtype: str, count: int, biased: bool) -> Case:
    zero = np.full(count, 3 if count == 1 else 0, dtype)
    scale = np.linspace(0.05, 0.3, count, dtype=np.float32)
    b = weights(16, 8, dtype=dtype)
    bias = random(8, seed=5) if biased else None
    inputs: dict[str, Array | None] = {"a": random(2, 5, 16), "b": b, "bs": scale, "bz": zero, "bias": bias}
    if op_type == "MatMulIntegerToFloat":
        inputs = {"a": drawn(2, 5, 16), "b": b, "as": single(0.3), "bs": scale, "az": np.array(7, np.uint8),
                  "bz": zero, "bias": bias}
    return row(op_type, inputs, "float", note=f"{dtype} {count} {biased}")


def qgemm(left: str, right: str, count: int, known: bool, quantized: bool, bias: int, **attributes: Any) -> Case:
    trans_a, trans_b = attributes.get("transA"), attributes.get("transB")
    scale = (np.arange(1, count + 1) % 4 + 1).astype(np.float32) / np.float32(8)
    c = [None, drawn(8).astype(np.int32) * 70 - 9000, drawn(32, 1).astype(np.int32), np.array([[900]], np.int32)][bias]
    zeros = np.full(count, 3, right)
    inputs = {
        "a": drawn(*((16, 32) if trans_a else (32, 16)), dtype=left), "as": single(0.5), "az": np.array(5, left),
        "b": weights(*((8, 16) if trans_b else (16, 8)), dtype=right), "bs": scale if count > 1 else np.array(scale[0]),
        "bz": zeros if count > 1 else np.array(zeros[0]), "c": c, "ys": single(100) if quantized else None,
        "yz": np.array(17, left) if quantized else None,
    }
    names = [name for name in ("as", "az", "b", "bs", "bz", "ys", "yz") if known and inputs[name] is not None]
    return row("QGemm", inputs, left if quantized else "float", constants=names, attributes=attributes,
                   note=f"{left} {right} {count} {known} {quantized} {bias} {attributes}")


def conv(dtype: str, count: int, dims: tuple[int, ...], filters: tuple[int, ...], **attributes: Any) -> Case:
    scale, zero = np.full(count, 0.01, np.float32), np.zeros(count, np.int8)
    inputs = {
        "x": drawn(*dims, dtype=dtype), "xs": single(0.5), "xz": np.array(7, dtype),
        "w": weights(*filters, dtype="int8"), "ws": scale if count > 1 else np.array(scale[0]),
        "wz": zero if count > 1 else np.array(zero[0]), "ys": single(2), "yz": np.array(100, dtype),
        "b": drawn(filters[0]).astype(np.int32) * 5,
    }
    names = ["xs", "xz", "w", "ws", "wz", "ys", "yz"]
    return row("QLinearConv", inputs, dtype, constants=names, attributes=attributes,
                   note=f"{dtype} {count} {dims} {attributes}")


PRODUCTS = [
    *[float_product(op_type, dtype, count, biased) for op_type in ("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
      for dtype in TYPES for count in (1, 8) for biased in (False, True)],
    row("MatMulIntegerToFloat", {"a": drawn(3, 4), "b": drawn(4, 5), "as": single(0.1), "bs": single(0.2)}, "float"),
    *[row("MatMulInteger16", {"a": drawn(*left, dtype="int16", limit=65536), "b": drawn(*right, dtype="int16", seed=1,
                                                                                          limit=65536)}, "int32")
      for left, right in [((3, 40), (40, 5)), ((2, 3, 4), (2, 4, 5))]],
    *[qgemm(left, right, count, known, quantized, bias, transA=trans_a, transB=trans_b, alpha=1.5 if trans_a else 1.0)
      for left, right in [("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")] for count in (1, 8)
      for known in (False, True) for quantized, bias, trans_a, trans_b in [
          (True, 0, 0, 0), (True, 1, 0, 1), (False, 1, 1, 0), (True, 2, 1, 1), (False, 3, 0, 1)]],
    *[conv("uint8", count, dims, filters, channels_last=last, **attributes)
      for count in (1, 4) for last, dims, filters, attributes in [
          (0, (2, 6, 5, 4), (4, 6, 3, 3), {"pads": [1, 1, 1, 0]}), (1, (2, 5, 4, 6), (4, 6, 3, 3), {"pads": [1, 1, 1, 0]}),
          (1, (1, 5, 6, 4), (4, 1, 3, 3), {"group": 4, "strides": [2, 1]}), (1, (2, 9, 4), (4, 4, 3), {}),
          (1, (1, 5, 6, 4), (4, 4, 1, 1), {"auto_pad": "SAME_UPPER", "kernel_shape": [1, 1]})]],
]
LINEAR = [
    row("QuantizeLinear", {"x": random(2, 3, 4) * 3, "xs": np.array([0.1, 0.2, 0.3], np.float32),
                               "xz": np.array([1, 2, 3], np.uint8)}, "uint8", note="axis 1"),
    row("QuantizeLinear", {"x": random(2, 3, 4) * 3, "xs": single(0.001), "xz": np.array(5, np.int16)}, "int16"),
    row("DequantizeLinear", {"x": drawn(2, 3, 4), "xs": np.array([0.1, 0.2], np.float32),
                                 "xz": np.array([1, 2], np.uint8)}, "float", attributes={"axis": 0}),
]
SIZED = [
    resized(conv("uint8", 4, (2, 5, 4, 6), (4, 6, 3, 3), channels_last=1), {"x": ["n", 5, 4, 6]}, x=(3, 5, 4, 6)),
    resized(float_product("DynamicQuantizeMatMul", "uint8", 1, True), {"a": ["n", "seq", 16]}, a=(3, 2, 16)),
    resized(float_product("MatMulIntegerToFloat", "uint8", 8, True), {"a": ["n", "seq", 16]}, a=(3, 2, 16)),
    resized(row("MatMulInteger16", {"a": drawn(3, 4, dtype="int16"), "b": drawn(4, 5, dtype="int16", seed=1)}, "int32"),
            {"a": ["n", 4]}, a=(5, 4)),
    resized(qgemm("uint8", "uint8", 8, True, True, 1), {"a": ["n", 16]}, a=(5, 16)),
    resized(LINEAR[0], {"x": ["n", 3, 4]}, x=(5, 3, 4)),
    resized(LINEAR[2], {"x": [2, "n", 4]}, x=(2, 5, 4)),
]
U8 = random(5, 4, dtype="uint8")


def integer_products(a: Array, az: Array | None, b: Array, bz: Array | None = None) -> Array:
    left, right = (factor.astype(np.int32) - (0 if zero is None else zero.astype(np.int32))
                   for factor, zero in ((a, az), (b, bz)))
    return left * right


CASES = [
    *PRODUCTS,
    *LINEAR,
    *SIZED,
    *[contrib("MulInteger", inputs, expected=integer_products, output_dtypes=["int32"]) for inputs in (
        {"a": U8, "az": np.uint8(7), "b": random(4, dtype="uint8", seed=3), "bz": np.uint8(3)},
        {"a": random(2, 3, 4, dtype="int8"), "az": None, "b": random(3, 1, dtype="int8", seed=3)})],
    at_sizes(contrib("MulInteger", {"a": U8, "az": None, "b": random(4, dtype="uint8", seed=3)}, output_dtypes=["int32"],
                     expected=integer_products), {"a": ["batch", 4]}, {"a": random(2, 4, dtype="uint8", seed=5)}),
    *[contrib("ReduceSumInteger", {"x": random(2, 3, 4, dtype=dtype)}, attributes={"axes": axes, "keepdims": keep},
              output_dtypes=[wide], expected=lambda x, axes, keepdims, wide=wide:
              x.sum(tuple(axes), keepdims=bool(keepdims), dtype=wide))
      for dtype, wide, axes, keep in (("int8", "int32", [1, -1], 0), ("uint8", "uint32", [0], 1))],
    at_sizes(contrib("ReduceSumInteger", {"x": U8}, attributes={"axes": [1], "keepdims": 1}, output_dtypes=["uint32"],
                     expected=lambda x, **_: x.sum(1, keepdims=True, dtype=np.uint32)),
             {"x": ["batch", 4]}, {"x": random(2, 4, dtype="uint8", seed=5)}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
