"""Products of many pairs of matrices whose sizes only the run knows: right, and not compiled anew for each pair."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.dml.library import function_of, library_functions
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.engine import shared_session
from onnx_systemds.operators.support.products import Pairs, looped_product, pairs_of
from tests.command_line import run_dml

FUNCTIONS = ("batch_matmul", "batch_matmul_transposed")
# The engine does not know the sizes of X and Y: the condition is never true.
CALLS = """
never = time() < 0
X = matrix(1, rows=ROWS, cols=2)
Y = matrix(1, rows=ROWS, cols=2)
if (never) {
  X = rbind(X, X)
  Y = cbind(Y, X)
}
for (call in 1:10) {
  count = nrow(X) %/% 2
  if (never) { print("never") }
  Z = FUNCTION(X, Y, count)
  if (never) { print("never") }
  print(sum(Z))
}
"""


def library(function: str) -> str:
    return "\n".join(map(print_statement, library_functions([function])))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("count", [50, 400])
def test_no_product_is_compiled_for_itself(function: str, count: int, tmp_path: Path) -> None:
    calls = CALLS.replace("FUNCTION", function).replace("ROWS", str(2 * count))
    output = run_dml(library(function) + calls, tmp_path, options=["-stats"])
    assert output.count(f"{8 * count}.0\n") == 10
    compiled = re.search(r"HOP DAGs recompiled \(PRED, SB\):\s*\d+/(\d+)", output)
    assert compiled is not None and int(compiled[1]) <= 50, "10 calls of 50 or 400 products each"


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("count", "rows", "inner", "columns"),
    [(3, 2, 4, 5), (1, 2, 1, 3), (24, 2, 4, 5), (8, 1, 3, 1), (16, 3, 1, 2), (2, 512, 33, 512)],
)
def test_products_in_turn_by_eights_and_in_threads(
    function: str, count: int, rows: int, inner: int, columns: int
) -> None:
    random = np.random.default_rng(3)
    x, y = random.normal(size=(count, rows, inner)), random.normal(size=(count, inner, columns))
    second = y.transpose(0, 2, 1) if function.endswith("_transposed") else y
    call = f'X = read("./X")\nY = read("./Y")\nZ = {function}(X, Y, {count})\nwrite(Z, "./Z")\n'
    prepared = shared_session().prepare(library(function) + "\n" + call, ["X", "Y"], ["Z"])
    (given,) = prepared({"X": x.reshape(-1, inner), "Y": second.reshape(-1, second.shape[2])}).values()
    np.testing.assert_allclose(given.reshape(count, rows, columns), x @ y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("count", "rows", "inner", "columns"), [(3, 2, 4, 5), (24, 2, 4, 5), (8, 1, 3, 1), (2, 512, 33, 512), (8, 33, 1, 2)]
)
def test_products_of_known_sizes(function: str, count: int, rows: int, inner: int, columns: int) -> None:
    random = np.random.default_rng(5)
    is_transposed = function.endswith("_transposed")
    x, y = random.normal(size=(count, rows, inner)), random.normal(size=(count, inner, columns))
    x[0, 0, 0], y[-1, 0, 0] = np.inf, np.nan
    second = y.transpose(0, 2, 1) if is_transposed else y
    text = looped_product("products", count, (rows, inner, columns), transposed=is_transposed)
    assert pairs_of(function_of(text)) == Pairs(count, (rows, columns if is_transposed else inner), is_transposed)
    call = 'X = read("./X")\nY = read("./Y")\nZ = products(X, Y)\nwrite(Z, "./Z")\n'
    prepared = shared_session().prepare(f"{text}\n{call}", ["X", "Y"], ["Z"])
    (given,) = prepared({"X": x.reshape(-1, inner), "Y": second.reshape(-1, second.shape[2])}).values()
    np.testing.assert_allclose(given.reshape(count, rows, columns), x @ y, rtol=1e-12, atol=1e-12)


def test_layers_of_the_same_sizes_share_their_products() -> None:
    """Its sizes are in the function, so that the compiler knows them wherever it is called."""
    nodes = [helper.make_node("MatMul", ["x", "y"], ["once"]), helper.make_node("MatMul", ["once", "y"], ["z"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [40, 6, 6]) for name in "xyz"]
    model = helper.make_model(helper.make_graph(nodes, "g", ports[:2], ports[2:]),
                              opset_imports=[helper.make_opsetid("", 17)])
    script = import_model(model)
    assert [function.name for function in (*script.library, *script.functions)] == ["matrix_products", "gen_g"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_zeros_in_one_call_are_not_zeros_in_the_next(function: str) -> None:
    random = np.random.default_rng(4)
    call = f'X = read("./X")\nY = read("./Y")\nZ = {function}(X, Y, 3) + {function}(2 * X, Y, 3)\nwrite(Z, "./Z")\n'
    prepared = shared_session().prepare(library(function) + "\n" + call, ["X", "Y"], ["Z"])
    for scale in ((0, 0), (0, 1), (1, 1), (1, 0), (1, 1)):
        x, y = (random.normal(size=(3, 4, 4)) * factor for factor in scale)
        second = y.transpose(0, 2, 1) if function.endswith("_transposed") else y
        (given,) = prepared({"X": x.reshape(-1, 4), "Y": second.reshape(-1, 4)}).values()
        np.testing.assert_allclose(given.reshape(3, 4, 4), 3 * (x @ y), rtol=1e-12, atol=1e-12)
