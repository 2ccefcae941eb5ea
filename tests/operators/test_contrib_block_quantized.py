"""Products with, and rows of, weights that are quantised by blocks, as onnxruntime's CPU kernels have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import int4, uint4

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Array, Case, case_model, check_case, random
from tests.operators.quantized_cases import drawn, resized, row


def matmul_nbits(bits: int, rows: int, cols: int, block: int, zeros: str, biased: bool) -> Case:
    blocks = -(-rows // block)
    zero = {"": None, "packed": drawn(cols, -(-blocks * bits // 8), seed=2), "float": random(cols, blocks) + 7}[zeros]
    inputs = {
        "a": random(2, 3, rows), "b": drawn(cols, blocks, block * bits // 8),
        "s": np.abs(random(cols, blocks)) + np.float32(0.1), "z": zero, "g": None, "bias": random(cols) if biased else None,
    }
    names = [name for name in ("b", "s", "z", "bias") if inputs[name] is not None]
    return row("MatMulNBits", inputs, constants=names, note=f"{bits} {rows} {block} {zeros} {biased}",
                   attributes={"K": rows, "N": cols, "bits": bits, "block_size": block})


def grouped(rows: int, groups: Array) -> Case:
    case = matmul_nbits(4, rows, 5, 16, "", False)
    return replace(case, inputs={**case.inputs, "g": groups}, constants=[*case.constants, "g"], note=f"{rows} groups")


def gather(table: Array, scales: Array, zeros: Array | None, indices: Array, **attributes: Any) -> Case:
    inputs = {"w": table, "i": indices, "s": scales, "z": zeros}
    names = [name for name in ("w", "s", "z") if inputs[name] is not None]
    return row("GatherBlockQuantized", inputs, "float", constants=names, note=f"{table.dtype} {attributes}",
                   attributes={"block_size": 16, **attributes})


INDICES = [np.array([[1, 2, 9], [0, 9, -1]], np.int64), np.array(3, np.int32)]


def packed_tables(bits: int) -> list[Case]:
    table, share = drawn(10, 3, 40 * bits // 8), np.abs(random(10, 3, 3)) + np.float32(0.1)
    zeros = drawn(10, 3, -(-3 * bits // 8), seed=4)
    return [gather(table, share, zero, indices, bits=bits, quantize_axis=2)
            for zero in (None, zeros) for indices in INDICES]


def nibble_tables(dtype: Any) -> list[Case]:
    table = drawn(20, 18, 32, limit=8).astype(np.int8).astype(dtype)
    cases = []
    for first, second in [(0, 1), (1, 0), (1, 1), (0, 2), (2, 1), (-1, -1)]:
        dims = list(table.shape)
        dims[second] = -(-dims[second] // 16)
        share, zeros = np.abs(random(*dims)) + np.float32(0.1), (drawn(*dims) % 8).astype(dtype)
        cases += [gather(table, share, zero, INDICES[0], gather_axis=first, quantize_axis=second)
                  for zero in (None, zeros)]
    return cases


def bnb4(kind: int, rows: int, cols: int, block: int) -> Case:
    inputs = {"a": random(2, 3, rows), "b": drawn(-(-rows * cols // 2)),
              "m": np.abs(random(-(-rows * cols // block))) + np.float32(0.1)}
    return row("MatMulBnb4", inputs, constants=["b", "m"], note=f"{kind} {rows} {block}",
                   attributes={"K": rows, "N": cols, "block_size": block, "quant_type": kind})


BLOCKS = [
    *[matmul_nbits(bits, rows, cols, block, zeros, biased) for bits in (2, 4, 8)
      for rows, cols, block, biased in [(64, 5, 16, True), (40, 6, 16, False), (96, 3, 32, True)]
      for zeros in ("", "packed", "float") if bits != 8 or zeros != "float"],  # it has no kernel for that
    grouped(64, (np.arange(64) // 16).astype(np.int32)),
    *[case for bits in (2, 4, 8) for case in packed_tables(bits)],
    *nibble_tables(int4), *nibble_tables(uint4),
    *[bnb4(kind, rows, cols, block) for kind in (0, 1) for rows, cols, block in [(64, 5, 16), (33, 3, 32)]],
]
ROWS = {"a": ["n", "seq", 64]}
SIZED = [
    resized(matmul_nbits(4, 64, 5, 16, "packed", True), ROWS, a=(1, 4, 64)),
    resized(bnb4(1, 64, 5, 16), ROWS, a=(1, 4, 64)),
    resized(packed_tables(4)[2], {"i": ["n", "seq"]}, i=(3, 4)),
]
CASES = [*BLOCKS, *SIZED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_weight_at_run_time_is_refused() -> None:
    """A weight that is packed must be known; the message says so."""
    with pytest.raises(TranspileError, match="the quantised weight"):
        import_model(case_model(replace(matmul_nbits(4, 64, 5, 16, "", False), constants=["s"])))
