"""What is printed reads back as the same tree."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.printer import number_text, print_expression, print_script, print_statement, string_text
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.dml.tokens import BINARY_LEVELS, KEYWORDS, UNARY_LEVELS, Token, tokenize, unescape
from onnx_systemds.errors import ScriptSyntaxError, UnsupportedCase
from onnx_systemds.exporting.sources import jar_script, jar_scripts

# One statement in a paragraph; all of it is printed back unchanged.
UNCHANGED = r"""
# a comment
/* and
 * another */
x = 1  # beside

x = 2 * A %*% B + -c^2

x = (a + b) * (c - (d - e)) / ((f * g) %% (h / i))

x = 3 * (h %/% 4) * (w %/% 4) + b %/% 2 - c %% d %/% e

x = -b %/% c < (a %% 2) / d

x = a^b^c + (a^b)^c + a^-b + (-a)^b

x = !(a & b) | !c == d & (!e) < f

x = a - (b - c) - (d + e)

x = 3 + (!b) + 2

x = -(a + b) %*% -c

x = X[i, ] + X[, j] + X[1:n, 2] + X[(i-1)*n+1:i*n, ] + L[1] + L["a"] + X[, ]

x = X[!a:b == c, ]

X[1:2, i + 1] = f(a, rows=1, cols=n - 1, lower.tail=FALSE)

x += 1.5e-10

x = "it's \"quoted\"\n" + 'a \\" b'

x = ifdef($x, 1)

x = [a, 2, TRUE, NaN, Inf, pi, $1, $name]

[a, b[1]] = ns::f(x)

print("x")

source("a/b.dml") as ns

setwd("a")

if (a) {
  x = 1
} else if (b) {
  x = 2
  # the end
} else {
  x = 3
}

for (i in 1:n-1) {
  while (a < b) {
    # nothing
  }
}

parfor (i in seq(1, n, 2), check=0) {
  x = 1
}

f = function(matrix[double] X, integer n = 1) return (matrix[double] Y, list[unknown] l) {
  Y = X
}

a_function_with_a_long_name = function(matrix[double] a_long_parameter, integer another_parameter)
    return (matrix[double] a_long_result) {
  a_long_result = a_long_parameter
}

g = function() {
  print("g")
}

