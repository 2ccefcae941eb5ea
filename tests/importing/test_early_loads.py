"""Scripts for open sizes take small weights out of their list first, so that the rest is compiled once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml import syntax as tree
from onnx_systemds.importing.passes.block_cuts import LOADED_CUT, cut
from onnx_systemds.importing.passes.specialisation import specialise as specialisation
from onnx_systemds.importing.passes.specialisation.trees import is_entry
from onnx_systemds.importing.script import Script
from tests.plain_engine import calls_plainly

V, W = (np.random.default_rng(seed).normal(size=shape).astype(np.float32) for seed, shape in ((1, (3, 4)), (2, (4, 5))))


def products() -> ModelProto:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] X) => (float[n, 5] Y)
        { a = MatMul(X, V) b = Tanh(a) Y = MatMul(b, W) }"""
    )
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in (("V", V), ("W", W)))
    return model


def places(script: Script) -> tuple[list[int], int | None]:
    """The numbers of the statements that take weights out of the list, and that of the cut behind them."""
    body = script.main.body
    loads = [number for number, found in enumerate(body) if isinstance(found, tree.Assign) and is_entry(found.value)]
    return loads, body.index(cut(LOADED_CUT)) if cut(LOADED_CUT) in body else None


def test_weights_are_taken_first() -> None:
    script = import_model(products(), weights="files")
    assert places(script) == ([1, 3], 5)
    assert script.general is not None and places(script.general)[1] is None
    known = import_model(products(), weights="files", dims={"n": 2})
    assert places(known) == ([1, 3], 5) and known.text.count("cuts the block") == 1


@pytest.mark.parametrize("is_large", [True, False])
def test_large_weights_are_taken_where_they_are_used(monkeypatch: pytest.MonkeyPatch, is_large: bool) -> None:
    monkeypatch.setattr(specialisation, "LARGEST_EARLY", 8 * (V.size + W.size) - is_large)
    script = import_model(products(), weights="files")
    assert (places(script)[1] is None) == is_large and (script.general is None) == is_large


def test_scripts_that_stay() -> None:
    assert places(import_model(products(), weights="files", specialised=False))[1] is None
    assert places(import_model(products(), weights="inline")) == ([], None)


@pytest.mark.engine
def test_results_for_several_sizes() -> None:
    calls = [{"X": np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)} for rows in (1, 6, 2)]
    for call, found in zip(calls, calls_plainly(import_model(products(), weights="files"), calls)):
        np.testing.assert_allclose(found["Y"], np.tanh(call["X"] @ V) @ W, rtol=1e-5, atol=1e-6)
