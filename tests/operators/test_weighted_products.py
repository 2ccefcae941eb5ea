"""Of ``W * f(A %*% B)`` the engine makes one operation, which passes over zeros of W and is ten times as slow as both:
none of what an operator calculates of a product becomes one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnx_systemds import import_model
from tests.command_line import run_dml
from tests.plain_engine import PlainCall, sourced

COLUMNS = 1100
"""More than a block of the engine has: it joins some of the operations only then."""
UNARY = (
    "Abs", "Celu", "Ceil", "Elu", "Erf", "Exp", "Floor", "Gelu", "Gelu <approximate = \"tanh\">", "HardSigmoid",
    "HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign",
    "Sin", "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
)
GATES = {
    "gate": "g = Sigmoid(P) Y = Mul(S, g)", "gate in front": "g = Sigmoid(P) Y = Mul(g, S)", "both": "g = Sigmoid(P) Y = Mul(P, g)",
    "power": "two = Constant<value_float = 2.0>() g = Pow(P, two) Y = Mul(S, g)", "quotient": "g = Sqrt(P) Y = Div(S, g)",
    "product": "Y = Mul(S, P)", "gated product": "g = Gelu(P) Q = MatMul(X, V) Y = Mul(g, Q)",
    "loss": "d = Sub(S, P) Y = ReduceSumSquare<keepdims = 0>(d)",
    "weighted loss": "d = Sub(S, P) e = Mul(d, d) f = Mul(S, e) Y = ReduceSum<keepdims = 0>(f)",
    "entropy": "l = Log(P) m = Mul(S, l) Y = ReduceSum<keepdims = 0>(m)",
}
JOINED = re.compile(r"\b(?:wumm|wsigmoid|wdivmm|wsloss|wcemm)\b")


@pytest.mark.engine
def test_products_stay_products(tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    sources: list[str] = []
    program = ["never = time() < 0"]
    for number, body in enumerate((*(f"Y = {op}(P)" for op in UNARY), *GATES.values())):
        model = onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 24]> g (float[n, 16] X, float[n, {COLUMNS}] S) => (Y)
            {{ P = MatMul(X, U) {body} }}"""
        )
        for name in "UV":
            weight = drawn.normal(size=(16, COLUMNS)).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weight, name))
        script = import_model(model, dims={"n": 40}, weights="files")
        inputs = {"X": drawn.normal(size=(40, 16)), "S": drawn.normal(size=(40, COLUMNS))}
        call = PlainCall(script, {name: inputs[name].astype(np.float32) for name in inputs}, tmp_path, f"c{number}_", f"m{number}")
        source, *weights = sourced(script, tmp_path, f"m{number}")
        sources.append(source)
        program += [*weights, *call.statements()]
    said = run_dml("\n".join([*sources, *program]) + "\n", tmp_path, options=["-explain", "runtime"])
    assert "ba+*" in said and not JOINED.findall(said)
