"""Tables of quantised numbers are scaled after a Gather has taken some of them; onnxruntime judges the numbers."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction

INT64, FLOAT = 7, 1
Dims = list[int | str]


def gathered(shape: list[int], scales: int, quantized: int | None, axis: int, indices: Dims) -> ModelProto:
    """A table of that shape with so many scales along the axis ``quantized``, of which a Gather takes some."""
    random = np.random.default_rng(11)
    many = (scales,) if scales > 1 else ()
    arrays = {
        "table": random.integers(-128, 128, shape).astype(np.int8),
        "scale": random.uniform(0.1, 2, many).astype(np.float32),
        "zero": random.integers(-9, 9, many).astype(np.int8),
    }
    attributes = {} if quantized is None else {"axis": quantized}
    nodes = [
        helper.make_node("DequantizeLinear", ["table", "scale", "zero"], ["numbers"], **attributes),
        helper.make_node("Gather", ["numbers", "i"], ["y"], axis=axis),
    ]
    chosen = axis % len(shape)
    taken = [*shape[:chosen], *indices, *shape[chosen + 1 :]]
    given = helper.make_tensor_value_info("i", INT64, indices)
    made = helper.make_tensor_value_info("y", FLOAT, taken)
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", [given], [made], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("shape", "scales", "quantized", "axis", "indices", "is_first"),
    [
        ([2000, 6], 1, None, 0, ["rows", 3], True),
        ([2000, 6], 1, 0, 0, [], True),
        ([2000, 6], 6, 1, 0, ["rows", 3], True),
        ([2000, 6], 6, None, 0, [4], True),
        ([2000, 6], 6, -1, -2, [2, 2, 2], True),
        ([6, 40], 6, 0, 1, [2, 3], True),
        ([50, 4, 6], 6, 2, 1, [2, 2], True),
        ([50, 4, 6], 50, 0, 1, [3], True),
        ([2000, 6], 2000, 0, 0, ["rows"], False),
        ([20, 6], 1, None, 0, ["rows"], False),
        ([20, 6], 1, None, 0, [21], False),
    ],
)
def test_a_gather_goes_before_scaling(
    shape: list[int], scales: int, quantized: int | None, axis: int, indices: Dims, is_first: bool
) -> None:
    model = gathered(shape, scales, quantized, axis, indices)
    script = import_model(model)
    notes = [note for note in script.notes if note.rule == "elementwise-sinking"]
    assert [note.fired for note in notes] == [is_first]
    size = shape[axis]
    given = np.random.default_rng(3).integers(-size, size, [5 if dim == "rows" else dim for dim in indices])
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = runtime.run(None, {"i": given})
    with ScoringFunction(script) as function:
        np.testing.assert_allclose(function({"i": given})["y"], expected, rtol=1e-6, atol=1e-6)
