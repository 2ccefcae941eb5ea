"""The judge: runs a model on onnxruntime, or on ONNX's reference implementation if onnxruntime refuses.

onnxruntime is made more exact than it comes, by the same model with what it computes coarsely written out:
* its float32 Sigmoid is wrong by up to 1.2e-7 absolutely: of a result of 2e-6 that is 5 %, and 0 for inputs below -18.
  Written out as 1 / (1 + exp(-x)) it has the precision of its input.
* Products of uint8 activations with int8 weights saturate at 16 bits on processors without VNNI instructions. With the
  same weights as uint8 (both they and their zero points raised by 128) they are exact.
* Products with weights of 4 bits round their activations to 8 bits where ``accuracy_level`` allows it, and where the
  optimiser makes them of DequantizeLinear and MatMul. They are set to compute in FP32.
* A StringNormalizer asks for the locale en_US where it names none, which few containers have; C.UTF-8 changes the case
  of the same letters.
* Between QuantizeLinear and DequantizeLinear its optimiser puts integer kernels, which saturate in the same way and
  round elsewhere; a model with such pairs is run as it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model, uses_external_data
from onnx.reference import ReferenceEvaluator

from onnx_systemds.errors import TranspileError, escaped, quoted_list
from onnx_systemds.model.from_protobuf import implied_imports
from onnx_systemds.model.ir import Graph
from onnx_systemds.model.protos import numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

_NEVER_GIVEN = 99  # its activations are floats
_KNOWN_DOMAINS = frozenset(["", "ai.onnx", *implied_imports])
_FOLDER = "session.model_external_initializers_file_folder_path"
_FP32_PRODUCTS = ("session.qdq_matmulnbits_accuracy_level", "1")

# operator -> positions of the zero point of its activations, of its int8 weights and of their zero points
_WEIGHTS = {
    **dict.fromkeys(("MatMulInteger", "ConvInteger"), ((2, 1, 3),)),
    **dict.fromkeys(("QLinearMatMul", "QLinearConv"), ((2, 3, 5),)),
    "DynamicQuantizeLSTM": ((_NEVER_GIVEN, 1, 9), (_NEVER_GIVEN, 2, 11)),
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outputs of a judge. judge: its name. reasons: why others were not used."""

    judge: str
    outputs: Mapping[str, Any]
    reasons: tuple[str, ...] = ()


def judgement(
    model: ModelProto | Path, feeds: Mapping[str, Any], further: Sequence[str] = (), part: Graph | None = None
) -> Judgement:
    """Ask onnxruntime, where it is installed and accepts the model, else ONNX's reference implementation.

    further: names of values that are wanted beside the outputs. part: of the graph of the model; the rest of it is left
    out. Raises TranspileError when both refuse.
    """
    proto = loaded(model)
    if part is not None:
        _keep_part(proto.graph, part, feeds)
    have = {output.name for output in proto.graph.output}
    proto.graph.output.extend(ValueInfoProto(name=name) for name in further if name not in have)
    folder = model.parent if isinstance(model, Path) else None
    reasons: list[str] = []
    for written_out in (True, False):  # written out, models of another float type or of an old opset may be wrong
        try:
            import onnxruntime

            outputs = judge(proto, feeds, folder) if written_out else run(proto, feeds, folder=folder)
            return Judgement(f"onnxruntime {onnxruntime.__version__}", outputs)
        except Exception as error:  # its own classes have no common base
            reasons = [f"onnxruntime: {_first_line(error)}"]
    try:
        outputs = _by_reference(proto, feeds, folder)
    except Exception as error:  # operators in plain Python, which fail in every way
        reasons.append(f"the reference: {_first_line(error)}")
        raise TranspileError(
            "neither onnxruntime nor ONNX's reference implementation runs the model on these inputs:\n  "
            + "\n  ".join(reasons),
            hint=_advice(proto),
        ) from None
    return Judgement(f"ONNX's reference implementation {onnx.__version__}", outputs, tuple(reasons))


def _advice(model: ModelProto) -> str:
    """What to do where no judge runs a model."""
    functions = {(function.domain, function.name) for function in model.functions}
    unknown = sorted({
        f"{node.domain}.{node.op_type}" for node in model.graph.node
        if node.domain not in _KNOWN_DOMAINS and (node.domain, node.op_type) not in functions
    })
    if unknown:
        return f"they do not know {quoted_list(unknown)}: give its results, in a folder of ONNX test data, by --inputs"
    return "the inputs may be out of range: give others by --inputs, or sizes by --dim"


def _keep_part(graph: GraphProto, part: Graph, feeds: Mapping[str, Any]) -> None:
    """Leave what a part computes. Inputs that are none of the whole graph get the types of what is fed."""
    computed = {name for node in part.nodes for name in node.outputs if name}
    nodes = [_copy(node) for node in graph.node if computed.intersection(node.output)]
    declared = {info.name: _copy(info) for info in (*graph.input, *graph.output)}
    inputs = [info for info in graph.input if info.name in part.initializers]  # old models name their weights twice
    inputs = [_copy(info) for info in inputs] + [
        declared.get(given.name) or helper.make_tensor_value_info(
            given.name, helper.np_dtype_to_tensor_dtype(np.asarray(feeds[given.name]).dtype), None)
        for given in part.inputs
    ]
    outputs = [declared.get(info.name) or ValueInfoProto(name=info.name) for info in part.outputs]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    graph.output.extend(outputs)


