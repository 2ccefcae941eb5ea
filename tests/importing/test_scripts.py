"""What the importer writes: layout, sizes, weights, dead code, block cuts, and errors before anything is written."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.graphs import chain
from onnx_systemds import import_model
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.errors import InvalidModel, MultipleErrors
from onnx_systemds.importing.passes.block_cuts import STATEMENTS_PER_BLOCK
from onnx_systemds.runtime.scoring import InvalidInput, ScoringFunction
from tests.model_zoo import model_paths, needs_models

ROOT = Path(__file__).parents[2]


def model(nodes: list[onnx.NodeProto], inputs: dict[str, list[object]], outputs: dict[str, list[object]],
          dtype: int = TensorProto.FLOAT, **constants: np.ndarray) -> onnx.ModelProto:
    infos = [[helper.make_tensor_value_info(name, dtype, dims) for name, dims in ports.items()]
             for ports in (inputs, outputs)]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", *infos, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@needs_models
def test_lines_end_at_120_columns() -> None:
    paths = model_paths("real", "generated")
    long = {path.stem: [line for line in import_model(path).text.splitlines() if len(line) > 120] for path in paths}
    assert len(paths) > 60 and not any(long.values()), long


def test_unused_nodes_and_outputs_are_not_written() -> None:
    nodes = [
        helper.make_node("Relu", ["X"], ["Y"]),
        helper.make_node("Exp", ["X"], ["unused"]),
        helper.make_node("Log", ["unused"], ["unused_too"]),
    ]
    text = import_model(model(nodes, {"X": ["n", 3]}, {"Y": ["n", 3]})).text
    assert "exp" not in text and "log" not in text


def test_reshapes_leave_no_statement() -> None:
    nodes = [
        helper.make_node("Neg", ["X"], ["negative"]),
        helper.make_node("Reshape", ["negative", "shape"], ["flat"]),
        helper.make_node("Unsqueeze", ["flat", "axes"], ["tall"]),
        helper.make_node("Relu", ["tall"], ["relu"]),
        helper.make_node("Flatten", ["relu"], ["Y"], axis=2),
    ]
    text = import_model(model(nodes, {"X": ["n", 3, 4]}, {"Y": ["n", 12]}, shape=np.array([0, -1]), axes=np.array([1]))).text
    assert text.endswith("{\n  Y = max(-X, 0)\n}\n")


@pytest.mark.parametrize(("size", "in_list"), [(30, []), (70, ["W", "b"])])
def test_biases_are_in_the_list_of_weights_where_there_is_one(size: int, in_list: list[str]) -> None:
    """Up to 8 elements, and matrices of one number, stay in the script."""
    rng = np.random.default_rng(0)
    weight, bias = rng.random((2, size // 2)), rng.random(size // 2)
    nodes = [helper.make_node("MatMul", ["X", "W"], ["XW"]), helper.make_node("Add", ["XW", "b"], ["XWb"]),
             helper.make_node("Add", ["XWb", "ones"], ["sum"]), helper.make_node("Mul", ["sum", "short"], ["Y"])]
    script = import_model(model(nodes, {"X": ["n", 2]}, {"Y": [2, "n", size // 2]}, W=weight.astype(np.float32),
                                b=bias.astype(np.float32), ones=np.ones(size // 2, np.float32),
                                short=np.array([[[0.5]], [[3]]], np.float32)))
    assert sorted(weight.name for weight in script.weights) == in_list
    assert ('matrix("0.5 3"' in script.text) and "matrix(1, " in script.text


STACK = """\
/venv/lib/python3.9/site-packages/torch/nn/modules/linear.py(114): forward
/venv/lib/python3.9/site-packages/torch/nn/modules/module.py(1501): _call_impl
/home/someone/work/classifier.py(27): forward
/home/someone/work/train.py(9): <module>"""


@pytest.mark.parametrize(
    ("text", "comments"),
    [
        ("what it is for\nprint('never code')", "  # what it is for\n  # print('never code')\n"),
        (STACK, "  # classifier.py:27, forward\n"),
        ("\n".join(STACK.splitlines()[:2]), ""),
        (f"{STACK}\nread it", "".join(f"  # {line}\n" for line in [*STACK.splitlines(), "read it"])),
    ],
)
def test_comments_of_a_node(text: str, comments: str) -> None:
    nodes = [helper.make_node("Relu", ["X"], ["Y"], doc_string=text)]
    script = import_model(model(nodes, {"X": ["n", 3]}, {"Y": ["n", 3]})).text
    assert script.endswith("{\n" + comments + "  Y = max(X, 0)\n}\n")


def test_values_are_named_by_their_modules() -> None:
    """Constants without a name of their own are named after the node that reads them; their keys are ONNX's names."""
    linear = "/net/layers.{}/linear/Gemm_output_0"
    nodes = [helper.make_node("Gemm", [given, f"onnx::Gemm_{number}", f"net.layers.{number}.linear.bias"], [made])
             for number, (given, made) in enumerate([("X", linear.format(0)), (linear.format(0), linear.format(1))])]
    nodes.append(helper.make_node("Relu", [linear.format(1)], ["Y"]))
    rng = np.random.default_rng(0)
    weights = {f"onnx::Gemm_{number}": rng.random((8, 8), np.float32) for number in (0, 1)}
    biases = {f"net.layers.{number}.linear.bias": rng.random(8, np.float32) for number in (0, 1)}
    script = import_model(model(nodes, {"X": ["n", 8]}, {"Y": ["n", 8]}, **weights, **biases), weights="files")
    lines = [line.strip() for line in script.text.splitlines()]
    assert 'layers_1_linear_weight = matrix(as.matrix(weights["onnxGemm1"]), rows=8, cols=8)' in lines
    assert 'layers_0_linear_bias = matrix(as.matrix(weights["layers0LinearBias"]), rows=1, cols=8)' in lines
    assert "layers_0_linear = X %*% layers_0_linear_weight + layers_0_linear_bias" in lines


