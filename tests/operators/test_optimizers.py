"""Adagrad, Adam and Momentum: first and later steps, several tensors, regularization; judged by ONNX's reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array, Case, at_sizes, by_reference, case_model, check_case, random

TRAINING = "ai.onnx.preview.training"
GROUPS = {"Adagrad": "xgs", "Adam": "xgvh", "Momentum": "xgv"}  # s and h: sums of squares
EXTRA: dict[str, dict[str, Any]] = {
    "Adagrad": {"decay_factor": 0.1, "epsilon": 1e-3},
    "Adam": {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-3, "norm_coefficient_post": 0.1},
    "Momentum": {"alpha": 0.9, "beta": 0.6, "mode": "standard"},
}


def tensors(op: str, *shapes: tuple[int, ...], seed: int = 0) -> dict[str, Array]:
    """Tensors, gradients and accumulators, group by group."""
    found = {}
    for group in GROUPS[op]:
        for number, dims in enumerate(shapes):
            seed += 1
            array = random(*dims, seed=seed)
            found[f"{group}{number}"] = np.asarray(np.abs(array)) if group in "sh" else array
    return found


def step(op: str, time: int, *shapes: tuple[int, ...], **attributes: Any) -> Case:
    """One step of an optimizer on tensors of the given dims."""
    inputs = {"r": np.array(0.1, np.float32), "t": np.array(time, np.int64), **tensors(op, *shapes)}
    given = {**EXTRA[op], "norm_coefficient": 0.0, **attributes}
    outputs = [f"{group}{number}_new" for group in GROUPS[op].replace("g", "") for number in range(len(shapes))]
    case = by_reference(Case(op, 1, inputs, given, outputs=outputs, domain=TRAINING, note=f"{time} {attributes}"))

    def expected(*arrays: Array, **attributes: Any) -> list[Array]:
        # the reference's Adam widens a single tensor to double
        return [np.asarray(array, np.float32) for array in case.expected(*arrays, **attributes)]  # type: ignore[misc]

    return replace(case, expected=expected)


CASES = [
    *[step(op, time, (2, 3)) for op in GROUPS for time in (0, 1, 7)],
    *[step(op, 3, (2, 3, 4), (5,), (2, 1, 3, 2), norm_coefficient=0.01) for op in GROUPS],
    *[step(op, 3, ()) for op in GROUPS],
    *[step("Momentum", time, (3, 2), mode="nesterov", norm_coefficient=0.1) for time in (0, 2)],
    step("Adam", 2, (3, 2), norm_coefficient_post=0.0),
    *[at_sizes(step(op, 2, (2, 3, 4), (5,)),
               {name: ["rows", 3, "columns"] if name.endswith("0") else ["size"] for name in tensors(op, (), ())},
               tensors(op, (4, 3, 1), (2,), seed=50)) for op in GROUPS],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize("op", GROUPS)
def test_incomplete_groups_are_refused(op: str) -> None:
    case = step(op, 1, (2, 3))
    inputs = {name: array for name, array in case.inputs.items() if name != "g0"}
    broken = Case(op, 1, inputs, case.attributes, outputs=["x_new", "v_new"], domain=TRAINING)
    with pytest.raises(UnsupportedCase, match="two and . for each tensor are needed"):
        import_model(case_model(broken))


@pytest.mark.parametrize("op", GROUPS)
def test_a_gradient_of_another_size_is_refused(op: str) -> None:
    given = step(op, 1, (2, 3))
    with pytest.raises(UnsupportedCase, match="have different ranks"):
        import_model(case_model(replace(given, inputs={**given.inputs, "g0": random(3)})))
    symbols = {name: [f"{name}_0", 3] for name, array in given.inputs.items() if array is not None and array.ndim == 2}
    inputs = {**given.inputs, "g0": random(1, 3)}
    script = import_model(case_model(replace(given, symbols=symbols)))
    with ScoringFunction(script) as function, pytest.raises(InvalidInput, match="where x0_0 is 2, got"):
        function(inputs)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match="mode heavy"):
        import_model(case_model(step("Momentum", 1, (2, 3), mode="heavy")))
