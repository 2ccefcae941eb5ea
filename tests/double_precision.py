"""Models in double precision: what ONNX's reference implementation makes of them, where onnxruntime has no kernels.

Its Erf is of FP32 even then, and its Gelu adds 1 to that, which leaves nothing of small results: both are written here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from onnx_systemds.verifying.judging import Array, loaded

_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def in_double(
    model: ModelProto | Path, feeds: Mapping[str, Array], further: Sequence[type[OpRun]] = ()
) -> dict[str, Array]:
    """The outputs of ONNX's reference implementation with every narrower float of the model as double.

    further: operators that it has not.
    """
    wide, given = in_double_type(model, feeds)
    outputs = ReferenceEvaluator(wide, new_ops=[Erf, Gelu, *further]).run(None, given)
    return {info.name: np.asarray(output) for info, output in zip(wide.graph.output, outputs)}


def in_double_type(model: ModelProto | Path, feeds: Mapping[str, Any]) -> tuple[ModelProto, dict[str, Any]]:
    """A copy of the model, and of its inputs, with double for every narrower float."""
    wide = loaded(model)
    _widen(wide.graph)
    return wide, {name: array.astype(np.float64) if _is_narrow(array) else array for name, array in feeds.items()}


class Erf(OpRun):
    """The error function in double."""

    def _run(self, x: Array) -> tuple[Array]:
        return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)


class Gelu(OpRun):
    """x times the probability that a normal number is below x, or its approximation, in double."""

    def _run(self, x: Array, approximate: str = "none") -> tuple[Array]:
        if approximate == "tanh":
            with np.errstate(over="ignore"):
                below = 1 / (1 + np.exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)))
        else:
            below = np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2)) / 2
        return (np.asarray(x * below).astype(x.dtype),)


def _is_narrow(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype in (np.float32, np.float16, ml_dtypes.bfloat16)


def _widen(graph: GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for info in [*graph.input, *graph.output, *graph.value_info]:
        if info.type.tensor_type.elem_type in _NARROW:
            info.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _widen(attribute.g)
            elif attribute.HasField("t"):
                _widen_tensor(attribute.t)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i in _NARROW:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in _NARROW:
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), name))
