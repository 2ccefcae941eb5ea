"""Judges that are more exact than onnxruntime as it comes: the same model with what it computes coarsely written out.

* onnxruntime's float32 Sigmoid is wrong by up to 1.2e-7 absolutely: of a result of 2e-6 that is 5 %, and 0 for inputs
  below -18. Written out as 1 / (1 + exp(-x)) it has the precision of its input.
* Products of uint8 activations with int8 weights saturate at 16 bits on processors without VNNI instructions. With the
  same weights as uint8 (both they and their zero points raised by 128) they are exact.
* Between QuantizeLinear and DequantizeLinear onnxruntime's optimiser puts integer kernels, which saturate in the same way
  and round elsewhere; a model with such pairs is run as it is written.
* In double precision ONNX's reference implementation takes what onnxruntime has no kernels for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, np.dtype[Any]]

# operator -> positions of its int8 weights and of their zero points
_WEIGHTS = {"MatMulInteger": ((1, 3),), "DynamicQuantizeLSTM": ((1, 9), (2, 11))}


def loaded(model: ModelProto | Path) -> ModelProto:
    """A copy of the model that may be changed."""
    return onnx.load(model) if isinstance(model, Path) else ModelProto.FromString(model.SerializeToString())


def run(model: ModelProto | Path, feeds: Mapping[str, Array], *, optimized: bool = True) -> dict[str, Any]:
    """onnxruntime's outputs by name; on one thread, which decides where it quantises ranges."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds))))


def judge(model: ModelProto | Path, feeds: Mapping[str, Array]) -> dict[str, Any]:
    """The outputs of onnxruntime without its coarse kernels."""
    exact = loaded(model)
    _write_out_sigmoids(exact.graph)
    _unsigned_weights(exact.graph)
    quantized = any(node.op_type == "QuantizeLinear" for node in exact.graph.node)
    return run(exact, feeds, optimized=not quantized)


def in_double(model: ModelProto | Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of ONNX's reference implementation with every float32 of the model as double."""
    wide = loaded(model)
    _widen(wide.graph)
    given = {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in feeds.items()}
    outputs = ReferenceEvaluator(wide).run(None, given)
    return {info.name: np.asarray(output) for info, output in zip(wide.graph.output, outputs)}


def _write_out_sigmoids(graph: GraphProto) -> None:
    nodes = []
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


def _unsigned_weights(graph: GraphProto) -> None:
    names = {
        node.input[position]
        for node in graph.node
        for pair in _WEIGHTS.get(node.op_type, ())
        for position in pair
        if position < len(node.input)
    }
    for tensor in graph.initializer:
        if tensor.name in names and tensor.data_type == TensorProto.INT8:
            raised = (numpy_helper.to_array(tensor).astype(np.int16) + 128).astype(np.uint8)
            tensor.CopyFrom(numpy_helper.from_array(raised, tensor.name))


def _widen(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for info in [*graph.input, *graph.output, *graph.value_info]:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _widen(attribute.g)
            elif attribute.HasField("t"):
                _widen_tensor(attribute.t)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), name))
