"""Single operators behind a maximum over rows whose number is open: sizes that the converter knows, and the engine does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.fuzz import operators
from tests.fuzz.drawing import Array
from tests.fuzz.judging import ModelCase

_OF_ONE_JUDGE = ("OneHot", "ReduceLogSumExp", "TreeEnsemble", "TreeEnsembleClassifier")
"""Operators of which a judge is wrong in cases that are told by the inputs of the node."""
_REDUCED = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)


def case(seed: int) -> ModelCase:
    """The case of an operator, called once."""
    made = operators.case(seed)
    if made.model.graph.node[0].op_type in _OF_ONE_JUDGE:
        return replace(made, calls=made.calls[:1])
    rng = np.random.default_rng(seed)
    model, feeds = ModelProto(), dict(made.calls[0])
    model.CopyFrom(made.model)
    nodes = []
    for info in model.graph.input:
        value = feeds[info.name]
        if not isinstance(value, np.ndarray) or not value.ndim or not value.size \
                or info.type.tensor_type.elem_type not in _REDUCED:
            continue
        inner = f"{info.name}_largest"
        for node in model.graph.node:
            node.input[:] = [inner if name == info.name else name for name in node.input]
        nodes.append(helper.make_node("ReduceMax", [info.name, "first_axis"], [inner], keepdims=0))
        info.CopyFrom(helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, ["rows", *value.shape]))
        feeds[info.name] = _below(value, int(rng.integers(1, 4)), rng)
    if not nodes:
        return replace(made, calls=made.calls[:1])
    model.graph.initializer.append(numpy_helper.from_array(np.array([0], np.int64), "first_axis"))
    others = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*nodes, *others])
    return replace(made, model=model, calls=(feeds,), specialise_after=20)


def _below(value: Array, count: int, rng: np.random.Generator) -> Array:
    """So many tensors whose maximum is a tensor: it is one of them, and all are the same where numbers are special."""
    others = [value - (rng.integers(0, 2, value.shape) * np.isfinite(value)).astype(value.dtype) for _ in range(count - 1)]
    with np.errstate(all="ignore"):
        is_below = [np.where(other <= value, other, value) for other in others]
    return np.stack([value, *is_below]).astype(value.dtype)
