"""What the fuzzer draws, and that it finds numbers where there should be none."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine.session import shared_session
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.registry import operators_of_models
from onnx_systemds.verifying.judging import run
from tests.fuzz import graphs, operators, wide_matrices
from tests.fuzz.drawing import Draw
from tests.fuzz.judging import ModelCase, check_model

NOT_DRAWN = {"If": "graphs and loops", "Loop": "loops", "Scan": "loops"}
"""Operators that are no cases of their own, by the kind of cases that has them."""


def test_operators_that_onnx_defines_by_others() -> None:
    for op_type in operators._OF_FUNCTIONS:
        case = operators.case(0, [op_type])
        assert [node.op_type for node in case.model.graph.node] == [op_type]
        assert import_model(case.model).text


@pytest.mark.slow("random graphs, some of them converted twice")
def test_nodes_that_are_repeated_become_functions() -> None:
    repeated = [case for case in map(graphs.case, range(40)) if case.functions == "blocks"]
    texts = [[import_model(case.model, functions=functions).text for functions in ("flat", "blocks")] for case in repeated]
    assert any(flat != blocks for flat, blocks in texts)


def test_graphs_are_models() -> None:
    cases = [*map(graphs.case, range(40)), graphs.case(91280)]
    assert any(case.model.functions for case in cases)
    assert any(case.dims for case in cases)
    assert any(case.style == "nn" for case in cases)
    for case in cases:
        assert run(case.model, case.calls[0], optimized=False)


def test_wide_matrices_are_mostly_zeros() -> None:
    cases = [wide_matrices.case(seed) for seed in range(4)]
    arrays = [array for case in cases for array in case.calls[0].values()]
    assert any(array.shape[1] > 1000 for array in arrays)
    assert any(array.size > 10_000 and np.count_nonzero(array) < 0.4 * array.size for array in arrays)
    assert all(run(case.model, case.calls[0], optimized=False) for case in cases)


def test_mostly_zeros_are_drawn() -> None:
    arrays = [draw.array("float", (20, 30)) for draw in map(Draw, range(100)) if draw.is_sparse]
    few = [array for array in arrays if np.count_nonzero(array) < 0.4 * array.size]
    assert len(few) > 0.6 * len(arrays) > 0
    assert any(not np.isfinite(array).all() for array in few) and any(not array.any() for array in few)


def test_numbers_of_what_the_judges_refuse_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[n] x) => (float[k] y) <int64[1] k = {5}> { y, z = TopK (x, k) }""")
    rows = np.arange(1, 9, dtype=np.float32)
    case = ModelCase(0, model, ({"x": rows}, {"x": rows[:3]}))
    assert check_model(case, shared_session()) is None
    monkeypatch.setattr(NodeFacts, "assume", lambda *_: None)
    finding = check_model(case, shared_session())
    assert finding is not None and "of what the judges refuse" in finding.detail


def test_all_operators_are_drawn() -> None:
    known = {identity for identity in operators_of_models() if identity[1] not in NOT_DRAWN}
    assert not known.difference(operators.identities())
