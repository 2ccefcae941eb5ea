"""Weights that are quantised in blocks, with several numbers packed in a byte: products and look-ups.

The weights are known at conversion, so they are dequantised then: the script multiplies plain matrices.
"""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Array

_FP4 = [0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25]
_NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]
_CODES = ([*_FP4, *(-code for code in _FP4)], _NF4)  # by quant_type


def unpacked(packed: Array, bits: int) -> Array:
    """The numbers in the bytes of the last axis; the first number is in the lowest bits. Raises UnsupportedCase."""
    if bits not in (2, 4, 8):
        raise UnsupportedCase(f"numbers of {bits} bits, known are 2, 4 and 8")
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return numbers.reshape(*packed.shape[:-1], -1)


def _required(node: Expansion, *names: str) -> list[int]:
    found = [node.attribute(name) for name in names]
    if any(item is None or int(item) < 1 for item in found):
        raise UnsupportedCase(f"{' and '.join(names)} must be given")
    return [int(item) for item in found]


# --- MatMulNBits -------------------------------------------------------------------------------------------------


@expander("MatMulNBits", domain=CONTRIB)
def matmul_nbits(node: Expansion) -> None:
    """A product with N columns of K numbers, each in blocks with a scale and a zero point.

    accuracy_level only allows to compute less exactly.
    """
    rows, cols, block = _required(node, "K", "N", "block_size")
    bits = int(node.attribute("bits"))
    packed = node.require_constant("B", "the quantised weight")
    numbers = unpacked(packed.reshape(cols, -1), bits)[:, :rows].astype(np.float32)
    blocks = -(-rows // block)
    scales = node.require_constant("scales", "the scales").reshape(cols, blocks).astype(np.float32)
    group = np.arange(rows) // block
    if node.has("g_idx"):
        group = node.require_constant("g_idx", "the groups").ravel()[:rows].astype(np.int64)
    zeros = _zero_points(node, cols, blocks, bits)
    weight = (numbers - zeros[:, group]) * scales[:, group]
    result = node.emit("MatMul", node.input("A"), node.known(np.ascontiguousarray(weight.T), "float"))
    if node.has("bias"):
        result = node.emit("Add", result, node.input("bias"))
    node.give(result)


def _zero_points(node: Expansion, cols: int, blocks: int, bits: int) -> Array:
    """A zero point for each block: packed as the weight is, or as floats; in the middle where there is none."""
    if not node.has("zero_points"):
        return np.full((cols, blocks), 2 ** (bits - 1), np.float32)
    given = node.require_constant("zero_points", "the zero points")
    if given.dtype == np.uint8:
        given = unpacked(given.reshape(cols, -1), bits)[:, :blocks]
    return given.reshape(cols, blocks).astype(np.float32)


# --- MatMulBnb4 --------------------------------------------------------------------------------------------------


@expander("MatMulBnb4", domain=CONTRIB)
def matmul_bnb4(node: Expansion) -> None:
    """A product with a weight of 4-bit codes, FP4 or NF4, in blocks over all its elements with a largest magnitude."""
    rows, cols, block = _required(node, "K", "N", "block_size")
    kind = int(node.attribute("quant_type") or 0)
    if kind not in (0, 1):
        raise UnsupportedCase(f"quant_type {kind}, known are 0 (FP4) and 1 (NF4)")
    packed = node.require_constant("B", "the quantised weight").ravel()
    codes = np.stack([packed >> 4, packed & 15], axis=1).ravel()[: rows * cols]
    largest = node.require_constant("absmax", "the magnitudes").ravel().astype(np.float32)
    values = np.array(_CODES[kind], np.float32)[codes] * np.repeat(largest, block)[: rows * cols]
    weight = values.reshape(cols, rows).T if node.attribute("transB") else values.reshape(rows, cols)
    node.give(node.emit("MatMul", node.input("A"), node.known(np.ascontiguousarray(weight), "float")))


# --- GatherBlockQuantized ----------------------------------------------------------------------------------------


@expander("GatherBlockQuantized", domain=CONTRIB)
def gather_block_quantized(node: Expansion) -> None:
    """Slices of a quantised table, dequantised: with their own scales, or after it where the axes are the same."""
    rank = node.rank("data")
    gather, quantized = (node.normalize_axis(int(node.attribute(name)), rank) for name in
                         ("gather_axis", "quantize_axis"))
    (block,) = _required(node, "block_size")
    table, zeros = _table(node)
    if gather == quantized:
        whole = node.emit("DequantizeLinear", table, node.input("scales"), zeros, axis=quantized, block_size=block)
        node.emit("Gather", whole, node.input("indices"), to=node.output(), axis=gather)
        return
    parts = [node.emit("Gather", name, node.input("indices"), axis=gather) if name else "" for name in
             (table, node.input("scales"), zeros)]
    axis = quantized if quantized < gather else quantized + node.rank("indices") - 1
    node.emit("DequantizeLinear", *parts, to=node.output(), axis=axis, block_size=block)


def _table(node: Expansion) -> tuple[str, str]:
    """The numbers and their zero points ("" for none), one in each element."""
    if node.dtype("data") not in INTEGER_DTYPES:
        raise UnsupportedCase(f"a quantised table of {node.dtype('data')}")
    if node.dtype("data") != "uint8":
        return node.input("data"), node.input("zero_points")
    bits = int(node.attribute("bits"))
    table = unpacked(node.require_constant("data", "the quantised table"), bits)
    if not node.has("zero_points"):
        return node.known(table.astype(np.int16) - 2 ** (bits - 1), "int8"), ""
    zeros = unpacked(node.require_constant("zero_points", "the zero points"), bits)
    count = node.dims("scales")[-1]
    if not isinstance(count, int):
        raise UnsupportedCase("the scales of a quantised table need known dims")
    return node.known(table, "uint8"), node.known(zeros[..., :count], "uint8")
