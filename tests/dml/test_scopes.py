"""What blocks assign and read, and who calls whom."""

from __future__ import annotations

import pytest

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script


@pytest.mark.parametrize(
    "text, assigned, surely, read_first",
    [
        ("x = a + b", "x", "x", "a b"),
        ("x = a\ny = x", "x y", "x y", "a"),
        ("x += 1", "x", "x", "x"),
        ("x[i, ] = a", "x", "x", "x i a"),
        ("[a, b[k]] = f(c, d=e)", "a b", "a b", "b k c e"),
        ("print(a + Inf + $b)", "", "", "a"),
        ("if (c) x = 1", "x", "", "c"),
        ("if (c) x = a else x = b", "x", "x", "a b c"),
        ("if (c) x = 1 else if (d) { x = 2; y = 1 } else x = 3", "x y", "x", "c d"),
        ("if (c) { x = 1; y = x } else { x = y }\nz = x", "x y z", "x z", "c y"),
        ("if (c) x = 1\ny = x", "x y", "y", "c x"),
        ('if (c) x = 1 else stop("no")\ny = x', "x y", "x y", "c"),
        ("parfor (i in a:b, par=k, mode=LOCAL) x[i, 1] = i", "i x", "", "a b k x"),
        ("for (i in a:b) x = x + i + k", "i x", "", "a b x k"),
        ("for (i in 1:n) x = i\ny = i", "i x y", "y", "n i"),
        ("while (x < n) { x = x + 1; t = 1; u = t }", "x t u", "", "x n"),
        ("x = ifdef($x, d)", "x", "x", "d"),
        ("x = [a, b]", "x", "x", "a b"),
    ],
)
def test_blocks(text: str, assigned: str, surely: str, read_first: str) -> None:
    block = parse_script(text).statements
    assert scopes.assigned(block) == tuple(assigned.split())
    assert scopes.surely_assigned(block) == set(surely.split())
    assert scopes.read_first(block) == set(read_first.split())


@pytest.mark.parametrize(
    "text, live_after, carried",
    [
        ("for (i in 1:n) { t = f(i); s = s + t }", "s", "s"),
        ("for (i in 1:n) { t = f(i); s = s + t }", "s t", "t s"),
        ("for (i in 1:n) { t = f(i); s = s + t }", "", "s"),
        ("for (i in 1:n) { x = i }", "x", "x"),
        ("for (i in 1:n) { x = i; i = 3 }", "", ""),
        ("for (i in 1:n) { if (i > 2) x = i; y = x }", "", "x"),
        ("for (i in 1:n) { X[i, ] = a }", "", "X"),
        ("while (d > e) { d = d / 2; u = 1 }", "", "d"),
        ("while (d > e) { for (j in 1:3) { a = b; b = j }; d = a }", "", "a b d"),
    ],
)
def test_loops(text: str, live_after: str, carried: str) -> None:
    (loop,) = parse_script(text).statements
    assert isinstance(loop, (tree.For, tree.While))
    assert scopes.carried(loop, frozenset(live_after.split())) == tuple(carried.split())


def test_live_after_ifs_and_loops() -> None:
    block = parse_script("if (u) a = 1\nb = a + c\nif (b > 1) a = 2\nwhile (a > x) x = a\ny = 1").statements
    found = scopes.live_after_each(block, frozenset({"x"}))
    assert {index: sorted(names) for index, names in found.items()} == {0: ["a", "c", "x"], 2: ["a", "x"], 3: ["x"]}


def test_results() -> None:
    script = parse_script("f = function(double x) return (double y, double z) { y = x; z = 1 }")
    assert scopes.results(script.functions["f"]) == {"y", "z"}


def test_many_else_ifs_need_no_recursion() -> None:
    block = parse_script("if (a) x = 1 " + "else if (b) x = c " * 5_000 + "else x = 2").statements
    assert scopes.surely_assigned(block) == {"x"}
    assert scopes.read_first(block) == {"a", "b", "c"}