def _copy(message: Any) -> Any:
    return type(message).FromString(message.SerializeToString())


def _first_line(error: Exception) -> str:
    return escaped(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}", 400)


def loaded(model: ModelProto | Path) -> ModelProto:
    """A copy of the model that may be changed; external data stays where it is."""
    if isinstance(model, Path):
        return onnx.load(model, load_external_data=False)
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def run(
    model: ModelProto | Path, feeds: Mapping[str, Any], *, optimized: bool = True, folder: Path | None = None
) -> dict[str, Any]:
    """onnxruntime's outputs by name; on one thread, which decides where it quantises ranges.

    folder: where the external data of a protobuf lies.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry(*_FP32_PRODUCTS)
    if folder is not None:
        options.add_session_config_entry(_FOLDER, str(folder))
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    given = session.get_outputs()
    return {info.name: _of_type(content, info.type) for info, content in zip(given, session.run(None, dict(feeds)))}


def _of_type(content: Any, declared: str) -> Any:
    """An output in its type: onnxruntime gives floats of 8 bits as their bytes."""
    code = declared.removeprefix("tensor(").removesuffix(")")
    return content.view(numpy_dtype(code)) if code.startswith("float8") else content


def judge(model: ModelProto | Path, feeds: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """The outputs of onnxruntime without its coarse kernels."""
    exact = loaded(model)
    _write_out_sigmoids(exact.graph)
    _full_accuracy(exact.graph)
    _unsigned_weights(exact.graph)
    _common_locale(exact.graph)
    quantized = any(node.op_type == "QuantizeLinear" for node in exact.graph.node)
    folder = model.parent if isinstance(model, Path) else folder
    return run(exact, feeds, optimized=not quantized, folder=folder)


def _by_reference(model: ModelProto, feeds: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    if folder is not None:
        load_external_data_for_model(model, str(folder))
    with np.errstate(all="ignore"):
        outputs = ReferenceEvaluator(model).run(None, dict(feeds))
    return {info.name: output for info, output in zip(model.graph.output, outputs)}


def _write_out_sigmoids(graph: GraphProto) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _write_out_sigmoids(attribute.g)
        nodes += _sigmoid(node.input[0], node.output[0]) if node.op_type == "Sigmoid" else [node]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _sigmoid(x: str, y: str) -> list[onnx.NodeProto]:
    one = numpy_helper.from_array(np.array(1, np.float32))
    return [
        helper.make_node("Neg", [x], [f"{y}/negative"]),
        helper.make_node("Exp", [f"{y}/negative"], [f"{y}/exp"]),
        helper.make_node("Constant", [], [f"{y}/one"], value=one),
        helper.make_node("Add", [f"{y}/exp", f"{y}/one"], [f"{y}/sum"]),
        helper.make_node("Reciprocal", [f"{y}/sum"], [y]),
    ]


def _full_accuracy(graph: GraphProto) -> None:
    """Take away what allows to compute less exactly than in the type of the activations."""
    for node in graph.node:
        for position, attribute in reversed(list(enumerate(node.attribute))):
            if attribute.HasField("g"):
                _full_accuracy(attribute.g)
            elif attribute.name == "accuracy_level":
                del node.attribute[position]


def _common_locale(graph: GraphProto) -> None:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _common_locale(attribute.g)
        if node.op_type == "StringNormalizer" and not any(given.name == "locale" for given in node.attribute):
            node.attribute.append(helper.make_attribute("locale", "C.UTF-8"))


def _unsigned_weights(graph: GraphProto) -> None:
    """Raise int8 weights beside uint8 activations, and their zero points, by 128; each node gets copies of its own."""
    tensors = {tensor.name: tensor for tensor in graph.initializer if not uses_external_data(tensor)}
    for node in graph.node:
        for activation, *positions in _WEIGHTS.get(node.op_type, ()):
            names = [node.input[place] if place < len(node.input) else "" for place in (activation, *positions)]
            beside, weights, zeros = (tensors.get(name) for name in names)
            absent = TensorProto(data_type=TensorProto.INT8, int32_data=[0])
            zeros = zeros if names[2] else absent
            if beside is not None and beside.data_type == TensorProto.INT8:
                continue  # int8 by int8 is exact
            if weights is None or zeros is None or {weights.data_type, zeros.data_type} != {TensorProto.INT8}:
                continue
            node.input.extend([""] * (max(positions) + 1 - len(node.input)))
            for place, tensor in zip(positions, (weights, zeros)):
                raised = (numpy_helper.to_array(tensor).astype(np.int16) + 128).astype(np.uint8)
                node.input[place] = f"{node.output[0]}/raised{place}"
                graph.initializer.append(numpy_helper.from_array(raised, node.input[place]))
