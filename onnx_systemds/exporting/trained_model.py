"""A model with weights that a program trained: its own graph, with other numbers in its initializers."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from onnx_systemds.engine.matrix_files import list_key, read_matrix
from onnx_systemds.errors import InvalidModel, TranspileError, quoted
from onnx_systemds.exporting.external_data import SMALLEST, ExternalData
from onnx_systemds.exporting.graph.nodes import Array
from onnx_systemds.exporting.model_files import beside_stream, check_model_name, data_path, write_model
from onnx_systemds.files import is_stream
from onnx_systemds.importing.script import Script
from onnx_systemds.importing.weights_mark import with_mark

_MEAN = 3
"""The input of a BatchNormalization."""


def trained_model(source: str | Path | onnx.ModelProto, script: Script, weights: str | Path) -> onnx.ModelProto:
    """The model with the weights in the folder ``weights``, which a program with the functions of ``script`` trained.

    source: what the script was made of, ``import_model(source, gradients=...)``. Weights are rounded to the types that
    they have in the model. It infers, as the script's main function does: Dropouts drop nothing, batch normalizations
    take the statistics that training moved. Raises InvalidModel where the script has no weights to train,
    TranspileError where the folder is of another one, OSError.
    """
    if script.derivatives is None or not script.derivatives.weights:
        raise InvalidModel("the script has no weights to train", hint="convert the model with --gradient weights")
    if not is_of_script(weights, script):
        raise TranspileError("these are no weights of this model as it is converted", Path(weights),
                             "give the same options, such as --gradient and --dim, as at the conversion")
    changed = copy.deepcopy(source) if isinstance(source, onnx.ModelProto) else onnx.load(source)
    tensors = {tensor.name: tensor for tensor in changed.graph.initializer}
    files = {weight.name: f"{place}_{list_key(weight.name)}" for place, weight in enumerate(script.weights)}
    for key, name in {**script.derivatives.weights, **script.derivatives.statistics}.items():
        if name not in tensors:
            raise InvalidModel(f"{quoted(name)} is no initializer of the model", hint="it was given at conversion")
        tensors[name].CopyFrom(_tensor(tensors[name], read_matrix(Path(weights) / "weights" / files[key])))
    _stop_dropping(changed)
    _stop_moving(changed, script.derivatives.statistics.values())
    return changed


def _stop_dropping(model: onnx.ModelProto) -> None:
    """Take the mode from Dropouts that train: an input (since opset 12; one that the run decides stays), or is_test."""
    weights = {tensor.name for tensor in model.graph.initializer}
    for nodes, opset in ((model.graph.node, _opset(model)), *((each.node, _opset(each)) for each in model.functions)):
        known = weights.union(*(node.output for node in nodes if node.op_type == "Constant"))
        for node in nodes:
            if node.op_type == "Dropout" and not node.domain and len(node.input) == 3 and node.input[2] in known:
                del node.input[2]
            elif node.op_type == "Dropout" and not node.domain and opset < 7:
                _infer(node, opset)


def _stop_moving(model: onnx.ModelProto, statistics: Collection[str]) -> None:
    """Take the mode from BatchNormalizations that move these statistics: an attribute, or further outputs before."""
    for node in model.graph.node:
        if node.op_type == "BatchNormalization" and not node.domain and node.input[_MEAN] in statistics:
            del node.output[1:]
            _infer(node, _opset(model))


def _opset(owner: onnx.ModelProto | onnx.FunctionProto) -> int:
    return max((int(it.version) for it in owner.opset_import if it.domain in ("", "ai.onnx")), default=0)


def _infer(node: onnx.NodeProto, opset: int) -> None:
    kept = [each for each in node.attribute if each.name not in ("training_mode", "is_test")]
    del node.attribute[:]
    node.attribute.extend([*kept, *([helper.make_attribute("is_test", 1)] if opset < 7 else [])])


def is_of_script(weights: str | Path, script: Script) -> bool:
    """Whether a folder has a list of weights of this script. Raises TranspileError, OSError."""
    mark = with_mark(script.weights)[-1]
    if not Path(weights).is_dir():
        raise TranspileError("it is no folder" if Path(weights).exists() else "there is no such folder", Path(weights))
    file = Path(weights) / "weights" / f"{len(script.weights)}_{list_key(mark.name)}"
    return file.exists() and np.array_equal(read_matrix(file), mark.array)


def _tensor(own: onnx.TensorProto, content: Array) -> onnx.TensorProto:
    """The tensor of an initializer with other numbers. Raises TranspileError where they are beyond its type."""
    dtype = helper.tensor_dtype_to_np_dtype(own.data_type)
    with np.errstate(over="ignore"):
        array = content.reshape(tuple(own.dims)).astype(dtype)
    if not np.isfinite(array.astype(np.float64)).all():
        raise TranspileError(f"trained numbers of {quoted(own.name)} are none of its type, {dtype}")
    return helper.make_tensor(own.name, own.data_type, own.dims, np.ascontiguousarray(array).tobytes(), raw=True)


def files_of(path: Path, *, is_external: bool) -> list[Path]:
    """The files that `save_trained` writes.

    Raises TranspileError where one would have the name of a script, or stand beside a stream.
    """
    check_model_name(path)
    if is_external and is_stream(path):
        raise beside_stream(path)
    return [path, *([data_path(path)] if is_external else [])]


def save_trained(model: onnx.ModelProto, path: Path, *, is_external: bool) -> None:
    """Write a model, whose large initializers leave it for a file beside it where they are external.

    All or nothing. Raises TranspileError, OSError.
    """
    external = ExternalData(data_path(path).name)
    for tensor in model.graph.initializer:
        size = len(tensor.raw_data)
        if is_external and size >= SMALLEST:
            content = np.frombuffer(tensor.raw_data, helper.tensor_dtype_to_np_dtype(tensor.data_type))
            tensor.ClearField("raw_data")
            external.take(tensor, content, size)
    write_model(model, path, external)
