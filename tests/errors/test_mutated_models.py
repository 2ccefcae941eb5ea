"""Models with one thing changed that makes no sense: each is refused in words that name the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.errors import InternalError, MultipleErrors, TranspileError

Dims = list[Any]


def model_of(
    node: onnx.NodeProto, opset: int = 18, *, constants: dict[str, Any] | None = None, domain: str = "", **inputs: tuple[str, Dims]
) -> onnx.ModelProto:
    """A model of one node; its outputs are those of the graph. Inputs are name -> (element type, dims)."""
    infos = [helper.make_tensor_value_info(name, TensorProto.DataType.Value(kind.upper()), dims)
             for name, (kind, dims) in inputs.items()]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "g", infos, outputs, initializers)
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    """A node; "-" is an input that is left out."""
    return helper.make_node(op, [name.replace("-", "") for name in inputs.split()], outputs.split(), **attributes)


def loop_body(inputs: int, outputs: int) -> onnx.GraphProto:
    infos = [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
             *(helper.make_tensor_value_info(f"s{i}", TensorProto.FLOAT, [2]) for i in range(inputs))]
    results = infos[1:][:outputs]
    nodes = [helper.make_node("Identity", [info.name], [f"{info.name}_out"]) for info in results]
    named = [onnx.ValueInfoProto(name=f"{info.name}_out") for info in results]
    return helper.make_graph(nodes, "body", infos, named)


def no_outputs() -> onnx.ModelProto:
    model = model_of(node("Relu", "x"), x=("float", [2]))
    del model.graph.output[:]
    return model


def reference_outside_of_functions() -> onnx.ModelProto:
    model = model_of(node("Selu", "x", alpha=1.0), x=("float", [2]))
    model.graph.node[0].attribute[0].ref_attr_name = "alpha"
    return model


IMAGE: tuple[str, Dims] = ("float", [1, 1, 4, 4])
HUGE = np.array([2**40, 2**40])
REFUSED: list[tuple[str, Callable[[], onnx.ModelProto], list[str]]] = [
    ("no outputs", no_outputs, ["no outputs"]),
    ("required input left out", lambda: model_of(node("Add", "- x"), x=("float", [2])), ["input 0", "Add"]),
    ("one of many left out", lambda: model_of(node("Max", "x -"), x=("float", [2])), ["input 1", "required"]),
    ("input of onnxruntime's left out",
     lambda: model_of(helper.make_node("BiasGelu", ["x", ""], ["y"], domain="com.microsoft"), domain="com.microsoft", x=("float", [2, 2])),
     ["is required"]),
    ("reference", reference_outside_of_functions, ['"alpha"', "function"]),
    ("rank of a convolution", lambda: model_of(node("ConvTranspose", "x z"), x=("float", [2]), z=("float", [2])), ["ConvTranspose"]),
    ("channels of a transposed convolution",
     lambda: model_of(node("ConvTranspose", "x z"), x=("float", [1, 3, 4, 4]), z=("float", [2, 3, 2, 2])), ["ConvTranspose"]),
    ("bias of a transposed convolution",
     lambda: model_of(node("ConvTranspose", "x z b"), x=("float", [1, 2, 4, "n"]), z=("float", [2, 1, 2, 2]), b=("float", [3])),
     ["ConvTranspose", "number of filters"]),
    ("Resize to nothing", lambda: model_of(node("Resize", "x - -"), x=IMAGE), ["neither scales nor sizes"]),
    ("Resize to fewer axes", lambda: model_of(node("Resize", "x - s"), constants={"s": np.ones(3, np.float32)}, x=IMAGE),
     ["3 scales or sizes for 4 axes"]),
    ("Resize to more sizes", lambda: model_of(node("Resize", "x - - s"), constants={"s": np.arange(1, 6)}, x=IMAGE),
     ["5 scales or sizes for 4 axes"]),
    ("Range of no number", lambda: model_of(node("Range", "a b b"), constants={"a": np.zeros(0), "b": 5.0}), ["no single number"]),
    ("Range of two numbers", lambda: model_of(node("Range", "a b b"), constants={"a": np.zeros(2), "b": 5.0}), ["no single number"]),
    ("Reshape to fewer than no places", lambda: model_of(node("Reshape", "x s"), constants={"s": [-4, -1]}, x=("float", ["n", 4])),
     ["-4 places"]),
    ("boxes", lambda: model_of(node("NonMaxSuppression", "x z"), x=("float", [1, 2, 3, 4]), z=("float", [1, 1, 3])), ["three axes"]),
    ("ranks of GatherElements", lambda: model_of(node("GatherElements", "x z"), x=("float", [3, 3]), z=("int64", [3])), ["rank 1"]),
    ("Loop without outputs", lambda: model_of(node("Loop", "n - x", "y", body=loop_body(1, 0)), n=("int64", []), x=("float", [2])),
     ["body gives"]),
    ("Loop with few outputs", lambda: model_of(node("Loop", "n - x", "y", body=loop_body(1, 1)), n=("int64", []), x=("float", [2])),
     ["body gives"]),
    ("Loop with other inputs", lambda: model_of(node("Loop", "n - x", "y", body=loop_body(2, 3)), n=("int64", []), x=("float", [2])),
     ["takes 4 values", "hands 3"]),
    ("more elements than can be counted",
     lambda: model_of(node("ConstantOfShape", "s"), constants={"s": HUGE}), ["elements|64 bits"]),
    ("rank of weights", lambda: model_of(node("GRU", "x z z", hidden_size=4), x=("float", [2, 3, 4]), z=("float", [2, 3])),
     ["weights of rank 2"]),
    ("Slice of a scalar", lambda: model_of(node("Slice", "x a a"), x=("float", []), a=("int64", [1])), ["a scalar has no axis"]),
    ("Slice with fewer ends", lambda: model_of(node("Slice", "x a b"), constants={"a": [0, 1], "b": [2]}, x=("float", [4, 4])),
     ["2 starts and 1 ends"]),
    ("Slice with more axes", lambda: model_of(node("Slice", "x a a b"), constants={"a": [1], "b": [0, 1]}, x=("float", [4, 4])),
     ["1 starts and 2 ends, axes or steps"]),
    ("Slice 1 with fewer ends", lambda: model_of(node("Slice", "x", starts=[0, 1], ends=[2]), 9, x=("float", [4, 4])), ["2 starts"]),
    ("definition that ONNX leaves open",
     lambda: model_of(node("CausalConvWithState", "x z", "y p", activation="none such"), 28, x=("float", [1, 2, 3]), z=("float", [2, 1, 2])),
     ["no whole definition"]),
    ("Cast to nothing", lambda: model_of(node("Cast", "a", to=0), constants={"a": np.ones(2)}), ["Cast"]),
]


def refusal_of(model: onnx.ModelProto) -> str:
    with pytest.raises(TranspileError) as caught:
        import_model(model)
    reasons = caught.value.reasons if isinstance(caught.value, MultipleErrors) else (caught.value,)
    assert not any(isinstance(reason, InternalError) for reason in reasons)
    return str(caught.value)


@pytest.mark.parametrize(("build", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(build: Callable[[], onnx.ModelProto], words: list[str]) -> None:
    message = refusal_of(build())
    for word in words:
        assert any(part in message for part in word.split("|")), message


def test_a_stride_over_a_huge_axis_is_not_written_out() -> None:
    constants = {"a": np.array([0]), "b": np.array([2**31 - 1]), "c": np.array([0]), "d": np.array([3])}
    model = model_of(node("Slice", "x a b c d"), constants=constants, x=("float", [2**31 - 1]))
    assert len(import_model(model).text) < 5000