def test_nodes_share_the_order_of_rows() -> None:
    """With a Softmax between them, which no Transpose passes, so that they stay three."""
    nodes = [helper.make_node("Transpose", ["X"], ["A"], perm=[1, 0, 2])]
    for given, between, result in (("A", "S", "B"), ("B", "T", "Y")):
        nodes.append(helper.make_node("Softmax", [given], [between]))
        nodes.append(helper.make_node("Transpose", [between], [result], perm=[1, 0, 2]))
    built = model(nodes, {"X": ["n", 6, 4]}, {"Y": [6, "n", 4]})
    text = import_model(built).text
    assert text.count("row_order = ") == 1 and text.count("row_order_2 = ") == 1 and text.count(", row_order") == 3
    x = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)
    with ScoringFunction(import_model(built)) as function:
        np.testing.assert_allclose(function({"X": x})["Y"], softmax(softmax(x)).transpose(1, 0, 2), rtol=1e-5)


def softmax(x: np.ndarray) -> np.ndarray:
    """Of each row of the last axis."""
    powers = np.exp(x.astype(float))
    return powers / powers.sum(-1, keepdims=True)


def test_sizes_come_from_the_inputs_or_are_arguments() -> None:
    shape = [helper.make_node("Shape", ["X"], ["s"]), helper.make_node("Reshape", ["X", "target"], ["r"]),
             helper.make_node("Expand", ["b", "s"], ["e"]), helper.make_node("Mul", ["X", "e"], ["Y"])]
    built = model(shape, {"X": ["batch", "H", "W"]}, {"Y": ["batch", "H", "W"]}, b=np.ones((1, 1, 1), np.float32),
                  target=np.array([-1]))
    script = import_model(built)
    x = np.random.rand(2, 3, 4).astype(np.float32)
    with ScoringFunction(script) as function:
        np.testing.assert_allclose(function({"X": x})["Y"], x)


def test_symbols_must_agree_between_inputs() -> None:
    nodes = [helper.make_node("Add", ["A", "B"], ["Y"])]
    script = import_model(model(nodes, {"A": ["n", 3], "B": ["n", 3]}, {"Y": ["n", 3]}))
    with ScoringFunction(script) as function, pytest.raises(InvalidInput, match="where n is 2"):
        function({"A": np.zeros((2, 3), np.float32), "B": np.zeros((4, 3), np.float32)})


@pytest.mark.parametrize("dtype", ["float", "int64", "bool"])
def test_rank_0_is_a_scalar(dtype: str) -> None:
    kind = onnx.TensorProto.DataType.Value(dtype.upper())
    script = import_model(model([helper.make_node("Identity", ["X"], ["Y"])], {"X": []}, {"Y": []}, kind))
    assert {"float": "double X", "int64": "integer X", "bool": "boolean X"}[dtype] in script.text
    value = np.array(1, helper.tensor_dtype_to_np_dtype(kind))
    with ScoringFunction(script) as function:
        result = function({"X": value})["Y"]
    assert result.dtype == value.dtype and result.shape == () and result == value


def test_rank_1_is_a_column() -> None:
    script = import_model(model([helper.make_node("Neg", ["X"], ["Y"])], {"X": ["n"]}, {"Y": ["n"]}))
    with ScoringFunction(script) as function:
        np.testing.assert_array_equal(function({"X": np.arange(3, dtype=np.float32)})["Y"], [0, -1, -2])


def test_the_same_value_in_several_outputs_and_an_input_as_output() -> None:
    nodes = [helper.make_node("Neg", ["X"], ["Y"])]
    script = import_model(model(nodes, {"X": ["n", 2]}, {"Y": ["n", 2], "X": ["n", 2]}))
    with ScoringFunction(script) as function:
        outputs = function({"X": np.ones((1, 2), np.float32)})
    assert outputs["Y"].tolist() == [[-1, -1]] and outputs["X"].tolist() == [[1, 1]]


