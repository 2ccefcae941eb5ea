"""Broken scripts end in an error that names the place, shows it, and says what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_systemds.dml.parser import parse_file, parse_script
from onnx_systemds.errors import ScriptSyntaxError, TranspileError

# script, line, column, message, part of the hint
BROKEN = [
    ("y = f(a x)", 1, 9, "expected ',' or ')' to close the call of f, found 'x'", ""),
    ("y = f(a,\n  b\nz = 3", 3, 1, "expected ',' or ')' to close the call of f, opened in line 1, found 'z'", ""),
    ("x = (1 + 2\ny = 3", 2, 1, "expected ')' to close the parentheses, opened in line 1, found 'y'", ""),
    ("if (a<-1) x = 2", 1, 6, "expected ')' to close the condition of if, found '<-'", "< -1"),
    ("if (x = 1) { y = 2 }", 1, 7, "expected ')' to close the condition of if, found '='", "equality is =="),
    ("x = y = 3", 1, 7, "expected an operator, ';' or the next statement, found '='", "equality is =="),
    ("x = 3 4", 1, 7, "expected an operator, ';' or the next statement, found '4'", ""),
    ("x = 2 *", 1, 8, "expected an expression to the right of '*', found the end of the script", ""),
    ("x = 2 * / 3", 1, 9, "expected an expression to the right of '*', found '/'", ""),
    ("x = a ! b", 1, 7, "expected an operator, ';' or the next statement, found '!'", ""),
    ('x = "abc\ny = 2\n', 1, 5, 'expected " to close this string, found the end of the script', ""),
    ('x = "abc\ny = "d"\n', 2, 7, 'expected " to close this string, found the end of the script', "from line 1 to line 2"),
    ('x = f("a\ny = "b, "c")', 2, 6, "expected ',' or ')' to close the call of f", "is a quote missing?"),
    ('x = "a\\q"', 1, 7, "expected one of b t n f r \" ' \\ after a backslash in a string, found q", "no other escapes"),
    ("/* no end\nx = 1", 1, 1, "expected '*/' to close this comment, found the end of the script", ""),
    ("X = A @ B", 1, 7, "found the character '@'", "%*%"),
    ("x = 3 $ 2", 1, 7, "found the character '$'", "$name or $1"),
    ('x = "%d" % 3', 1, 10, "found the character '%'", "%*%, %/% and %%"),
    ("my.var = 3", 1, 3, "found the character '.'", "as.scalar"),
    ("x = \u201chello\u201d", 1, 5, "found the character '\u201c'", "straight quotes"),
    ("x =\u00a01", 1, 4, "found the character U+00A0", "no-break space"),
    ("x = 5L", 1, 5, "the number 5L has a suffix", "the engine cannot read"),
    ("x = 99999999999999999999", 1, 5, "the integer 99999999999999999999 does not fit in 64 bits", "add .0"),
    ("x = f(1)[1, 2]", 1, 9, "expected an operator, ';' or the next statement, found '['", "only variables"),
    ("X[1:, 2] = 3", 1, 5, "expected the end of the range, found ','", "nrow(X)"),
    ("y = X[, 1:]", 1, 11, "expected the end of the range, found ']'", "ncol(X)"),
    ("Y = X[1, 2, 3]", 1, 11, "expected ']' to close the index of X, found ','", "at most rows and columns"),
    ("[a, b] = x + 1", 1, 10, "expected the call of a function, whose results are assigned, found 'x'", ""),
    ("[a, b] = f(x) + 1", 1, 15, "expected the end of the statement, found '+'", "as they are"),
    ("[] = f(x)", 1, 1, "the list of targets is empty", ""),
    ("f(x) + 1", 1, 6, "expected the end of the statement, found '+'", "must be assigned"),
    ("f(x) = 1", 1, 6, "a call cannot be assigned to", "brackets"),
    ("$x = 3", 1, 1, "an argument of the command line cannot be assigned", "ifdef($x"),
    ("x = ifdef(y, 3)", 1, 11, "expected an argument of the command line ($name or $1)", ""),
    ("x = ifdef($y, 3) + 1", 1, 18, "expected the end of the assignment, found '+'", "stands alone"),
    ("x = 1 + ifdef($y, 3)", 1, 9, "expected an expression to the right of '+', found 'ifdef'", "after the '='"),
    ("x += ifdef($a, 1)", 1, 6, "expected an expression, found 'ifdef'", "only on '='"),
    ("f = function(X) return (double y) { y = 1 }", 1, 14, "expected a type such as double", "has a type"),
    ("f = function(matrix X) return (double y) { y = 1 }", 1, 14, "expected a type such as double", "matrix[double]"),
    ("f = function(tensor[double] x) { y = 1 }", 1, 14, "expected a type such as double", ""),
    ("f = function(matrix[number] x) { y = 1 }", 1, 21, "expected int, double, boolean, string or unknown", ""),
    ("f = function(double x) return (double y) { }", 1, 42, "the function f has no statements", ""),
    ("f = function(double x) return (double y = 1) { y = 1 }", 1, 41, "only the parameters of a function", ""),
    ("f = function(double x) {\n y = 1", 2, 7, "expected '}' to close the body of the function f, which begins in line 1", ""),
    ("f = function(double x)\n  y = x", 2, 3, "expected 'return' or '{' after the parameters of the function f", ""),
    ("if (a) {\n  g = function(int x) { y = x }\n}", 2, 3, "a function is defined inside a block", "top level"),
    ("f = function() { y = 1 }\nf = function() { y = 2 }", 2, 1, "the function f is defined twice", "line 1"),
    ("for (i in 1) { x = i }", 1, 12, "expected ':' in the range of for, found ')'", "seq(a, b, step)"),
    ("for (i = 1:3) { x = i }", 1, 8, "expected 'in' after the variable of for, found '='", ""),
    ("for (i in seq(1, n, by=2)) x = i", 1, 11, "expected seq(from, to) or seq(from, to, step)", ""),
    ("parfor (i in 1:n, check) x = i", 1, 19, "expected name=value as an option of parfor", ""),
    ("while x < 3 { x = x + 1 }", 1, 7, "expected '(' after while, found 'x'", ""),
    ("else { x = 1 }", 1, 1, "expected a statement, found 'else'", "directly on the body of its if"),
    ("if (a) { x = 1 }; else { x = 2 }", 1, 17, "expected a statement, found ';'", "only simple statements"),
    ("if (a)", 1, 7, "expected the body of if, found the end of the script", ""),
    ("x = 1 }", 1, 7, "expected an operator, ';' or the next statement, found '}'", "no open '{'"),
    ('source("a.dml")', 1, 16, "expected 'as' and a namespace after source(...), found the end", ""),
    ('source("a.dml") as a::b', 1, 20, "expected a plain name for the namespace", ""),
    ("source(path) as p", 1, 8, "expected the path of source in quotes, found 'path'", "written out"),
    ("in = 3", 1, 1, "expected a statement, found 'in'", "no name"),
    ("x = f(as=1)", 1, 7, "expected an expression, found 'as'", "no name"),
    ("x = matrix(1, rows=2 cols=3)", 1, 22, "expected ',' or ')' to close the call of matrix, found 'cols'", ""),
    ("x = [ ]", 1, 5, "a list in brackets is empty", ""),
    ("return (x)", 1, 1, "expected a statement, found 'return'", "head of the function"),
    ("x = NaN[1]", 1, 5, "NaN is a constant and cannot be indexed", ""),
    ("2x = 3", 1, 1, "expected a statement, found '2'", "begins with a letter"),
    ("x = 2y", 1, 7, "expected '=' or '+=' after y, found the end of the script", "written with *"),
    ("x", 1, 2, "expected '=' or '+=' after x, found the end of the script", ""),
    ('print("a", )', 1, 12, "expected an expression, found ')'", ""),
    ("f = externalFunction(int x) implemented (a='b')", 1, 41, "expected 'in' after implemented, found '('", ""),
]


@pytest.mark.parametrize("script, line, column, message, hint", BROKEN, ids=[case[0][:40] for case in BROKEN])
def test_error_names_place_and_expectation(script: str, line: int, column: int, message: str, hint: str) -> None:
    with pytest.raises(ScriptSyntaxError) as caught:
        parse_script(script, "model.dml")
    text = str(caught.value)
    assert text.startswith(f"model.dml:{line}:{column}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert bool(hint) <= ("\n  hint: " in text)
    shown, carets = text.split("\n")[1:3]
    number, bar, source = shown.partition(" | ")
    assert (number.strip(), bar) == (str(line), " | ")
    assert source == script.split("\n")[line - 1].replace("\u00a0", "?").rstrip()
    assert carets.index("^") == len(number) + len(bar) + column - 1
    assert set(carets[carets.index("^") :]) == {"^"}


def test_the_whole_text_of_an_error() -> None:
    with pytest.raises(TranspileError) as caught:
        parse_script("x = 1\nif (x<-1) {\n  y = 2\n}\n", "dir/model.dml")
    assert str(caught.value) == (
        "dir/model.dml:2:6: expected ')' to close the condition of if, found '<-'\n"
        "  2 | if (x<-1) {\n"
        "    |      ^^\n"
        "  hint: <- is an assignment; a comparison with a negative number is < -1"
    )


def test_a_long_line_is_shown_around_the_place() -> None:
    with pytest.raises(ScriptSyntaxError) as caught:
        parse_script(f"{'a' * 300} = 3 {'b' * 10} 4 {'c' * 300}")
    shown, carets = caught.value.excerpt.split("\n")
    assert shown.startswith("  1 | ...aaa") and shown.endswith("ccc...") and len(shown) < 120
    assert shown[carets.index("^")] == "4"


def test_tabs_do_not_move_the_caret() -> None:
    with pytest.raises(ScriptSyntaxError) as caught:
        parse_script("\tx =\t3 4")
    shown, carets = caught.value.excerpt.split("\n")
    assert shown[carets.index("^")] == "4" and "\t" not in shown


@pytest.mark.parametrize(
    "script",
    [
        "x = " + "(" * 20_000 + "1" + ")" * 20_000,
        "x = " + "-" * 20_000 + "1",
        "x = " + "f(" * 20_000,
        "x = " + "2^" * 20_000 + "2",
        "if (a) " * 20_000 + "x = 1",
        "{" * 1000,
        "x = " + "a[" * 20_000,
        "x = [" * 1000,
    ],
    ids=["parentheses", "signs", "calls", "powers", "ifs", "braces", "indices", "lists"],
)
def test_hostile_nesting_ends_in_an_error(script: str) -> None:
    with pytest.raises(ScriptSyntaxError):
        parse_script(script)


def test_a_place_cannot_forge_lines() -> None:
    with pytest.raises(ScriptSyntaxError) as caught:
        parse_script("x = \x1b[31m", "a\nb.dml")
    assert str(caught.value).count("\n") == 2
    assert "\x1b" not in str(caught.value)


def test_a_message_is_short_and_printable() -> None:
    for script in (f"x = {'a' * 100_000}(1 2", "x = f(1 '\x1b[31m\u202e')"):
        with pytest.raises(ScriptSyntaxError) as caught:
            parse_script(script)
        text = str(caught.value)
        assert len(text) < 800
        assert all(character.isprintable() or character == "\n" for character in text)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "model.dml"
    path.write_bytes(b"x = 1\ny = \xff\n")
    with pytest.raises(ScriptSyntaxError, match=r"model.dml:2:5: expected text in UTF-8, found the byte 0xFF"):
        parse_file(path)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TranspileError, match="cannot be read: No such file"):
        parse_file(tmp_path / "none.dml")
