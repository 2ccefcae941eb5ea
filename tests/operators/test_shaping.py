"""Operators that only change dims, in every version."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import ConstantNeeded, UnsupportedCase
from tests.operators.derivatives import AXIS_1, Derivative, near
from tests.operators.harness import Case, at_sizes, case_model, check_case, ints, random

X = random(2, 3, 4)


CASES = [
    Case("Reshape", 1, {"x": X}, {"shape": [0, -1]}, expected=lambda x, shape: x.reshape(2, 12)),
    *[
        Case("Reshape", opset, {"x": X, "shape": ints(*shape)}, constants=["shape"], note=str(shape))
        for opset in (5, 13, 14, 19)
        for shape in [(6, 4), (-1,), (0, -1), (4, 3, 2), (2, 1, 3, 1, 4), (0, 0, 2, -1)]
    ],
    Case("Reshape", 14, {"x": np.array(3, np.float32), "shape": ints(1, 1)}, constants=["shape"], note="from rank 0"),
    Case("Reshape", 14, {"x": random(1, 1), "shape": ints()}, constants=["shape"], note="to rank 0"),
    Case("Reshape", 14, {"x": np.zeros((0, 3), np.float32), "shape": ints(3, 0)}, {"allowzero": 1}, constants=["shape"]),
    *[Case("Flatten", opset, {"x": X}, {"axis": axis}) for opset in (9, 11, 13) for axis in (0, 1, 2, 3)],
    Case("Flatten", 1, {"x": X}, {"axis": 2}, expected=lambda x, axis: x.reshape(6, 4)),
    Case("Flatten", 13, {"x": X}, {"axis": -1}),
    *[Case("Squeeze", opset, {"x": random(1, 3, 1, 4)}, {"axes": [0, 2]},
           expected=(lambda x, axes: x.reshape(3, 4)) if opset < 7 else None) for opset in (1, 11)],
    Case("Squeeze", 13, {"x": random(1, 3, 1, 4), "axes": ints(-2)}, constants=["axes"]),
    Case("Squeeze", 13, {"x": random(1, 3, 1, 4)}),
    Case("Squeeze", 13, {"x": random(1, 1)}, note="to rank 0"),
    *[Case("Unsqueeze", opset, {"x": X}, {"axes": [0, 4]},
           expected=(lambda x, axes: x.reshape(1, 2, 3, 4, 1)) if opset < 7 else None) for opset in (1, 11)],
    Case("Unsqueeze", 13, {"x": X, "axes": ints(-1, 1)}, constants=["axes"]),
    Case("Unsqueeze", 13, {"x": np.array(2, np.float32), "axes": ints(0)}, constants=["axes"]),
    *[Case("Identity", opset, {"x": X}, expected=lambda x: x) for opset in (1, 13, 16)],
    *[at_sizes(case, {"x": ["n", "m", 4]}, {"x": random(5, 6, 4)}) for case in [
        Case("Reshape", 14, {"x": X, "shape": ints(0, 2, -1)}, constants=["shape"]),
        *[Case("Flatten", 13, {"x": X}, {"axis": axis}) for axis in (0, 1, 2, -1)],
        Case("Unsqueeze", 13, {"x": X, "axes": ints(-1, 1)}, constants=["axes"]),
        Case("Unsqueeze", 11, {"x": X}, {"axes": [0]}),
        Case("Identity", 13, {"x": X})]],
    at_sizes(Case("Squeeze", 13, {"x": random(2, 1, 3, 1), "axes": ints(-1, 1)}, constants=["axes"]),
             {"x": ["n", 1, "m", 1]}, {"x": random(5, 1, 6, 1)}),
]


DERIVATIVES = [
    Derivative("Identity", {"x": near(2, 3)}),
    Derivative("Reshape", {"x": near(2, 6), "s": ints(3, -1)}, fixed=["s"]),
    Derivative("Flatten", {"x": near(2, 3, 2)}),
    Derivative("Squeeze", {"x": near(2, 1, 3), "a": AXIS_1}, fixed=["a"]),
    Derivative("Unsqueeze", {"x": near(2, 3), "a": AXIS_1}, fixed=["a"]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("Reshape", 14, {"x": X, "shape": ints(5, 5)}, constants=["shape"]), "24 elements do not fill"),
        (Case("Reshape", 14, {"x": X, "shape": ints(5, -1)}, constants=["shape"]), "24 elements do not fill"),
        (Case("Unsqueeze", 13, {"x": X, "axes": ints(9)}, constants=["axes"]), "axis 9 is out of range"),
        (Case("Unsqueeze", 13, {"x": X, "axes": ints(1, 1)}, constants=["axes"]), "inserted twice"),
    ],
    ids=str,
)
def test_wrong_shapes_are_refused(case: Case, message: str) -> None:
    model = case_model(Case("Identity", 13, {"x": X}))
    model.graph.node[0].CopyFrom(_node(case))
    model.graph.initializer.extend(_initializers(case))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(UnsupportedCase, match=message):
        import_model(model)


def _node(case: Case):  # type: ignore[no-untyped-def]
    from onnx import helper

    return helper.make_node(case.op_type, list(case.inputs), ["out0"], **case.attributes)


def _initializers(case: Case):  # type: ignore[no-untyped-def]
    from onnx import numpy_helper

    return [numpy_helper.from_array(case.inputs[name], name) for name in case.constants]


@pytest.mark.parametrize(
    ("shapes", "symbols"),
    [
        ([(6, 4), (-1, 8), (0, -1), (0, 12)], [2, 3, 4]),
        ([(4, 3, 2), (-1, 0, 2), (0, 0, -1), (1, -1, 24)], ["n", "m", 4]),
        ([(24,), (-1,)], ["n", 3, 4]),
    ],
    ids=str,
)
def test_shapes_that_only_the_run_knows(shapes: list[tuple[int, ...]], symbols: list[object]) -> None:
    """One script serves sizes, copied dims (0) and open ones (-1)."""
    contents = [{"x": X, "shape": ints(*shape)} for shape in shapes]
    for opset in (5, 13, 14):
        check_case(Case("Reshape", opset, contents[0], symbols={"x": symbols}, sizes=contents[1:]))


def test_a_rank_that_only_the_run_knows_is_refused() -> None:
    case = Case("Reshape", 14, {"x": X, "shape": ints(6, 4)}, symbols={"shape": ["rank"]})
    with pytest.raises(ConstantNeeded, match="the shape"):
        import_model(case_model(case))
    with pytest.raises(ConstantNeeded, match="the axes"):
        import_model(case_model(Case("Unsqueeze", 13, {"x": X, "axes": ints(1)})))
