"""Broadcasting, unary mathematics, comparisons."""

from __future__ import annotations

import numpy as np

from benchmarks.operator_cases.bench import BACK, FLAT, IMAGE, ROWS, Bench, C, H, N, normal, positive
from benchmarks.operator_cases.computations import sigmoid


def elementwise() -> list[Bench]:
    """Broadcasting, unary mathematics, comparisons."""
    image, rows = {"X": IMAGE}, {"X": ROWS}
    mask = normal(8, 1, 128, 128, seed=2)
    scores = normal(8, 8, 128, 128)
    repeat = "M = matrix({0}, rows=8, cols=16384)\nM = matrix(cbind(M, M, M, M, M, M, M, M), rows=64, cols=16384)\n"
    erf = """A = abs(X)
        T = 1 / (1 + 0.3275911 * A)
        P = ((((1.061405429 * T - 1.453152027) * T + 1.421413741) * T - 0.284496736) * T + 0.254829592) * T
        Y = sign(X) * (1 - P * exp(-A * A))"""
    return [
        Bench("broadcasting", "Add", "same dims", {"X": IMAGE, "B": normal(N, C, H, H, seed=1)}, {}, "Y = X + B",
              lambda X, B: X + B),
        Bench("broadcasting", "Add", "row", {"X": ROWS, "B": normal(256)}, {},
              "Y = matrix(matrix(X, rows=8192, cols=256) + t(B), rows=64, cols=32768)", lambda X, B: X + B),
        Bench("broadcasting", "Sub", "row on the left", {"B": normal(256), "X": ROWS}, {},
              "Y = matrix((-matrix(X, rows=8192, cols=256)) + t(B), rows=64, cols=32768)", lambda X, B: B - X),
        Bench("broadcasting", "Mul", "column, channels", {"X": IMAGE, "B": normal(C, 1, 1)}, {},
              f"Y = matrix({FLAT} * matrix(matrix(1, rows=8, cols=1) %*% t(B), rows=512, cols=1), {BACK})",
              lambda X, B: X * B),
        Bench("broadcasting", "Div", "column, rows", {"X": ROWS, "B": positive(64, 128, 1)}, {},
              "Y = matrix(matrix(X, rows=8192, cols=256) / matrix(B, rows=8192, cols=1), rows=64, cols=32768)",
              lambda X, B: X / B),
        Bench("broadcasting", "Add", "middle, mask", {"X": scores, "B": mask}, {},
              repeat.format("B") + "Y = matrix(matrix(X, rows=64, cols=16384) + M, rows=8, cols=131072)",
              lambda X, B: X + B),
        Bench("broadcasting", "Mul", "outer", {"X": normal(2048, 1), "B": normal(1, 1024)}, {},
              'Y = outer(X, B, "*")', lambda X, B: X * B),
        Bench("broadcasting", "Pow", "square", {**image, "B": np.float32(2)}, {}, "Y = X ^ 2", lambda X, B: X * X,
              ["B"]),
        Bench("unary", "Exp", "", image, {}, "Y = exp(X)", lambda X: np.exp(X)),
        Bench("unary", "Sqrt", "", {"X": positive(N, C, H, H)}, {}, "Y = sqrt(X)", lambda X: np.sqrt(X)),
        Bench("unary", "Tanh", "", image, {}, "Y = tanh(X)", lambda X: np.tanh(X)),
        Bench("unary", "Erf", "", image, {}, erf, None),
        Bench("unary", "Round", "", image, {}, """F = floor(X)
            D = X - F
            Y = F + (D > 0.5) + (D == 0.5) * ((F %% 2) != 0)""", lambda X: np.rint(X)),
        Bench("activation", "Relu", "", image, {}, "Y = max(X, 0)", lambda X: np.maximum(X, 0)),
        Bench("activation", "LeakyRelu", "", image, {}, "Y = max(X, 0.01 * X)", lambda X: np.maximum(X, 0.01 * X)),
        Bench("activation", "Sigmoid", "", image, {}, "Y = 1 / (1 + exp(-X))", sigmoid),
        Bench("activation", "HardSwish", "", image, {}, "Y = X * max(min(X / 6 + 0.5, 1), 0)",
              lambda X: X * np.clip(X / 6 + 0.5, 0, 1)),
        Bench("activation", "Softplus", "", image, {}, "Y = max(X, 0) + log(1 + exp(-abs(X)))",
              lambda X: np.logaddexp(X, 0)),
        Bench("activation", "Elu", "", image, {}, "Y = max(X, 0) + min(exp(X) - 1, 0)",
              lambda X: np.where(X > 0, X, np.expm1(X))),
        Bench("activation", "Gelu", "tanh", image, {"approximate": "tanh"},
              "Y = X * 0.5 * (1 + tanh(0.7978845608028654 * (X + 0.044715 * X ^ 3)))",
              lambda X: X * 0.5 * (1 + np.tanh(0.7978845608028654 * (X + 0.044715 * X**3))), opset=20),
        Bench("activation", "Gelu", "erf", image, {}, """Z = X * 0.7071067811865476
            A = abs(Z)
            T = 1 / (1 + 0.3275911 * A)
            P = ((((1.061405429 * T - 1.453152027) * T + 1.421413741) * T - 0.284496736) * T + 0.254829592) * T
            Y = X * (0.5 + 0.5 * sign(Z) * (1 - P * exp(-A * A)))""", None, opset=20),
        Bench("activation", "Clip", "", {**image, "low": np.float32(-1), "high": np.float32(1)}, {},
              "Y = min(max(X, -1), 1)", lambda X, low, high: np.clip(X, low, high), ["low", "high"]),
        Bench("comparison", "Greater", "", {"X": IMAGE, "B": normal(N, C, H, H, seed=1)}, {}, "Y = X > B",
              lambda X, B: X > B),
        Bench("comparison", "And", "", {"X": IMAGE > 0, "B": IMAGE > 1}, {}, "Y = X & B", lambda X, B: X & B),
        Bench("comparison", "Where", "", {"K": IMAGE > 0, "X": IMAGE, "B": normal(N, C, H, H, seed=1)}, {},
              "Y = ifelse(K, X, B)", lambda K, X, B: np.where(K, X, B)),
        Bench("comparison", "Where", "mask, scalar", {"K": mask > 1, "X": np.float32(-10), "B": scores}, {},
              repeat.format("K") + "Y = matrix(ifelse(M, -10, matrix(B, rows=64, cols=16384)), rows=8, cols=131072)",
              lambda K, X, B: np.where(K, X, B), ["X"]),
    ]
