"""Scripts of thousands of statements: the time grows with their length."""

from __future__ import annotations

import time
from collections.abc import Callable

import onnx
import pytest

from onnx_systemds.exporting.export import export_script

FUNCTION = "f = function(matrix[double] A, double k) return (matrix[double] B) {\n C = A * k\n D = exp(C)\n B = D - A\n}\n"

# n statements each; those of a called function count in every call
SCRIPTS: dict[str, Callable[[int], list[str]]] = {
    "a chain": lambda n: [f"Y = Y * {1 + i % 7} + {i}" for i in range(n)],
    "many variables": lambda n: [*(f"V{i} = X + {i}" for i in range(n // 2)), *(f"Y = Y + V{i}" for i in range(n // 2))],
    "calls": lambda n: [f"Y = f(Y, {i})" for i in range(n // 4)],
    "ifs": lambda n: [f"if (sum(Y) > {i}) {{ Y = Y + {i} }} else {{ Y = Y * 2 }}" for i in range(n // 3)],
    "loops": lambda n: [f"for (i in 1:nrow(X)) {{ Y = Y + i * {k} }}" for k in range(n // 2)],
}


def seconds(statements: list[str]) -> float:
    text = "\n".join([FUNCTION, 'X = read("X")', "Y = X", *statements, 'write(Y, "Y")', ""])
    began = time.process_time()
    export_script(text, inputs={"X": "double[N,4]"})
    return time.process_time() - began


def check_nothing(model: onnx.ModelProto, full_check: bool) -> None:
    """Stands for ONNX's checker, which copies all names of a graph for each If and so takes quadratic time."""


@pytest.mark.slow("linear time shows in long scripts only")
@pytest.mark.parametrize("kind", SCRIPTS)
def test_time_is_linear_in_the_number_of_statements(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.checker, "check_model", check_nothing)
    half, whole = (seconds(SCRIPTS[kind](n)) for n in (2500, 5000))
    assert whole < 20
    assert whole < 3.5 * half + 1
