"""Scripts whose export would never end, or fill the memory: refused with place and figure, or a small model."""

from __future__ import annotations

import resource
import time

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export

MATRIX = "function(matrix[double] A) return (matrix[double] B)"
NESTED = "f0 = " + MATRIX + " { B = A + 1 }\n" + "".join(
    f"f{i} = {MATRIX} {{ B = f{i - 1}(f{i - 1}(A)) }}\n" for i in range(1, 41))
TREE = f"f = {MATRIX} {{\n B = A\n if (sum(A) > 1) {{\n  L = f(A - 1)\n  R = f(A - 2)\n  B = L + R\n }}\n}}\n"
FIBONACCI = "f = function(int n) return (int r) {\n r = n\n if (n > 1) { r = f(n - 1) + f(n - 2) }\n}\n"

DEEP = "Y = X\n" + "{opening} Y = Y + 1\n" * 32 + "{closing}"

# functions, body after X = read("X"), message
REFUSED = [
    (FIBONACCI, "Y = X * f(40)", "takes more than 40000 steps"),
    (TREE, "Y = f(X)", "the end of this recursion is not known"),
    (NESTED, "Y = f40(X)", "takes more than 40000 steps"),
    ("", "Y = table(seq(1, 1e9), X)", "1000000000 elements would be calculated here"),
    ("", "Y = table(X, X, 1e9, 1e9)", "1000000000 elements would be calculated here"),
    ("", "Y = rand(rows=1e5, cols=1e5, seed=1)", "10000000000 elements would be calculated here"),
    ("", "Y = matrix(1, 1e7, 1e7)", "a matrix of 10000000 x 10000000 has"),
    ("", "Y = X\nfor (i in 1:50) { Y = rbind(Y, Y) }", "1099511627776 are possible"),
    ("", "Y = X\nfor (i in 1:50) { Y = cbind(Y, Y) }", "1099511627776 are possible"),
    ("", 's = "ab"\nfor (i in 1:40) { s = s + s }\nY = read(s)', "a string of 2097152 characters"),
    ("", "L = list(X)\nfor (i in 1:40) { L = append(L, L) }\nY = as.matrix(L[1])", "a list of"),
    ("", DEEP.format(opening="if (sum(Y) < 9) {", closing="}" * 32), "32 branches and loops around each other"),
    ("", DEEP.format(opening="for (i in 1:as.integer(sum(Y))) {", closing="}" * 32), "32 branches and loops around each other"),
    ("", "k = 3\nfor (i in 1:40) { k = k * k }\nY = X * k", "is beyond 2^53, from where on doubles"),
    ("", "Y = X * as.integer(1e300)", "is beyond 2^53, from where on doubles"),
    ("", "Y = X * ((-2 %/% 0) %% 3)", "an integer divided by 0 has no whole quotient"),
]


@pytest.mark.parametrize("functions", ["inline", "keep"])
@pytest.mark.parametrize(("head", "body", "message"), REFUSED, ids=[row[1][:40].replace("\n", "; ") for row in REFUSED])
def test_too_much_is_refused_soon(head: str, body: str, message: str, functions: str) -> None:
    script = f'{head}X = read("X")\n{body}\nwrite(Y, "Y")\n'
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(TranspileError) as caught:
        export_script(script, functions=functions)
    assert message in str(caught.value)
    assert "\n" in caught.value.excerpt or "^" in str(caught.value)
    assert time.process_time() - began < 15  # of a busy machine
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


SMALL = [
    ("sizes that grow with every step", "k = nrow(X)\nfor (i in 1:12) { k = k %/% 2 + k %% 3 + ncol(X) %/% (k + 1) }\nY = X * k"),
    ("products of sizes", "k = nrow(X)\nfor (i in 1:5) { k = k * ncol(X) - nrow(X) }\nY = X * k"),
    ("a long loop", "s = 0\nfor (i in 1:1e5) { s = s + i }\nY = X * s"),
    ("a long while", "s = 0\nwhile (s < 30000) { s = s + 1 }\nY = X * s"),
    ("many parts", "Y = X\nfor (i in 1:12) { Y = rbind(Y, Y) }\nY = colSums(Y)"),
    ("ifs in ifs", "Y = X\n" + "if (sum(Y) < 9) { Y = Y + 1\n" * 31 + "}" * 31),
    ("a number beyond all doubles", "Y = min(X, 10 ^ 400) + 2 ^ -1080"),
]


@pytest.mark.parametrize(("name", "body"), SMALL, ids=[row[0] for row in SMALL])
def test_what_only_looks_large_is_right(name: str, body: str) -> None:
    check_export(ExportCase(name, body, {"X": np.array([[1.0, -2], [3, 4], [0, 5]])}, symbols={"X": ["N", "M"]},
                            dtypes=["float64"]))


def test_branches_of_a_recursion_tell_that_its_end_is_not_known() -> None:
    script = """f = function(matrix[double] A) return (matrix[double] B) {
  if (sum(A) > 9) { B = A } else if (sum(A) > 1) { B = A / 2 } else { B = f(A * 2) }
}
X = read("X")
Y = f(X)
write(Y, "Y")
"""
    with pytest.raises(TranspileError, match="a function that calls itself must end by what is known"):
        export_script(script)
