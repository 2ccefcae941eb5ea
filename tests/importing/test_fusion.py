"""Products whose right factor was transposed before, and batched products of few pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.scoring import ScoringFunction


def model(perm: list[int] | None, dims: list[Any], scaled: bool) -> Any:
    """scores = Q MatMul (Transpose(K) Mul scale), as attention computes them."""
    transpose = helper.make_node("Transpose", ["K"], ["T"], **({} if perm is None else {"perm": perm}))
    nodes = [transpose, helper.make_node("MatMul", ["Q", "S" if scaled else "T"], ["Y"])]
    if scaled:
        nodes.insert(1, helper.make_node("Mul", ["T", "scale"], ["S"]))
    rank = len(dims)
    infos = [helper.make_tensor_value_info("Q", TensorProto.FLOAT, [f"q{axis}" for axis in range(rank)])]
    infos.append(helper.make_tensor_value_info("K", TensorProto.FLOAT, dims))
    result = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
    scale = numpy_helper.from_array(np.array([0.125], np.float32), "scale")
    graph = helper.make_graph(nodes, "scores", infos, [result], [scale])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(proto: Any, query: tuple[int, ...], key: tuple[int, ...], dims: list[Any] | None = None) -> str:
    """Compare with onnxruntime; the script's text."""
    numbers = np.random.default_rng(0)
    feeds = {"Q": numbers.normal(size=query).astype(np.float32), "K": numbers.normal(size=key).astype(np.float32)}
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("Q", TensorProto.FLOAT, dims or query))
    script = import_model(proto)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    with ScoringFunction(script) as function:
        np.testing.assert_allclose(function(feeds)["Y"], expected, rtol=1e-4, atol=1e-5)
    return script.text


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(
    ("perm", "query", "key"),
    [
        ([0, 1, 3, 2], (2, 3, 4, 5), (2, 3, 6, 5)),
        ([0, 2, 3, 1], (2, 3, 4, 5), (2, 6, 3, 5)),
        ([1, 0, 3, 2], (2, 3, 4, 5), (3, 2, 6, 5)),
        ([0, 2, 1], (2, 4, 5), (2, 6, 5)),
        ([0, 2, 1], (4, 5), (2, 6, 5)),
        ([1, 2, 0], (3, 4, 5), (6, 3, 5)),
    ],
)
def test_transposed_factor(perm: list[int], query: tuple[int, ...], key: tuple[int, ...], scaled: bool) -> None:
    text = check(model(perm, list(key), scaled), query, key)
    assert "products_of_" in text
    assert " %*% t(Y[" in text


@pytest.mark.parametrize(
    ("perm", "query", "key"),
    [
        ([0, 2, 1, 3], (2, 3, 4, 6), (2, 6, 3, 5)),
        (None, (2, 4, 5), (6, 5, 2)),
        ([1, 0], (2, 4, 5), (6, 5)),
    ],
)
def test_other_permutations(perm: list[int] | None, query: tuple[int, ...], key: tuple[int, ...]) -> None:
    assert "%*% t(Y[" not in check(model(perm, list(key), False), query, key)


def test_lengths_of_the_run() -> None:
    proto = model([0, 2, 3, 1], [2, "past", 3, 5], True)
    text = check(proto, (2, 3, 4, 5), (2, 6, 3, 5), [2, 3, "seq", 5])
    assert "sizeX = nrow(X) %/% 6" in text
    assert "sizeY = nrow(Y) %/% 6" in text


def test_without_simplification() -> None:
    text = import_model(model([0, 1, 3, 2], ["q0", "q1", "s", 5], False), simplified=False).text
    assert "products_of_" not in text