def test_constant_outputs() -> None:
    script = import_model(model([helper.make_node("Relu", ["X"], ["Y"])], {"X": ["n", 2]}, {"Y": ["n", 2], "C": [2, 2]},
                                C=np.eye(2, dtype=np.float32)))
    with ScoringFunction(script) as function:
        np.testing.assert_array_equal(function({"X": np.ones((1, 2), np.float32)})["C"], np.eye(2))


def test_a_weight_by_two_names_in_two_forms() -> None:
    weight = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    nodes = [helper.make_node("MatMul", ["X", "C"], ["Y"]), helper.make_node("Identity", ["C"], ["Z"])]
    script = import_model(model(nodes, {"X": [2, 4, 2]}, {"Y": [2, 4, 3], "Z": [2, 2, 3]}, C=weight), weights="files")
    assert len(script.weights) == 1
    with ScoringFunction(script) as function:
        outputs = function({"X": np.ones((2, 4, 2), np.float32)})
    np.testing.assert_array_equal(outputs["Z"], weight)
    np.testing.assert_array_equal(outputs["Y"], np.ones((2, 4, 2)) @ weight)


def test_long_functions_are_cut_into_blocks() -> None:
    text = import_model(chain(10 * STATEMENTS_PER_BLOCK), weights="inline").text
    assert text.count("if (never)") >= 9 and text.count("never = ") == 1
    assert "never" not in import_model(chain(10)).text


def test_results_are_equal_with_and_without_simplification() -> None:
    generator = np.random.default_rng(0)
    constants = {name: generator.random(4).astype(np.float32) + 0.5 for name in ("scale", "shift", "mean", "variance")}
    nodes = [
        helper.make_node("Conv", ["X", "W"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["Y"]),
    ]
    weight = generator.standard_normal((4, 2, 3, 3)).astype(np.float32)
    built = model(nodes, {"X": ["n", 2, 6, 6]}, {"Y": ["n", 4, 4, 4]}, W=weight, **constants)
    x = generator.standard_normal((3, 2, 6, 6)).astype(np.float32)
    folded, plain = import_model(built), import_model(built, simplified=False)
    assert len(folded.text) < len(plain.text)
    with ScoringFunction(folded) as first, ScoringFunction(plain) as second:
        np.testing.assert_allclose(first({"X": x})["Y"], second({"X": x})["Y"], rtol=1e-5, atol=1e-5)


def test_all_cases_that_generators_refuse_come_at_once() -> None:
    nodes = [helper.make_node("CumSum", ["X", "axis"], [f"Y{i}"], name=f"sum{i}", exclusive=i) for i in range(2)]
    built = model(nodes, {"X": ["n", 2, "length"]}, {f"Y{i}": ["n", 2, None] for i in range(2)}, TensorProto.FLOAT)
    built.graph.input.append(helper.make_tensor_value_info("axis", TensorProto.INT64, []))
    with pytest.raises(MultipleErrors) as caught:
        import_model(built)
    assert '"sum0"' in str(caught.value) and '"sum1"' in str(caught.value)


def test_nothing_is_written_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    script = import_model(chain(4), weights="files")
    with pytest.raises(FileNotFoundError):
        script.save(tmp_path / "none" / "x.dml")
    assert not list(tmp_path.iterdir())


def test_unknown_fixed_dim_is_named() -> None:
    with pytest.raises(InvalidModel, match="btach"):
        import_model(chain(4), dims={"btach": 3})


@pytest.mark.slow("builds a wheel")
def test_templates_travel_in_a_wheel(tmp_path: Path) -> None:
    """The wheel holds the templates inside the package, and the importer works from it alone."""
    assert importlib.util.find_spec("setuptools"), "the test extra needs setuptools"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "onnx_systemds/templates/script.dml.jinja" in archive.namelist()
        assert "onnx_systemds/templates/library/batch_matmul.dml" in archive.namelist()
        archive.extractall(tmp_path / "installed")
    (tmp_path / "m.onnx").write_bytes(chain(4).SerializeToString())
    code = "import sys; sys.path.insert(0, 'installed'); from onnx_systemds import import_model; import onnx_systemds; " \
           "print(onnx_systemds.__file__); print(import_model('m.onnx').text)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "installed" in done.stdout.splitlines()[0] and "gen_chain4 = function" in done.stdout


def test_a_slice_beyond_its_axis_is_an_error_not_a_wrong_result() -> None:
    """table[:n]: the script takes n for the size, as the operators after it expect; a larger n must not pass."""
    nodes = [helper.make_node("Shape", ["X"], ["n"]), helper.make_node("Slice", ["table", "zero", "n"], ["part"]),
             helper.make_node("Add", ["part", "X"], ["Y"])]
    table = np.arange(8, dtype=np.float32)
    built = model(nodes, {"X": ["n"]}, {"Y": ["n"]}, table=table, zero=np.array([0]))
    with ScoringFunction(import_model(built)) as function:
        np.testing.assert_array_equal(function({"X": np.zeros(5, np.float32)})["Y"], table[:5])
        with pytest.raises(ScriptRuntimeError):
            function({"X": np.zeros(9, np.float32)})
