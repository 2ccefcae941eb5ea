"""Weights that programs trained go back into the model that they came from."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import ScoringFunction, import_model, trained_model
from onnx_systemds.engine.matrix_files import Weight, write_list
from onnx_systemds.errors import InvalidModel, TranspileError
from onnx_systemds.importing.script import Script
from onnx_systemds.importing.weights_mark import with_mark
from tests.invoking import invoke
from tests.model_zoo import MODELS, needs_models

W = np.arange(6, dtype=np.float32).reshape(3, 2)


def changed(script: Script, folder: Path) -> list[Weight]:
    """The weights of a script as a program might have trained them: the trained ones a little different."""
    assert script.derivatives is not None
    trained = [replace(weight, array=weight.array * 1.25 + 0.25) if weight.name in script.derivatives.weights else weight
               for weight in script.weights]
    folder.mkdir()
    write_list(folder, "weights", [*trained, with_mark(script.weights)[-1]])
    return trained


@needs_models
@pytest.mark.engine
@pytest.mark.parametrize("name", ["resnet_tiny.dynamo", "bert_tiny.ts", "lstm_gru_tagger.ts", "unet_tiny.ts", "vit_external"])
def test_the_model_gives_what_the_script_does(name: str, tmp_path: Path) -> None:
    assert MODELS is not None
    path = MODELS / "generated" / f"{name}.onnx"
    script = import_model(path, gradients=["weights"])
    assert script.derivatives is not None and len(script.derivatives.weights) > 10
    weights = changed(script, tmp_path / "w")
    done = invoke("trained", path, tmp_path / "w", "-o", tmp_path / "new.onnx")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new.onnx.data").exists() is (name == "vit_external")
    with np.load(path.with_suffix(".npz"), allow_pickle=True) as stored:
        feeds = {key.removeprefix("in_"): stored[key] for key in stored.files if key.startswith("in_")}
    before, after = (onnxruntime.InferenceSession(file).run(None, feeds) for file in (path, tmp_path / "new.onnx"))
    with ScoringFunction(replace(script, weights=tuple(weights))) as function:
        found = function(feeds)
    for name, old, new in zip((port.name for port in script.outputs), before, after):
        np.testing.assert_allclose(found[name], new, rtol=2e-3, atol=2e-4 * max(1, abs(new).max()), err_msg=name)
        assert abs(old - new).max() > 0


def gemm(dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, dtype, ["n", size]) for name, size in (("X", 3), ("Y", 2))]
    weight = numpy_helper.from_array(W.astype(helper.tensor_dtype_to_np_dtype(dtype)), "W")
    graph = helper.make_graph([helper.make_node("MatMul", ["X", "W"], ["Y"])], "g", infos[:1], infos[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_types_of_the_model_stay(dtype: int, tmp_path: Path) -> None:
    model = gemm(dtype)
    script = import_model(model, gradients=["weights"])
    changed(script, tmp_path / "w")
    found = trained_model(model, script, tmp_path / "w")
    assert found.graph.initializer[0].data_type == dtype
    array = numpy_helper.to_array(found.graph.initializer[0])
    np.testing.assert_array_equal(array.astype(float), W * 1.25 + 0.25)
    assert found.graph.node == model.graph.node and model == gemm(dtype)


def test_lists_of_other_weights(tmp_path: Path) -> None:
    model = gemm()
    script = import_model(model, gradients=["weights"])
    changed(script, tmp_path / "w")
    others = gemm()
    others.graph.initializer[0].CopyFrom(numpy_helper.from_array(W + 1, "W"))
    with pytest.raises(TranspileError, match="these are no weights of this model as it is converted"):
        trained_model(others, import_model(others, gradients=["weights"]), tmp_path / "w")
    (tmp_path / "file").touch()
    for place, words in (("nowhere", "there is no such folder"), ("file", "it is no folder"), ("w/weights", "these are no weights")):
        with pytest.raises(TranspileError, match=words):
            trained_model(model, script, tmp_path / place)
    with pytest.raises(InvalidModel, match="no weights to train"):
        trained_model(model, import_model(model, gradients=["inputs"]), tmp_path / "w")


def test_the_standard_output(tmp_path: Path) -> None:
    """A model without another file for its weights; - is no file."""
    onnx.save(gemm(), tmp_path / "m.onnx")
    changed(import_model(gemm(), gradients=["weights"]), tmp_path / "w")
    command = [sys.executable, "-m", "onnx_systemds", "trained", tmp_path / "m.onnx", tmp_path / "w", "-o", "-"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    np.testing.assert_array_equal(numpy_helper.to_array(onnx.load_from_string(done.stdout).graph.initializer[0]), W * 1.25 + 0.25)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "w"]

    onnx.save(gemm(), tmp_path / "parted.onnx", save_as_external_data=True, location="parted.data", size_threshold=0)
    for words in (["trained", tmp_path / "parted.onnx", tmp_path / "w"],
                  ["train", tmp_path / "parted.onnx", "--input", "rows.npz", "--target", "Y", "--loss", "l2_loss"]):
        refused = invoke(*words, "-o", "-")
        assert refused.exit_code == 1 and "weights cannot be written beside a stream" in refused.output


@pytest.mark.parametrize("number", [1e300, np.nan, np.inf])
def test_numbers_beyond_the_type(number: float, tmp_path: Path) -> None:
    script = import_model(gemm(), gradients=["weights"])
    tmp_path.joinpath("w").mkdir()
    weights = [replace(weight, array=np.full(weight.array.shape, number)) for weight in script.weights]
    write_list(tmp_path / "w", "weights", [*weights, with_mark(script.weights)[-1]])
    with pytest.raises(TranspileError, match='trained numbers of "W" are none of its type, float32'):
        trained_model(gemm(), script, tmp_path / "w")
    onnx.save(gemm(), tmp_path / "m.onnx")
    refused = invoke("trained", tmp_path / "m.onnx", tmp_path / "w", "-o", tmp_path / "new.onnx")
    assert refused.exit_code == 1 and not (tmp_path / "new.onnx").exists()
