"""Statements that the engine would join are cut off from each other, and no others (see ``engine/faults/``)."""

from __future__ import annotations

import pytest
from onnx.parser import parse_model

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.passes import joined_operations as joined
from onnx_systemds.importing.passes.block_cuts import BLOCK_CUT, cut, cut_blocks

JOINED = [
    ("m = x * z; y = x + m", joined.COMMON_FACTOR),
    ("m = x * z; y = m - z", joined.COMMON_FACTOR),
    ("m = abs(x) * z; y = max(m + abs(x), 0)", joined.COMMON_FACTOR),
    ("r = matrix(x, rows=2, cols=6); m = r * z; i = x; y = m + i", joined.COMMON_FACTOR),
    ("m = a %*% b; n = a %*% c; y = m + n", joined.COMMON_LEFT_FACTOR),
    ("m = a %*% b; y = m + a %*% c", joined.COMMON_LEFT_FACTOR),
    ("m = x != 0; y = m * log(x)", joined.NONZEROS_ONLY),
    ("l = log(x, 2); y = (x != 0) * l", joined.NONZEROS_ONLY),
    ("m = (x != 0) * s; y = x - m", joined.NONZEROS_ONLY),
    ("m = x == 0; y = x + m * Inf", joined.NONZEROS_ONLY),
    ("m = a %*% b; y = w * m", joined.WEIGHTED_PRODUCT),
    ("m = a %*% b; g = 1 / (1 + exp(-m)); y = w * g", joined.WEIGHTED_PRODUCT),
    ("m = a %*% b; y = w * log(1 / (1 + exp(m)))", joined.WEIGHTED_PRODUCT),
    ("m = a %*% b; f = m^2; y = w / f", joined.WEIGHTED_PRODUCT),
    ("n = w / (a %*% b + 2); y = n %*% t(b)", joined.WEIGHTED_PRODUCT),
    ("m = a %*% b; n = w / (m + s); y = n %*% t(b)", joined.WEIGHTED_PRODUCT),
    ("u = t(a); m = a %*% b; n = w * (m - v); y = u %*% n", joined.WEIGHTED_PRODUCT),
    ("m = a %*% b; y = cbind(m, matrix(0, rows=n, cols=1))", joined.ZEROS_BESIDE_PRODUCT),
    ("m = a %*% b; y = m %*% c", joined.FACTORS_IN_ANOTHER_ORDER),
    ("m = x + z; y = w + m", joined.ANOTHER_ORDER),
    ("m = x + 1e20; y = m + 1", joined.ANOTHER_ORDER),
    ("m = 1e20 - x; n = t(m); y = n - 3", joined.ANOTHER_ORDER),
    ("a = as.scalar(p); b = as.double(q); m = a - x; y = m + b", joined.ANOTHER_ORDER),
    ("a = as.scalar(p); m = x + a; y = m + 3", joined.ANOTHER_ORDER),
    ("m = matrix(3, rows=n, cols=1); y = outer(x, t(m), \"+\")", joined.FILLED_ROW),
    ("m = matrix(0, rows=1, cols=3); y = outer(x, m, \"==\") + 1", joined.FILLED_ROW),
    ("r = matrix(x, rows=1, cols=n); m = r * s; y = w * m", joined.COLUMN_FIRST),
    ("r = matrix(x > 3, rows=1, cols=n * k); q = r - 2; m = z * q; y = m * 3", joined.COLUMN_FIRST),
    ("r = matrix(x, rows=1, cols=n); s = matrix(z, rows=1, cols=n); m = r * s; q = m * r; y = w * q", joined.COLUMN_FIRST),
    ("m = abs(matrix(1, rows=1, cols=n)) * s; y = w * m", joined.COLUMN_FIRST),
    ("m = colMaxs(x) * s; y = w * m", joined.COLUMN_FIRST),
    ("m = a %*% b; y = m[2, 3]", joined.SLICED_PRODUCT),
    ("m = a %*% b; y = m[2, ]", joined.SLICED_PRODUCT),
    ("m = a %*% b; y = x + m[, i]", joined.SLICED_PRODUCT),
    ("m = a %*% b; y = m[1:1, k:k]", joined.SLICED_PRODUCT),
    ("m = a %*% b; y = rbind(m[2, ], m[2, ])", joined.SLICED_PRODUCT),
    ("m = a %*% b; y = m[2, ]; z = m[2, ] + 1", joined.SLICED_PRODUCT),
]
LEFT_ALONE = [
    "y = x + x * z",  # within one statement a cut is no help
    "m = x * z; y = m + w",
    "m = x * x; y = x + m",
    "m = x * 3; y = x + m",
    "m = x * z; y = m * x",
    "r = matrix(x, rows=1, cols=8); m = r * s; y = w * m",
    "r = matrix(x, rows=1, cols=2 * n); m = r * s; y = w * m",
    "r = matrix(x, rows=1, cols=n); s = matrix(z, rows=1, cols=n); m = r * s; y = m * 3",
    "r = matrix(x, rows=1, cols=n); m = r + w; n = m * s; y = w * n",
    "m = a %*% b; n = c %*% b; y = m + n",
    "m = a %*% b; n = a %*% c; y = m - n",
    "m = a %*% b; n = a %*% c; z = n + 1; y = m + n",  # the engine leaves alone what others use
    "l = log(x); y = (z != 0) * l",
    "m = (x != 0) * 3; y = x - m",
    "m = (x == 0) * s; y = x - m",
    "m = a %*% b; y = m * w",
    "m = a %*% b; y = 3 * m",
    "m = a %*% b; y = w / m",
    "m = a %*% b; f = tanh(m); y = w * f",
    "m = a %*% b; y = cbind(matrix(0, rows=n, cols=1), m)",
    "m = a %*% b; y = cbind(m, matrix(1, rows=n, cols=1))",
    "m = a %*% b; r = matrix(m, rows=1, cols=n); y = r %*% c",
    "m = table(seq(1, n), i, n, k) %*% x; y = m %*% c",
    "m = a %*% b; z = m + 1; y = m %*% c",
    "m = x + z; y = m + w",
    "m = x - z; y = w + m",
    "p = a %*% b; m = p + bias; y = x + m",
    "m = x + 5; y = m - 3",
    "a = as.scalar(p); b = as.double(q); m = a + b; y = m + a",  # numbers alone keep their order, from the left
    "x = z; z = x; y = x + z",
    "m = a %*% b; y = m[1, ]",
    "m = matrix(3, rows=1, cols=1); y = outer(x, t(m), \"+\")",
    "m = matrix(z, rows=1, cols=4); y = outer(x, m, \"+\")",
    "m = a %*% b; y = m[2, 1:3]",
    "m = a %*% b; y = m[2, ] + m",
    "m = a %*% b; y = rbind(m[2, ], m[3, ])",
]


