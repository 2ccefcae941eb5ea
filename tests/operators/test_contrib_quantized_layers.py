"""Recurrent and embedding layers of quantised weights, as onnxruntime's CPU kernels have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.operators.harness import Array, Case, case_model, check_case, random
from tests.operators.quantized_cases import TYPES, drawn, resized, row, single, weights


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
    }
    return on_one_thread(row(
        "DynamicQuantizeLSTM", inputs, constants=["w", "r", "b", "ws", "wz", "rs", "rz"], outputs=3,
        attributes={"hidden_size": hidden, "direction": direction, **attributes}, output_dtypes=["float"] * 3,
        note=f"{dtype} {direction} {batch} {per_column}"))


def with_lengths(direction: str, tolerance: float) -> Case:
    """Backwards onnxruntime quantises the sequences' last steps together, whose ranges then differ a little."""
    case = replace(lstm("uint8", direction, 3, False), tolerance=tolerance)
    return on_one_thread(replace(case, inputs={**case.inputs, "l": np.array([6, 4, 2], np.int32)}, note=direction))


def embedding(segments: bool, mask: bool) -> Case:
    dims_of = {"w": (20, 8), "p": (9, 8), "s": (2, 8), "g": (8,), "t": (8,)}
    tables: dict[str, Array | None] = {
        name: drawn(*dims, seed=number) for number, (name, dims) in enumerate(dims_of.items())
    }
    scales: dict[str, Array | None] = {f"{name}s": single(0.01 + 0.01 * i) for i, name in enumerate(dims_of)}
    zeros: dict[str, Array | None] = {f"{name}z": np.array(120 - i, np.uint8) for i, name in enumerate(dims_of)}
    if not segments:
        tables["s"] = scales["ss"] = zeros["sz"] = None
    inputs: dict[str, Array | None] = {
        "i": random(2, 5, dtype="uint8").astype(np.int32),
        "j": random(2, 5, dtype="bool").astype(np.int32) if segments else None, **tables,
        "m": random(2, 5, dtype="bool", seed=3).astype(np.int32) if mask else None, **scales, **zeros,
    }
    known = [name for name in (*tables, *scales, *zeros) if inputs[name] is not None]
    return row("QEmbedLayerNormalization", inputs, constants=known, attributes={"epsilon": 1e-5}, outputs=2,
                   output_dtypes=("float", "int32"), note=f"{segments} {mask}")


LAYERS = [
    *[lstm(dtype, direction, batch, per_column) for dtype in TYPES
      for direction in ("forward", "reverse", "bidirectional") for batch in (1, 3) for per_column in (False, True)],
    lstm("uint8", "forward", 2, False, input_forget=1, clip=0.5),
    with_lengths("forward", 1e-5), with_lengths("reverse", 3e-3), with_lengths("bidirectional", 3e-3),
    *[embedding(segments, mask) for segments in (False, True) for mask in (False, True)],
]
SIZED = [
    resized(replace(lstm("uint8", "forward", 1, False), expected=None), {"x": ["seq", 1, 7]}, x=(4, 1, 7)),
    resized(embedding(True, True), {name: ["batch", "seq"] for name in "ijm"}, i=(3, 4), j=(3, 4), m=(3, 4)),
    resized(embedding(False, False), {"i": ["batch", "seq"]}, i=(3, 4)),
]
CASES = [*LAYERS, *SIZED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)
