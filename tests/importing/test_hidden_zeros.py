"""Where zeros are hidden from the engine: sums of counted matrices, and what loops hand on; nowhere else."""

from __future__ import annotations

import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of, library_functions
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.importing.passes.hidden_zeros import with_hidden_zeros
from onnx_systemds.importing.passes.specialisation.specialise import inlinable, specialise
from onnx_systemds.importing.passes.specialisation.work import Form

HEAD = "f = function(matrix[double] X, matrix[double] W, frame[string] T) return (matrix[double] Y) {"
OWN = "g = function(matrix[double] X) return (matrix[double] Y) { if (sum(X) > 0) { X = X * 2 }\nY = exp(X) }"
INLINED = "h = function(matrix[double] X, matrix[double] W) return (matrix[double] Y) { Y = t(X) + W }"
LOOP = "for (i in seq(1, 3, 1)) { print(i) }"

UNTOUCHED = {
    "no loop": "Y = t(X) + W",
    "no sum of counted matrices": f"Y = exp(X) + W * 2\nY = Y + X[1, ]\n{LOOP}",
    "scalars": f"n = 0\nfor (i in seq(1, 3, 1)) {{ n = n + 1 }}\nY = X + n\n{LOOP}",
    "rows that are written": "Y = matrix(0, rows=3, cols=2)\nfor (i in seq(1, 3, 1)) { Y[i, ] = X[i, ] }",
    "a state of its own": "Y = X\nfor (i in seq(1, 3, 1)) { Y = t(Y) }",
    "a state that is calculated": "h = X\nfor (i in seq(1, 3, 1)) { h = exp(h %*% W) }\nY = t(h)",
    "a frame": "E = T\nfor (i in seq(1, 3, 1)) { [Y, E] = k(X, E) }\nY = as.matrix(nrow(E))",
    "what is only handed to a function": "Y = X\nfor (i in seq(1, 3, 1)) { Y = g(Y) }",
}
HIDDEN = {
    "arguments": (f"Y = t(X) + W\n{LOOP}", ["X = X + 1"]),
    "the argument that is enough": (f"Y = X + W %*% X\n{LOOP}", ["X = X + 1"]),
    "a sum in a function": (f"Y = h(abs(X), W)\n{LOOP}", ["X = X + 1"]),
    "a sum as an argument": (f"Y = g(X - W)\n{LOOP}", ["X = X + 1"]),
    "a state": ("Y = matrix(0, rows=3, cols=2)\nfor (i in seq(1, 3, 1)) { Y = X * (Y + W) }", ["Y = Y + 1"]),
    "the zeros of a state": ("Y = matrix(0, rows=3, cols=2)\nfor (i in seq(1, 3, 1)) { Y = exp(Y + Y) }", ["Y = Y + 1"]),
    "zeros for a state": ("Y = X\nfor (i in seq(1, 3, 1)) { Y = matrix(0, rows=3, cols=2) }\nY = t(Y)", ["Y = Y + 1"]),
    "zeros for a result": ("Y = X\nfor (i in seq(1, 3, 1)) { Y = matrix(0, rows=3, cols=2) }", ["Y = Y + 1"]),
    "zeros that a function gives": ("Y = X\nfor (i in seq(1, 3, 1)) { Y = z(Y) }\nY = t(Y)", ["Y = Y + 1"]),
    "a state after another": ("a = X\nb = X\nfor (i in seq(1, 3, 1)) { Y = t(a)\na = b\nb = exp(b) }", ["a = a + 1"]),
    "a call": ("Y = X\nwhile (sum(Y) < 9) { Y = g(Y) }\nY = t(Y)", ["Y = Y + 1"]),
    "by the cut that is there": (
        "a = X\nb = X\nnever = time() < 0\n"
        'for (i in seq(1, 3, 1)) { c = b\nd = exp(b)\nif (never) { print("never") }\na = c\nb = d\nY = t(a) }',
        ["a = a + 1"],
    ),
    "by the cut in front of copies": (
        "a = X\nb = X\nnever = time() < 0\n"
        'for (i in seq(1, 3, 1)) { Y = t(a)\nc = b\nd = exp(b)\nif (never) { print("never") }\na = c\nb = d }',
        ["c = c + 1"],
    ),
}


def hidden(body: str) -> tuple[tree.Function, tree.Function]:
    known = {"g": function_of(OWN), "h": function_of(INLINED), "k": function_of(OWN.replace("g =", "k =", 1)),
             "z": function_of(OWN.replace("g =", "z =", 1).replace("exp(X)", "matrix(0, rows=3, cols=2)"))}
    function = function_of(f"{HEAD}\n{body}\n}}")
    return function, with_hidden_zeros(function, known)


@pytest.mark.parametrize("case", UNTOUCHED)
def test_untouched(case: str) -> None:
    before, after = hidden(UNTOUCHED[case])
    assert after is before


@pytest.mark.parametrize("case", HIDDEN)
def test_hidden(case: str) -> None:
    body, wanted = HIDDEN[case]
    _, after = hidden(body)
    lines = [line.strip() for line in print_statement(after).splitlines()]
    conditions = [line for line in lines if line.startswith("if (never)") and "print" not in line]
    assert {line[line.index("{") + 1 : line.index("}")].strip() for line in conditions} == set(wanted)
    assert lines.count("never = time() < 0") == 1


def test_functions_of_the_library_hide_matrices_only() -> None:
    """The texts of lists are frames, to which nothing is added."""
    functions = {function.name: function for function in library_functions(["nested_codes", "list_texts", "nested_texts"])}
    assert [function for function in functions.values() if with_hidden_zeros(function, functions) is not function] == []


def test_a_function_that_gets_the_loops_of_others() -> None:
    graph = """(float[3,4] x, float[3,4] e) => (float[4,3] y, float[3,2] a, int64[3,2] i, float[4,2] b, int64[4,2] j)
      <int64[1] k = {2}> { s = Add (x, e) y = Transpose (s) a, i = TopK (x, k) b, j = TopK (y, k) }"""
    script = import_model(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {graph}').SerializeToString())
    assert "x = x + 1" not in script.text
    assert script.general is not None
    form = Form(is_prepared=True, inlined=inlinable(script.general))
    assert form.inlined
    assert "x = x + 1" in specialise(script, {}, form).text
