"""Models for benchmarks of many rows, their rows, and what onnxruntime gives for these."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]
FEATURES, TREES, TRAINED = 100, 100, 20_000
PIXELS = (3, 32, 32)
CHUNK = 20_000
"""Rows that are made, and judged, at once."""


def mlp() -> onnx.ModelProto:
    """100 features through 128 and 64 hidden units to 3 probabilities."""
    generator, sizes = np.random.default_rng(0), (FEATURES, 128, 64, 3)
    nodes, weights, value = [], [], "X"
    for number, (taken, given) in enumerate(itertools.pairwise(sizes)):
        weights += [_weight(f"W{number}", generator, taken, given), _weight(f"b{number}", generator, given)]
        nodes.append(helper.make_node("Gemm", [value, f"W{number}", f"b{number}"], [f"z{number}"]))
        value = f"h{number}"
        nodes.append(helper.make_node("Relu" if given != sizes[-1] else "Softmax", [f"z{number}"], [value]))
    nodes[-1].output[0] = "Y"
    return _model(nodes, weights, ["rows", FEATURES], ["rows", sizes[-1]])


def cnn() -> onnx.ModelProto:
    """Images of 3 x 32 x 32 through two convolutions with pooling to 10 classes."""
    generator = np.random.default_rng(0)
    shapes = {"K0": (16, 3, 3, 3), "b0": (16,), "K1": (32, 16, 3, 3), "b1": (32,), "W": (32 * 8 * 8, 10), "b": (10,)}
    weights = [_weight(name, generator, *shape) for name, shape in shapes.items()]
    nodes, value = [], "X"
    for number in range(2):
        given = [value, f"K{number}", f"b{number}"]
        nodes += [helper.make_node("Conv", given, [f"z{number}"], pads=[1, 1, 1, 1]),
                  helper.make_node("Relu", [f"z{number}"], [f"a{number}"]),
                  _pooling(f"a{number}", f"p{number}")]
        value = f"p{number}"
    nodes += [helper.make_node("Flatten", [value], ["flat"]), helper.make_node("Gemm", ["flat", "W", "b"], ["Y"])]
    return _model(nodes, weights, ["rows", *PIXELS], ["rows", 10])


def lightgbm() -> onnx.ModelProto:
    """A regression by 100 trees of 31 leaves."""
    from lightgbm import LGBMRegressor
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    trained = LGBMRegressor(n_estimators=TREES, verbose=-1, n_jobs=2).fit(*_training())
    found: onnx.ModelProto = convert_lightgbm(trained, initial_types=[("X", FloatTensorType([None, FEATURES]))])
    return found


def xgboost() -> onnx.ModelProto:
    """A regression by 100 trees of depth 6."""
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from xgboost import XGBRegressor

    trained = XGBRegressor(n_estimators=TREES, max_depth=6, n_jobs=2).fit(*_training())
    found: onnx.ModelProto = convert_xgboost(trained, initial_types=[("X", FloatTensorType([None, FEATURES]))])
    return found


MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {"mlp": mlp, "lightgbm": lightgbm, "xgboost": xgboost, "cnn": cnn}


def rows_of(model: onnx.ModelProto, rows: int, path: Path) -> Array:
    """That many rows for the input of a model, in a file that is mapped: float32, two dimensions."""
    shape = model.graph.input[0].type.tensor_type.shape.dim
    columns = int(np.prod([size.dim_value for size in shape[1:]]))
    found: Array = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    generator = np.random.default_rng(1)
    for start in range(0, rows, CHUNK):
        part = found[start : start + CHUNK]
        part[...] = np.round(generator.standard_normal(part.shape, dtype=np.float32), 4)
    return found


def expected(model: onnx.ModelProto, rows: Array) -> Array:
    """What onnxruntime gives for the rows, a matrix."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    parts = []
    for start in range(0, len(rows), CHUNK):
        part = np.ascontiguousarray(rows[start : start + CHUNK]).reshape(-1, *given.shape[1:])
        (result,) = session.run(None, {given.name: part})
        parts.append(result.reshape(len(part), -1))
    return np.concatenate(parts)


def _pooling(taken: str, given: str) -> onnx.NodeProto:
    return helper.make_node("MaxPool", [taken], [given], kernel_shape=[2, 2], strides=[2, 2])


def _training() -> tuple[Array, Array]:
    generator = np.random.default_rng(2)
    features = generator.standard_normal((TRAINED, FEATURES), dtype=np.float32)
    return features, np.sin(features[:, :20]).sum(axis=1) + features[:, 20] * features[:, 21]


def _weight(name: str, generator: np.random.Generator, *shape: int) -> onnx.TensorProto:
    scale = np.sqrt(2 / max(1, int(np.prod(shape[1:] if len(shape) == 4 else shape[:-1]))))
    return numpy_helper.from_array((scale * generator.standard_normal(shape)).astype(np.float32), name)


def _model(
    nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], taken: list[Any], given: list[Any]
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "scored", [helper.make_tensor_value_info("X", TensorProto.FLOAT, taken)],
                              [helper.make_tensor_value_info("Y", TensorProto.FLOAT, given)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
