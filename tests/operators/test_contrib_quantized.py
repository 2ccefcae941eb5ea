"""Quantised operators of onnxruntime: every integer as its CPU kernels give it, ties and saturation included.

Its kernels for uint8 times int8 saturate sums of two products to 16 bits on processors without VNNI, so signed weights
stay within 7 bits here, as its quantiser's ``reduce_range`` has it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from ml_dtypes import int4, uint4

from tests.operators.harness import Array, Case, case_model, check_case, random

CONTRIB = "com.microsoft"
TYPES = ["uint8", "int8"]


def single(value: float) -> Array:
    """A rank 0 scale."""
    return np.array(value, np.float32)


def every(dtype: str) -> Array:
    """All 256 numbers of a type."""
    return (np.arange(256) + np.iinfo(dtype).min).astype(dtype)


def drawn(*dims: int, dtype: str = "uint8", seed: int = 0, limit: int = 256) -> Array:
    """Reproducible numbers over the whole range of a type, or within ``limit`` numbers around its middle."""
    low = np.iinfo(dtype).min + max(256 - limit, 0) // 2
    return np.random.default_rng(seed).integers(low, low + limit, dims).astype(dtype)


def points(count: int, dtype: str, seed: int) -> list[Array]:
    """Zero points."""
    return [np.array(point) for point in drawn(count, dtype=dtype, seed=seed)]


def contrib(op_type: str, inputs: dict[str, Array | None], dtype: str = "", **more: Any) -> Case:
    """A case in onnxruntime's domain whose single output has a type; scales and zero points are constants."""
    known = [name for name in inputs if name[1:] in ("s", "z") and inputs[name] is not None]
    case = Case(op_type, 1, inputs, domain=CONTRIB, constants=known, output_dtypes=(dtype,) if dtype else ())
    return replace(case, **more)


# --- elementwise -------------------------------------------------------------------------------------------------

SCALES = [(0.1, 0.05, 0.2), (0.5, 0.5, 1.0), (0.0213, 0.0517, 0.0371), (1 / 3, 0.25, 0.5), (0.02, 0.01, 0.005)]


def binary(op_type: str, dtype: str, scales: tuple[float, float, float], a: Array, b: Array, **more: Any) -> Case:
    zeros = points(3, dtype, len(dtype))
    a_scale, b_scale, c_scale = scales
    c_scale = c_scale * a_scale * 10 if op_type == "QLinearMul" else c_scale
    inputs: dict[str, Array | None] = {
        "a": a, "as": single(a_scale), "az": zeros[0], "b": b, "bs": single(b_scale), "bz": zeros[1],
        "cs": single(c_scale), "cz": zeros[2],
    }  # fmt: skip
    return contrib(op_type, inputs, dtype, note=f"{dtype} {a.shape} {b.shape} {scales}", **more)


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
    *[contrib(op_type, {"a": drawn(5, 6), "as": single(0.5), "az": None, "b": drawn(6), "bs": single(0.25), "bz": None,
                        "cs": single(1), "cz": None}, "uint8", expected=expected)
      for op_type, expected in [("QLinearAdd", lambda *x: clipped(x[0] * 0.5 + x[3] * 0.25)),
                                ("QLinearMul", lambda *x: clipped(x[0] * 0.5 * (x[3] * 0.25)))]],
]  # fmt: skip


def unary(op_type: str, dtype: str, x_scale: float, y_scale: float, x: Array | None = None, **more: Any) -> Case:
    zeros = points(2, dtype, 7)
    inputs = {"x": every(dtype).reshape(4, 8, 8) if x is None else x, "xs": single(x_scale), "xz": zeros[0],
              "ys": single(y_scale), "yz": zeros[1]}  # fmt: skip
    return contrib(op_type, inputs, dtype, note=f"{dtype} {x_scale} {y_scale} {more}", **more)


