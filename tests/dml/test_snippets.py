"""Statements that generators write keep their spelling in the tree; what a pass changes is printed anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml import templates
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import print_block, print_script, print_statement
from onnx_systemds.dml.snippets import _SnippetParser, parse_snippet
from onnx_systemds.errors import ScriptSyntaxError

GOLDEN = sorted((Path(__file__).parent.parent / "golden" / "scripts").glob("*.dml"))
LIBRARY = sorted((templates.templates_folder() / "library").glob("*.dml"))

LOOP = """# why
for (i in seq(1, n, 1)) {
  if (c != 0) { stop("no") }
  # two kinds
  y = a*b  # beside

  z[i, ] = t(y); y = z
}"""


@pytest.mark.parametrize("text", [
    "y = (a*b) + ( -c )", "y = (a*b) / (c*d)", "x = -a ^ 2", LOOP, 'w = as.matrix(weights["w"]); w = w[1:2, 1:3]', "a = 1;\nb = 2", "# one\na = 1  # two\n# three",
    "[a, b] = f(x, rows=n*m)", 'x = "a\nb"', "if (a) {\n  x = 1\n}\nelse {\n  x = 2\n}",
])
def test_snippets_are_printed_as_they_are_written(text: str) -> None:
    snippet = parse_snippet(text)
    assert snippet == parse_script(text).items
    expected = text.replace(";\n", "\n").replace("\nb\"", '\\nb"')
    assert print_block(snippet) == f"{expected}\n"
    indented = "".join(f"    {line}\n" if line else "\n" for line in expected.split("\n"))
    assert print_block(snippet, "    ") == indented


@pytest.mark.parametrize("path", [*GOLDEN, *LIBRARY], ids=lambda path: path.stem)
def test_scripts_keep_every_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    items = parse_snippet(text)
    assert items == parse_script(text).items
    assert [line for line in print_script(tree.Script(items)).split("\n") if line] == [line for line in text.split("\n") if line]


@pytest.mark.parametrize("path", [*GOLDEN, *LIBRARY], ids=lambda path: path.stem)
def test_statements_of_one_shape_are_as_the_first(path: Path) -> None:
    for function in parse_snippet(path.read_text(encoding="utf-8")):
        assert isinstance(function, tree.Function)
        for statement in tree.walk(*function.body):
            if isinstance(statement, tree.StatementNode):
                text = print_statement(statement)
                (first,), *others = (parse_snippet(text) for _ in range(3))
                expected = first, first.spelling, first.comments, print_block((first, first))
                for (other,) in others:
                    assert (other, other.spelling, other.comments, print_block((other, other))) == expected


@pytest.mark.parametrize(("first", "texts"), [
    ("x = y", ["a = b", "x = TRUE", "x = Inf", "pi = y", "x = f1", "rows = cols"]),
    ("x = f(y, rows=n)", ["a = g(b, cols=m)", "a = f(b, rows=a)", "a = f(TRUE, rows=NaN)"]),
    ('x = y["key"]', ['a = b["other key"]', 'a = b["it\'s # no comment"]', 'a = b[""]', "a = b[key]", "a = b['key']"]),
    ("x = (y) + (-z); z = x", ["a = (b) + (-c); c = a", "mark_of_leaf_0_ = (b) + (-c); c = mark_of_leaf_0_"]),
    ('for (i in 1:n) { x = "a" }', ['for (j in 1:m) { y = "b" }', "for (j in 1:m) { y = b }"]),
    ("if (a) { x = 1 }", ["if (b) { y = 1 }", "if (TRUE) { y = 1 }"]), ("x = 1e5 * y", ["a = 1e5 * b"]),
    ("x = s::f(y)", ["a = s::f(b)", "a = t::f(b)"]), ("x = as.scalar(y)", ["a = as.scalar(b)"]), ("x = $y", ["x = $z"]),
    ('x = "a\\"b"', ['x = "a\\"c"', 'y = "b\\"c"']), ("x = y  # z", ["x = a  # b"]), ("x = /* y */ z", ["x = /* a */ b"]),
])
def test_texts_of_one_shape_have_their_own_names(first: str, texts: list[str]) -> None:
    parse_snippet(first), parse_snippet(first)
    for text in texts:
        for _ in range(3):
            snippet = parse_snippet(text)
            assert snippet == parse_script(text).items
            assert print_block(snippet) == print_block(_SnippetParser(text).snippet())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_statements_of_a_changed_function_keep_theirs(path: Path) -> None:
    for function in parse_snippet(path.read_text(encoding="utf-8")):
        assert isinstance(function, tree.Function) and function.spelling.count("\n") >= 2
        changed = replace(function, name="other")
        assert not changed.spelling
        body = function.spelling.partition("{\n")[2].rpartition("\n}")[0]
        printed = print_block((changed,)).partition("{\n")[2].rpartition("\n}")[0]
        assert [line for line in printed.split("\n") if line] == [line for line in body.split("\n") if line]


def test_changed_statements_have_no_spelling() -> None:
    (first, second) = parse_snippet("x = a*b; y = x*x")
    assert isinstance(first, tree.Assign) and isinstance(second, tree.Assign)
    changed = replace(second, target=tree.Name("z"))
    assert print_block((first, changed)) == "x = a*b\nz = x * x\n"
    assert print_block((replace(first, target=tree.Name("z")), second)) == "z = a * b; y = x*x\n"
    (loop,) = parse_snippet("for (i in seq(1, n*n, 1)) {\n  if (c) { x = 1 }\n    y = a*b\n}")
    assert isinstance(loop, tree.For)
    assert print_block((replace(loop, variable="j"),)) == (
        "for (j in seq(1, n * n, 1)) {\n  if (c) { x = 1 }\n  y = a*b\n}\n"
    )


@pytest.mark.parametrize(("text", "expected"), [
    ("y = (a*b)", "y = a*b"), ("y = ((a*b))", "y = a*b"), ("y = (a) * ((b)) / (c)", "y = a * b / c"),
    ("y = (a + b) * (c + d)", "y = (a + b) * (c + d)"), ("y = f((a + b), rows=((c) * d), x[(i), ])", "y = f(a + b, rows=c * d, x[i, ])"),
    ("if ((a < (-1))) { x = (f((b))) }", "if (a < (-1)) { x = f(b) }"), ("y = (-a)", "y = -a"), ("y = !(a) & (!b)", "y = !a & (!b)"),
    ('y = ("(a)")', 'y = "(a)"'), ("x = 1 # (a)\ny = (a) # (b)", "x = 1  # (a)\ny = a  # (b)"), ("y = x[(a + b):(c), ]", "y = x[(a + b):c, ]"),
    ("y = ((a + b) * c)", "y = (a + b) * c"), ("y = (a + b) + (c)", "y = (a + b) + c"),
])
def test_needless_parentheses_are_dropped(text: str, expected: str) -> None:
    snippet = parse_snippet(text)
    assert print_block(snippet) == f"{expected}\n"
    assert snippet == parse_snippet(expected) == parse_script(text).items


def test_errors_tell_the_place() -> None:
    for _ in range(3):
        with pytest.raises(ScriptSyntaxError, match="expected an expression") as caught:
            parse_snippet("x = 1\ny = *")
    assert caught.value.place is not None and "2:5" in str(caught.value.place)
