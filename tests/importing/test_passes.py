"""Passes on the statements of a generated function: cuts of its blocks, and names for the states of the dictionary."""

from __future__ import annotations

from itertools import count

import pytest

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.dml.printer import print_block
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.passes.block_cuts import (
    BLOCK_CUT,
    COMPARED_CUT,
    EXTREMES_CUT,
    NEVER,
    SHIFTED_CUT,
    STATEMENTS_PER_BLOCK,
    TRANSPOSED_CUT,
    cut_blocks,
    with_never,
)
from onnx_systemds.importing.passes.defined_variables import undefined
from onnx_systemds.importing.passes.dictionaries import with_numbered_texts


def statements_of(text: str) -> list[tree.Statement]:
    return [item for item in parse_snippet(text) if not isinstance(item, (tree.Function, tree.ExternalFunction))]


@pytest.mark.parametrize(("text", "expected"), [
    ("m = max(a, b)\nn = max(m, c)", EXTREMES_CUT),
    ("m = matrix(max(a, b), rows=1, cols=n)\nif (c) {\n  k = max(c, m)\n}", EXTREMES_CUT),
    ("m = max(a, b)\nn = min(m, c)", None),
    ("m = max(a, b)\nm = max(c, d)", None),
    ('m = max(a, b)\nprint("max(m, c)")', None),
    ("m = -max(-a, -b)\nn = max(m, c)", None),
    ("m = a < b\nn = m == 0", COMPARED_CUT),
    ("m = a < b\nn = m == 0.5", None),
    ("m = (a %*% b) >= (c)\nn = f(x, m == 0.0)", COMPARED_CUT),
    ("m = a < b\nn = m == -0.0", COMPARED_CUT),
    ("m = a > 0\nn = a * m", COMPARED_CUT),
    ("m = a > (-0)\nn = a * m", COMPARED_CUT),
    ("m = a > -1\nn = a * m", None),
    ("m = a > b\nn = a * m", None),
    ("m = a > 0\nn = a + m", None),
    ("m = abs(x) + 1\ny = rev(x) / m", SHIFTED_CUT),
    ("m = x - 1\nk = m * 2\ny = x <= (k * z)", SHIFTED_CUT),
    ("m = 1 + x\ny = min(x, m)", SHIFTED_CUT),
    ("m = x + (-1)\ny = x / m", SHIFTED_CUT),
    ("m = -1 + abs(x)\ny = x ^ m", SHIFTED_CUT),
    ("m = x - Inf\ny = x < m", SHIFTED_CUT),
    ("m = x + -z\ny = x / m", None),
    ("m = x + 1\ny = m / x", None),
    ("m = x * 2\ny = x / m", None),
    ("a = t(x)\nb = t(y)\nz = a %*% b", TRANSPOSED_CUT),
    ("a = t(x)\nz = c + -w %*% a %*% t(y)", TRANSPOSED_CUT),
    ("a = t(x)\nz = a %*% y + t(z) %*% w", None),
])
def test_cuts_between_what_the_engine_would_join(text: str, expected: str | None) -> None:
    *first, last = statements_of(text)
    cut = [] if expected is None else statements_of(expected)
    assert print_block(cut_blocks([*first, last, last])) == print_block([*first, *cut, last, last])


@pytest.mark.parametrize(("text", "expected"), [
    ("m = min(a, b)\nz = f(m)", EXTREMES_CUT), ("m = max(a, b)\nz = f(m)", None), ("m = min(a, b)\nz = f(c)", None),
    ("m = a > 0\nz = g(m, a)", COMPARED_CUT),
])
def test_cuts_before_what_the_engine_would_join_once_it_has_inlined_it(text: str, expected: str | None) -> None:
    functions = {name: function_of(f"{name} = function(matrix[double] X, matrix[double] U) return (matrix[double] Y) {{ {body} }}")
                 for name, body in {"f": "C = min(X, 5)\n Y = C + 1", "g": "Y = U * X"}.items()}
    *first, last = statements_of(text)
    cut = [] if expected is None else statements_of(expected)
    assert print_block(cut_blocks([*first, last], functions)) == print_block([*first, *cut, last])


def test_long_blocks_are_cut_between_lines() -> None:
    text = "\n".join(f"a{number} = b; a{number} = c" for number in range(STATEMENTS_PER_BLOCK + 1))
    lines = print_block(cut_blocks(statements_of(f"{text}\n# the last\nz = 1"))).splitlines()
    assert lines[STATEMENTS_PER_BLOCK :] == [BLOCK_CUT, text.splitlines()[-1], "# the last", "z = 1"]


@pytest.mark.parametrize(("text", "is_used"), [
    ("x = 1", False), ('print("if (never) {")', False), ("# if (never) {\nx = 1", False), (BLOCK_CUT, True),
    ("for (i in 1:n) {\n  if (c) { x = 1 } else { if (never) { x = 2 } }\n}", True), ("while (c) { x = 1 }", False),
])
def test_never_is_defined_where_it_is_used(text: str, is_used: bool) -> None:
    statements = statements_of(text)
    assert print_block(with_never(statements)) == (f"{NEVER}\n" if is_used else "") + print_block(statements)


@pytest.mark.parametrize(("text", "expected"), [
    ("x = f(y)", "x = f(y)"),
    ("x = f(y, old_texts_)", "x = f(y, texts)"),
    ("[x, new_texts_] = f(old_texts_)\ny = g(x*x, old_texts_)", "[x, texts1] = f(texts)\ny = g(x*x, texts1)"),
    ("if (c) {\n  new_texts_ = f(old_texts_)\n} else {\n  new_texts_ = old_texts_\n}\nx = f(old_texts_)",
     "if (c) {\n  texts1 = f(texts)\n} else {\n  texts1 = texts\n}\nx = f(texts1)"),
    ("new_texts_ = old_texts_\nfor (i in 1:n) {\n  [x, t] = f(new_texts_, i*i)\n  new_texts_ = t\n}\nx = f(old_texts_)",
     "texts1 = texts\nfor (i in 1:n) {\n  [x, t] = f(texts1, i*i)\n  texts1 = t\n}\nx = f(texts1)"),
    ('x = f(old_texts_, "old_texts_", old_texts_=1, a=old_texts_)', 'x = f(texts, "old_texts_", old_texts_=1, a=texts)'),
    ("[new_texts_, x] = f(old_texts_); y = x*x", "[texts1, x] = f(texts); y = x*x"),
])
def test_states_of_the_dictionary_have_names(text: str, expected: str) -> None:
    numbers = count(1)
    statements, last = with_numbered_texts(statements_of(text), lambda hint: f"{hint}{next(numbers)}")
    assert print_block(statements) == f"{expected}\n"
    assert statements == statements_of(expected)
    assert last == ("texts1" if "texts1" in expected else "texts")


@pytest.mark.parametrize(("body", "names"), [
    ("y = x", []),
    ("m = n\nn = 2\ny = m", ["n"]),
    ("if (x > 0) { m = 1\ny = m }", ["y"]),
    ("if (x > 0) { m = 1 } else { m = 2 }\ny = m", []),
    ("for (i in seq(1, x, 1)) { m = i }\ny = m", ["m"]),
    ("y = 0\nwhile (y < x) { y = y + m\nm = y }", ["m"]),
    ("m = x\nm[1, k] = 2\n[y, n] = f(m)", ["k"]),
])
def test_variables_that_are_not_defined_on_each_way(body: str, names: list[str]) -> None:
    assert undefined(function_of(f"f = function(matrix[double] x) return (matrix[double] y) {{\n{body}\n}}")) == names
