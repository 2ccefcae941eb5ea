"""HyperConnectionPreMix and -PostMix of onnxruntime."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Case, at_sizes, case_model, check_case, contrib, random


def pre(streams: tuple[int, ...], gates: tuple[int, ...], **attributes: Any) -> Case:
    return contrib("HyperConnectionPreMix", {"x": random(*streams), "g": random(*gates, seed=1)}, attributes=attributes)


def post(streams: tuple[int, ...], gates: tuple[int, ...], mix: bool = False, **attributes: Any) -> Case:
    inputs = {"x": random(*streams), "b": random(2, 3, 4, seed=1), "g": random(*gates, seed=2),
              "m": random(2, 3, 5, 5, seed=3) if mix else None}
    return contrib("HyperConnectionPostMix", inputs, attributes=attributes)


SIZED = [
    at_sizes(pre((2, 3, 5, 4), (2, 3, 5)), {"x": ["n", "t", 5, 4], "g": ["n", "t", 5]},
             {"x": random(1, 2, 5, 4), "g": random(1, 2, 5)}),
    at_sizes(post((2, 3, 5, 4), (2, 3, 5), True), {"x": ["n", "t", 5, 4], "b": ["n", "t", 4], "g": ["n", "t", 5], "m": ["n", "t", 5, 5]},
             {"x": random(1, 2, 5, 4), "b": random(1, 2, 4), "g": random(1, 2, 5), "m": random(1, 2, 5, 5)}),
]
CASES = [
    *SIZED,
    pre((2, 3, 5, 4), (2, 3, 5, 4), reduction_scale=0.5),
    pre((2, 3, 20), (2, 3, 20), num_branches=5),
    pre((2, 3, 20), (2, 3, 5), num_branches=5),
    post((2, 3, 5, 4), (2, 3, 5, 1)),
    post((2, 3, 20), (2, 3, 5, 4), True, num_branches=5),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


def test_weights_of_another_rank_are_refused() -> None:
    with pytest.raises(TranspileError, match="weights of rank 1"):
        import_model(case_model(pre((2, 3, 5, 4), (5,))))
