"""The tree that each form of the grammar gives."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_file, parse_script
from onnx_systemds.errors import ScriptPlace, ScriptSyntaxError
from onnx_systemds.exporting.sources import JAR_PREFIX, jar_script, jar_scripts

# A variable with the name of a keyword: the engine refuses the script at the same place.
REFUSED = {"scripts/databricks/demo.dml": (34, 1)}


def only(text: str) -> tree.Item:
    (item,) = parse_script(text).items
    return item


def value(text: str) -> tree.Expression:
    item = only(f"result = {text}")
    assert isinstance(item, tree.Assign)
    return item.value


def shape(node: tree.Expression) -> str:
    """Return an expression with all its parentheses."""
    if isinstance(node, tree.Binary):
        return f"({shape(node.left)} {node.operator} {shape(node.right)})"
    if isinstance(node, tree.Unary):
        return f"({node.operator}{shape(node.operand)})"
    if isinstance(node, tree.Name):
        return node.name
    assert isinstance(node, tree.IntLiteral)
    return str(node.value)


# The right sides are how the engine's own parser reads them.
@pytest.mark.parametrize(
    "text, expected",
    [
        ("a ^ b ^ c", "(a ^ (b ^ c))"),
        ("-a ^ b", "(-(a ^ b))"),
        ("a ^ -b", "(a ^ (-b))"),
        ("2 ^ -3 ^ 2 %*% 4", "((2 ^ (-(3 ^ 2))) %*% 4)"),
        ("-2 ^ 2", "(-(2 ^ 2))"),
        ("-a %*% b", "((-a) %*% b)"),
        ("2 * a %*% b", "(2 * (a %*% b))"),
        ("a %*% b %/% c", "((a %*% b) %/% c)"),
        ("a * b %% c / d", "((a * (b %% c)) / d)"),
        ("a %/% b %% c", "((a %/% b) %% c)"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c", "((a / b) * c)"),
        ("a + b * c", "(a + (b * c))"),
        ("a == b == c", "((a == b) == c)"),
        ("a < b + 1", "(a < (b + 1))"),
        ("!a == b & c", "((!(a == b)) & c)"),
        ("3 + !b + 2", "(3 + (!(b + 2)))"),
        ("a | b & c", "(a | (b & c))"),
        ("a || b && c", "(a || (b && c))"),
        ("a & b | c & d", "((a & b) | (c & d))"),
        ("a != b | a >= b", "((a != b) | (a >= b))"),
        ("- - a", "(-(-a))"),
        ("+a - +b", "((+a) - (+b))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("((a))", "a"),
        ("a\n-b", "(a - b)"),
        ("a <= b", "(a <= b)"),
        ("!!a", "(!(!a))"),
        ("-!a < b", "(-(!(a < b)))"),
    ],
)
def test_precedence(text: str, expected: str) -> None:
    assert shape(value(text)) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0", tree.IntLiteral(0)),
        ("007", tree.IntLiteral(7)),
        ("9223372036854775807", tree.IntLiteral(2**63 - 1)),
        ("1.", tree.DoubleLiteral(1.0)),
        (".5", tree.DoubleLiteral(0.5)),
        ("1e3", tree.DoubleLiteral(1000.0)),
        ("1E-3", tree.DoubleLiteral(0.001)),
        ("1.5e+2", tree.DoubleLiteral(150.0)),
        ("4.9e-324", tree.DoubleLiteral(5e-324)),
        ("1e400", tree.DoubleLiteral(math.inf)),
        ("TRUE", tree.BooleanLiteral(True)),
        ("FALSE", tree.BooleanLiteral(False)),
        ("NaN", tree.Constant("NaN")),
        ("Inf", tree.Constant("Inf")),
        ("pi", tree.Constant("pi")),
        ("inf", tree.Name("inf")),
        ("$1", tree.Argument("1")),
        ("$name_2", tree.Argument("name_2")),
        ("[a, 2]", tree.ListExpression((tree.Name("a"), tree.IntLiteral(2)))),
        ('""', tree.StringLiteral("")),
        ("'it is \"x\"'", tree.StringLiteral('it is "x"')),
        (r'"a\tb\nc\"d\'e"', tree.StringLiteral("a\tb\nc\"d'e")),
        ('"two\nlines"', tree.StringLiteral("two\nlines")),
        # The engine resolves one kind of escape after the other, and has none for a backslash.
        (r'"a\\b\\nq\\x"', tree.StringLiteral("a\\\b\\\nq\\\\x")),
        ('"# no comment /* */"', tree.StringLiteral("# no comment /* */")),
    ],
)
def test_literals(text: str, expected: tree.Expression) -> None:
    assert value(text) == expected


def test_a_number_ends_where_a_range_or_name_begins() -> None:
    assert value("X[1:n,2]") == tree.Indexed(
        "X", tree.Span(tree.IntLiteral(1), tree.Name("n")), tree.Span(tree.IntLiteral(2))
    )


@pytest.mark.parametrize(
    "text, rows, columns",
    [
        ("X[]", tree.Span(), None),
        ("X[,]", tree.Span(), tree.Span()),
        ("X[i]", tree.Span(tree.Name("i")), None),
        ("X[i,]", tree.Span(tree.Name("i")), tree.Span()),
        ("X[,i]", tree.Span(), tree.Span(tree.Name("i"))),
        ("X[i:j,]", tree.Span(tree.Name("i"), tree.Name("j")), tree.Span()),
        ("X[i:j]", tree.Span(tree.Name("i"), tree.Name("j")), None),
        ('X["name"]', tree.Span(tree.StringLiteral("name")), None),
    ],
)
def test_indices(text: str, rows: tree.Span, columns: tree.Span | None) -> None:
    assert value(text) == tree.Indexed("X", rows, columns)
    assert only(f"{text} = 1") == tree.Assign(tree.Indexed("X", rows, columns), tree.IntLiteral(1))


def test_calls() -> None:
    found = value("ns::f(a, rows=1, as.scalar(b), lower.tail=FALSE)")
    assert found == tree.Call(
        "ns::f",
        (
            tree.CallArgument(None, tree.Name("a")),
            tree.CallArgument("rows", tree.IntLiteral(1)),
            tree.CallArgument(None, tree.Call("as.scalar", (tree.CallArgument(None, tree.Name("b")),))),
            tree.CallArgument("lower.tail", tree.BooleanLiteral(False)),
        ),
    )
    assert isinstance(found, tree.Call)
    assert (found.namespace, found.local_name) == ("ns", "f")
    plain = value("f()")
    assert isinstance(plain, tree.Call) and (plain.namespace, plain.local_name) == ("", "f")


A, B, C = tree.Name("a"), tree.Name("b"), tree.Name("c")
F = tree.Call("f", (tree.CallArgument(None, tree.Name("x")),))
ONE = tree.IntLiteral(1)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a = b", tree.Assign(A, B)),
        ("a <- b;", tree.Assign(A, B)),
        ("a += b;;", tree.Assign(A, B, accumulate=True)),
        ("a[1,] += b", tree.Assign(tree.Indexed("a", tree.Span(ONE), tree.Span()), B, accumulate=True)),
        ("a = f(x)", tree.Assign(A, F)),
        ("a = ifdef($X, 1)", tree.Assign(A, tree.IfDefined(tree.Argument("X"), ONE))),
        ("a = ifdef($1, b + 1)", tree.Assign(A, tree.IfDefined(tree.Argument("1"), tree.Binary("+", B, ONE)))),
        ("f(x)", tree.CallStatement(F)),
        ("[a, b] = f(x)", tree.MultiAssign((A, B), F)),
        ("[a] <- f(x)", tree.MultiAssign((A,), F)),
        ("[a, b[1]] = f(x)", tree.MultiAssign((A, tree.Indexed("b", tree.Span(ONE))), F)),
        ("if (a) b = 1", tree.If(A, (tree.Assign(B, ONE),))),
        ("if (a) { }", tree.If(A, ())),
        ("if (a) { b = 1; } else c = 1", tree.If(A, (tree.Assign(B, ONE),), (tree.Assign(C, ONE),))),
        (
            "if (a) b = 1; else if (b) c = 1; else f(x)",
            tree.If(A, (tree.Assign(B, ONE),), (tree.If(B, (tree.Assign(C, ONE),), (tree.CallStatement(F),)),)),
        ),
        (
            "if (a) if (b) c = 1 else f(x)",
            tree.If(A, (tree.If(B, (tree.Assign(C, ONE),), (tree.CallStatement(F),)),)),
        ),
        ("while (a) { f(x); f(x) }", tree.While(A, (tree.CallStatement(F), tree.CallStatement(F)))),
        ("for (i in a:b) f(x)", tree.For("i", tree.LoopRange(A, B), (tree.CallStatement(F),))),
        ("for (i in seq(a, b)) f(x)", tree.For("i", tree.LoopRange(A, B), (tree.CallStatement(F),))),
        ("for (i in seq(a, b, c)) f(x)", tree.For("i", tree.LoopRange(A, B, C), (tree.CallStatement(F),))),
        (
            "for (i in f(x):b + 1) { }",
            tree.For("i", tree.LoopRange(F, tree.Binary("+", B, ONE)), ()),
        ),
        (
            "parfor (i in a:b, check=0, mode=LOCAL) { f(x) }",
            tree.For(
                "i",
                tree.LoopRange(A, B),
                (tree.CallStatement(F),),
                parallel=True,
                options=(
                    tree.CallArgument("check", tree.IntLiteral(0)),
                    tree.CallArgument("mode", tree.Name("LOCAL")),
                ),
            ),
        ),
        ('source("a/b.dml") as ns', tree.Source("a/b.dml", "ns")),
        ("setwd('a b');", tree.SetWorkingFolder("a b")),
        # The grammar allows ; after any call, also in the middle of an expression.
        ("a = f(x); - b", tree.Assign(A, tree.Binary("-", F, B))),
        ("if (f(x);) { }", tree.If(F, ())),
        ("\ufeffa = b", tree.Assign(A, B)),
        ("a = b\r\n# end", tree.Assign(A, B)),
        ("pi = 1", tree.Assign(tree.Name("pi"), ONE)),
    ],
)
def test_statements(text: str, expected: tree.Item) -> None:
    assert only(text) == expected


@pytest.mark.parametrize(
    "text, count",
    [
        ("y = x\n[a, b] = f(x)", 2),
        ("y = x [a[1], b] = f(x)", 2),
        ("y = x[1, 2]\n[a, b] = f(x)", 2),
        ("y = x + z\n[a] <- f(x)", 2),
        ("y = f(x)\n[a, b] = f(x);;", 2),
        ("y = f(x[a]) z = 3", 2),
        ("y=1;z=2", 2),
        ("y=2z=3", 2),
        ("f(x) f(x) f(x)", 3),
        ("if (a) { } f(x)", 2),
        ("# only a comment", 0),
        ("", 0),
    ],
)
def test_where_statements_end(text: str, count: int) -> None:
    assert len(parse_script(text).items) == count


def test_functions() -> None:
    script = parse_script(
        """
        f = function(matrix[double] X, Integer n, List[unknown] l, boolean b = TRUE, double e = 1e-3)
            return (Matrix[Double] Y, string s) {
          Y = X
          s = "x"
        };
        g <- function() { print("g") }
        h = externalFunction(int a) return (int b) implemented in (classname="X", exectype="mem");
        Y = f(g)
        """
    )
    double = tree.DataType("scalar", "double")
    matrix = tree.DataType("matrix", "double")
    assert list(script.functions) == ["f", "g"]
    f = script.functions["f"]
    assert f.parameters == (
        tree.Parameter("X", matrix),
        tree.Parameter("n", tree.DataType("scalar", "int")),
        tree.Parameter("l", tree.DataType("list", "unknown")),
        tree.Parameter("b", tree.DataType("scalar", "boolean"), tree.BooleanLiteral(True)),
        tree.Parameter("e", double, tree.DoubleLiteral(0.001)),
    )
    assert f.results == (tree.Parameter("Y", matrix), tree.Parameter("s", tree.DataType("scalar", "string")))
    assert len(f.body) == 2
    assert script.functions["g"].parameters == script.functions["g"].results == ()
    external = script.items[2]
    assert isinstance(external, tree.ExternalFunction)
    assert external.options == (("classname", "X"), ("exectype", "mem"))
    assert script.statements == script.items[3:]
    assert [str(p.type) for p in f.parameters[:3]] == ["matrix[double]", "int", "list[unknown]"]


def test_positions() -> None:
    text = "x = 1\n  y = f(a,\n    b %*% X[i, ])\n/* c\n */ z = 'a\nb' + d"
    script = parse_script(text, "m.dml")
    found = {
        type(node).__name__ + str(getattr(node, "name", getattr(node, "operator", ""))): str(node.position)
        for node in tree.walk(script)
    }
    assert found["Call"] == "m.dml:2:7"
    assert found["Namea"] == "m.dml:2:9"
    assert found["Binary%*%"] == "m.dml:3:7"
    assert found["IndexedX"] == "m.dml:3:11"
    assert found["Namez"] == "m.dml:5:5"
    assert found["Binary+"] == "m.dml:6:4"
    assert found["Named"] == "m.dml:6:6"
    assert str(script.items[1].position) == "m.dml:2:3"
    assert all(node.position is not tree.NOWHERE for node in tree.walk(script))


def test_comments_stay_with_their_statements() -> None:
    script = parse_script(
        "# head\n/* block */\nx = 1 # beside\n\n# before y\ny = f(a, # inside\n  b)\n"
        "if (a) { # first\n  z = 1\n  # last\n} # after\nwhile (b) {\n  # empty\n}\n# end"
    )
    x, y, choice, loop = script.items
    assert x.comments == tree.Comments(before=("# head", "/* block */"), beside=("# beside",))
    assert y.comments == tree.Comments(before=("# before y", "# inside"))
    assert isinstance(choice, tree.If)
    assert choice.comments == tree.Comments(beside=("# after",))
    assert choice.body[0].comments == tree.Comments(before=("# first",), after=("# last",))
    assert loop.comments == tree.Comments(inside=("# empty",), after=("# end",))
    assert parse_script("# a\n# b").comments.inside == ("# a", "# b")


def test_a_stray_full_stop_is_a_warning() -> None:
    script = parse_script("x = 1.\ny = f(x).\nz = 2 .", "m.dml")
    assert script.warnings == ("m.dml:2:9: the full stop is skipped", "m.dml:3:7: the full stop is skipped")
    assert script == parse_script("x = 1.\ny = f(x)\nz = 2")


def test_long_sums_and_chains_need_no_recursion() -> None:
    script = parse_script("x = " + " + ".join(["a"] * 20_000))
    assert sum(isinstance(node, tree.Name) for node in tree.walk(script)) == 20_001
    choices = parse_script("if (a) x = 1 " + "else if (b) x = 2 " * 5_000)
    assert sum(isinstance(node, tree.If) for node in tree.walk(choices)) == 5_001


def test_a_file_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "model.dml"
    path.write_bytes("\ufeffx = 'ä'\r\n".encode())
    script = parse_file(path)
    assert script.file == str(path)
    assert script.items == (tree.Assign(tree.Name("x"), tree.StringLiteral("ä")),)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_a_file(tmp_path: Path, end: str) -> None:
    path = tmp_path / "model.dml"
    path.write_bytes(f"x = 1 # a{end}y = 2{end}".encode())
    script = parse_file(path)
    assert len(script.items) == 2
    assert script.items[0].comments.beside == ("# a",)
    assert script.items[1].position.line == 2


def test_every_script_of_systemds_parses() -> None:
    names = jar_scripts()
    assert len(names) >= 316
    refused = {}
    for name in names:
        try:
            script = jar_script(name)
        except ScriptSyntaxError as error:
            assert isinstance(error.place, ScriptPlace)
            refused[name] = (error.place.line, error.place.column)
        else:
            assert script is not None and script.file == f"{JAR_PREFIX}{name}"
    assert refused == REFUSED