@pytest.mark.parametrize(("text", "reason"), JOINED)
def test_joined_statements_are_cut(text: str, reason: str) -> None:
    cuts = [statement for statement in cut_blocks(parse_snippet(text)) if isinstance(statement, tree.If)]
    assert [cut.comments.beside for cut in cuts] == [(f"# cuts the block: {reason}",)]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_others_are_left_alone(text: str) -> None:
    statements = parse_snippet(text)
    assert cut_blocks(statements) == list(statements)


def test_rows_before_the_statements_and_before_cuts_are_known() -> None:
    first, second = parse_snippet("r = matrix(x, rows=1, cols=n)"), parse_snippet("m = r * s; y = w * m")
    assert len(cut_blocks(second, before=first)) == 3
    assert len(cut_blocks(second, before=[*first, cut(BLOCK_CUT)])) == 3


@pytest.mark.parametrize("dims", ["n", "1, n"])
def test_rows_that_are_inputs_are_known(dims: str) -> None:
    model = parse_model(f"""<ir_version: 9, opset_import: ["" : 21]> agraph (float[a, n] x, float[{dims}] y,
        float[{dims}] z) => (float[a, n] o) {{ p = Mul(y, z) o = Mul(x, p) }}""")
    assert joined.COLUMN_FIRST in import_model(model).text


FUNCTIONS = """
times = function(matrix[double] a, matrix[double] b) return (matrix[double] c) { d = a * b; c = d }
twice = function(matrix[double] a, matrix[double] b) return (matrix[double] c, matrix[double] e) { c = times(a, b); e = a }
plus = function(matrix[double] a, matrix[double] b) return (matrix[double] c) { c = a + b }
product = function(matrix[double] a, matrix[double] b) return (matrix[double] c, matrix[double] d) { c = a %*% b; d = a }
looping = function(matrix[double] a, matrix[double] b) return (matrix[double] c) { c = a * b; if (sum(c) > 0) { c = b } }
"""


@pytest.mark.parametrize(("text", "cuts"), [
    ("m = times(x, z); y = x + m", 1), ("[m, n] = twice(x, z); y = x + m", 1), ("m = x * z; y = plus(m, x)", 1),
    ("m = times(x, z); y = plus(m, z)", 1), ("m = times(x, z); y = w + m", 0), ("m = looping(x, z); y = x + m", 0),
    ("m = times(x, z); n = times(z, w); y = n + x", 0), ("[m, n] = product(x, z); y = m %*% w", 1),
    ("[m, n] = product(x, z); y = m %*% w; v = m + 1", 0),
])
def test_calls_that_the_engine_inlines_are_looked_through(text: str, cuts: int) -> None:
    functions = {item.name: item for item in parse_snippet(FUNCTIONS) if isinstance(item, tree.Function)}
    found = cut_blocks(parse_snippet(text), functions)
    assert sum(isinstance(statement, tree.If) for statement in found) == cuts
