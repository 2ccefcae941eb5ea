"""What a judge says where floats that were computed are a little larger or smaller before they become integers.

FP32 and FP64 round a computed 3 to either side of it, or to 3: nothing says which integer a Cast makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnx_systemds.verifying.judging import run

_INTEGERS = frozenset({TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8,
                       TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64})
_ROUNDING = {TensorProto.FLOAT: 1e-6, TensorProto.DOUBLE: 1e-12, TensorProto.FLOAT16: 2e-3}
"""By how much, as a part of it, a computed number of a type may be off."""


def within_rounding(model: ModelProto, feeds: Mapping[str, Any], name: str, actual: Any, judged: Any) -> bool:
    """Whether each element of an output is what onnxruntime says with such floats as they are, larger, or smaller."""
    one, chosen = np.asarray(actual), np.asarray(judged)
    if one.dtype != chosen.dtype or one.shape != chosen.shape or one.dtype.kind not in "fiub":
        return False
    for direction in (1, -1):
        nudged = _nudged(model, direction)
        if nudged is None:
            return False
        try:
            other = np.asarray(run(nudged, feeds, optimized=False)[name])
        except Exception:  # it refuses in every way
            return False
        if other.shape != one.shape:
            return False
        chosen = np.where(_alike(one, chosen), chosen, other)
    return bool(_alike(one, chosen).all())


def _alike(one: Any, other: Any) -> Any:
    if one.dtype.kind != "f":
        return one == other
    return np.isclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)


def _nudged(model: ModelProto, direction: int) -> ModelProto | None:
    """The model with a product before each Cast of floats to integers; None where it has no such Cast."""
    copy = onnx.shape_inference.infer_shapes(model)
    return copy if _nudge(copy.graph, direction) else None


def _nudge(graph: GraphProto, direction: int) -> int:
    infos = [*graph.input, *graph.value_info, *graph.output]
    types = {info.name: info.type.tensor_type.elem_type for info in infos}
    nodes: list[NodeProto] = []
    count = 0
    for node in graph.node:
        count += sum(_nudge(attribute.g, direction) for attribute in node.attribute if attribute.HasField("g"))
        dtype = types.get(node.input[0], 0) if node.op_type == "Cast" else 0
        if dtype in _ROUNDING and helper.get_node_attr_value(node, "to") in _INTEGERS:
            factor = np.asarray(1 + direction * _ROUNDING[dtype], helper.tensor_dtype_to_np_dtype(dtype))
            by, moved = f"{node.output[0]}_by", f"{node.output[0]}_nudged"
            nodes.append(helper.make_node("Constant", [], [by], value=numpy_helper.from_array(factor)))
            nodes.append(helper.make_node("Mul", [node.input[0], by], [moved]))
            node.input[0] = moved
            count += 1
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return count
