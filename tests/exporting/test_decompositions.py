"""Builtins that take matrices apart, against the engine: up to the signs of vectors where it does not settle them."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import ExportCase, check_export, model_of, run_model

RNG = np.random.default_rng(23)
A = RNG.normal(size=(5, 5))
TALL = RNG.normal(size=(6, 3))
GAPS = np.where(np.arange(3) == 1, 0, TALL)  # a column of zeros
SYMMETRIC = {"A": A + A.T}
NAMES = {"A": ["N", "N"]}
TOLERANCE = {"float64": 1e-9, "float32": 2e-5}
EIGEN = "[v, w] = eigen(A)\nY = v\nZ = w %*% diag(v) %*% t(w)\nI = t(w) %*% w"
SVD = "[U, S, V] = svd(A)\nY = S\nZ = U %*% S %*% t(V)\nI = t(U) %*% U + t(V) %*% V"
PARTS = ("Y", "Z", "I")


def rotated(name: str, body: str, matrix: np.ndarray, **more) -> ExportCase:
    return ExportCase(name, body, {"A": matrix}, PARTS, iterative=True, tolerance=TOLERANCE, **more)


CASES = [
    ExportCase("triangles", "[P, L, U] = lu(A)", {"A": A}, ("P", "L", "U"), symbols=NAMES, tolerance=TOLERANCE,
               sizes=[{"A": np.array([[0.0, 2], [3, 4]])}, {"A": np.array([[-3.0]])}]),
    ExportCase("triangles of a known matrix", "[P, L, U] = lu(A)\nY = B %*% L", {"A": A, "B": A}, bound=["A"],
               tolerance=TOLERANCE),
    ExportCase("reflections", "[H, R] = qr(A)", {"A": TALL}, ("H", "R"), symbols={"A": ["N", 3]}, tolerance=TOLERANCE,
               sizes=[{"A": TALL[:3]}, {"A": TALL[:2]}, {"A": GAPS}]),
    ExportCase("reflections of a wide matrix", "[H, R] = qr(A)", {"A": TALL.T}, ("H", "R"), tolerance=TOLERANCE),
    rotated("eigenvalues", EIGEN, A + A.T, sizes=[{"A": np.zeros((5, 5))}, {"A": np.diag([3.0, -7, 2, 3, 1e-9])}]),
    rotated("eigenvalues of an even number of columns", EIGEN, TALL @ TALL.T),
    rotated("eigenvalue of a number", EIGEN, np.array([[-4.0]])),
    ExportCase("eigenvalues of products", f"A = t(B) %*% B\n{EIGEN}", {"B": TALL}, PARTS, symbols={"B": ["N", 3]},
               sizes=[{"B": TALL[:1]}], iterative=True, tolerance=TOLERANCE),
    ExportCase("eigenvalues of a known matrix", f"{EIGEN}\nY = B %*% v", {**SYMMETRIC, "B": A}, PARTS, bound=["A"],
               tolerance=TOLERANCE),
    rotated("singular values", SVD, TALL, sizes=[{"A": GAPS}, {"A": np.ones((6, 3))}, {"A": np.zeros((6, 3))}]),
    rotated("singular values of a wide matrix", SVD, TALL[:, :2].T),
    ExportCase("singular values of a known matrix", f"{SVD}\nY = B %*% S", {"A": TALL.T, "B": A[:, :3]}, PARTS, bound=["A"],
               tolerance=TOLERANCE),
    ExportCase("principal components", "[P, C, M, S] = pca(X=X, K=2)\nY = abs(P)\nZ = abs(C)", {"X": TALL}, ("Y", "Z"),
               symbols={"X": ["N", 3]}, iterative=True, tolerance=TOLERANCE),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parts_agree_with_the_engine(case: ExportCase) -> None:
    check_export(case)


LARGE = RNG.normal(size=(130, 130))
ILL = 1 / (np.arange(130)[:, None] + np.arange(130) + 1) + 1e-8 * np.eye(130)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("matrix", [LARGE, LARGE @ LARGE.T, ILL, np.eye(130)[::-1] * 3 + LARGE * 1e-3, LARGE * (np.arange(130) != 40)],
                         ids=["random", "positive", "nearly-singular", "exchanged", "singular"])
def test_large_matrices_are_eliminated_in_blocks(matrix: np.ndarray, dtype: str) -> None:
    """Blocks of 32 columns, and 2: both sides of the equation agree, and nothing is finite where there is no solution."""
    text = 'A = read("A")\nB = read("B")\nY = solve(A, B)\nI = inv(A)\nwrite(Y, "Y")\nwrite(I, "I")\n'
    model = export_script(text, inputs={"A": "double[130,130]", "B": "double[130,K]"}, dtype=dtype)
    right = matrix @ RNG.normal(size=(130, 2))
    found = run_model(model, {"A": matrix, "B": right})
    if not matrix[:, 40].any():
        assert not any(np.isfinite(array).any() for array in found.values())
        return
    for name, wanted in (("Y", right), ("I", np.eye(130))):
        spread = np.abs(matrix).max() * np.abs(found[name]).max()
        np.testing.assert_allclose(matrix @ found[name] / spread, wanted / spread, atol=1e-11 if dtype == "float64" else 1e-5)


def test_the_model_does_not_grow_with_the_steps() -> None:
    """Of 64 columns, where 630 steps are taken, the graph is that of 4."""
    counts = []
    for size in (4, 64):
        model = model_of(rotated("large", EIGEN, np.eye(size)), "float64")
        loop = next(node for node in model.graph.node if node.op_type == "Loop")
        counts.append((len(model.graph.node), len(loop.attribute[0].g.node)))
    assert counts[0] == counts[1]
    matrix = RNG.normal(size=(64, 64))
    found = run_model(model, {"A": matrix + matrix.T})
    np.testing.assert_allclose(found["Y"].ravel(), np.linalg.eigvalsh(matrix + matrix.T), atol=1e-11)


@pytest.mark.parametrize("matrix", [A, np.full((5, 5), np.nan)], ids=["not symmetric", "NaN"])
def test_eigenvalues_of_what_is_not_symmetric_are_nan(matrix: np.ndarray) -> None:
    found = run_model(model_of(rotated("NaN", EIGEN, A), "float64"), {"A": matrix})
    assert all(np.isnan(found[name]).all() for name in PARTS)


@pytest.mark.parametrize(("body", "iterative", "reason"), [
    ("[v, w] = eigen(t(X) %*% X)\nY = v", False, "eigen is no operator of ONNX.*--iterative"),
    ("[U, S, V] = svd(X)\nY = S", False, "svd is no operator of ONNX.*--iterative"),
    ("[v, w] = eigen(X %*% t(X))\nY = v", True, "only the run knows the size"),
    ("[U, S, V] = svd(X)\nY = S", True, "only the run knows the size"),
    ("[v, w] = eigen(diag(t(X[1,1:65])))\nY = v", True, "65 columns, and 64 are possible"),
    ("[v, w] = eigen(matrix(\"1 2 3 4\", 2, 2))\nY = v", True, "not symmetric"),
    ("[P, L, U] = lu(X[1:2,])\nY = U", False, "not square"),
])
def test_what_is_not_taken_apart_is_refused(body: str, iterative: bool, reason: str) -> None:
    with pytest.raises(TranspileError, match=f"(?s){reason}"):
        export_script(f'X = read("X")\n{body}\nwrite(Y, "Y")\n', inputs={"X": "double[N,70]"}, iterative=iterative)
