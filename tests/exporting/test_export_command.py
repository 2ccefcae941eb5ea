"""The API and the command line of the exporter: what they accept and what they write; `test_bad_scripts` has what they refuse."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import onnx_systemds
from onnx_systemds import InputSpec, export_script
from onnx_systemds.engine.matrix_files import write_matrix
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.graph.builder import NEWEST_OPSET
from onnx_systemds.exporting.weight_files import read_value
from onnx_systemds.verifying.judging import judgement
from tests.exporting.export_harness import run_model
from tests.invoking import invoke

FUNCTION = """f = function(matrix[double] X, matrix[double] W, double k = 2) return (matrix[double] Y, double s) {
  Y = X %*% W * k
  s = sum(Y)
}
"""
WEIGHTS = np.array([[1.0, 2.0], [3.0, 4.0]])


def reason(text: str, function: str | None = "f", **options: object) -> str:
    with pytest.raises(TranspileError) as error:
        export_script(text + "\n", function, **options)  # type: ignore[arg-type]
    return str(error.value)


def body(*lines: str) -> str:
    joined = "\n".join(f"  {line}" for line in lines)
    return f"f = function(matrix[double] X) return (matrix[double] Y) {{\n{joined}\n}}"


def test_function_with_bound_weights_and_symbolic_rows() -> None:
    model = export_script(FUNCTION, "f", inputs={"X": InputSpec("double", ["N", 2])}, bindings={"W": WEIGHTS})
    assert [item.name for item in model.graph.input] == ["X"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    found = run_model(model, {"X": np.ones((3, 2))})
    np.testing.assert_allclose(found["Y"], [[8, 12]] * 3)
    np.testing.assert_allclose(found["s"], 60)


def test_nodes_carry_their_line() -> None:
    model = export_script(FUNCTION, "f", inputs={"X": "[N,2]"})
    assert {node.op_type: node.doc_string for node in model.graph.node}["MatMul"] == "<text>:2"


def test_model_tells_its_script_wherever_that_is(tmp_path: Path) -> None:
    """Not a word of the folder: the same script in two of them makes the same bytes."""
    text = """source("lib/twice.dml") as lib
source("nn/layers/relu.dml") as relu
X = read("X")
Y = relu::forward(lib::twice(X)) + 1
write(Y, "Y")
"""
    twice = "twice = function(matrix[double] X) return (matrix[double] Y) {\n  Y = X * 2\n}\n"
    models = []
    for place in (tmp_path / "a", tmp_path / "b" / "c"):
        (place / "lib").mkdir(parents=True)
        (place / "lib" / "twice.dml").write_text(twice)
        (place / "net.dml").write_text(text)
        result = invoke(place / "net.dml", "--input", "X=double[N,2]")
        assert result.exit_code == 0, result.output
        models.append((place / "net.onnx").read_bytes())
    assert models[0] == models[1]
    assert str(tmp_path).encode() not in models[0]
    model = onnx.load_from_string(models[0])
    assert {node.op_type: node.doc_string for node in model.graph.node} == {
        "Mul": "lib/twice.dml:2", "Relu": "scripts/nn/layers/relu.dml:39", "Add": "net.dml:4"}
    assert (model.producer_name, model.producer_version) == ("onnx-systemds", onnx_systemds.__version__)
    assert model.doc_string == "the script net.dml"
    assert {fact.key: fact.value for fact in model.metadata_props} == {
        "script": "net.dml", "script_sha256": hashlib.sha256(text.encode()).hexdigest()}


@pytest.mark.parametrize(("source", "name"), [(FUNCTION, "<text>"), ("scripts/nn/layers/relu.dml", "scripts/nn/layers/relu.dml")])
def test_model_tells_its_function(source: str, name: str) -> None:
    function = "f" if source == FUNCTION else "forward"
    model = export_script(source, function, inputs={"X": "[N,2]"})
    facts = {fact.key: fact.value for fact in model.metadata_props}
    assert model.doc_string == f"the function {function} of {name}"
    assert (facts["script"], facts["function"]) == (name, function)
    assert {node.doc_string.rpartition(":")[0] for node in model.graph.node} == {name}


@pytest.mark.parametrize("opset", [13, 15, 18, 21, 23, 25, 26, 27, 28])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_opsets_and_dtypes(opset: int, dtype: str) -> None:
    text = body("Y = (X - colMeans(X)) / rowMaxs(X) * nrow(X)", "if (sum(X) > 0) { Y = Y + 1 }")
    model = export_script(text, "f", inputs={"X": "[N,3]"}, dtype=dtype, opset=opset)
    assert model.opset_import[0].version == opset
    x = np.arange(6.0).reshape(2, 3) + 1
    np.testing.assert_allclose(run_model(model, {"X": x})["Y"], (x - x.mean(0)) / x.max(1, keepdims=True) * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("opset", range(24, NEWEST_OPSET + 1))
def test_newest_opsets(opset: int) -> None:
    """What newer versions of operators may say differently: Mod, Range, Cast, Unique, OneHot; onnxruntime may refuse them."""
    text = """X = read("X")
