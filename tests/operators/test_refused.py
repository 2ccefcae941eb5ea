"""Nodes that break a rule of their operator are told as such, with their place, at conversion."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.errors import InvalidModel, TranspileError, UnsupportedCase
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Case, case_model, random

IMAGE = {"x": random(1, 1, 3, 3)}
OPEN = {"x": ["n", 1, 3, 3]}
ROW = {"x": random(2, 3), "i": np.array([[0, 1, 0]]), "u": random(1, 3)}
FOUR = np.ones(4, np.float32)

REFUSED: list[tuple[Case, type[TranspileError], str]] = [
    *[(Case(op_type, 12, IMAGE, {"kernel_shape": [0, 1]}), InvalidModel, "one element at least")
      for op_type in ("MaxPool", "AveragePool", "LpPool")],
    *[(Case(op_type, 12, IMAGE, {"kernel_shape": [1, 10**9]}, symbols=OPEN), TranspileError, "larger than|negative")
      for op_type in ("MaxPool", "AveragePool", "LpPool")],
    (Case("MaxPool", 12, IMAGE, {"kernel_shape": [5, 5]}, symbols={"x": ["n", 1, "h", 3]}), InvalidModel,
     "a window of 5 is larger than spatial axis 1 with its padding: 3"),
    *[(Case(op_type, 22, IMAGE, {"kernel_shape": [3, size], **attributes}), InvalidModel,
       f"a window of {size} is larger than spatial axis 1 with its padding: 3")
      for op_type, size, attributes in [("MaxPool", 5, {"ceil_mode": 1}), ("AveragePool", 4, {"strides": [1, 2]}),
                                        ("LpPool", 5, {"ceil_mode": 1})]],
    (Case("Pad", 18, {"x": np.zeros((3, 0), np.float32), "pads": np.array([0, -1, 0, 0])}, constants=["pads"]), InvalidModel,
     r"the pads \[-1, 0\] of axis 1 take more than its 0 elements"),
    (Case("Col2Im", 18, {"x": random(1, 4, 6), "image": np.array([3, 4]), "block": np.array([2, 2])},
          {"pads": [-1, 0, 0, 0]}, ["image", "block"]), UnsupportedCase, "2 spatial axes"),
    (Case("MaxUnpool", 11, {"x": random(1, 1, 3), "i": np.array([[[0, 2, 4]]])}, {"kernel_shape": [2], "pads": [0, -1]}),
     UnsupportedCase, "1 spatial axes"),
    (Case("ScatterElements", 18, ROW, {"reduction": "median"}), UnsupportedCase, "median"),
    (Case("ScatterND", 18, {**ROW, "i": np.array([[0]])}, {"reduction": "Add"}), UnsupportedCase, "Add"),
    (Case("GroupNormalization", 18, {"x": random(2, 4, 3), "s": FOUR, "b": FOUR}, {"num_groups": 2}), InvalidModel,
     "one scale for each group: 2, not 4"),
    (Case("GroupNormalization", 21, {"x": random(2, 4, 3), "s": FOUR, "b": FOUR[:2]}, {"num_groups": 2}), InvalidModel,
     "one bias for each channel: 4, not 2"),
    (Case("GroupNormalization", 21, {"x": random(2, 4, 3), "s": FOUR, "b": FOUR}, {"num_groups": 3}), InvalidModel,
     "cannot be divided"),
    (Case("Det", 11, {"x": random(2, 3)}), InvalidModel, "square"),
    (Case("QuantizeLinear", 10, {"x": random(2, 3), "scale": FOUR, "zero": np.zeros(4, np.uint8)}), UnsupportedCase,
     'axis 0 of "scale" is 4, axis 1 of "x" is 3'),
    (Case("DequantizeLinear", 13, {"x": random(2, 3, dtype="uint8"), "scale": FOUR[:3], "zero": np.zeros(2, np.uint8)}),
     UnsupportedCase, 'axis 0 of "zero" is 2, axis 1 of "x" is 3'),
    (Case("QuantizeLinear", 13, {"x": random(2, 3), "scale": random(1, 3)}), InvalidModel, "is no vector of numbers"),
    (Case("QuantizeLinear", 21, {"x": FOUR, "scale": FOUR[:3]}, {"axis": 0, "block_size": 2}), UnsupportedCase,
     'axis 0 of "scale" is 3, the number of blocks is 2'),
    (Case("QuantizeLinear", 21, {"x": random(4, 3), "scale": random(2, 2)}, {"axis": 0, "block_size": 2}), UnsupportedCase,
     'axis 1 of "scale" is 2, axis 1 of "x" is 3'),
    (Case("DequantizeLinear", 13, {"x": np.zeros((2, 3), np.uint8), "scale": FOUR[:1], "zero": np.zeros(3, np.uint8)}),
     UnsupportedCase, 'the number of elements of "zero" is 3, that of scales is 1'),
    (Case("ConvTranspose", 11, {"x": random(1, 1, 2, 1), "w": random(1, 2, 1, 1)}, {"pads": [1, 1, 1, 1]}), InvalidModel,
     "the pads take all of axis 3 of the output: its size is -1"),
    (Case("ScatterElements", 18, {**ROW, "u": random(1, 2)}), UnsupportedCase, 'axis 1 of "u" is 2, axis 1 of "i" is 3'),
    (Case("RoiAlign", 16, {"x": random(1, 1, 3, 3), "rois": random(3, 4), "batch": np.zeros(2, np.int64)}), UnsupportedCase,
     'axis 0 of "rois" is 3, axis 0 of "batch" is 2'),
    (Case("Tile", 13, {"x": random(2, 3), "r": np.array([2, -1])}, constants=["r"]), InvalidModel, "along axis 1 is -1, less"),
    (Case("Tile", 1, {"x": random(2, 3), "n": np.float32([-2]), "axis": np.float32([0])}, constants=["n", "axis"]),
     InvalidModel, "along axis 0 is -2, less"),
    (Case("PRelu", 6, {"x": random(2, 3, 4), "slope": FOUR}), UnsupportedCase, 'axis 0 of "slope" is 4, axis 1 of "x" is 3'),
    *[(Case("BatchNormalization", 15, {"x": random(*dims), **dict.fromkeys("sbm", random(scale)), "v": FOUR[:last]},
            constants=constants), UnsupportedCase, words)
      for dims, scale, last, words in [((4, 1), 4, 4, '"s" is 4, that of channels is 1'),
                                       ((4, 3), 1, 1, '"s" is 1, that of channels is 3'),
                                       ((2, 3, 2, 2), 3, 4, '"v" is 4, that of channels is 3')]
      for constants in ([], ["s", "b", "m", "v"])],
    (Case("BatchNormalization", 7, {"x": random(2, 3, 2), **dict.fromkeys("sbmv", FOUR[:3])}, {"spatial": 0},
          constants=["s", "b", "m", "v"]), UnsupportedCase, '"s" is 3, that of elements of a sample is 6'),
    *[(Case("LayerNormalization", 17, {"x": random(2, 3, 4), "s": FOUR[:scale], "b": FOUR[:bias]}, constants=["s", "b"]),
       InvalidModel, words)
      for scale, bias, words in [(3, 4, '"s" is 3, the axis of the input is 4'), (4, 2, '"b" is 2, the axis of the input is 4')]],
    (Case("RMSNormalization", 23, {"x": random(2, 3, 4), "s": FOUR[:3]}, constants=["s"]), InvalidModel, '"s" is 3, the axis of the input is 4'),
    (Case("Conv", 11, {"x": random(1, 1, 3, 3), "w": random(1, 1, 2, 2)}, {"kernel_shape": [3, 3]}), InvalidModel,
     r"kernel_shape is \[3, 3\], the weight has \[2, 2\]"),
    *[(Case("LSTM", 14, {"x": random(5, 2, 3), "w": random(1, *w), "r": random(1, *r), "b": random(1, b)},
            {"hidden_size": hidden}, constants=["w", "r", "b"], outputs=3), UnsupportedCase, words)
      for w, r, b, hidden, words in [
          ((16, 4), (16, 4), 32, 4, 'axis 2 of "w" is 4, that of inputs is 3'),
          ((12, 3), (12, 4), 24, 4, 'axis 1 of "w" is 12, .* is 16'),
          ((16, 3), (12, 4), 32, 4, 'axis 1 of "r" is 12, .* is 16'),
          ((16, 3), (16, 4), 16, 4, 'axis 1 of "b" is 16, .* is 32'),
          ((16, 3), (16, 4), 32, 5, 'hidden_size is 5, the last axis of "r" is 4')]],
    (Case("GRU", 14, {"x": random(5, 2, 3), "w": random(1, 12, 3), "r": random(1, 12, 4)},
          {"hidden_size": 4, "direction": "bidirectional"}, constants=["w", "r"], outputs=2), UnsupportedCase,
     'axis 0 of "w" is 1, the number of directions is 2'),
    (Case("Gather", 11, {"x": random(3, 2), "i": random(2, 2)}), InvalidModel,
     r"input 1 \(indices\) is float, the operator takes integers"),
    (Case("Where", 9, {"c": random(2), "x": random(2), "y": random(2)}), InvalidModel, "is float.*, the operator takes booleans"),
    (Case("Sin", 7, {"x": np.array(["a"], dtype=object)}), InvalidModel, "is string, the operator takes floats"),
    (Case("ImageScaler", 9, {"x": random(1, 3, 2, 2)}, {"bias": [1.0, 2.0]}), InvalidModel, "2 biases for 3 channels"),
    (Case("ImageScaler", 9, {"x": random(1, 3)}, {"bias": [1.0]}), InvalidModel, "images of rank 4"),
    (Case("Not", 1, {"x": np.array([1, 0], np.int32)}), InvalidModel, "is int32, the operator takes booleans"),
    (Case("Sin", 7, {"x": np.array([1, 0])}), InvalidModel, "is int64, the operator takes floats"),
    (Case("Add", 14, {"a": random(2) > 0, "b": random(2) > 0}), InvalidModel, "is bool, the operator takes floats or integers"),
    (Case("Mul", 14, {"a": random(2), "b": random(2).astype(np.float64)}), InvalidModel,
     r"input 1 \(B\) is double, an input that it shares its type with is float"),
    (Case("Concat", 13, {"a": random(2), "b": np.array([1, 2]), "c": random(2)}, {"axis": 0}), InvalidModel, "is int64, .* is float"),
    (Case("Scaler", 1, {"x": np.array([["a"]], dtype=object)}, {"scale": [1.0], "offset": [0.0]}, domain="ai.onnx.ml",
          output_dtypes=["float"]), InvalidModel, "is string, the operator takes floats or integers"),
]


@pytest.mark.parametrize(("case", "kind", "words"), REFUSED, ids=lambda value: str(value) if isinstance(value, Case) else "")
def test_case(case: Case, kind: type[TranspileError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        import_model(case_model(case))
    assert case.op_type in str(caught.value) or "out0" in str(caught.value)


IN_THE_RUN: list[tuple[Case, str]] = [
    (Case("Tile", 13, {"x": random(2, 3), "r": np.array([2, -1])}), "the number of copies along axis 1 is -1"),
    (Case("RoiAlign", 16, {"x": random(1, 1, 3, 3), "rois": random(3, 4), "batch": np.zeros(2, np.int64)},
          symbols={"rois": ["n", 4], "batch": ["m"]}), r'"batch" has to be \[n\], where n is 3, got \[2\]'),
    (Case("ReduceLogSumExp", 18, {"x": np.zeros((3, 0, 5), np.float32), "axes": np.array([1, 2])}, constants=["axes"],
          symbols={"x": ["a", "b", "c"]}), 'axis 1 of "x" is 0'),
    (Case("QuantizeLinear", 21, {"x": FOUR, "scale": FOUR[:2]}, {"axis": 0, "block_size": 4}, symbols={"scale": ["n"]}),
     'axis 0 of "scale" is 2, the number of blocks is 1'),
]


@pytest.mark.parametrize(("case", "words"), IN_THE_RUN, ids=str)
def test_what_the_run_shows(case: Case, words: str) -> None:
    feeds = {name: array for name, array in case.inputs.items() if name not in case.constants}
    with ScoringFunction(import_model(case_model(case))) as function, pytest.raises((TranspileError, EngineError), match=words):
        function(feeds)