h = externalFunction(integer a) return (integer b) implemented in (classname="X")
"""


@pytest.mark.parametrize("text", UNCHANGED.strip().split("\n\n"))
def test_printed_unchanged(text: str) -> None:
    assert print_script(parse_script(text)) == f"{text}\n"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("x<-((a))", "x = a"),
        ("x=a&&b||c", "x = a & b | c"),
        ("x=(a*b)+(c^(d))", "x = a * b + c^d"),
        ("x=(-a)*(-b)", "x = -a * -b"),
        ("x=a^(-b)", "x = a^-b"),
        ("x=a^(b^c)", "x = a^b^c"),
        ("x=(!a)", "x = !a"),
        ("x=a&(!b)", "x = a & !b"),
        ("x=(!a)&b", "x = !a & b"),
        ("x=a+(!b)", "x = a + !b"),
        ("for(i in seq(1,n)) x=1", "for (i in 1:n) {\n  x = 1\n}"),
        ("for(i in 1:(n-1)) x=1", "for (i in 1:n-1) {\n  x = 1\n}"),
        ("if(a) x=1; else { if(b) x=2 }", "if (a) {\n  x = 1\n} else if (b) {\n  x = 2\n}"),
        ("if(a) x=1; else {}", "if (a) {\n  x = 1\n}"),
        ("x='a'", 'x = "a"'),
        ("x=1.50", "x = 1.5"),
        ("x=1e400", "x = 1e999"),
        ("f=function(Integer n) return(Matrix[Double] x){x=1}", "f = function(integer n) return (matrix[double] x) {\n  x = 1\n}"),
        ("x = 1 /* a */ # b", "x = 1  /* a */  # b"),
    ],
)
def test_one_spelling(text: str, expected: str) -> None:
    assert print_script(parse_script(text)) == f"{expected}\n"


def test_else_with_comments_stays_a_block() -> None:
    text = "if (a) {\n  x = 1\n} else {\n  # why\n  if (b) {\n    x = 2\n  }\n}\n"
    assert print_script(parse_script(text)) == text


def test_long_lines_are_broken() -> None:
    text = f"x = f({', '.join(f'argument_{i}={i} + b' for i in range(20))})\n"
    printed = print_script(parse_script(text))
    assert all(len(line) <= 120 for line in printed.split("\n")) and printed.count("\n") > 3
    assert printed.split("\n")[1].startswith("    ")
    assert parse_script(printed) == parse_script(text)


def test_lines_are_broken_where_few_parentheses_are_open() -> None:
    first, second = f"value = gathered(rows, {'columns, ' * 6}columns) %*%", "rbind(matrix(0, rows=32), other) + last"
    printed = print_script(parse_script(f"{first} {second}\n"))
    assert [line.strip() for line in printed.splitlines()] == [first, second]


def test_the_numbers_of_a_matrix_are_on_several_lines() -> None:
    numbers = " ".join(f"0.{number}" for number in range(1000, 1061))
    text = f'x = y + matrix("{numbers}", rows=61, cols=1)\n'
    printed = print_script(parse_script(text))
    assert all(60 < len(line) <= 120 for line in printed.splitlines()[:-1])
    assert printed.startswith('x = y + matrix("0.1000 0.1001') and printed.endswith(' 0.1060", rows=61, cols=1)\n')
    assert re.sub(r"\n +", " ", printed) == text
    assert parse_script(printed) == parse_script(text)


@pytest.mark.parametrize("literal", [f'matrix("{"1" * 130}", rows=1, cols=1)', f'paste("{"0.5 " * 60}0.5", 61)'])
def test_a_long_literal_is_not_set_apart(literal: str) -> None:
    assert print_script(parse_script(f"x = {literal}\n")) == f"x = {literal}\n"


def test_a_long_condition_is_no_single_line() -> None:
    message = " + ".join(["word"] * 20)
    (statement,) = parse_snippet(f"if (a < b) {{ stop({message}) }}")
    assert [line.strip().startswith("if") for line in print_statement(statement).splitlines()] == [True, False]
    message = " + ".join(["word"] * 40)
    (statement,) = parse_snippet(f'if (a < b) {{ stop({message}) }}')
    first, *middle, last = print_statement(statement).splitlines()
    assert (first, last) == ("if (a < b) {", "}")
    assert " ".join(line.strip() for line in middle) == f"stop({message})"


def test_deep_sums_are_printed() -> None:
    text = "x = " + " + ".join(["a"] * 20_000)
    assert re.sub(r"\s+", " ", print_script(parse_script(text))).strip() == text


def test_many_else_ifs_are_printed() -> None:
    text = "if (a) {\n  x = 1\n}" + " else if (b) {\n  x = 2\n}" * 3_000 + "\n"
    assert print_script(parse_script(text)) == text


def test_what_cannot_be_written() -> None:
    with pytest.raises(UnsupportedCase, match="cannot be written in DML"):
        string_text("a\\b")
    with pytest.raises(ValueError, match="never negative"):
        number_text(-1)
    with pytest.raises(ValueError, match="never negative"):
        number_text(-0.0)
    with pytest.raises(ValueError, match="never negative"):
        number_text(float("nan"))


def comments_of(text: str) -> list[str]:
    """Return the comments of a script without their layout."""
    found = [comment for token in tokenize(text) for comment, _ in token.comments]
    return sorted(" ".join(comment.replace("*", " ").split()) for comment in found)


def test_every_script_of_systemds_reads_back_the_same() -> None:
    checked = 0
    for name in jar_scripts():
        try:
            script = jar_script(name)
        except ScriptSyntaxError:
            continue  # test_parser says which
        assert script is not None
        printed = print_script(script)
        again = parse_script(printed)
        assert again == script, name
        assert print_script(again) == printed, name
        assert comments_of(printed) == comments_of(script.text), name
        checked += 1
    assert checked >= 315


# Random trees

Strategy = st.SearchStrategy[Any]

names = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,4}", fullmatch=True).filter(
    lambda name: name not in KEYWORDS and name not in tree.CONSTANTS
)
functions = st.one_of(names, st.sampled_from(["ns::f", "as.scalar", "is.nan", "seq"]))
pieces = st.sampled_from(["\\\\", "\\n", "\\b", "\\'", '\\"', "b", "'", "\n", "x"])
strings = (
    st.lists(st.one_of(pieces, st.characters(codec="utf-8")))
    .map("".join)
    .filter(lambda body: not re.search(r'(?<!\\)(?:\\\\)*"', body))
    .map(lambda body: f'"{body}"')
    .filter(lambda text: [t.kind for t in _tokens(text)] == ["STRING", "END"])
    .map(unescape)
)
literals = st.one_of(
    st.integers(0, 2**63 - 1).map(tree.IntLiteral),
    st.floats(0, allow_nan=False).map(abs).map(tree.DoubleLiteral),
    st.booleans().map(tree.BooleanLiteral),
    st.sampled_from(tree.CONSTANTS).map(tree.Constant),
    strings.map(tree.StringLiteral),
    names.map(tree.Argument),
    names.map(tree.Name),
)


def _tokens(text: str) -> list[Token]:
    try:
        return tokenize(text)
    except ScriptSyntaxError:
        return []


def _indexed(inner: Strategy) -> Strategy:
    span = st.one_of(st.just(tree.Span()), inner.map(tree.Span), st.builds(tree.Span, inner, inner))
    return st.builds(tree.Indexed, names, span, st.none() | span)


def _call(inner: Strategy) -> Strategy:
    arguments = st.lists(st.builds(tree.CallArgument, st.none() | names, inner), max_size=3).map(tuple)
    return st.builds(tree.Call, functions, arguments)


def _larger(inner: Strategy) -> Strategy:
    return st.one_of(
        st.builds(tree.Binary, st.sampled_from(sorted(BINARY_LEVELS)), inner, inner),
        st.builds(tree.Binary, st.sampled_from(sorted(BINARY_LEVELS)), inner, inner),
        st.builds(tree.Unary, st.sampled_from(sorted(UNARY_LEVELS)), inner),
        st.builds(tree.Unary, st.sampled_from(sorted(UNARY_LEVELS)), inner),
        _call(inner),
        _indexed(inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: tree.ListExpression(tuple(items))),
    )


expressions = st.recursive(literals, _larger, max_leaves=12)
targets = st.one_of(names.map(tree.Name), _indexed(literals))
remarks = st.lists(st.sampled_from(["# a", "/* b */", "/* c\n * d */"]), max_size=2).map(tuple)
comments = st.one_of(st.just(tree.NO_COMMENTS), st.builds(tree.Comments, remarks, remarks, remarks))
simple_statements = st.one_of(
    st.builds(tree.Assign, targets, expressions, st.booleans(), comments=comments),
    st.builds(
        tree.Assign, targets, st.builds(tree.IfDefined, names.map(tree.Argument), expressions), comments=comments
    ),
    st.builds(tree.MultiAssign, st.lists(targets, min_size=1, max_size=3).map(tuple), _call(literals)),
    st.builds(tree.CallStatement, _call(expressions), comments=comments),
    st.builds(tree.Source, st.sampled_from(["a.dml", "d/'b'.dml"]), names.filter(lambda name: "::" not in name)),
    st.builds(tree.SetWorkingFolder, st.just("folder")),
)


def _compound(inner: Strategy) -> Strategy:
    block = st.lists(inner, max_size=3).map(tuple)
    bounds = st.builds(tree.LoopRange, expressions, expressions, st.none() | expressions)
    options = st.lists(st.builds(tree.CallArgument, names, literals), max_size=1).map(tuple)
    return st.one_of(
        st.builds(tree.If, expressions, block, block, comments=comments),
        st.builds(tree.While, expressions, block, comments=comments),
        st.builds(tree.For, names, bounds, block, st.booleans(), options, comments=comments),
    )


statements = st.recursive(simple_statements, _compound, max_leaves=6)
types = st.builds(
    tree.DataType,
    st.sampled_from(["matrix", "frame", "list", "scalar"]),
    st.sampled_from(["int", "double", "string", "boolean", "unknown"]),
)
functions_defined = st.builds(
    tree.Function,
    names,
    st.lists(st.builds(tree.Parameter, names, types, st.none() | expressions), max_size=3).map(tuple),
    st.lists(st.builds(tree.Parameter, names, types), max_size=2).map(tuple),
    st.lists(statements, min_size=1, max_size=3).map(tuple),
    comments=comments,
)
scripts = st.lists(
    st.one_of(statements, functions_defined),
    max_size=5,
    unique_by=lambda item: item.name if isinstance(item, tree.Function) else object(),
).map(lambda items: tree.Script(tuple(items)))
quick = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@quick
@given(expressions)
def test_random_expressions(expression: tree.Expression) -> None:
    text = print_expression(expression)
    (item,) = parse_script(f"x = {text}").items
    assert isinstance(item, tree.Assign) and item.value == expression


@quick
@given(expressions)
def test_no_parentheses_without_need(expression: tree.Expression) -> None:
    text = print_expression(expression)
    tokens = tokenize(text)
    opened = []
    for index, token in enumerate(tokens):
        if token.kind == "(":
            opened.append(index)
        elif token.kind == ")":
            begin = opened.pop()
            if begin and tokens[begin - 1].kind == "name":
                continue  # a call
            first, last = tokens[begin].column - 1, token.column - 1
            # A blank keeps "a(" from becoming a call where "(" stood after an operator word.
            without = f"{text[:first]} {text[first + 1:last]} {text[last + 1:]}"
            assert _tree(without) != expression


def _tree(text: str) -> tree.Expression | None:
    try:
        (item,) = parse_script(f"x = {text}").items
    except (ScriptSyntaxError, ValueError):
        return None
    return item.value if isinstance(item, tree.Assign) else None


@settings(quick, max_examples=60)
@given(scripts)
def test_random_scripts(script: tree.Script) -> None:
    assert parse_script(print_script(script)) == script


@quick
@given(statements)
def test_random_statements_keep_their_comments(statement: tree.Statement) -> None:
    kept = [
        remark
        for node in tree.walk(statement)
        if isinstance(node, tree.StatementNode)
        for remark in (*node.comments.before, *node.comments.beside, *node.comments.after)
    ]
    assert len(comments_of(print_statement(statement))) == len(kept)


@quick
@given(strings)
def test_every_string_that_can_be_read_can_be_written(value: str) -> None:
    assert unescape(string_text(value)) == value
