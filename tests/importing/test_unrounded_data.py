"""Scripts take numbers as a file has them, which are not rounded to single precision, for those that ONNX would take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.importing.score_program import score_text
from onnx_systemds.model.single_precision import has_other_decimals
from tests.command_line import run_dml

ROWS = np.round(np.arange(-1, 1.05, 0.1), 1).reshape(-1, 1)
CONSTANTS = {"number": np.float32(0.3), "row": np.array([[0.3, -0.4, 0.5]], np.float32), "exact": np.float32(0.5)}
COMPARISONS = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal")


def compared() -> list[onnx.NodeProto]:
    """All comparisons with each constant on either side."""
    pairs = [(op, *pair) for op in COMPARISONS for name in CONSTANTS for pair in ((name, "X"), ("X", name))]
    return [helper.make_node(op, [left, right], [f"{op}_{left}_{right}"]) for op, left, right in pairs]


def prepared() -> list[onnx.NodeProto]:
    """What ai.onnx.ml finds numbers by."""
    ml = {"domain": "ai.onnx.ml"}
    return [
        *[helper.make_node("Binarizer", ["X"], [f"above_{number}"], threshold=number, **ml) for number in (0.3, -0.4, 0.5)],
        helper.make_node("LabelEncoder", ["X"], ["label"], keys_floats=[0.3, -0.4, 0.5], values_floats=[1.0, 2, 3], default_float=7.0, **ml),
        helper.make_node("Imputer", ["X"], ["imputed"], imputed_value_floats=[2.0], replaced_value_float=-0.4, **ml),
    ]


def activated() -> list[onnx.NodeProto]:
    """Those that jump at a number."""
    limits = (0.3, 0.7, -0.4, 0.5)
    return [*[helper.make_node("ThresholdedRelu", ["X"], [f"above_{limit}"], alpha=limit) for limit in limits],
            *[helper.make_node("Shrink", ["X"], [f"outside_{limit}"], lambd=limit, bias=0.25) for limit in limits]]


@pytest.mark.engine
@pytest.mark.parametrize("nodes", [compared(), prepared(), activated()], ids=["comparisons", "ai.onnx.ml", "activations"])
def test_numbers_with_one_decimal(nodes: list[onnx.NodeProto], tmp_path: Path) -> None:
    floats = [helper.make_node("Cast", [node.output[0]], [f"{node.output[0]}_float"], to=TensorProto.FLOAT) for node in nodes]
    joined = helper.make_node("Concat", [node.output[0] for node in floats], ["Y"], axis=1)
    known = [numpy_helper.from_array(np.asarray(array), name) for name, array in CONSTANTS.items()]
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in (("X", 1), ("Y", "m")))
    model = helper.make_model(helper.make_graph([*nodes, *floats, joined], "g", [given], [result], known), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)])
    script = import_model(model)
    script.save(tmp_path / "model.dml")
    np.savetxt(tmp_path / "X.csv", ROWS, fmt="%.1f")
    run_dml(score_text(script, "model"), tmp_path, arguments={"X": "X.csv", "Y": "Y.csv"})
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": ROWS.astype(np.float32)})
    np.testing.assert_allclose(np.loadtxt(tmp_path / "Y.csv", delimiter=","), expected, rtol=1e-6)
    assert " > 0.5" in script.text, "what is the same in FP64 stays"


@pytest.mark.parametrize(("numbers", "expected"), [
    ([0.5, -3, 1e6, 0.0, np.inf, np.nan], False), ([np.float32(0.3)], True), ([0.3], False), ([1, np.float32(-0.1)], True),
    ([2.0**100, 1 / 1024], False),
])
def test_constants_of_other_decimals(numbers: list[float], expected: bool) -> None:
    assert has_other_decimals(np.array(numbers, np.float64)) is expected
