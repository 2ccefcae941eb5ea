"""Models that declare less than ONNX asks for, as onnxruntime runs them; and declarations that contradict the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from onnx_systemds import backend, import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.model.load import load_model
from onnx_systemds.verifying.verify import verify_model

X = np.array([[-1.0, 0.5, 2.0], [3.0, -4.0, 0.25]], np.float32)
Change = Callable[[onnx.ModelProto], None]


def model_of(*nodes: onnx.NodeProto, opset: int = 17, ir_version: int = 8) -> onnx.ModelProto:
    """x [N, 3] and a condition c to y [N, 3]."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3]),
              helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    graph = helper.make_graph(list(nodes) or chain(), "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def chain() -> list[onnx.NodeProto]:
    return [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]


def contrib() -> onnx.NodeProto:
    return helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft", alpha=1.5)


def branches() -> onnx.ModelProto:
    parts = {f"{name}_branch": helper.make_graph([helper.make_node(op, ["x"], ["r"])], name, [], [ValueInfoProto(name="r")])
             for name, op in (("then", "Relu"), ("else", "Neg"))}
    return model_of(helper.make_node("If", ["c"], ["y"], **parts))


def loop_over_untyped_state() -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", ["s"], ["t"]), helper.make_node("Identity", ["go"], ["again"])]
    names = [[ValueInfoProto(name=name) for name in text.split()] for text in ("i go s", "again t")]
    model = model_of(helper.make_node("Loop", ["n", "", "x"], ["y"], body=helper.make_graph(nodes, "body", *names)))
    model.graph.initializer.append(numpy_helper.from_array(np.array(2), "n"))
    return model


def changed(change: Change, model: onnx.ModelProto | None = None) -> onnx.ModelProto:
    model = model_of() if model is None else model
    change(model)
    return model


def with_initializer(info: ValueInfoProto) -> Change:
    def add(model: onnx.ModelProto) -> None:
        model.graph.node[1].CopyFrom(helper.make_node("Sub", ["w", "h"], ["y"]))
        model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "w"))
        model.graph.input.append(info)

    return add


def no_types(model: onnx.ModelProto) -> None:
    model.graph.output[0].ClearField("type")


def scaler(model: onnx.ModelProto) -> None:
    model.graph.node[1].CopyFrom(helper.make_node("Scaler", ["h"], ["y"], domain="ai.onnx.ml", offset=[0.0], scale=[2.0]))


def with_output(name: str) -> Change:
    return lambda model: model.graph.output.append(ValueInfoProto(name=name))


def sequence(model: onnx.ModelProto) -> None:
    model.graph.node[1].CopyFrom(helper.make_node("SequenceConstruct", ["h", "x"], ["y"]))
    no_types(model)


RUN = {
    "output without type": changed(no_types),
    "output of an empty type": changed(lambda model: model.graph.output[0].type.Clear()),
    "output without shape": changed(lambda model: model.graph.output[0].type.tensor_type.ClearField("shape")),
    "output of the wrong size": changed(
        lambda model: model.graph.output[0].type.tensor_type.shape.dim[1].MergeFrom(helper.make_tensor_value_info(
            "y", 1, [5]).type.tensor_type.shape.dim[0])
    ),
    "outputs of branches without types": changed(no_types, branches()),
    "list without type": changed(sequence),
    "input that is an output": changed(with_output("x")),
    "inner value without type": changed(lambda model: model.graph.value_info.append(ValueInfoProto(name="h"))),
    "nobody's value": changed(lambda model: model.graph.value_info.append(
        helper.make_tensor_value_info("ghost", TensorProto.INT64, [7]))),
    "initializer among the inputs without type": changed(with_initializer(ValueInfoProto(name="w"))),
    "onnxruntime's domain is not imported": model_of(contrib()),
    "ai.onnx.ml is not imported": changed(scaler),
    "imported twice": changed(lambda model: model.opset_import.append(helper.make_opsetid("ai.onnx", 17))),
    "imports in an IR version that had none": model_of(ir_version=1),
    "IR version 0": model_of(ir_version=0),
}


@pytest.mark.parametrize("model", RUN.values(), ids=RUN)
def test_what_onnxruntime_runs(model: onnx.ModelProto) -> None:
    inputs = {"x": X, "c": np.array(False)}
    data = model.SerializeToString()
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, inputs)
    found = backend.run_model(model, inputs)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_types_of_the_inputs_of_bodies_are_found_out() -> None:
    found = backend.run_model(loop_over_untyped_state(), {"x": X, "c": np.array(False)})
    np.testing.assert_array_equal(found[0], np.maximum(X, 0))


