"""Scripts for open sizes take small weights out of their list first, and have a recurrent layer for calls of the
same sizes, so that the rest is compiled once."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.dml.printer import print_statement
from onnx_systemds.importing.passes.block_cuts import BLOCK_CUT, LOADED_CUT, LOADS_CUT, cut, is_loaded_cut, is_never
from onnx_systemds.importing.passes.specialisation import specialise as specialisation
from onnx_systemds.importing.passes.specialisation.loading import with_loads_first
from onnx_systemds.importing.script import Script
from onnx_systemds.operators.rendering.weight_loads import is_load
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
    loads = [number for number, found in enumerate(body) if is_load(found)]
    return loads, next((number for number, found in enumerate(body) if is_loaded_cut(found)), None)


def test_weights_are_taken_first() -> None:
    script = import_model(products(), weights="files")
    assert places(script) == ([0, 1], 2) and "never =" not in script.text
    assert script.general is not None and places(script.general)[1] is None
    known = import_model(products(), weights="files", dims={"n": 2})
    assert places(known) == ([0, 1], 2) and known.text.count("cuts the block") == 1


@pytest.mark.parametrize("is_large", [True, False])
def test_large_weights_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch, is_large: bool) -> None:
    monkeypatch.setattr(specialisation, "LARGEST_EARLY", 8 * (V.size + W.size) - is_large)
    script = import_model(products(), weights="files")
    body = [*script.main.body]
    cuts = [number for number, found in enumerate(body) if is_never(found)]
    loads = [number for number, found in enumerate(body) if is_load(found)]
    if is_large:
        assert loads == [1, 6] and cuts == [2, 5, 7]
        assert [body[number] for number in cuts] == [cut(LOADED_CUT), cut(LOADS_CUT), cut(LOADED_CUT)]
        assert "b = tanh" in print_statement(body[4])  # after the checks
    else:
        assert loads == [0, 1] and cuts == [2]
    assert script.general is not None and places(script.general)[1] is None


def test_what_a_statement_reads_first_is_loaded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    model = products()
    model.graph.node[-1].CopyFrom(onnx.helper.make_node("Gemm", ["b", "W", "B"], ["Y"]))
    model.graph.initializer.append(numpy_helper.from_array(np.arange(5, dtype=np.float32), "B"))
    monkeypatch.setattr(specialisation, "LARGEST_EARLY", 8 * (V.size + W.size))
    body = import_model(model, weights="files").main.body
    assert [number for number, found in enumerate(body) if is_load(found)] == [1, 6, 7]
    assert [number for number, found in enumerate(body) if is_never(found)] == [2, 5, 8]


def test_no_cut_follows_the_loads_at_once() -> None:
    body = import_model(products(), weights="files", specialised=False).main.body
    changed = with_loads_first((cut(BLOCK_CUT), *body))
    assert [number for number, found in enumerate(changed) if is_never(found)] == [3] and changed[3] == cut(LOADED_CUT)


def test_scripts_that_stay() -> None:
    assert places(import_model(products(), weights="files", specialised=False))[1] is None
    assert places(import_model(products(), weights="inline")) == ([], None)


def layers() -> ModelProto:
    """Two LSTMs, one after the other, in both directions."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[s, n, 3] X) => (float[s, n, 6] Y)
        { a = LSTM<hidden_size = 3, direction = "bidirectional">(X, W1, R1, B1)
          axes = Constant<value = int64[3] {0, 0, -1}>() b = Transpose<perm = [0, 2, 1, 3]>(a) c = Reshape(b, axes)
          d = LSTM<hidden_size = 3, direction = "bidirectional">(c, W2, R2, B2)
          e = Transpose<perm = [0, 2, 1, 3]>(d) Y = Reshape(e, axes) }"""
    )
    drawn = np.random.default_rng(3)
    for name, shape in (("W1", (2, 12, 3)), ("R1", (2, 12, 3)), ("B1", (2, 24)),
                        ("W2", (2, 12, 6)), ("R2", (2, 12, 3)), ("B2", (2, 24))):
        model.graph.initializer.append(numpy_helper.from_array(drawn.normal(size=shape).astype(np.float32), name))
    return model


@pytest.mark.parametrize("weights", ["files", "inline"])
def test_a_recurrent_layer_for_calls_of_the_same_sizes(weights: str) -> None:
    script = import_model(layers(), weights=weights)
    assert [script.text.count(f"\nlstm_layer{end} = function(") for end in ("", "_1", "_2")] == [1, 0, 0]
    assert script.general is not None and script.general.text.count("\nlstm_layer = function(") == 1


def test_a_recurrent_layer_that_starts_with_zeros_is_not_like_others() -> None:
    model = layers()
    model.graph.input.append(onnx.helper.make_tensor_value_info("H", onnx.TensorProto.FLOAT, (2, "n", 3)))
    model.graph.node[4].input.extend(["", "H", "H"])
    text = import_model(model).text
    assert [text.count(f"\nlstm_layer{end} = function(") for end in ("", "_1", "_2", "_3")] == [1, 0, 1, 0]


@pytest.mark.engine
def test_layers_of_several_sizes() -> None:
    drawn = np.random.default_rng(4)
    calls = [{"X": drawn.normal(size=(steps, n, 3)).astype(np.float32)} for steps, n in ((5, 2), (1, 1), (3, 4), (5, 2))]
    runtime = onnxruntime.InferenceSession(layers().SerializeToString())
    for call, found in zip(calls, calls_plainly(import_model(layers(), weights="files"), calls)):
        np.testing.assert_allclose(found["Y"], runtime.run(None, call)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.engine
@pytest.mark.parametrize("most", [specialisation.LARGEST_EARLY, 8])
def test_results_for_several_sizes(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(specialisation, "LARGEST_EARLY", most)
    calls = [{"X": np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)} for rows in (1, 6, 2)]
    for call, found in zip(calls, calls_plainly(import_model(products(), weights="files"), calls)):
        np.testing.assert_allclose(found["Y"], np.tanh(call["X"] @ V) @ W, rtol=1e-5, atol=1e-6)
