"""Functions of the library have the options in a script that its calls take."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_systemds import import_model
from onnx_systemds.correspondence import RECOGNISED
from onnx_systemds.dml.call_graph import callees
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.exporting.builtins import load_builtins
from onnx_systemds.exporting.builtins.library import TEMPLATES
from onnx_systemds.importing.passes.constant_arguments import with_constant_arguments
from onnx_systemds.importing.script import Script
from tests.plain_engine import score_plainly

LIBRARY = """
scaled = function(matrix[double] X, string how, double by) return (matrix[double] Y) {
  if (how == "up") { Y = X * by } else { Y = X / by }
}
outer = function(matrix[double] X, boolean up, integer n) return (matrix[double] Y) {
  how = ifelse(up, "up", "down")
  if (n > 2 & up) { X = X + 1 }
  Y = scaled(X, "up", 2)
}
softplus = function(matrix[double] X, boolean plain) return (matrix[double] Y) { Y = X\n if (plain) { Y = exp(X) } }
"""


def changed(body: str) -> dict[str, str]:
    """The functions that are left, by name, of a script whose main function has this body."""
    made = parse_script(f"{LIBRARY}\nf = function(matrix[double] X) return (matrix[double] Y) {{\n{body}\n}}")
    main = made.functions["f"]
    script = Script("f", (), (), (), (), (), (), library=tuple(callees(made.functions, [main]).values()), functions=(main,))
    found = with_constant_arguments(script)
    return {it.name: print_statement(it).strip() for it in (*found.library, *found.functions)}


def test_a_literal_of_all_calls_decides_branches() -> None:
    found = changed('A = scaled(X, "up", 3)\nY = scaled(A, "up", 3)')
    assert found["scaled"] == """# Here how is "up", by is 3.
scaled = function(matrix[double] X) return (matrix[double] Y) {
  Y = X * 3
}"""
    assert "A = scaled(X)\n  Y = scaled(A)" in found["f"]


def test_literals_reach_what_a_function_calls() -> None:
    found = changed("Y = outer(X, TRUE, 5)")
    assert "  X = X + 1\n  Y = scaled(X)\n" in found["outer"] and "Y = X * 2" in found["scaled"]
    assert "Y = outer(X)" in found["f"]


@pytest.mark.parametrize(
    "body",
    [
        'A = scaled(X, "up", 3)\nY = scaled(A, "down", 3)',  # two literals: no branch is decided
        'how = "up"\nif (sum(X) > 0) { how = "down" }\nY = scaled(X, how, 3)',
        "Y = softplus(X, TRUE)",  # of which exports make an operator, as it stands
    ],
)
def test_other_calls_stay(body: str) -> None:
    found, texts = changed(body), parse_script(LIBRARY).functions
    called = "softplus" if "softplus" in body else "scaled"
    assert "# Here" not in found[called] and len(parse_script(found[called]).functions[called].parameters) == len(
        texts[called].parameters)


def test_functions_that_exports_recognise_are_listed() -> None:
    load_builtins()
    assert TEMPLATES.keys() == RECOGNISED


def test_products_that_other_passes_look_for_stay() -> None:
    """36 pairs are not eight in each turn: that would decide a branch."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]> g (float[2, 18, t, 8] Q, float[2, 18, 8, s] K, float[2, 18, s, 4] V)
        => (float[2, 18, t, 4] Y) { scores = MatMul(Q, K) weights = Softmax<axis = -1>(scores) Y = MatMul(weights, V) }"""
    )
    text = import_model(model).text
    assert "batch_matmul = function(matrix[double] X, matrix[double] Y, integer count)" in text
    assert "if (count * m >= 16777216 / (l * n)) {" in text


@pytest.mark.engine
@pytest.mark.parametrize("mode", ["asymmetric", "half_pixel", "align_corners"])
def test_images_of_open_sizes_are_resized(mode: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> g (float[n, 2, h, w] X) => (float[n, 2, a, b] Y)
        <float[4] s = {{1, 1, 1.5, 2.5}}> {{
          Y = Resize<mode = "nearest", coordinate_transformation_mode = "{mode}">(X, , s) }}"""
    )
    script = import_model(model)
    (places,) = re.findall(r"\nresize_positions = .*?\n}\n", script.text, re.DOTALL)
    assert "coordinates ==" not in places and len(places.splitlines()) < 18
    images = np.random.default_rng(0).normal(size=(2, 2, 6, 5)).astype(np.float32)
    expected = onnx.reference.ReferenceEvaluator(model).run(None, {"X": images})[0]
    np.testing.assert_array_equal(score_plainly(script, {"X": images})["Y"], expected)
