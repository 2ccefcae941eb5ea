"""Contents of files and folders, and outputs in them that judge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.errors import TranspileError
from onnx_systemds.model.load import load_model
from onnx_systemds.verifying.data_folders import read_contents
from onnx_systemds.verifying.verify import verify_model
from tests.official.cases import data_sets, model_of, official_cases
from tests.operators.harness import random
from tests.verifying.test_verify import FLOAT, invoke, make_model, network  # noqa: F401 - a fixture


def folder_of(case: str, path: Path) -> Path:
    """A case of ONNX's own suite as files; the folder of its data."""
    found = official_cases()[f"node/{case}"]
    model = model_of(found)
    onnx.save(model, path / "model.onnx")
    (path / "test_data_set_0").mkdir()
    (given, expected), *_ = data_sets(found, model)
    for kind, contents in (("input", given), ("output", expected)):
        for number, content in enumerate(contents):
            is_list = isinstance(content, list)
            proto = numpy_helper.from_list(content) if is_list else numpy_helper.from_array(np.asarray(content))
            (path / "test_data_set_0" / f"{kind}_{number}.pb").write_bytes(proto.SerializeToString())
    return path / "test_data_set_0"


@pytest.mark.parametrize("case", ["test_relu", "test_split_equal_parts_1d_opset18",
                                  "test_strnormalizer_nostopwords_nochangecase", "test_sequence_insert_at_back"])
def test_cases_of_onnx(case: str, tmp_path: Path) -> None:
    """Tensors, several outputs, texts and sequences."""
    report = verify_model(tmp_path / "model.onnx", folder_of(case, tmp_path))
    assert report.judge == "the outputs given"
    assert report.given == "as given"
    assert report.outputs
    assert report.passed


def test_optionals(tmp_path: Path) -> None:
    info = helper.make_value_info("X", helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [2])))
    graph = helper.make_graph([helper.make_node("OptionalGetElement", ["X"], ["Y"])], "net", [info],
                              [helper.make_tensor_value_info("Y", FLOAT, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    proto = numpy_helper.from_optional(np.array([1, 2], np.float32))
    (tmp_path / "input_0.pb").write_bytes(proto.SerializeToString())
    contents, expected = read_contents(tmp_path, load_model(model))
    np.testing.assert_array_equal(contents["X"], [1, 2])
    assert expected is None


@pytest.mark.engine
def test_outputs_in_the_folder_judge(tmp_path: Path) -> None:
    folder = folder_of("test_relu", tmp_path)
    output = folder / "output_0.pb"
    right = numpy_helper.to_array(TensorProto.FromString(output.read_bytes()))
    output.write_bytes(numpy_helper.from_array(right + np.float32(0.5)).SerializeToString())
    result = invoke("verify", tmp_path / "model.onnx", "--inputs", folder)
    assert result.exit_code == 1
    assert "judge: the outputs given\n" in result.output
    assert "FAILED: 0 of 1 outputs agree" in result.output
    output.unlink()
    result = invoke("verify", tmp_path / "model.onnx", "--inputs", folder)
    assert result.exit_code == 0
    assert "judge: onnxruntime" in result.output


@pytest.mark.engine
def test_the_array_of_the_only_input(network: Path, tmp_path: Path) -> None:  # noqa: F811
    np.save(tmp_path / "x.npy", random(5, 3))
    result = invoke("verify", network, "--inputs", tmp_path / "x.npy")
    assert result.exit_code == 0, result.output
    assert "inputs: as given\n  X: float32 [5, 3]\n" in result.output


def test_expected_outputs_from_python(network: Path) -> None:  # noqa: F811
    x = random(2, 3)
    right = verify_model(network, {"X": x}, expected={"Y": np.zeros((2, 4), np.float32)})
    assert right.outputs[0].failed == 8
    with pytest.raises(TranspileError, match='"Z" is no output of the graph'):
        verify_model(network, {"X": x}, expected={"Z": x})


def two_inputs() -> onnx.ModelProto:
    node = helper.make_node("Add", ["A", "B"], ["Y"])
    return make_model([node], [("A", FLOAT, [2]), ("B", FLOAT, [2])], [("Y", FLOAT, [2])])


def external() -> bytes:
    tensor = TensorProto(data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/hostname")
    return tensor.SerializeToString()


GOOD = numpy_helper.from_array(np.ones(2, np.float32)).SerializeToString()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"X.npy": GOOD}, "the folder has no input_0.pb"),
        ({"input_0.pb": GOOD, "input_2.pb": GOOD}, "the numbers of its input_*.pb have gaps"),
        ({f"input_{place}.pb": GOOD for place in range(3)}, "it has 3 files input_*.pb, the model 2 inputs"),
        ({"input_0.pb": GOOD, "output_0.pb": GOOD, "output_1.pb": GOOD}, "it has 2 files output_*.pb, the model 1"),
        ({"input_0.pb": b"\xff\xff\xff"}, "it is no content of an input or output"),
        ({"input_0.pb": external()}, "its content lies in another file, which is not read"),
    ],
)
def test_folders_that_are_refused(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TranspileError) as caught:
        read_contents(tmp_path, load_model(two_inputs()))
    assert message in str(caught.value)


def test_one_array_for_several_inputs(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", random(2))
    with pytest.raises(TranspileError, match="it holds one array, the model has 2 inputs"):
        read_contents(tmp_path / "x.npy", load_model(two_inputs()))
