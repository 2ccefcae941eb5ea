"""Rows of derivatives: an operator, what it is differentiated at, and the check against differences in FP64.

A test module of an operator has them in its DERIVATIVES; `test_derivatives` runs those of all modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array

TRAINING = "ai.onnx.preview.training"


def near(*dims: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    """Numbers in a range, no two of them alike."""
    generator = np.random.default_rng(seed)
    numbers = generator.permutation(np.linspace(low, high, max(int(np.prod(dims)), 1))) + 0.0123
    return numbers.reshape(dims)


@dataclass(frozen=True)
class Derivative:
    """An operator between the inputs and the weighted sum that is differentiated; fixed: inputs not in xs."""

    op_type: str
    inputs: Mapping[str, Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 18
    fixed: Sequence[str] = ()
    outputs: int = 1
    step: float = 1e-5  # ONNX's reference computes Erf in FP32

    def __str__(self) -> str:
        shapes = ",".join("x".join(map(str, array.shape)) or "scalar" for array in self.inputs.values())
        attributes = {name: value for name, value in self.attributes.items() if not isinstance(value, onnx.GraphProto)}
        return f"{self.op_type}-{self.opset}-{shapes}-{attributes or ''}"


def info(name: str, array: Array, dims: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape if dims is None else dims
    )


def model_of(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], outputs: Sequence[str], opset: int,
    constants: Mapping[str, Array] | None = None, dims: Mapping[str, Sequence[Any]] | None = None,
) -> onnx.ModelProto:
    given = [info(name, array, (dims or {}).get(name)) for name, array in inputs.items()]
    known = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, None) for name in outputs]
    graph = helper.make_graph(nodes, "gradients", given, results, known)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def gradient(inputs: Sequence[str], outputs: Sequence[str], y: str, xs: Sequence[str], zs: Sequence[str] = ()) -> Any:
    more = {"zs": list(zs)} if zs else {}
    return helper.make_node("Gradient", list(inputs), list(outputs), domain=TRAINING, xs=list(xs), y=y, **more)


def differences(model: onnx.ModelProto, feeds: dict[str, Array], name: str, step: float = 1e-5) -> Array:
    """Central differences of the first output by an input."""
    evaluator = ReferenceEvaluator(model)
    x = feeds[name]
    found = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            sides.append(float(np.sum(evaluator.run(None, {**feeds, name: moved})[0])))
        found[at] = (sides[0] - sides[1]) / (2 * step)
    return found


def weighted(row: Derivative) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """The operator, and the sum of its first float outputs with different weights."""
    names = [f"out{i}" for i in range(row.outputs)]
    node = helper.make_node(row.op_type, list(row.inputs), names, **row.attributes)
    values = ReferenceEvaluator(model_of([node], row.inputs, names, row.opset)).run(None, dict(row.inputs))
    nodes, constants, terms = [node], {}, []
    for i, value in enumerate(values):
        if not np.issubdtype(np.asarray(value).dtype, np.floating):
            continue
        constants[f"w{i}"] = near(*np.shape(value), seed=7 + i)
        nodes += [helper.make_node("Mul", [names[i], f"w{i}"], [f"p{i}"]),
                  helper.make_node("ReduceSum", [f"p{i}"], [f"s{i}"], keepdims=0)]
        terms.append(f"s{i}")
    return [*nodes, helper.make_node("Sum", terms, ["y"])], constants


def check_derivative(row: Derivative) -> None:
    nodes, constants = weighted(row)
    xs = [name for name in row.inputs if name not in row.fixed]
    wanted = [f"d_{name}" for name in xs]
    node = gradient([*xs, *row.fixed], wanted, "y", xs, row.fixed)
    known = {name: array for name, array in row.inputs.items() if array.dtype != np.float64}
    feeds = {name: array for name, array in row.inputs.items() if name not in known}
    forward = model_of(nodes, feeds, ["y"], row.opset, {**constants, **known})
    with ScoringFunction(import_model(model_of([*nodes, node], feeds, ["y", *wanted], row.opset,
                                               {**constants, **known}))) as function:
        found = function(feeds)
    for name in xs:
        expected = differences(forward, feeds, name, row.step)
        assert found[f"d_{name}"].shape == expected.shape
        np.testing.assert_allclose(found[f"d_{name}"], expected, rtol=2e-4, atol=0.2 * row.step, err_msg=f"{row} by {name}")


NEAR, POSITIVE, NARROW = near(2, 3), near(2, 3, low=0.5, high=2), near(2, 3, low=-0.8, high=0.8)
PAIRS = [((2, 3), (2, 3)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 3)), ((1, 3), (2, 3)), ((2,), ())]
AXIS_1 = np.array([1], np.int64)
