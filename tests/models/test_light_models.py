"""The nine networks of the onnx wheel, as they are (every weight is 0.02) and with random weights, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying import judging
from tests.operators.harness import Array, compare
from tests.plain_engine import score_plainly

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
DIMS = {
    "bvlc_alexnet": (1, 1000), "densenet121": (1, 1000, 1, 1), "inception_v1": (1, 1000), "inception_v2": (1, 1000),
    "resnet50": (1, 1000), "shufflenet": (1, 1000), "squeezenet": (1, 1000, 1, 1), "vgg19": (1, 1000),
    "zfnet512": (1, 1000),
}
LARGE = ("bvlc_alexnet", "vgg19", "zfnet512")  # 250 to 570 MB of weights: once is enough


def image(model: ModelProto) -> dict[str, Array]:
    weights = {tensor.name for tensor in model.graph.initializer}
    (given,) = (info for info in model.graph.input if info.name not in weights)
    dims = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
    return {given.name: np.random.default_rng(0).random(dims, np.float32)}


def with_random_weights(model: ModelProto) -> ModelProto:
    """Each weight that a ConstantOfShape makes is drawn anew: filters keep the size of what they are applied to."""
    generator = np.random.default_rng(0)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    norms = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    positive = {node.input[position] for node in norms for position in (1, 4)}
    for number in reversed(range(len(model.graph.node))):
        node = model.graph.node[number]
        if node.op_type != "ConstantOfShape":
            continue
        name, dims = node.output[0], tuple(int(dim) for dim in shapes[node.input[0]])
        if name in positive:
            drawn = generator.uniform(0.5, 1.5, dims)
        else:
            inputs = int(np.prod(dims[1:])) if len(dims) > 1 else 100
            drawn = generator.standard_normal(dims) * np.sqrt(2 / inputs)
        model.graph.initializer.append(numpy_helper.from_array(drawn.astype(np.float32), name))
        del model.graph.node[number]
    return model


def check(model: ModelProto, dims: tuple[int, ...], *, plainly: bool = False) -> None:
    inputs = image(model)
    if plainly:
        outputs = score_plainly(import_model(model), inputs)
    else:
        with ScoringFunction(import_model(model)) as function:
            outputs = function(inputs)
    for name, judge in judging.judge(model, inputs).items():
        assert outputs[name].shape == dims
        compare(outputs[name], judge, 1e-5, name)


@pytest.mark.parametrize("name", DIMS)
def test_as_it_is(name: str) -> None:
    check(onnx.load(LIGHT / f"light_{name}.onnx"), DIMS[name])


@pytest.mark.parametrize("name", [name for name in DIMS if name not in LARGE])
def test_with_random_weights(name: str) -> None:
    model = with_random_weights(onnx.load(LIGHT / f"light_{name}.onnx"))
    check(model, DIMS[name])


@pytest.mark.parametrize("name", ["densenet121", "inception_v1", "inception_v2"])  # long scripts, on Java's default stack
def test_with_random_weights_on_the_plain_command_line(name: str) -> None:
    model = with_random_weights(onnx.load(LIGHT / f"light_{name}.onnx"))
    check(model, DIMS[name], plainly=True)
