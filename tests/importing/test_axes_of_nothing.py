"""Every operator of which a row has dims as symbols, where such an axis turns out to have no elements.

A Compress that finds nothing stands in front of the operator. The results are right, or the script says in words what it
takes for granted; what no judge computes is out of range, which the engine may say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array, Case, case_model, compare, run_reference
from tests.operators.test_coverage import ROWS

FIRST_OPSET = 9  # that has Compress
BY_ENGINE = "(instruction "
"""What the engine adds to errors of its own, other than those that a script stops with."""
ENDS_ONNXRUNTIME = {"Einsum", "QAttention", "GroupQueryAttention", "FeatureVectorizer", "SparseAttention", "Unique", "GRU", "LSTM"}
"""Operators with which onnxruntime ends the process where there are no elements."""
DEEPEST = 5
"""Dims of the largest images whose Conv does not end it, as soon as one is empty."""
Places = Sequence[tuple[str, int]]


def open_axes(case: Case) -> dict[str, Places]:
    """The inputs and axes of each symbol of a case."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, dims in case.symbols.items():
        for axis, size in enumerate(dims):
            if isinstance(size, str) and size.isidentifier() and name not in case.constants and case.inputs[name] is not None:
                found.setdefault(size, []).append((name, axis))
    return dict(found)


def rows() -> Iterator[tuple[Case, str]]:
    """One row for each operator and axis."""
    seen = set()
    for case in ROWS:
        for symbol, places in open_axes(case).items():
            key = (case.op_type, case.domain, places[0][1])
            if key not in seen and (case.domain or case.opset >= FIRST_OPSET):
                seen.add(key)
                yield case, symbol


def without(array: Array, axis: int) -> Array:
    """No element along an axis."""
    return np.zeros([0 if place == axis else size for place, size in enumerate(array.shape)], array.dtype)


def finding_model(case: Case, places: Places) -> onnx.ModelProto:
    """The case's model, with a Compress in front of each of the axes; its condition is an input."""
    model = case_model(case)
    graph, node = model.graph, model.graph.node[0]
    current: dict[str, str] = {}
    for name, axis in places:
        found = f"{name}_found{axis}"
        graph.node.insert(
            len(graph.node) - 1,
            helper.make_node("Compress", [current.get(name, name), f"keep_{name}_{axis}"], [found], axis=axis),
        )
        graph.input.append(helper.make_tensor_value_info(f"keep_{name}_{axis}", TensorProto.BOOL, [None]))
        current[name] = found
    node = graph.node[-1]
    node.input[:] = [current.get(name, name) for name in node.input]
    if all(opset.domain for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", 17))
    _forget_dims(model)
    return model


def _forget_dims(model: onnx.ModelProto) -> None:
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")


def judged(case: Case, inputs: Mapping[str, Array | None]) -> list[Any] | None:
    """What onnxruntime makes of the empty inputs, else the row's own judge, else the reference; None where all refuse."""
    model = case_model(case)
    _forget_dims(model)
    feeds = {name: array for name, array in inputs.items() if array is not None and name not in case.constants}

    def expected() -> list[Any]:
        assert case.expected is not None
        computed = case.expected(*inputs.values(), **case.attributes)
        return list(computed) if isinstance(computed, (tuple, list)) else [computed]

    ends = case.op_type in ENDS_ONNXRUNTIME or (case.op_type == "Conv" and next(iter(feeds.values())).ndim > DEEPEST)
    judges: list[Callable[[], list[Any]]] = [] if ends else [lambda: run_reference(model, feeds)]
    judges += [] if case.expected is None else [expected]
    for judge in (*judges, lambda: list(ReferenceEvaluator(model).run(None, feeds))):
        try:
            return judge()
        except Exception:  # operators in plain Python, which fail in every way
            continue
    return None


@pytest.mark.parametrize(("case", "symbol"), [*rows()], ids=str)
def test_case(case: Case, symbol: str) -> None:
    places = open_axes(case)[symbol]
    inputs = dict(case.inputs)
    feeds = {name: array for name, array in inputs.items() if array is not None and name not in case.constants}
    for name, axis in places:
        given = case.inputs[name]
        assert given is not None
        feeds[f"keep_{name}_{axis}"] = np.zeros(given.shape[axis], bool)
        inputs[name] = without(inputs[name], axis)  # type: ignore[arg-type]
    right = judged(case, inputs)
    script = import_model(finding_model(case, places))
    try:
        with ScoringFunction(script) as score:
            found = score(feeds)
    except ScriptRuntimeError as error:
        assert right is None or BY_ENGINE not in str(error), str(error)
        return
    for port, expected in zip(script.outputs, right or (), strict=right is not None):
        compare(found[port.name], np.asarray(expected), case.tolerance, f"{case} {symbol}: {port.name}")
