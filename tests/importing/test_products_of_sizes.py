"""Products of sizes are such that the engine knows them, and compiles what is made of them once, not at each call."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block
from onnx_systemds.importing.passes.products_of_sizes import with_binary_products_in
from tests.command_line import run_dml
from tests.model_zoo import model_cases
from tests.plain_engine import PlainCall, sourced

MODELS = ("bert_tiny.ts", "gpt2_tiny.dynamo", "sample-apps__transformer", "whisper_enc_tiny.ts")
HEAD = "f = function(matrix[double] X, integer a, integer b, double r) return (matrix[double] Y) {\n"


def changed(body: str) -> str:
    functions = parse_script(f"{HEAD}{body}\n}}\n").functions
    return print_block(with_binary_products_in(functions["f"], functions).body).rstrip("\n")


@pytest.mark.parametrize(
    "body, expected",
    [
        ("Y = table(X, X, 2 * a * b, a * b)", "Y = table(X, X, (2 * a - 0) * b, a * b)"),
        ("c = nrow(X)\nY = X[1:(2 * a * b * c), ]", "c = nrow(X)\nY = X[1:((2*a-0)*b-0)*c, ]"),
        ("Y = X[a * (b * 3), 1]", "Y = X[a * (b * 3 - 0), 1]"),
        ("Y = matrix(0, rows=2 * a * b, cols=1)", "Y = matrix(0, rows=(2 * a - 0) * b, cols=1)"),
        ("Y = matrix(-1.5, rows=2 * a * b, cols=1)", "Y = matrix(-1.5, rows=(2 * a - 0) * b, cols=1)"),
        ("Y = matrix(f(X, a, b, r), rows=2 * a * b, cols=1)",
         "Y = matrix(f(X, a, b, r), rows=(2 * a - 0) * b, cols=1)"),
    ],
)
def test_products_of_two(body: str, expected: str) -> None:
    assert changed(body) == expected


@pytest.mark.parametrize(
    "body",
    ["Y = matrix(X + 1, rows=2 * a * b, cols=1)", "Y = X * a * b", "Y = X + r * a * b", "Y = X[2 * a + b * a, ]",
     "Y = ifelse(X, matrix(0, rows=2 * a * b, cols=1), X)"],
)
def test_what_only_has_another_shape_or_is_no_size_stays_as_does_an_ifelse(body: str) -> None:
    assert changed(body) == body


@pytest.mark.parametrize("functions, rows", [("flat", None), ("flat", 1), ("blocks", 1)])
@pytest.mark.parametrize("path", model_cases("generated", "real", where=lambda path: path.stem in MODELS))
def test_nothing_but_weights_is_compiled_at_each_call(
    path: Path, functions: str, rows: int | None, tmp_path: Path
) -> None:
    script = import_model(path, functions=functions)
    with np.load(path.with_suffix(".npz")) as stored:
        inputs = {name[3:]: stored[name][:rows] for name in stored.files if name.startswith("in_")}
    call = PlainCall(script, inputs, tmp_path, "", "model")
    loop = ["for (trip in 1:10) {", call.call(), 'print("called")', "}"]
    program = ["never = time() < 0", *sourced(script, tmp_path, "model"), *call.readings(), *loop, *loop]
    output = run_dml("\n".join([*program, *call.writings()]) + "\n", tmp_path, options=["-stats"])
    assert output.count("called\n") == 20
    compiled = re.search(r"HOP DAGs recompiled \(PRED, SB\):\s*\d+/(\d+)", output)
    blocks = {function.name for function in script.functions} - {script.function}
    calls = sum(isinstance(node, tree.Call) and node.function in blocks for node in tree.walk(*script.main.body))
    assert compiled is not None and int(compiled[1]) <= 20 * (1 + calls) + 2
    functions = re.search(r"Functions recompiled:\s*(\d+)", output)
    assert functions is not None and int(functions[1]) <= 2
