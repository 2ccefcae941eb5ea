"""Whole numbers beyond 2^24 in models of float32: hashes, moduli, words of bits, large ids, and what is told of the rest."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export, model_of, run_model
from tests.exporting.test_idioms import operators

X = np.array([[1.0, 2, 3], [100, 65536, 1000003], [7, 16777215, 12345]])
HASH = "h = (X * 2654435761) %% 4294967296\n"


def row(name: str, body: str, **options: object) -> ExportCase:
    return ExportCase(name, body, {"X": X}, tolerance={"float64": 1e-12, "float32": 2e-7}, **options)  # type: ignore[arg-type]


CASES = [
    row("a hash", f"{HASH}Y = h %/% 1048576\nZ = h %% 97", outputs=("Y", "Z")),
    row("a hash of columns", "h = matrix(0, nrow(X), 1)\nfor (j in 1:ncol(X)) {\n  h = (h * 31 + X[, j]) %% 1000000007\n}\nY = h %% 1000"),
    row("a hash that a loop carries", "h = matrix(0, 3, 1)\ni = 1\nwhile (i <= sum(X[1, 1]) + 2) {\n"
        "  h = (h * 31 + X[, i]) %% 1000000007\n  i = i + 1\n}\nY = h %% 1000"),
    row("a loop of a scalar", "s = as.scalar(X[1, 1])\nwhile (s < 1000000000) {\n  s = s * 3 + 1\n}\nY = matrix(s %% 1000, 1, 1)"),
    row("a hash in a branch", f"{HASH}if (sum(X) > 3) {{\n  h = (h + 5) %% 4294967296\n}}\nY = h %% 97"),
    row("a function that is kept", f"{HASH}Y = digit(h)", keep=True,
        functions="digit = function(matrix[double] H) return (matrix[double] Y) { Y = (H * 3) %% 7 }"),
    row("products and sums", "Y = (X * X) %% 1000 + rowSums(X * 1001) %% 10 + cumsum(X * 1000003) %% 1000 + (X %*% t(X)) %% 1000"),
    row("a large offset", "Y = (X + 1000000007) %% 1000"),
    row("a mean", f"{HASH}Y = floor(rowSums(h) / 3) %% 5 + floor(rowSums(X * 31) / 3) %% 10 + (rowSums(X * 1000003) / 3) %% 7"),
    row("a modulus by a difference", "h = X * 1000003\nY = h - floor(h / 1009) * 1009 + (X * 31 - floor(X * 31 / 1000) * 1000)"),
    row("a divisor beyond", "Y = (X * 3) %/% 16777215 + floor(X * 3 / 16777217)"),
    row("parts of a hash", f"{HASH}Y = floor(h / 4294967296 * 10) + floor(h * 0.001) %% 100"),
    row("comparisons", f"{HASH}Y = (h == 1013904226) + 2 * (h < 2654435762) + 4 * (h > 2654435760)"),
    row("choices", "h = ifelse(X > 50, X * 40503, X * 1000003)\nY = h %% 128 + rowIndexMax((h * 31) %% 16777259)"),
    row("bits", "Y = bitwAnd(bitwXor(X * 65537, bitwShiftR(X * 65537, 5)), 1023) + bitwAnd(bitwShiftL(X, 9), 511)"),
    row("groups by a hash", f"{HASH}Y = table(seq(1, 3), rowSums(h) %% 5 + 1, 3, 5)"),
    row("a place", "i = as.integer(as.scalar((X[2, 3] * 1000003) %% 3)) + 1\nY = X[i, ]"),
    row("differences", f"{HASH}Y = h - 2654435761 - (h - 5) * (X == 2)"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers(case: ExportCase) -> None:
    check_export(case)


@pytest.mark.parametrize(("body", "used"), [
    ("Y = floor(X * 255 + 0.5)", ["Mul", "Add", "Floor"]),
    ("Y = X %/% 10", ["Div", "Abs", "Floor", "Less", "Sub", "Where"]),
    ("Y = X + (X > 0) * -1000000000", ["Greater", "Cast", "Mul", "Add"]),
    ("Y = X * 123456789 > 1000000000", ["Mul", "Greater", "Cast"]),
])
def test_other_numbers_stay_in_float32(body: str, used: list[str]) -> None:
    assert operators(model_of(row("plain", body), "float32")) == used


@pytest.mark.parametrize(("body", "expected"), [
    ("Y = X[1:as.integer(0.29 * nrow(X)), ]", 28),
    ("k = floor(0.58 * nrow(X))\nY = X[1:k, ]", 57),
    ("k = ceil(nrow(X) * 0.07)\nY = X[1:k, ]", 8),
    ("Y = X\nif (0.29 * nrow(X) < 29) { Y = X[1:3, ] }", 3),
    ("Y = removeEmpty(target=X, margin=\"rows\", select=seq(1, nrow(X)) * 0.1 > 0.3)", 98),
])
def test_shares_of_sizes(body: str, expected: int) -> None:
    """The rows that a share of them is, in doubles as in the engine: 0.29 * 100 is 28.999999999999996, 0.07 * 100 above 7."""
    script = f'X = read("X")\n{body}\nwrite(Y, "Y")\n'
    ones = {"X": np.ones((100, 1))}
    assert run_model(export_script(script, inputs={"X": "double[N,1]"}), ones)["Y"].shape == (expected, 1)
    assert run_model(export_script(script, inputs={"X": "double[100,1]"}), ones)["Y"].shape == (expected, 1)


LARGE = "n = as.integer(as.scalar(X[1, 1]))\nm = as.integer(as.scalar(X[1, 2]))\n"


@pytest.mark.parametrize("body", ["Y = as.matrix(as.double(n) * m)", "Y = as.matrix(n * 1e12)", "Y = X / (n * 1.0 * m)",
                                  "Y = as.matrix(max(as.double(n) * m, 1) + n)", "Y = as.matrix((n * 1e6) %% 86400)"])
def test_doubles_of_integers_have_no_64_bits(body: str) -> None:
    check_export(ExportCase(body, LARGE + body, {"X": np.array([[4e9, 5e9]])}, sizes=[{"X": np.array([[-4e9, 3.0]])}]))


def notes_of(body: str, dtype: str = "float32") -> list[str]:
    notes: list[str] = []
    export_script(f'X = read("X")\n{body}\nwrite(Y, "Y")\n', inputs={"X": "double[3,3]"}, dtype=dtype, notes=notes)
    return notes


def test_what_is_rounded_even_so_is_told() -> None:
    advice = "which float32 rounds; --dtype float64 has them exact"
    output = f"the output Y has whole numbers beyond 2^24, {advice}"
    compared = f"<text>:2: compares whole numbers beyond 2^24, {advice}"
    assert notes_of(f"{HASH}Y = h") == notes_of(f"{HASH}Y = t(h) + 1") == [output]
    assert notes_of("Y = X == 123456789") == [compared]
    for body in (f"{HASH}Y = h %% 97", "Y = X == 16777216", "Y = X * 1e12", "Y = X * 2654435761", "Y = X < 0.1"):
        assert notes_of(body) == []
    assert notes_of(f"{HASH}Y = h", "float64") == notes_of("Y = X == 123456789", "float64") == []


@pytest.mark.parametrize(("body", "expected"), [
    ("Y = X %% 100 + X %/% 10000", [2053, 1901, 2054]),
    ("Y = (X == 20261128) + (X > X[1, 1])", [0, 0, 2]),
    ("Y = X - 20260000", [1127, -1259699, 1128]),
    ("S = order(target=X)\nY = S[2:3, ] - S[1:2, ]", [1260826, 1]),
    ("Y = unique(X) - 20000000", [-999699, 261127, 261128]),
    ("Y = max(X) - X", [1, 1260827, 0]),
    ("Y = max(X, 20000000) - 20000000 + (-X + 20000000)", [0, 999699, 0]),
    ("Y = ifelse(X > 20000000, X, 20261126) - 20261120", [7, 6, 8]),
    ("Y = X * 2 - 40522253", [1, -2521651, 3]),
    ("Y = rowSums(cbind(X, X)) - 40522253 + (X * 3 + 1 - X * 3)", [2, -2521650, 4]),
    ("Y = matrix(1, 3, 1) %*% (t(X) %*% X - 1182038013000000)", [233114] * 3),
])
def test_matrices_of_integers_may_be_large(body: str, expected: list[float]) -> None:
    """Dates, keys and seconds: an input of 64-bit integers holds them, so they are not rounded on their way in."""
    model = export_script(f'X = read("X")\n{body}\nwrite(Y, "Y")\n', inputs={"X": "int[3,1]"})
    found = run_model(model, {"X": np.array([[20261127], [19000301], [20261128]])})["Y"]
    assert found.ravel().tolist() == expected


@pytest.mark.parametrize(("body", "expected"), [
    ("Y = X + k %% 86400", 80124),
    ("Y = X\nif (k %% 2 == 1) Y = Y * 5", 5),
    ("Y = X + as.integer(k / 7) %% 10", 1),
    ("Y = X + floor((k / 86400 - floor(k / 86400)) * 86400 + 0.5)", 80124),
    ("Y = bitwAnd(X + k, 255)", 124),
    ("d = (k / 86400 - 19675) * 86400\nY = X + d", 80124),
    ("d = (k * 0.001 - 1700000) * 1000\nY = X + d", 124),
])
def test_integers_may_be_large(body: str, expected: float) -> None:
    model = export_script(f"f = function(matrix[double] X, int k) return (matrix[double] Y) {{\n{body}\n}}\n", "f",
                          inputs={"X": "double[1,1]", "k": "int"})
    assert run_model(model, {"X": np.ones((1, 1)), "k": np.array(1700000123)})["Y"].tolist() == [[expected]]


def test_sums_of_no_elements() -> None:
    model = export_script('X = read("X")\nY = rowSums(X > 1)\nwrite(Y, "Y")\n', inputs={"X": "double[0,3]"})
    assert operators(model) == ["Greater", "Cast", "ReduceSum"]