UNARY = [
    *[unary(op_type, dtype, x_scale, y_scale, attributes=attributes)
      for op_type, attributes in [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}), ("QLinearLeakyRelu", {"alpha": 0.1}),
                                  ("QLinearLeakyRelu", {"alpha": -1.5})]
      for dtype in TYPES for x_scale, y_scale in [(0.1, 0.05), (0.0213, 1 / 256), (0.5, 0.25), (1 / 3, 0.01)]],
    replace(unary("QLinearLeakyRelu", "uint8", 0.5, 0.25), constants=(), note="computed"),
    replace(unary("QLinearSigmoid", "uint8", 0.5, 0.25, np.array(200, np.uint8)), note="scalar"),
    contrib("QLinearLeakyRelu", {"x": every("uint8"), "xs": single(0.1), "xz": None, "ys": single(0.05), "yz": None}),
]  # fmt: skip


def softmax(dtype: str, dims: tuple[int, ...], zero: int, y_scale: float, **attributes: Any) -> Case:
    inputs = {"x": drawn(*dims, dtype=dtype), "xs": single(0.03), "xz": np.array(5, dtype), "ys": single(y_scale),
              "yz": np.array(np.iinfo(dtype).min + zero, dtype)}  # fmt: skip
    return contrib("QLinearSoftmax", inputs, dtype, attributes=attributes, note=f"{dtype} {zero} {y_scale} {attributes}")


SOFTMAX = [
    *[softmax(dtype, dims, zero, y_scale, axis=axis, opset=opset)
      for dtype in TYPES for zero in (0, 3) for y_scale in (1 / 256, 0.0039)
      for opset, axis, dims in [(13, -1, (64, 32)), (13, 1, (4, 16, 32)), (12, 1, (4, 16, 8)), (13, -1, (2, 512))]],
    *[contrib("QLinearSoftmax", {"x": np.array([[127, 0, 0], [0, 0, 0]], dtype), "xs": single(1.0), "xz": None,
                                 "ys": single(1 / 256), "yz": np.array(np.iinfo(dtype).min, dtype)}, dtype,
              attributes={"opset": 13}, note=f"{dtype} saturates") for dtype in TYPES],
]  # fmt: skip


def where(dtype: str, condition: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], same: bool) -> Case:
    zeros = points(3, dtype, 11)
    inputs = {
        "c": random(*condition, dtype="bool"), "x": drawn(*x, dtype=dtype), "xs": single(0.1), "xz": zeros[0],
        "y": drawn(*y, dtype=dtype, seed=1), "ys": single(0.05), "yz": zeros[1], "zs": single(0.1 if same else 0.07),
        "zz": zeros[0] if same else zeros[2],
    }  # fmt: skip
    return contrib("QLinearWhere", inputs, dtype, note=f"{dtype} {condition} {x} {y} {same}")


def concat(dtype: str, axis: int, *shapes: tuple[int, ...]) -> Case:
    inputs: dict[str, Array | None] = {"zs": single(0.07), "zz": np.array(3, dtype)}
    for number, (dims, scale) in enumerate(zip(shapes, (0.05, 0.07, 0.14))):
        letter = "abc"[number]
        inputs |= {letter: drawn(*dims, dtype=dtype, seed=number), f"{letter}s": single(scale),
                   f"{letter}z": np.array(3 + 9 * number * (number - 1), dtype)}  # fmt: skip
    return contrib("QLinearConcat", inputs, dtype, attributes={"axis": axis}, note=f"{dtype} {axis}")


REARRANGED = [
    *[where(dtype, *dims, same) for dtype in TYPES for same in (False, True) for dims in [
        ((16, 16), (16, 16), (16, 16)), ((16, 1), (16,), ()), ((2, 1, 4), (2, 3, 1), (3, 4)), ((3,), (1,), ())]],
    *[concat(dtype, axis, *shapes) for dtype in TYPES for axis, shapes in [
        (1, [(2, 64, 3), (2, 5, 3), (2, 1, 3)]), (-1, [(8, 8), (8, 9)]), (0, [(4, 3, 2, 5), (2, 3, 2, 5)])]],
    replace(concat("uint8", 0, (5, 7), (3, 7)), constants=(), note="computed"),
]  # fmt: skip


