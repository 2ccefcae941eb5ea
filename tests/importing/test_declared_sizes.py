"""Images of a declared number, for which the engine's compiler tries another one."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.parser import parse_model

from onnx_systemds import import_model
from onnx_systemds.importing.script import Script
from tests.operators.harness import run_reference
from tests.plain_engine import calls_plainly

HEAD = '<ir_version: 9, opset_import: ["" : 17]> agraph'
WEIGHTS = "<float[2, 2, 3, 3] W = {" + ", ".join(str(number % 7 - 3) for number in range(36)) + "}>"
PADDED = "<pads = [1, 1, 1, 1]>"
CASES = {
    "images of declared sizes": ("float[2, 2, 5, 5] X", "float[2, 2, 5, 5] Y", f"Y = Conv{PADDED}(X, W)"),
    "beside a skip connection": ("float[1, 2, 5, 5] X", "float[1, 2, 5, 5] Y", f"Z = Conv{PADDED}(X, W) Y = Add(X, Z)"),
    "maxima": ("float[1, 2, 5, 5] X", "float[1, 2, 3, 3] Y", "Y = MaxPool<kernel_shape = [3, 3]>(X)"),
    "transposed": ("float[2, 2, 5, 5] X", "float[2, 2, 7, 7] Y", "Y = ConvTranspose(X, W)"),
    "images of open sizes": ("float[1, 2, h, w] X", "float[1, 2, h, w] Y", f"Y = Conv{PADDED}(X, W)"),
}


def scripted(given: str, result: str, nodes: str) -> Script:
    return import_model(parse_model(f"{HEAD} ({given}) => ({result}) {WEIGHTS} {{ {nodes} }}"))


@pytest.mark.parametrize("name", CASES)
def test_calls_whose_sizes_the_compiler_does_not_know(name: str) -> None:
    """It stopped: Incorrect dimensions in DnnOp: 2 != 7777."""
    given, result, nodes = CASES[name]
    rows = 2 if "[2" in given else 1
    calls = [{"X": np.random.default_rng(seed).normal(size=(rows, 2, 5, 5)).astype(np.float32)} for seed in range(2)]
    model = parse_model(f"{HEAD} ({given}) => ({result}) {WEIGHTS} {{ {nodes} }}")
    script = import_model(model)
    for inputs, found in zip(calls, calls_plainly(script, calls, open_sizes=True), strict=True):
        np.testing.assert_allclose(found["Y"], run_reference(model, inputs)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("given", "result", "nodes", "is_told"), [
    ("float[2, 2, 5, 5] X", "float[2, 2, 5, 5] Y", f"Y = Conv{PADDED}(X, W)", True),
    ("float[1, 2, h, w] X", "float[1, 2, h, w] Y", f"Y = Conv{PADDED}(X, W)", True),
    ("float[n, 2, 5, 5] X", "float[n, 2, 5, 5] Y", f"Y = Conv{PADDED}(X, W)", False),
    ("float[2, 2, 5, 5] X, float[2, 2, 5, 5] Z", "float[2, 2, 5, 5] Y", f"V = Conv{PADDED}(X, W) Y = Add(V, Z)", False),
    ("float[2, 3] X", "float[2, 3] Y", "Y = Exp(X)", False),
])
def test_rows_are_told_where_the_compiler_tries_others(given: str, result: str, nodes: str, is_told: bool) -> None:
    assert ("X = matrix(X, rows=" in scripted(given, result, nodes).text) == is_told