def test_implied_imports_are_told() -> None:
    assert load_model(model_of(contrib())).opset_imports == {"": 17, "com.microsoft": 1}
    assert "opset ai.onnx 17, com.microsoft 1" in import_model(model_of(contrib())).text
    assert load_model(model_of()).opset_imports == {"": 17}


def output_of(dtype: int) -> Change:
    def declare(model: onnx.ModelProto) -> None:
        model.graph.output[0].type.tensor_type.elem_type = dtype

    return declare


def declared_tensor(model: onnx.ModelProto) -> None:
    model.graph.node[1].CopyFrom(helper.make_node("SequenceConstruct", ["h"], ["y"]))


def input_without_type(model: onnx.ModelProto) -> None:
    model.graph.input[0].ClearField("type")


def unknown_input_type(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 0


def sparse_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.CopyFrom(helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, ["n", 3]))


def complex_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.COMPLEX64
    model.graph.node[1].CopyFrom(helper.make_node("Identity", ["x"], ["y"]))
    no_types(model)


def with_complex(operator: str, *inputs: str) -> Change:
    """y of a complex constant i, and of t, its size in a batch."""
    def change(model: onnx.ModelProto) -> None:
        model.graph.node[1].CopyFrom(helper.make_node(operator, inputs, ["y"], "culprit"))
        model.graph.node.insert(0, helper.make_node("Shape", ["x"], ["t"]))
        model.graph.initializer.append(numpy_helper.from_array(np.array([1j, 2, 3], np.complex64), "i"))
        no_types(model)

    return change


def no_imports(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


def other_imports(model: onnx.ModelProto) -> None:
    model.opset_import[0].domain = "ai.onnx.ml"
    model.opset_import[0].version = 3


REFUSED: list[tuple[str, onnx.ModelProto, list[str]]] = [
    ("output of another type", changed(output_of(TensorProto.INT64)), ['"y"', "declared as int64", "compute float"]),
    ("list as tensor", changed(declared_tensor), ['"y"', "declared as float", "compute a list"]),
    ("input without type", changed(input_without_type), ['"x"', "no type"]),
    ("input of undefined type", changed(unknown_input_type), ['"x"', "no type"]),
    ("sparse input", changed(sparse_input), ['"x"', "sparse tensor"]),
    ("complex input", changed(complex_input), ['input "x" is complex']),
    ("complex constant", changed(with_complex("Expand", "i", "t")), ['"culprit"', "result is complex"]),
    ("complex sequence", changed(with_complex("SequenceConstruct", "i", "i")), ['"culprit"', "result is complex"]),
    ("complex output", changed(with_output("i"), changed(with_complex("Relu", "x"))), ['output "i" is complex']),
    ("no imports", changed(no_imports), ["no opset import", '"ai.onnx"']),
    ("ai.onnx not among the imports", changed(other_imports), ["no opset import", '"ai.onnx"']),
    (
        "two versions",
        changed(lambda model: model.opset_import.append(helper.make_opsetid("ai.onnx", 13))),
        ["two opset versions", '"ai.onnx"'],
    ),
    (
        "unknown domain",
        model_of(helper.make_node("Relu", ["x"], ["y"], domain="my.own")),
        ["no opset import", '"my.own"'],
    ),
    (
        "version of another domain that is none",
        changed(lambda model: model.opset_import.append(helper.make_opsetid("ai.onnx.preview", 2**63 - 1))),
        ["opset version 9223372036854775807"],
    ),
    ("IR version missing", changed(lambda model: model.ClearField("ir_version")), ["ir_version"]),
]


@pytest.mark.parametrize(("model", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_meant_in_one_way(model: onnx.ModelProto, words: list[str]) -> None:
    with pytest.raises(TranspileError) as caught:
        import_model(model)
    for word in words:
        assert word in str(caught.value)


def test_verify_names_what_the_conversion_refuses() -> None:
    with pytest.raises(TranspileError, match='input "x" is a sparse tensor'):
        verify_model(changed(sparse_input))


def test_inputs_without_type_can_be_given_one() -> None:
    types: dict[str, Any] = {"x": load_model(model_of()).graph.inputs[0].type}
    script = import_model(changed(input_without_type), types=types)
    assert script.inputs[0].dtype == "float"
