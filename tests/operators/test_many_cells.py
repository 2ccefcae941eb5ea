"""Matrices of so many cells that the engine computes with several threads, which is another way than that of few cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array

ROWS, COLUMNS = 2000, 200


def _few() -> Array:
    """Mostly zeros, but for some columns without any."""
    numbers = np.random.default_rng(0)
    x = numbers.standard_normal((ROWS, COLUMNS)) * (numbers.random((ROWS, COLUMNS)) < 0.05)
    x[:, :3] = [1, -1, 0.999]
    x[7, 1] = np.nan
    return x


def _special() -> Array:
    """Numbers near 1, with NaN, infinities and zeros in the rows of the first thread, or of a later one."""
    x = np.random.default_rng(1).uniform(0.99, 1.01, (ROWS, COLUMNS))
    for column, special in enumerate([np.nan, np.inf, 0]):
        x[5, [column, 3 + column]] = [special, np.nan]
        x[1500, [6 + column, 9 + column]] = [special, np.nan]
    x[6, 2] = np.inf
    return x


def _products(x: Array, *, exclusive: bool, reverse: bool) -> Array:
    ones = np.ones((1, COLUMNS))
    x = x[::-1] if reverse else x
    found = np.cumprod(np.concatenate([ones, x[:-1]]) if exclusive else x, 0)
    return found[::-1] if reverse else found


OPERATIONS: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    **{f"CumProd exclusive={exclusive} reverse={reverse}": (
        helper.make_node("CumProd", ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse),
        lambda x, e=exclusive, r=reverse: _products(x, exclusive=e, reverse=r))
        for exclusive in (0, 1) for reverse in (0, 1)},
    "ReduceProd": (helper.make_node("ReduceProd", ["x", "axis"], ["y"], keepdims=0), lambda x: np.prod(x, 0)),
}


@pytest.mark.parametrize("made", [_few, _special], ids=["few", "special"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_cells(name: str, made: Callable[[], Array]) -> None:
    node, function = OPERATIONS[name]
    graph = helper.make_graph([node], "many", [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["n", COLUMNS])],
                              [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
                              [numpy_helper.from_array(np.array(0 if "Cum" in name else [0]), "axis")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10)
    x = made()
    with ScoringFunction(import_model(model)) as scored, np.errstate(invalid="ignore"):
        np.testing.assert_allclose(scored({"x": x})["y"], function(x), rtol=1e-9)