@pytest.mark.parametrize("case", [*ELEMENTWISE, *UNARY, *SOFTMAX, *REARRANGED], ids=str)
def test_elementwise(case: Case) -> None:
    check_case(case)


# --- means -------------------------------------------------------------------------------------------------------


def mean(op_type: str, dtype: str, scales: tuple[float, float], dims: tuple[int, ...], **attributes: Any) -> Case:
    if attributes.get("channels_last"):
        dims = (dims[0], *dims[2:], dims[1])
    zeros = points(2, dtype, 13)
    inputs = {"x": drawn(*dims, dtype=dtype), "xs": single(scales[0]), "xz": zeros[0], "ys": single(scales[1]),
              "yz": zeros[1]}  # fmt: skip
    return contrib(op_type, inputs, dtype, attributes=attributes, note=f"{dtype} {scales} {dims} {attributes}")


POOLS = [
    ((2, 4, 12, 10), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((2, 3, 12, 11), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ((2, 3, 9, 7), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    ((2, 3, 12), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ((2, 3, 7, 6), {"kernel_shape": [7, 6]}),
    ((2, 3, 10, 10), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((2, 3, 10, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
]
MEANS = [
    *[mean("QLinearAveragePool", dtype, scales, dims, channels_last=last, **attributes)
      for dtype, scales, last in [("uint8", (0.0213, 0.0213), 0), ("int8", (0.5, 0.25), 1), ("uint8", (0.1, 0.05), 1),
                                  ("int8", (1 / 3, 0.29), 0)]
      for dims, attributes in POOLS],
    mean("QLinearAveragePool", "uint8", (0.5, 0.25), (2, 3, 6, 6, 5), kernel_shape=[2, 2, 2], strides=[2, 2, 1]),
    *[mean("QLinearGlobalAveragePool", dtype, scales, dims, channels_last=last)
      for dtype in TYPES for scales in [(0.0213, 0.0213), (0.5, 0.125)] for last in (0, 1)
      for dims in [(3, 8, 6, 5), (2, 1, 9), (1, 4, 2, 3, 4)]],
    replace(mean("QLinearGlobalAveragePool", "uint8", (0.1, 0.1), (2, 3, 4, 4), channels_last=0), constants=(),
            note="computed"),
]  # fmt: skip


@pytest.mark.parametrize("case", MEANS, ids=str)
def test_means(case: Case) -> None:
    check_case(case)


def test_reduced_mean() -> None:
    """onnxruntime has a schema of it, but no kernel."""

    def expected(x: Array, *_: Any, axes: list[int], keepdims: int) -> Array:
        means = ((x.astype(np.float64) - 4) * 0.5).mean(tuple(axes), keepdims=bool(keepdims))
        return np.clip(np.rint(means / 0.25) + 7, 0, 255).astype(np.uint8)

    inputs = {"x": drawn(2, 3, 4), "xs": single(0.5), "xz": np.array(4, np.uint8), "ys": single(0.25),
              "yz": np.array(7, np.uint8)}  # fmt: skip
    for axes, keepdims in [([-1], 0), ([0, 2], 1)]:
        check_case(contrib("QLinearReduceMean", inputs, "uint8", attributes={"axes": axes, "keepdims": keepdims},
                           expected=expected))  # fmt: skip


# --- products ----------------------------------------------------------------------------------------------------


def weights(*dims: int, dtype: str) -> Array:
    """Signed ones within 7 bits."""
    return drawn(*dims, dtype=dtype, seed=3, limit=256 if dtype == "uint8" else 126)


def float_product(op_type: str, dtype: str, count: int, biased: bool) -> Case:
    zero = np.full(count, 3 if count == 1 else 0, dtype)
    scale = np.linspace(0.05, 0.3, count, dtype=np.float32)
    b = weights(16, 8, dtype=dtype)
    bias = random(8, seed=5) if biased else None
    inputs: dict[str, Array | None] = {"a": random(2, 5, 16), "b": b, "bs": scale, "bz": zero, "bias": bias}
    if op_type == "MatMulIntegerToFloat":
        inputs = {"a": drawn(2, 5, 16), "b": b, "as": single(0.3), "bs": scale, "az": np.array(7, np.uint8),
                  "bz": zero, "bias": bias}  # fmt: skip
    return contrib(op_type, inputs, "float", note=f"{dtype} {count} {biased}", symbols={"a": ["batch", 5, 16]})


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
    }  # fmt: skip
    names = [name for name in ("as", "az", "b", "bs", "bz", "ys", "yz") if known and inputs[name] is not None]
    return contrib("QGemm", inputs, left if quantized else "float", constants=names, attributes=attributes,
                   note=f"{left} {right} {count} {known} {quantized} {bias} {attributes}")  # fmt: skip


def conv(dtype: str, count: int, dims: tuple[int, ...], filters: tuple[int, ...], **attributes: Any) -> Case:
    scale, zero = np.full(count, 0.01, np.float32), np.zeros(count, np.int8)
    inputs = {
        "x": drawn(*dims, dtype=dtype), "xs": single(0.5), "xz": np.array(7, dtype),
        "w": weights(*filters, dtype="int8"), "ws": scale if count > 1 else np.array(scale[0]),
        "wz": zero if count > 1 else np.array(zero[0]), "ys": single(2), "yz": np.array(100, dtype),
        "b": drawn(filters[0]).astype(np.int32) * 5,
    }  # fmt: skip
    names = ["xs", "xz", "w", "ws", "wz", "ys", "yz"]
    return contrib("QLinearConv", inputs, dtype, constants=names, attributes=attributes,
                   note=f"{dtype} {count} {dims} {attributes}")  # fmt: skip


PRODUCTS = [
    *[float_product(op_type, dtype, count, biased) for op_type in ("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
      for dtype in TYPES for count in (1, 8) for biased in (False, True)],
    contrib("MatMulIntegerToFloat", {"a": drawn(3, 4), "b": drawn(4, 5), "as": single(0.1), "bs": single(0.2)}, "float"),
    *[contrib("MatMulInteger16", {"a": drawn(*left, dtype="int16", limit=65536), "b": drawn(*right, dtype="int16", seed=1,
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
]  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_products(case: Case) -> None:
    check_case(case)


LINEAR = [
    contrib("QuantizeLinear", {"x": random(2, 3, 4) * 3, "xs": np.array([0.1, 0.2, 0.3], np.float32),
                               "xz": np.array([1, 2, 3], np.uint8)}, "uint8", note="axis 1"),
    contrib("QuantizeLinear", {"x": random(2, 3, 4) * 3, "xs": single(0.001), "xz": np.array(5, np.int16)}, "int16"),
    contrib("DequantizeLinear", {"x": drawn(2, 3, 4), "xs": np.array([0.1, 0.2], np.float32),
                                 "xz": np.array([1, 2], np.uint8)}, "float", attributes={"axis": 0}),
]  # fmt: skip


@pytest.mark.parametrize("case", LINEAR, ids=str)
def test_linear(case: Case) -> None:
    check_case(case)


# --- blocks ------------------------------------------------------------------------------------------------------


def matmul_nbits(bits: int, rows: int, cols: int, block: int, zeros: str, biased: bool) -> Case:
    blocks = -(-rows // block)
    zero = {"": None, "packed": drawn(cols, -(-blocks * bits // 8), seed=2), "float": random(cols, blocks) + 7}[zeros]
    inputs = {
        "a": random(2, 3, rows), "b": drawn(cols, blocks, block * bits // 8),
        "s": np.abs(random(cols, blocks)) + np.float32(0.1), "z": zero, "g": None, "bias": random(cols) if biased else None,
    }  # fmt: skip
    names = [name for name in ("b", "s", "z", "bias") if inputs[name] is not None]
    return contrib("MatMulNBits", inputs, constants=names, note=f"{bits} {rows} {block} {zeros} {biased}",
                   attributes={"K": rows, "N": cols, "bits": bits, "block_size": block},
                   symbols={"a": ["batch", "seq", rows]})  # fmt: skip


def grouped(rows: int, groups: Array) -> Case:
    case = matmul_nbits(4, rows, 5, 16, "", False)
    return replace(case, inputs={**case.inputs, "g": groups}, constants=[*case.constants, "g"], note=f"{rows} groups")


def gather(table: Array, scales: Array, zeros: Array | None, indices: Array, **attributes: Any) -> Case:
    inputs = {"w": table, "i": indices, "s": scales, "z": zeros}
    names = [name for name in ("w", "s", "z") if inputs[name] is not None]
    return contrib("GatherBlockQuantized", inputs, "float", constants=names, note=f"{table.dtype} {attributes}",
                   attributes={"block_size": 16, **attributes})  # fmt: skip


INDICES = [np.array([[1, 2, 9], [0, 9, -1]], np.int64), np.array(3, np.int32)]


def packed_tables(bits: int) -> list[Case]:
    table, share = drawn(10, 3, 40 * bits // 8), np.abs(random(10, 3, 3)) + np.float32(0.1)
    zeros = drawn(10, 3, -(-3 * bits // 8), seed=4)
    return [gather(table, share, zero, indices, bits=bits, quantize_axis=2)
            for zero in (None, zeros) for indices in INDICES]  # fmt: skip


def nibble_tables(dtype: Any) -> list[Case]:
    table = drawn(20, 18, 32, limit=8).astype(np.int8).astype(dtype)
    cases = []
    for first, second in [(0, 1), (1, 0), (1, 1), (0, 2), (2, 1), (-1, -1)]:
        dims = list(table.shape)
        dims[second] = -(-dims[second] // 16)
        share, zeros = np.abs(random(*dims)) + np.float32(0.1), (drawn(*dims) % 8).astype(dtype)
        cases += [gather(table, share, zero, INDICES[0], gather_axis=first, quantize_axis=second)
                  for zero in (None, zeros)]  # fmt: skip
    return cases


def bnb4(kind: int, rows: int, cols: int, block: int) -> Case:
    inputs = {"a": random(2, 3, rows), "b": drawn(-(-rows * cols // 2)),
              "m": np.abs(random(-(-rows * cols // block))) + np.float32(0.1)}  # fmt: skip
    return contrib("MatMulBnb4", inputs, constants=["b", "m"], note=f"{kind} {rows} {block}",
                   attributes={"K": rows, "N": cols, "block_size": block, "quant_type": kind})  # fmt: skip


BLOCKS = [
    *[matmul_nbits(bits, rows, cols, block, zeros, biased) for bits in (2, 4, 8)
      for rows, cols, block, biased in [(64, 5, 16, True), (40, 6, 16, False), (96, 3, 32, True)]
      for zeros in ("", "packed", "float") if bits != 8 or zeros != "float"],  # it has no kernel for that
    grouped(64, (np.arange(64) // 16).astype(np.int32)),
    *[case for bits in (2, 4, 8) for case in packed_tables(bits)],
    *nibble_tables(int4), *nibble_tables(uint4),
    *[bnb4(kind, rows, cols, block) for kind in (0, 1) for rows, cols, block in [(64, 5, 16), (33, 3, 32)]],
]  # fmt: skip


@pytest.mark.parametrize("case", BLOCKS, ids=str)
def test_blocks(case: Case) -> None:
    check_case(case)


# --- layers ------------------------------------------------------------------------------------------------------


def on_one_thread(case: Case) -> Case:
    """The case judged by onnxruntime on one thread: with more it quantises each thread's part of a batch on its own."""

    def expected(*_: Any, **__: Any) -> list[Any]:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = {given.name for given in session.get_inputs()}
        return list(session.run(None, {name: array for name, array in case.inputs.items() if name in names}))

    model: onnx.ModelProto = case_model(case)
    return replace(case, expected=expected)


def lstm(dtype: str, direction: str, batch: int, per_column: bool, **attributes: Any) -> Case:
    ways, hidden, size, steps = 2 if direction == "bidirectional" else 1, 5, 7, 6
    dims = (ways, 4 * hidden) if per_column else (ways,)
    zero = np.full(dims, 128 if dtype == "uint8" else 0, dtype)
    inputs = {
        "x": random(steps, batch, size), "w": weights(ways, size, 4 * hidden, dtype=dtype),
        "r": weights(ways, hidden, 4 * hidden, dtype=dtype), "b": random(ways, 8 * hidden, seed=3), "l": None,
        "h": random(ways, batch, hidden, seed=4) if per_column else None,
        "c": random(ways, batch, hidden, seed=5) if per_column else None, "p": None,
        "ws": np.abs(random(*dims)) * np.float32(0.02) + np.float32(0.001), "wz": zero,
        "rs": np.abs(random(*dims, seed=2)) * np.float32(0.02) + np.float32(0.001), "rz": zero,
    }  # fmt: skip
    return on_one_thread(contrib(
        "DynamicQuantizeLSTM", inputs, constants=["w", "r", "b", "ws", "wz", "rs", "rz"], outputs=3,
        attributes={"hidden_size": hidden, "direction": direction, **attributes}, output_dtypes=["float"] * 3,
        note=f"{dtype} {direction} {batch} {per_column}"))  # fmt: skip


def with_lengths(direction: str, tolerance: float) -> Case:
    """Backwards onnxruntime quantises the sequences' last steps together, whose ranges then differ a little."""
    case = replace(lstm("uint8", direction, 3, False), tolerance=tolerance)
    return on_one_thread(replace(case, inputs={**case.inputs, "l": np.array([6, 4, 2], np.int32)}, note=direction))


def embedding(segments: bool, mask: bool) -> Case:
    quantized = {"w": (20, 8), "p": (9, 8), "s": (2, 8), "g": (8,), "t": (8,)}
    tables: dict[str, Array | None] = {
        name: drawn(*dims, seed=number) for number, (name, dims) in enumerate(quantized.items())
    }
    scales: dict[str, Array | None] = {f"{name}s": single(0.01 + 0.01 * i) for i, name in enumerate(quantized)}
    zeros: dict[str, Array | None] = {f"{name}z": np.array(120 - i, np.uint8) for i, name in enumerate(quantized)}
    if not segments:
        tables["s"] = scales["ss"] = zeros["sz"] = None
    inputs: dict[str, Array | None] = {
        "i": random(2, 5, dtype="uint8").astype(np.int32),
        "j": random(2, 5, dtype="bool").astype(np.int32) if segments else None, **tables,
        "m": random(2, 5, dtype="bool", seed=3).astype(np.int32) if mask else None, **scales, **zeros,
    }  # fmt: skip
    known = [name for name in (*tables, *scales, *zeros) if inputs[name] is not None]
    return contrib("QEmbedLayerNormalization", inputs, constants=known, attributes={"epsilon": 1e-5}, outputs=2,
                   output_dtypes=("float", "int32"), note=f"{segments} {mask}",
                   symbols={"i": ["batch", "seq"], "j": ["batch", "seq"], "m": ["batch", "seq"]})  # fmt: skip


LAYERS = [
    *[lstm(dtype, direction, batch, per_column) for dtype in TYPES
      for direction in ("forward", "reverse", "bidirectional") for batch in (1, 3) for per_column in (False, True)],
    lstm("uint8", "forward", 2, False, input_forget=1, clip=0.5),
    with_lengths("forward", 1e-5), with_lengths("reverse", 3e-3), with_lengths("bidirectional", 3e-3),
    *[embedding(segments, mask) for segments in (False, True) for mask in (False, True)],
]  # fmt: skip


@pytest.mark.parametrize("case", LAYERS, ids=str)
def test_layers(case: Case) -> None:
    check_case(case)


# --- sizes that only the run knows ---------------------------------------------------------------------------------


SYMBOLIC = [
    (binary("QLinearAdd", "uint8", SCALES[0], drawn(2, 3, 4), drawn(3, 1)), {"a": ["n", 3, 4]}, {"a": (5, 3, 4)}),
    (binary("QLinearMul", "int8", SCALES[2], drawn(2, 8, dtype="int8"), drawn(2, 8, dtype="int8")),
     {"a": ["n", 8], "b": ["n", 8]}, {"a": (3, 8), "b": (3, 8)}),
    (unary("QLinearSigmoid", "uint8", 0.1, 0.05, drawn(2, 3)), {"x": ["n", 3]}, {"x": (4, 3)}),
    (unary("QLinearLeakyRelu", "uint8", 0.1, 0.05, drawn(2, 3)), {"x": ["n", 3]}, {"x": (4, 3)}),
    (softmax("uint8", (2, 3, 8), 0, 1 / 256, opset=13), {"x": ["n", "seq", 8]}, {"x": (3, 5, 8)}),
    (where("uint8", (2, 6), (2, 6), (6,), False), {"c": ["n", 6], "x": ["n", 6]}, {"c": (4, 6), "x": (4, 6)}),
    (concat("uint8", 1, (2, 4, 3), (2, 5, 3)), {"a": ["n", 4, 3], "b": ["n", 5, 3]}, {"a": (3, 4, 3), "b": (3, 5, 3)}),
    (mean("QLinearAveragePool", "uint8", (0.1, 0.1), (2, 3, 8, 8), kernel_shape=[2, 2], strides=[2, 2]),
     {"x": ["n", 3, 8, 8]}, {"x": (3, 3, 8, 8)}),
    (mean("QLinearAveragePool", "uint8", (0.5, 0.25), (2, 3, 9, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1],
          channels_last=1), {"x": ["n", "h", "w", 3]}, {"x": (1, 7, 10, 3)}),
    (mean("QLinearGlobalAveragePool", "uint8", (0.1, 0.1), (2, 3, 8, 8), channels_last=1),
     {"x": ["n", "h", "w", 3]}, {"x": (3, 4, 5, 3)}),
    (conv("uint8", 4, (2, 5, 4, 6), (4, 6, 3, 3), channels_last=1), {"x": ["n", 5, 4, 6]}, {"x": (3, 5, 4, 6)}),
    (float_product("DynamicQuantizeMatMul", "uint8", 1, True), {"a": ["n", "seq", 16]}, {"a": (3, 2, 16)}),
    (float_product("MatMulIntegerToFloat", "uint8", 8, True), {"a": ["n", "seq", 16]}, {"a": (3, 2, 16)}),
    (qgemm("uint8", "uint8", 8, True, True, 1), {"a": ["n", 16]}, {"a": (5, 16)}),
    (LINEAR[0], {"x": ["n", 3, 4]}, {"x": (5, 3, 4)}),
    (matmul_nbits(4, 64, 5, 16, "packed", True), {"a": ["n", "seq", 64]}, {"a": (1, 4, 64)}),
    (bnb4(1, 64, 5, 16), {"a": ["n", "seq", 64]}, {"a": (1, 4, 64)}),
    (packed_tables(4)[2], {"i": ["n", "seq"]}, {"i": (3, 4)}),
    (replace(lstm("uint8", "forward", 1, False), expected=None), {"x": ["seq", 1, 7]}, {"x": (4, 1, 7)}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "symbols", "other"), SYMBOLIC, ids=lambda item: str(item) if isinstance(item, Case) else "")
def test_symbolic_sizes(case: Case, symbols: dict[str, list[Any]], other: dict[str, tuple[int, ...]]) -> None:
    def resized(name: str, dims: tuple[int, ...]) -> Array:
        given = case.inputs[name]
        assert given is not None
        return np.resize(given[::-1], dims)

    sizes = {**case.inputs, **{name: resized(name, dims) for name, dims in other.items()}}
    check_case(replace(case, symbols=symbols), [sizes])


def test_weight_at_run_time_is_refused() -> None:
    """A weight that is packed must be known; the message says so."""
    from onnx_systemds import import_model
    from onnx_systemds.errors import TranspileError

    with pytest.raises(TranspileError, match="the quantised weight"):
        import_model(case_model(replace(matmul_nbits(4, 64, 5, 16, "", False), constants=["s"])))
