"""Functions that stay functions (``functions="keep"``): equal numbers, one function for equal bodies, valid models."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import Array, ExportCase, check_export, model_of
from tests.exporting.test_export_core import CONTROL, FUNCTIONS, SELECTING
from tests.exporting.test_export_layers import CASES as LAYERS
from tests.invoking import invoke

RNG = np.random.default_rng(3)


def numbers(*shape: int) -> Array:
    return RNG.normal(size=shape)


X = {"X": numbers(5, 4)}
NET = {**X, "W1": numbers(4, 6), "b1": numbers(1, 6), "W2": numbers(6, 3), "b2": numbers(1, 3)}
LAYER = "layer = function(matrix[double] X, matrix[double] W, matrix[double] b) return (matrix[double] out) { out = X %*% W + b }\n"


def row(name: str, body: str, functions: str = "", inputs=X, **more) -> ExportCase:
    return ExportCase(name, body, inputs, functions=functions, symbols={"X": ["N", 4]}, sizes=[{"X": numbers(3, 4)}],
                      keep=True, **more)


def function(head: str, *lines: str) -> str:
    name, _, rest = head.partition("(")
    return f"{name} = function({rest} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


TWICE = function("twice(matrix[double] A) return (matrix[double] B)", "B = A * 2")
OUTER = TWICE + function("outer_one(matrix[double] A, double k) return (matrix[double] B)", "B = twice(A) + k")
POSITIVE = function("positive(matrix[double] A) return (matrix[double] B, int n)",
                    "s = A[, 1] > 0", 'B = removeEmpty(target=A, margin="rows", select=s)', "n = nrow(B)")
WITH_LIST = function("both(list[unknown] L, double k) return (list[unknown] M)",
                     'M = list(as.matrix(L["a"]) * k, 7, as.matrix(L["b"]))')
LEARNED = function("down(matrix[double] A) return (matrix[double] B)", "B = A", "while (sum(abs(B)) > 1) { B = twice(B) / 8 }")
PADDED = function("padded(matrix[double] A, int n) return (matrix[double] B)", "B = rbind(A, matrix(n, n, ncol(A)))")

CASES = [
    row("calls with other numbers", "Y = outer_one(X, 1) + outer_one(X, 2) + outer_one(X * 3, 1)", OUTER),
    row("one argument twice", "Y = f(X, X) + f(X, X * 2)",
        function("f(matrix[double] A, matrix[double] B) return (matrix[double] C)", "C = A * B + nrow(B)")),
    row("branches", "if (sum(X) > 0) { Y = outer_one(X, 1) } else { Y = twice(X) }", OUTER),
    row("in a loop over rows", "Y = X\nfor (i in 1:nrow(X)) { Y[i, ] = outer_one(Y[i, ], i) }", OUTER),
    row("a loop inside", "Y = down(X)", TWICE + LEARNED),
    row("sizes of the run", "W = X[, 2:4]\n[Z, n] = positive(X)\n[V, m] = positive(W)\nV = cbind(V, V[, 1])\nY = colSums(Z) * n + colSums(V)", POSITIVE),
    row("sizes that are asked for", "Y = colSums(padded(X, 2 * nrow(X) - 1)) + sum(padded(X, 3))", PADDED),
    row("sizes that no input has alone", "Z = rbind(X, X, X[1, ])\nY = f(Z)",
        function("f(matrix[double] A) return (matrix[double] B)", "B = cumsum(A) / nrow(A) + seq(1, nrow(A))")),
    row("lists", "L = both(list(a=X, b=X + 1), 3)\nY = as.matrix(L[1]) * as.scalar(L[2]) + as.matrix(L[3])", WITH_LIST),
    row("what comes back as it went in", "[Y, Z] = f(X)\nY = Y + Z",
        function("f(matrix[double] A) return (matrix[double] B, matrix[double] C)", "B = A", "C = A * 2")),
    row("truths and scalars", "Y = f(X > 0, sum(X), sum(X) > 0)",
        function("f(matrix[double] A, double s, boolean b) return (matrix[double] B)", "B = A * s", "if (b) { B = B + 1 }")),
    row("builtins of the engine", "Z = scale(X=X, center=TRUE, scale=TRUE)\nY = scaleApply(Z, colMeans(X), colSds(X))"),
    row("old opset", "Y = outer_one(X, 1)", OUTER, opset=13),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kept_functions_agree_with_the_engine(case: ExportCase) -> None:
    check_export(case)
    model = model_of(case, "float32")
    assert model.functions
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


@pytest.mark.parametrize("case", [*CONTROL[:4], *FUNCTIONS, *SELECTING[:2]], ids=str)
def test_scripts_with_kept_functions_agree_with_the_engine(case: ExportCase) -> None:
    check_export(replace(case, keep=True, operators=None))


@pytest.mark.parametrize("case", [case for case in LAYERS if case.name in ("lstm", "bert_layer", "mbconv", "lenetForwardPass")],
                         ids=str)
def test_layers_with_kept_functions_agree_with_the_engine(case: ExportCase) -> None:
    check_export(replace(case, keep=True, operators=None, dtypes=["float32"]))


def called(nodes) -> Counter[str]:
    return Counter(f"{node.domain}::{node.op_type}" for node in nodes if node.domain)


def test_layers_share_one_function() -> None:
    case = row("net", "H = relu::forward(affine::forward(X, W1, b1))\nY = affine::forward(H, W2, b2)", inputs=NET,
               bound=["W1", "b1", "W2", "b2"],
               sources={"affine": "nn/layers/affine.dml", "relu": "nn/layers/relu.dml"})
    check_export(case)
    model = model_of(case, "float32")
    assert called(model.graph.node) == {"affine::forward": 2, "relu::forward": 1}
    affine, relu = sorted(model.functions, key=lambda found: found.domain)
    assert list(affine.input) == ["X", "W", "b"] and list(affine.output) == ["out"]
    assert [node.op_type for node in affine.node] == ["Gemm"]
    assert affine.doc_string.startswith("scripts/nn/layers/affine.dml:")
    assert affine.node[0].doc_string.startswith("scripts/nn/layers/affine.dml:")
    assert [node.op_type for node in relu.node] == ["Relu"]
    assert len(model_of(replace(case, keep=False), "float32").functions) == 0


def test_lenet_is_made_of_its_layers() -> None:
    case = replace(next(case for case in LAYERS if case.name == "lenetForwardPass"), keep=True)
    model = model_of(case, "float32")
    names = {f"{function.domain}::{function.name}" for function in model.functions}
    assert {"conv2d_builtin::forward", "conv2d_builtin::forward_2", "affine::forward", "relu::forward"} <= names
    body = next(function for function in model.functions if function.name == "lenetForward")
    assert called(body.node)["relu::forward"] == 3


def test_calls_share_a_function_unless_the_body_differs() -> None:
    body = "Y = outer_one(X, 1) + outer_one(X * 3, 1) + outer_one(X, 2)\nZ = outer_one(X[, 1], 1)"
    model = export_script(f'{OUTER}X = read("X")\n{body}\nwrite(Y, "Y")\nwrite(Z, "Z")', inputs={"X": "[N,4]"}, functions="keep")
    assert called(model.graph.node) == {"script::outer_one": 3, "script::outer_one_2": 1}
    assert [function.name for function in model.functions] == ["twice", "outer_one", "outer_one_2"]
    again = export_script(f'{OUTER}X = read("X")\n{body}\nwrite(Y, "Y")\nwrite(Z, "Z")', inputs={"X": "[N,4]"}, functions="keep")
    assert again.SerializeToString(deterministic=True) == model.SerializeToString(deterministic=True)


def test_what_cannot_be_a_function_is_inlined_and_noted() -> None:
    text = (
        function("w(matrix[double] A) return (matrix[double] B)", "B = A + 1", 'write(B, "B")')
        + 'X = read("X")\nZ = w(X)\nwrite(Z, "Z")\n'
    )
    notes: list[str] = []
    model = export_script(text, inputs={"X": "[N,4]"}, functions="keep", notes=notes)
    assert not model.functions and [item.name for item in model.graph.output] == ["B", "Z"]
    assert any('w is inlined: "B" is written inside a function' in note for note in notes)


def test_content_that_decides_the_body_is_inlined() -> None:
    text = function("pick(matrix[double] A, matrix[double] P) return (matrix[double] B)",
                    "items = list(A, cbind(A, A), A * 3)", "k = as.integer(as.scalar(P[1, 1]))", "B = as.matrix(items[k])")
    case = row("pick", "Y = pick(X, P)", text, inputs={**X, "P": np.full((1, 1), 2.0)}, bound=["P"])
    check_export(case)
    assert not model_of(case, "float32").functions


def test_a_stop_that_is_reached_is_an_error_inside_a_function_too() -> None:
    text = function("f(matrix[double] A) return (matrix[double] B)", "B = A", 'stop("no")')
    with pytest.raises(TranspileError, match="the script stops here: no"):
        export_script(f'{text}X = read("X")\nY = f(X)\nwrite(Y, "Y")', functions="keep")


def test_command_keeps_functions(tmp_path: Path) -> None:
    script = tmp_path / "net.dml"
    script.write_text(f'{TWICE}X = read("X")\nY = twice(X)\nwrite(Y, "Y")\n')
    done = invoke(script, "--functions", "keep")
    assert done.exit_code == 0, done.output
    model = onnx.load(tmp_path / "net.onnx")
    assert called(model.graph.node) == {"net::twice": 1}
    with pytest.raises(TranspileError, match="functions='both'"):
        export_script(script, functions="both")
