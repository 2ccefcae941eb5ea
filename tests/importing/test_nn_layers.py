"""Scripts in the style of SystemDS's ``nn/layers``: which layers they call, and that the numbers stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnx_systemds import InputSpec, export_script, import_model
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import results_of_all_forms
from tests.operators.harness import Array, random, run_reference
from tests.plain_engine import scored_together


@dataclass(frozen=True)
class Case:
    """Nodes from ``x`` of these dims (a name: an open size) to ``y``, and the layers that they call."""

    nodes: Sequence[NodeProto]
    dims: Sequence[int | str]
    layers: Sequence[str]
    constants: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 17
    outputs: Sequence[str] = ("y",)

    def model(self) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.dims)]
        results = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        initializers = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "case", infos, results, initializers)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(made)

    def x(self) -> Array:
        return random(*(3 if isinstance(size, str) else size for size in self.dims), seed=1)


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op_type, inputs.split(), output.split(), **attributes)


def conv(dims: Sequence[int], *, bias: bool = True, **attributes: Any) -> tuple[NodeProto, dict[str, Array]]:
    constants = {"W": random(*dims, seed=2)} | ({"b": random(dims[0], seed=3)} if bias else {})
    return node("Conv", "x W b" if bias else "x W", **attributes), constants


W, B = random(5, 4, seed=2), random(4, seed=3)
BN = {"g": random(3, seed=2), "b": random(3, seed=3), "m": random(3, seed=4), "v": abs(random(3, seed=5)) + 0.5}
LSTM = {"W": random(1, 16, 5, seed=2), "R": random(1, 16, 4, seed=3), "B": random(1, 32, seed=4)}
STATES = {"h": random(1, 3, 4, seed=5), "c": random(1, 3, 4, seed=6)}
CONV, CONV_WEIGHTS = conv((4, 3, 3, 2), strides=[2, 1], pads=[1, 0, 1, 0])
BARE, BARE_WEIGHTS = conv((4, 3, 3, 3), bias=False)
IMAGES = ("n", 3, 6, 5)

CASES = {
    "Gemm": Case([node("Gemm", "x W b")], ("n", 5), ["affine"], {"W": W, "b": B}),
    "Gemm of a transposed weight without a bias": Case([node("Gemm", "x W", transB=1)], ("n", 5), ["affine"], {"W": W.T}),
    "Gemm with factors": Case([node("Gemm", "x W b", alpha=2.0)], ("n", 5), [], {"W": W, "b": B}),
    "Gemm with a bias per row": Case([node("Gemm", "x W b")], (2, 5), [], {"W": W, "b": random(2, 1)}),
    "Gemm of a transposed input": Case([node("Gemm", "x W b", transA=1)], (5, 2), [], {"W": W, "b": B}),
    "MatMul, Add": Case([node("MatMul", "x W", "p"), node("Add", "b p")], ("n", 5), ["affine"], {"W": W, "b": B}),
    "MatMul, Add of sequences": Case([node("MatMul", "x W", "p"), node("Add", "p b")], ("n", "t", 5), ["affine"],
                                     {"W": W, "b": B}),
    "MatMul, Add of one number": Case([node("MatMul", "x W", "p"), node("Add", "p b")], ("n", 5), [], {"W": W, "b": B[:1]}),
    "MatMul, used twice": Case([node("MatMul", "x W", "p"), node("Add", "p b", "q"), node("Mul", "p q")], ("n", 5),
                               ["affine"], {"W": W, "b": B}),
    "MatMul alone": Case([node("MatMul", "x W")], ("n", 5), [], {"W": W}),
    "Relu": Case([node("Relu", "x")], ("n", 5), ["relu"]),
    "Sigmoid": Case([node("Sigmoid", "x")], IMAGES, ["sigmoid"]),
    "Tanh": Case([node("Tanh", "x")], ("n", 5), ["tanh"]),
    "LeakyRelu": Case([node("LeakyRelu", "x")], ("n", 5), ["leaky_relu"]),
    "LeakyRelu of another slope": Case([node("LeakyRelu", "x", alpha=0.02)], ("n", 5), []),
    "Gelu by tanh": Case([node("Gelu", "x", approximate="tanh")], ("n", 5), ["gelu"], opset=20),
    "Gelu": Case([node("Gelu", "x")], ("n", 5), [], opset=20),
    "Relu of one number": Case([node("Relu", "x")], (1,), []),
    "Softmax": Case([node("Softmax", "x", axis=-1)], ("n", 2, 5), ["softmax"]),
    "Softmax of two axes": Case([node("Softmax", "x", axis=1)], ("n", 2, 5), ["softmax"], opset=11),
    "Softmax along the first axis": Case([node("Softmax", "x", axis=0)], ("n", 5), []),
    "Conv": Case([CONV], IMAGES, ["conv2d_builtin"], CONV_WEIGHTS),
    "Conv without a bias": Case([BARE], ("n", 3, "h", 5), ["conv2d_builtin"], BARE_WEIGHTS),
    "Conv, Relu, MaxPool": Case([node("Conv", "x W", "a"), node("Relu", "a", "r"),
                                 node("MaxPool", "r", kernel_shape=[2, 2], strides=[2, 2])], IMAGES,
                                ["conv2d_builtin", "max_pool2d_builtin", "relu"], BARE_WEIGHTS),
    "Conv, BatchNormalization": Case([node("Conv", "x W", "a"), node("BatchNormalization", "a g b m v")], IMAGES,
                                     ["batch_norm2d", "conv2d_builtin"], {"W": random(3, 3, 2, 2, seed=9), **BN}),
    "Conv in groups": Case([node("Conv", "x W", group=3)], IMAGES, [], {"W": random(3, 1, 2, 2)}),
    "Conv with holes": Case([node("Conv", "x W", dilations=[2, 2])], IMAGES, [], {"W": random(2, 3, 2, 2)}),
    "Conv with uneven padding": Case([node("Conv", "x W", pads=[1, 0, 0, 0])], IMAGES, [], {"W": random(2, 3, 2, 2)}),
    "Conv of one axis": Case([node("Conv", "x W")], ("n", 3, 6), [], {"W": random(2, 3, 2)}),
    "ConvTranspose": Case([node("ConvTranspose", "x W b", strides=[2, 1], pads=[1, 1, 1, 1], output_padding=[1, 0])], IMAGES,
                          ["conv2d_transpose"], {"W": random(3, 2, 3, 3), "b": random(2, seed=3)}),
    "ConvTranspose without a bias": Case([node("ConvTranspose", "x W", strides=[2, 2])], ("n", 3, "h", 4),
                                         ["conv2d_transpose"], {"W": random(3, 2, 2, 2)}),
    "ConvTranspose with uneven padding": Case([node("ConvTranspose", "x W", pads=[0, 0, 1, 0])], IMAGES, [],
                                              {"W": random(3, 2, 3, 3)}),
    "ConvTranspose in groups": Case([node("ConvTranspose", "x W", group=3)], IMAGES, [], {"W": random(3, 1, 2, 2)}),
    "MaxPool with padding": Case([node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1])], IMAGES,
                                 ["max_pool2d_builtin"]),
    "MaxPool that rounds up": Case([node("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)], IMAGES, []),
    "MaxPool with places": Case([node("MaxPool", "x", "y places", kernel_shape=[2, 2])], IMAGES, [],
                                outputs=("y", "places")),
    "AveragePool": Case([node("AveragePool", "x", kernel_shape=[2, 3])], IMAGES, ["avg_pool2d_builtin"]),
    "AveragePool that counts padding": Case([node("AveragePool", "x", kernel_shape=[3, 3], pads=[1] * 4,
                                                  count_include_pad=1)], IMAGES, ["avg_pool2d_builtin"]),
    "AveragePool that does not": Case([node("AveragePool", "x", kernel_shape=[3, 3], pads=[1] * 4)], IMAGES, []),
    "GlobalAveragePool": Case([node("GlobalAveragePool", "x")], IMAGES, ["global_avg_pool2d"]),
    "GlobalAveragePool of one axis": Case([node("GlobalAveragePool", "x")], ("n", 3, 6), []),
    "BatchNormalization": Case([node("BatchNormalization", "x g b m v", epsilon=1e-3)], IMAGES, ["batch_norm2d"], BN),
    "BatchNormalization of rows": Case([node("BatchNormalization", "x g b m v")], ("n", 3), ["batch_norm1d"], BN),
    "BatchNormalization of means 0": Case([node("BatchNormalization", "x g b m v")], IMAGES, [],
                                          {**BN, "m": np.zeros(3, np.float32)}),
    "BatchNormalization of shifts 0": Case([node("BatchNormalization", "x g b m v")], IMAGES, ["batch_norm2d"],
                                           {**BN, "b": np.zeros(3, np.float32)}),
    "BatchNormalization of factors 0": Case([node("BatchNormalization", "x g b m v")], IMAGES, ["batch_norm2d"],
                                            {**BN, "g": np.zeros(3, np.float32)}),
    "BatchNormalization of sparse images": Case(
        [node("Relu", "x", "r"), node("Sub", "r one", "s"), node("Relu", "s", "t"), node("BatchNormalization", "t g b m v")],
        IMAGES, ["batch_norm2d", "relu"], {**BN, "one": np.float32([1.5])}),
    "BatchNormalization of sequences": Case([node("BatchNormalization", "x g b m v")], ("n", 3, 4), [], BN),
    "LSTM": Case([node("LSTM", "x W R B", "y h c", hidden_size=4)], (2, "n", 5), ["lstm"], LSTM, outputs=("y", "h", "c")),
    "LSTM, last state": Case([node("LSTM", "x W R", " y", hidden_size=4)], (2, "n", 5), ["lstm"], LSTM),
    "LSTM with states, from a Transpose": Case(
        [node("Transpose", "x", "s", perm=[1, 0, 2]), node("LSTM", "s W R B", "y", hidden_size=4)], ("n", 2, 5), ["lstm"],
        LSTM),
    "LSTM with a start": Case([helper.make_node("LSTM", ["x", "W", "R", "B", "", "h", "c"], ["y"], hidden_size=4)],
                              (2, 3, 5), ["lstm"], {**LSTM, **STATES}),
    "LSTM backwards": Case([node("LSTM", "x W R B", hidden_size=4, direction="reverse")], (2, "n", 5), [], LSTM),
    "LSTM of other activations": Case([node("LSTM", "x W R B", hidden_size=4, activations=["Sigmoid", "Relu", "Tanh"])],
                                      (2, "n", 5), [], LSTM),
}
CASES["LSTM, last state"].nodes[0].output[:] = ["", "y"]



@pytest.mark.parametrize("name", CASES)
def test_layers(name: str) -> None:
    """Each form that is specialised keeps the numbers, too; without the style there are no layers."""
    case = CASES[name]
    model, inputs = case.model(), {"x": case.x()}
    script = import_model(model, style="nn")
    assert [source.namespace for source in script.sources] == case.layers
    assert [layer for layer in case.layers if f"{layer}::forward(" not in script.text] == []
    assert "::forward" not in import_model(model).text
    with ScoringFunction(script) as function:
        for results in results_of_all_forms(function, inputs):
            compare(results, case)


def test_command_line() -> None:
    """All scripts in one program, with inputs of sizes that are not known when the engine compiles."""
    scripts = {name: (import_model(case.model(), style="nn"), [{"x": case.x()}] * 2) for name, case in CASES.items()}
    for name, calls in scored_together(scripts, open_sizes=True).items():
        for results in calls:
            compare(results, CASES[name])


def compare(results: Mapping[str, Array], case: Case) -> None:
    for name, expected in zip(case.outputs, run_reference(case.model(), {"x": case.x()}), strict=True):
        np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-5)


def test_all_weights_are_in_the_list() -> None:
    """However short, for training on; as they were trained where passes would change them."""
    model = CASES["Conv, BatchNormalization"].model()
    weights = {weight.name: weight.array for weight in import_model(model, style="nn").weights}
    assert sorted(weights) == ["W", "b", "g", "m", "v"]
    np.testing.assert_array_equal(weights["g"].ravel(), BN["g"])
    assert import_model(model, style="nn", weights="inline").weights == ()


def test_means_that_batches_will_move_are_no_layer_before() -> None:
    """The layer ends the run where all of them are 0, as those of a new network are."""
    case = CASES["BatchNormalization of means 0"]
    model = case.model()
    node = next(each for each in model.graph.node if each.op_type == "BatchNormalization")
    node.attribute.append(helper.make_attribute("training_mode", 1))
    node.output.extend(["new_m", "new_v"])
    script = import_model(model, style="nn", gradients=["weights"])
    assert script.derivatives is not None and script.derivatives.statistics and "batch_norm2d" not in script.text


def test_there_and_back() -> None:
    """The script of a network of layers becomes a model of the same operators again."""
    case = CASES["Conv, Relu, MaxPool"]
    script = import_model(case.model(), style="nn", weights="inline")
    back = export_script(script.text, function=script.function, inputs={"x": InputSpec("double", ["n", 90])})
    assert [node.op_type for node in back.graph.node if node.op_type in ("Conv", "Relu", "MaxPool")] == ["Conv", "Relu",
                                                                                                         "MaxPool"]


def test_errors_in_a_layer_are_of_the_node_that_calls_it() -> None:
    """The engine says lines of the layer's file, too."""
    script = import_model(CASES["BatchNormalization"].model(), style="nn")
    with ScoringFunction(script) as function, pytest.raises(ScriptRuntimeError) as raised:
        function({"x": np.zeros((2, 3, 6, 5), np.float32)})
    assert raised.value.node is not None and raised.value.node.place.op == "BatchNormalization"
    assert "batch_norm2d::forward(x, " in raised.value.node.statement


def test_no_other_style() -> None:
    with pytest.raises(ValueError, match="style is one of plain, nn, not 'tf'"):
        import_model(CASES["Relu"].model(), style="tf")