Y = bitwAnd(X, 6) + X %% 4 + cumsum(X) + seq(1, nrow(X)) + (X > 5)
U = unique(X[, 1])
T = table(X[, 1], X[, 2])
i = 0
while (i < sum(X)) { i = i + nrow(X) }
write(Y, "Y")
write(U, "U")
write(T, "T")
write(i, "i")
"""
    model = export_script(text, inputs={"X": "[N,2]"}, opset=opset)
    assert model.opset_import[0].version == opset
    assert model.ir_version == onnx.helper.find_min_ir_version_for(list(model.opset_import))
    x = np.array([[3.0, 1.0], [1.0, 2.0], [3.0, 2.0]], np.float32)
    found = judgement(model, {"X": x}).outputs
    ands = np.bitwise_and(x.astype(int), 6)
    np.testing.assert_array_equal(found["Y"], ands + x % 4 + x.cumsum(0) + np.array([[1], [2], [3]]) + (x > 5))
    np.testing.assert_array_equal(np.sort(found["U"].ravel()), [1, 3])
    np.testing.assert_array_equal(found["T"], [[0, 1], [0, 0], [1, 1]])
    assert found["i"] == 12


def test_newest_opset_is_that_of_onnx() -> None:
    assert onnx.defs.onnx_opset_version() == NEWEST_OPSET
    text = reason(body("Y = X"), opset=NEWEST_OPSET + 1, inputs={"X": "[N,2]"})
    assert f"models of opset {NEWEST_OPSET + 1} cannot be written" in text and f"13 to {NEWEST_OPSET}" in text


def test_whole_script_reads_and_writes() -> None:
    text = 'X = read($X)\nW = read("w.csv")\nk = ifdef($k, 5)\nY = X %*% W * k\nwrite(Y, "out/Y.csv")\n'
    model = export_script(text, arguments={"X": "x.csv"}, bindings={"W": WEIGHTS}, inputs={"X": "[N,2]"})
    np.testing.assert_allclose(run_model(model, {"X": np.ones((1, 2))})["Y"], [[20, 30]])


def test_a_file_that_is_read_twice_is_one_input() -> None:
    text = 'X = read("in.csv")\nX = X * 3\nZ = read("in.csv")\nF = read("in.csv", data_type="frame")\nwrite(X + Z, "Y")\n'
    model = export_script(f'{text}write(F, "F")\n', inputs={"X": "[N,2]", "F": "string[N,2]"})
    assert [each.name for each in model.graph.input] == ["X", "F"]
    numbers, texts = np.array([[1.0, 2.0]], np.float32), np.array([["1", "2"]], object)
    np.testing.assert_array_equal(run_model(model, {"X": numbers, "F": texts})["Y"], 4 * numbers)
    with pytest.raises(TranspileError, match='nothing in the script asks for "Z"'):
        export_script(text, inputs={"Z": "[N,2]"})


LOOP = ["ReduceSum", "Greater", "Loop"]


def test_what_is_passed_over_is_noted() -> None:
    notes: list[str] = []
    export_script('X = read("X").\nprint("a")\nwrite(X * 2, "Y")', inputs={"X": "[N,2]"}, notes=notes)
    assert notes == ["<text>:1:14: the full stop is skipped", "<text>:2: print is left out"]


ONLY_PRINTED = {
    "a chosen text": ('k = "a"\nif (sum(X) > 0) { k = "b"\nX = -X }\nprint(k)', ["ReduceSum", "Greater", "Neg", "Where"]),
    "a text of doubles": ('s = "x"\nwhile (sum(X) > 1) { X = X / 2\ns = append(s, "y" + sum(X)) }\nprint(s)', LOOP),
    "a text and a count": ('s = "x"\nk = 0\nwhile (sum(X) > 1) { X = X / 2\nif (sum(X) > 4) s = s + k\nk = k + 1 }\nprint(s)', LOOP),
    "a text that a function takes": ('X = f(X, toString(X) + nrow(X))', ["Neg"]),
    "if the clock says so": ('t = time()\nif (time() - t > 1) { if (sum(X) > 1) { print("slow") } }\nX = -X', ["Neg"]),
}


@pytest.mark.parametrize(("body", "operators"), ONLY_PRINTED.values(), ids=ONLY_PRINTED)
def test_what_is_only_printed_leaves_nothing(body: str, operators: list[str]) -> None:
    function = "f = function(matrix[double] A, string s) return (matrix[double] B) { print(s)\nB = -A }\n"
    model = export_script(f'{function}X = read("X")\n{body}\nwrite(X, "Y")\n', inputs={"X": "[3,2]"})
    assert [node.op_type for node in model.graph.node] == operators
    assert all(len(node.output) == 1 for node in model.graph.node)


def test_equal_nodes_and_constants_exist_once() -> None:
    text = body("a = exp(X + 1)", "b = exp(X + 1)", "Y = a * b + matrix(3, 1, 2) + matrix(3, 1, 2)")
    model = export_script(text, "f", inputs={"X": "[N,2]"})
    assert [node.op_type for node in model.graph.node] == ["Add", "Exp", "Mul", "Add", "Add"]
    assert len(model.graph.initializer) == 2


def test_known_conditions_and_dead_statements_leave_nothing() -> None:
    text = body("Z = sample(10, 2)", 'if (ncol(X) > 1) { Y = X * 2 } else { stop("no") }', 'print("done")')
    assert [node.op_type for node in export_script(text, "f", inputs={"X": "[N,2]"}).graph.node] == ["Mul"]


def test_all_reasons_come_at_once() -> None:
    text = reason(body("A = sample(3, 3)", "B = nosuch(X)", "Y = A + B"))
    assert "2 reasons" in text
    assert "sample" in text and "nosuch" in text


def test_command_writes_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.dml").write_text(FUNCTION)
    (tmp_path / "w.csv").write_text("1,2\n3,4\n")
    result = invoke(tmp_path / "m.dml", "--function", "f", "--input", "X=double[N,2]", "--weight", f"W={tmp_path / 'w.csv'}",
                    "--weight", "k=3", "--result", "Y", "--dtype", "float64", "--opset", "18")
    assert result.exit_code == 0, result.output
    model = onnx.load(tmp_path / "m.onnx")
    assert [item.name for item in model.graph.output] == ["Y"]
    np.testing.assert_allclose(run_model(model, {"X": np.ones((1, 2))})["Y"], [[12, 18]])


def test_command_binds_texts_and_booleans_or_asks_for_scalars(tmp_path: Path) -> None:
    """As DML writes them; dims of a scalar are none."""
    script = tmp_path / "m.dml"
    script.write_text('f = function(matrix[double] X, string how = "a", boolean less = FALSE, int k = 2) return (matrix[double] Y) {\n'
                      '  Y = X * k\n  if (how == "b") { Y = Y + 1 }\n  if (less) { Y = -Y }\n}\n')
    result = invoke(script, "--function", "f", "--weight", 'how="b"', "--weight", "less=TRUE", "--input", "k=int[]")
    assert result.exit_code == 0, result.output
    inputs = {"X": np.ones((1, 2), np.float32), "k": np.array(3)}
    np.testing.assert_array_equal(run_model(onnx.load(tmp_path / "m.onnx"), inputs)["Y"], [[-4, -4]])


def test_command_lists_functions(tmp_path: Path) -> None:
    (tmp_path / "m.dml").write_text(FUNCTION)
    for words in ((), ("--function", "f")):
        shown = invoke(tmp_path / "m.dml", "--list", *words).output
        assert shown.startswith("f(matrix[double] X, matrix[double] W, double k = 2)")
    unknown = invoke(tmp_path / "m.dml", "--list", "--function", "g")
    assert unknown.exit_code == 1 and "m.dml: there is no function \"g\"\n  hint: its functions: f\n" in unknown.output
    (tmp_path / "none.dml").write_text('X = read("X")\nwrite(X, "Y")\n')
    assert "none.dml has no functions and no arguments\n" in invoke(tmp_path / "none.dml", "--list").output
    assert "this is a model" in invoke("export", tmp_path / "m.onnx", "--list").output


def test_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "m.dml").write_text(FUNCTION)
    assert invoke(tmp_path / "m.dml", "--input", "nonsense").exit_code == 2


@pytest.mark.parametrize("given", [("N", 2), np.ones((2, 2)), 3])
def test_an_input_is_said_by_type_and_dims(tmp_path: Path, given: Any) -> None:
    (tmp_path / "m.dml").write_text(FUNCTION)
    with pytest.raises(TranspileError, match=f'the input "X" is given as {type(given).__name__}, not as its type and dims\n.*bindings'):
        export_script(tmp_path / "m.dml", "f", inputs={"X": given})


def test_what_is_given_twice_or_to_nobody(tmp_path: Path) -> None:
    """A misspelt argument would leave its default in the model, the second of two inputs nothing of the first."""
    script = tmp_path / "m.dml"
    script.write_text('f = function(matrix[double] X) return (matrix[double] Y) {\n  k = ifdef($scale, 2)\n  Y = X * k\n}\n')
    words = (script, "--function", "f", "--input", "X=double[N,4]")
    assert "note: nothing asks for the argument $scael" in invoke(*words, "--arg", "scael=3").output
    assert "note" not in invoke(*words, "--arg", "scale=3").output
    result = invoke(*words, "--input", "X=double[N,5]")
    assert result.exit_code == 2 and "'X' is given twice" in result.output
    result = invoke("export", tmp_path / "m.onnx")
    assert result.exit_code == 1 and "m.onnx: this is a model\n  hint: use: onnx-systemds convert" in result.output


def test_weights_of_all_formats(tmp_path: Path) -> None:
    matrix = np.array([[1.0, 0.0], [2.5, -3.0]])
    np.save(tmp_path / "a.npy", matrix)
    np.savez(tmp_path / "l.npz", W=matrix, b=matrix[0], n=2, flip=True, mode="sum")
    write_matrix(tmp_path / "b.bin", matrix)
    (tmp_path / "t.txt").write_text("1 1 1.0\n2 1 2.5\n2 2 -3.0\n")
    (tmp_path / "t.txt.mtd").write_text('{"data_type": "matrix", "rows": 2, "cols": 2, "format": "text"}')
    (tmp_path / "h.csv").write_text("a;b\n1;0\n2.5;-3\n")
    (tmp_path / "h.csv.mtd").write_text('{"data_type": "matrix", "format": "csv", "header": true, "sep": ";"}')
    for name in ("a.npy", "b.bin", "t.txt", "h.csv"):
        np.testing.assert_array_equal(read_value(tmp_path / name), matrix)
    found = read_value(tmp_path / "l.npz")
    assert found["b"].shape == (matrix.shape[1], 1)
    assert {name: value for name, value in found.items() if name not in "Wb"} == {"n": 2, "flip": True, "mode": "sum"}
    (tmp_path / "bad.csv").write_text("a,b\n")
    with pytest.raises(TranspileError):
        read_value(tmp_path / "bad.csv")
