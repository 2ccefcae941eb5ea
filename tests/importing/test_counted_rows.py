"""Rows that are only counted are selected by nothing (see ``count-of-selected-rows`` in ``engine/faults/``)."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.dml.snippets import parse_snippet
from onnx_systemds.importing.passes.counted_rows import with_counted_rows
from tests.plain_engine import scored_together

CHOSEN = 'p = removeEmpty(target=x, margin="rows", select=s, empty.return=FALSE)'


def counted(body: str) -> str:
    (function,) = parse_snippet(f"f = function(matrix[double] x, matrix[double] s) return (matrix[double] y) {{\n{body}\n}}")
    assert isinstance(function, tree.Function)
    found = with_counted_rows(function)
    return "\n".join(line.strip() for line in print_statement(found).splitlines()[1:-1])


@pytest.mark.parametrize(("body", "expected"), [
    (f"{CHOSEN}\nn = nrow(p)\ny = x + n", "p = as.integer(sum(s != 0))\nn = p\ny = x + n"),
    (f"{CHOSEN}\nc = p\nn = nrow(p)\nn = nrow(c)\ny = x * n", "p = as.integer(sum(s != 0))\nn = p\ny = x * n"),
    (f"{CHOSEN.replace('=s', '=s > 1')}\ny = x + nrow(p) * nrow(p)", "p = as.integer(sum(s > 1))\ny = x + p * p"),
])
def test_rows_that_are_only_counted(body: str, expected: str) -> None:
    assert counted(body) == expected


@pytest.mark.parametrize("body", [
    f"{CHOSEN}\nn = nrow(p)\ny = p + n", f"{CHOSEN}\nn = nrow(p)\ny = p[1, ] + n", f"{CHOSEN}\nn = ncol(p)\ny = x + n",
    'y = removeEmpty(target=x, margin="rows", select=s)\nn = nrow(y)\nprint(n)',
    'p = removeEmpty(target=x, margin="rows", select=s)\nn = nrow(p)\ny = x * n',  # one where there are none
    'p = removeEmpty(target=x, margin="cols", select=s)\nn = nrow(p)\ny = x * n',
    'p = removeEmpty(target=x, margin="rows")\nn = nrow(p)\ny = x * n',
])
def test_others_are_left_alone(body: str) -> None:
    assert counted(body) == body


def test_counts_that_are_read_twice() -> None:
    """The engine's compiler stopped where the number of chosen elements, and not they, was read by two operations."""
    x, k, t = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([True, False, True]), np.array([[1, 2], [3, 4], [5, 6]])
    scripts = {f"{axis}{dims}": import_model(parse_model(f"""<ir_version: 9, opset_import: ["" : 17]> agraph (float[{dims}] x,
        bool[b] k, int64[{dims}] t) => (int64[{dims}] y) {{ c = Compress{axis}(x, k) s = Size(c) a = Add(t, s) b = Mul(t, s)
        y = Sub(b, a) }}""")) for axis in ("", "<axis = 0>") for dims in ("3, 2", "m, n")}
    found = scored_together({name: (script, [{"x": x, "k": k, "t": t}]) for name, script in scripts.items()})
    for name, script in scripts.items():
        size = 4 if "axis" in name else 2
        assert "removeEmpty" not in script.text
        np.testing.assert_array_equal(found[name][0]["y"], t * size - (t + size))
