"""Equal weights, as several nodes make them of one initializer, are stored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.cli.inspecting import inspect_model
from onnx_systemds.operators.rendering.equal_arrays import equal, sample
from tests.plain_engine import score_plainly

Array = np.ndarray[Any, Any]

SIZE, STEPS = 40, 4
_RNG = np.random.default_rng(5)
W = _RNG.normal(size=(SIZE, SIZE), scale=0.2).astype(np.float32)
HELD = {"w": W, "flat": W.reshape(-1), "dims": np.array(W.shape), "two": np.float32(2),
        "b": np.zeros(SIZE, np.float32), **{f"w{step}": W for step in range(STEPS)}}


def steps(*templates: tuple[str, str, str, dict[str, Any]]) -> list[NodeProto]:
    """The same nodes STEPS times, each time on the result of the last: operator, inputs, output, attributes."""
    return [
        helper.make_node(operator, inputs.format(x=f"y{step}", n=step).split(), [output.format(n=step, y=f"y{step + 1}")],
                         **attributes)
        for step in range(STEPS) for operator, inputs, output, attributes in templates
    ]


def model_of(nodes: Sequence[NodeProto]) -> onnx.ModelProto:
    """y0 [n, SIZE] -> y<STEPS>."""
    used = {name for node in nodes for name in node.input}
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in HELD.items() if name in used]
    x = helper.make_tensor_value_info("y0", TensorProto.FLOAT, ["n", SIZE])
    y = helper.make_tensor_value_info(f"y{STEPS}", TensorProto.FLOAT, ["n", SIZE])
    graph = helper.make_graph(nodes, "shared", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


_PRODUCT = ("MatMul", "{x} m{n}", "{y}", {})
MODELS = {
    "transposed by Gemm": steps(("Gemm", "{x} w b", "{y}", {"transB": 1})),
    "scaled by Gemm": steps(("Gemm", "{x} w b", "{y}", {"transB": 1, "alpha": 0.5})),
    "transposed before": steps(("Transpose", "w", "m{n}", {"perm": [1, 0]}), _PRODUCT),
    "reshaped before": steps(("Reshape", "flat dims", "m{n}", {}), _PRODUCT),
    "computed before": steps(("Mul", "w two", "m{n}", {}), _PRODUCT),
    "several of equal content": steps(("Gemm", "{x} w{n} b", "{y}", {"transB": 1})),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_made_of_one_initializer_is_stored_once(name: str) -> None:
    script = import_model(model_of(MODELS[name]))
    assert [weight.array.shape for weight in script.weights] == [(SIZE, SIZE)]


@pytest.mark.parametrize("name", ["transposed by Gemm", "computed before"])
def test_results_with_shared_weights(name: str) -> None:
    model = model_of(MODELS[name])
    x = _RNG.normal(size=(3, SIZE)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"y0": x})
    actual = score_plainly(import_model(model), {"y0": x})[f"y{STEPS}"]
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_a_weight_of_several_nodes_is_written_once() -> None:
    model = model_of(steps(("Gemm", "{x} row", "r{n}", {"transB": 1}), ("Gemm", "r{n} row", "{y}", {})))
    model.graph.initializer.append(numpy_helper.from_array(W[:1], "row"))
    text = import_model(model, weights="inline", functions="flat").text
    assert text.count('= matrix("') == 2  # in both directions
    assert "row_turned = matrix(" in text


def test_both_directions_of_one_initializer_are_two_weights() -> None:
    nodes = steps(("Gemm", "{x} w b", "t{n}", {"transB": 1}), ("Gemm", "t{n} w b", "{y}", {}))
    script = import_model(model_of(nodes))
    assert sorted(weight.array.tobytes() for weight in script.weights) == sorted([W.tobytes(), W.T.tobytes()])


def test_the_folder_is_as_large_as_inspect_says() -> None:
    model = model_of(MODELS["transposed by Gemm"])
    del model.graph.initializer[1]  # the bias is zeros, which no file holds
    for node in model.graph.node:
        node.input.pop()
    stored = sum(8 * weight.array.size for weight in import_model(model).weights)
    assert stored == inspect_model(model).weights.engine_size == 8 * W.size


_GRID = _RNG.normal(size=(30, 50))
_OTHER = _GRID.copy()
_OTHER[17, 23] += 1
_EMPTY_BUT_ONE = np.zeros((3000, 100))
_EMPTY_BUT_ONE[2999, 98] = 1


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (_GRID, _GRID.copy(), True),
        (_GRID.T, _GRID.T.copy(), True),
        (_GRID.T, _GRID.copy().T, True),
        (_GRID[::2, ::-1], _GRID[::2, ::-1].copy(), True),
        (_GRID, _OTHER, False),
        (_GRID.T, _OTHER.T, False),
        (_EMPTY_BUT_ONE, np.zeros((3000, 100)), False),
        (_EMPTY_BUT_ONE.T, np.zeros((100, 3000)), False),
        (np.zeros((2, 2)), -np.zeros((2, 2)), False),
        (np.full((2, 2), np.nan), np.full((2, 2), np.nan), True),
        (_GRID.astype(ml_dtypes.bfloat16), _GRID.astype(ml_dtypes.bfloat16), True),
        (_GRID.astype(ml_dtypes.bfloat16), _GRID.astype(np.float16), False),
        (np.arange(8), np.arange(8).reshape(1, 8)[0], True),
        (_GRID, _GRID.reshape(50, 30), False),
    ],
)
def test_equal_is_equal_in_every_bit(left: Array, right: Array, expected: bool) -> None:
    left, right = (array if array.ndim == 2 else array[None] for array in (left, right))
    assert (sample(left) == sample(right) and equal(left, right)) is expected
