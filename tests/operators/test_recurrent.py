"""RNN, GRU and LSTM: directions, lengths, states, activations, layouts, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_systemds import import_model
from onnx_systemds.operators.onnx import recurrent
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.derivatives import Derivative, near
from tests.operators.harness import Array, Case, at_sizes, case_model, check_case, random

FAR_LEFT = -np.array([0, 1, 15, 17.5, 19, 30, 36, 38, 80])
TINY = -np.array([0, 1e-7, 1e-9, 3e-12, 1e-14, 2e-17, 1e-30])
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
T, N, D, H = 5, 3, 4, 2


def layer(
    kind: str,
    opset: int,
    given: str = "",
    directions: int = 1,
    constants: Sequence[str] = (),
    outputs: Any = None,
    batch: int = N,
    batch_first: bool = False,
    symbols: Mapping[str, Sequence[Any]] | None = None,
    **attributes: Any,
) -> Case:
    """A case; ``given`` names the optional inputs: b, l (lengths), h, c, p."""
    gates = GATES[kind]
    state = (batch, directions, H) if batch_first else (directions, batch, H)
    lengths = np.array([3, 5, 1, 4, 2][:batch], np.int32)
    inputs: dict[str, Array | None] = {
        "x": random(*((batch, T, D) if batch_first else (T, batch, D))),
        "w": random(directions, gates * H, D, seed=1),
        "r": random(directions, gates * H, H, seed=2),
        "b": random(directions, 2 * gates * H, seed=3) if "b" in given else None,
        "l": lengths if "l" in given else None,
        "h": random(*state, seed=4) if "h" in given else None,
    }
    if kind == "LSTM":
        inputs["c"] = random(*state, seed=5) if "c" in given else None
        inputs["p"] = random(directions, 3 * H, seed=6) if "p" in given else None
    if directions == 2:
        attributes["direction"] = "bidirectional"
    if batch_first:
        attributes["layout"] = 1
    every = ["y", "yh", "yc"] if kind == "LSTM" else ["y", "yh"]
    note = f"{given}-{directions}-{'-'.join(f'{k}={v}' for k, v in attributes.items())}-{''.join(constants)}"
    # onnxruntime has no layout=1
    expected = _by_reference(kind, opset, inputs, every) if batch_first else None
    return Case(kind, opset, inputs, {"hidden_size": H, **attributes}, constants, symbols or {},
                every if outputs is None else outputs, expected, note=note)


def _by_reference(kind: str, opset: int, inputs: Mapping[str, Array | None], outputs: Sequence[str]) -> Any:
    """The reference on the layer with the steps in front, its results transposed back."""

    def compute(*arrays: Array | None, **attributes: Any) -> list[Array]:
        turned = {
            name: None if array is None else array.swapaxes(0, 1) if name in "xhc" else array
            for name, array in zip(inputs, arrays)
        }
        plain = {name: value for name, value in attributes.items() if name != "layout"}
        import onnxruntime

        model = case_model(Case(kind, opset, turned, plain, outputs=outputs))
        session = onnxruntime.InferenceSession(model.SerializeToString())
        found = session.run(None, {name: array for name, array in turned.items() if array is not None})
        return [found[0].transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in found[1:])]

    return compute


def first(kind: str, opset: int) -> Case:
    """A layer of the first versions: onnxruntime starts at opset 7; only output_sequence (and GRU's layout) changed."""
    new = layer(kind, 7, "bh", direction="forward")
    judged = lambda *arrays, **attributes: ReferenceEvaluator(case_model(new)).run(  # noqa: E731
        None, {name: array for name, array in new.inputs.items() if array is not None})
    attributes = {**new.attributes, "output_sequence": 1}
    return Case(kind, opset, new.inputs, attributes, outputs=new.outputs, expected=judged)


CASES = [
    *[layer(kind, opset) for kind in GATES for opset in (7, 14, 22)],
    *[
        layer(kind, 14, given, directions)
        for kind in GATES
        for given in ("b", "bh", "lh", "blhcp")
        for directions in (1, 2)
    ],
    *[layer(kind, 14, "bh", constants=("w", "r", "b"), direction="reverse") for kind in GATES],
    *[layer(kind, 14, "blh", 2, ("w", "r", "b")) for kind in GATES],
    *[layer(kind, 14, "bhc", directions, batch_first=True) for kind in GATES for directions in (1, 2)],
    *[layer(kind, 14, "b", batch=1, batch_first=True) for kind in GATES],
    *[layer(kind, 14, "b", clip=0.3) for kind in GATES],
    *[layer(kind, 14, "b", 2, outputs=["", "yh"]) for kind in GATES],
    layer("LSTM", 14, "b", outputs=["", "", "yc"]),
    layer("LSTM", 14, "bp", input_forget=1),
    layer("LSTM", 14, "b", 2, input_forget=1),
    layer("LSTM", 14, "bp", clip=0.5),
    *[layer("GRU", 14, given, linear_before_reset=1) for given in ("", "b")],
    layer("GRU", 14, "blh", 2, ("w", "r", "b"), linear_before_reset=1),
    layer("RNN", 14, "b", activations=["Relu"]),
    layer("RNN", 14, "b", 2, activations=["Affine", "LeakyRelu"], activation_alpha=[0.5, 0.1], activation_beta=[0.25]),
    layer("RNN", 14, "b", activations=["ScaledTanh"], activation_alpha=[0.7], activation_beta=[0.4]),
    layer("RNN", 14, "b", activations=["Elu"], activation_alpha=[0.7]),
    layer("RNN", 14, "b", activations=["Softsign"]),
    *[Case(kind, 9, {"x": random(4, 2, 1), "w": random(1, gates, 1), "r": random(1, gates, 1, seed=1), "b": None,
                     "l": np.array([1, 3], np.int32), "h": random(1, 2, 1, seed=2)}, {"hidden_size": 1}, ["h"],
           {"x": ["t", "n", 1], "l": ["n"]}, outputs=2, note="one unit", sizes=({"x": random(5, 2, 1)},))
      for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))],
    layer("RNN", 14, "b", activations=["Softplus"]),
    Case("GRU", 14, {"x": random(3, 2, 3000), "w": random(1, 3, 3000, seed=1) / 50, "r": random(1, 3, 1, seed=2)},
         {"hidden_size": 1}, note="few long rows"),
    layer("RNN", 14, "b", activations=["ThresholdedRelu"], activation_alpha=[0.2]),
    layer("GRU", 14, "b", activations=["HardSigmoid", "Softsign"], activation_alpha=[0.3], activation_beta=[0.4]),
    layer("LSTM", 14, "bp", activations=["HardSigmoid", "Relu", "Tanh"], activation_alpha=[0.3], activation_beta=[0.4]),
    *[first(kind, opset) for kind, opset in [("RNN", 1), ("GRU", 1), ("GRU", 3), ("LSTM", 1)]],
    *[at_sizes(layer(kind, 14, "b", 2, ("w", "r", "b"), batch_first=batch_first),
               {"x": ["n", "t", D] if batch_first else ["t", "n", D]},
               *[{"x": random(*dims, D, seed=9)} for dims in ((2, 6), (4, 1))])
      for kind in GATES for batch_first in (False, True)],
    *[at_sizes(layer(kind, 14, "blh"), {"x": ["t", "n", D], "l": ["n"], "h": [1, "n", H]},
               {"x": random(6, 2, D, seed=9), "l": np.array([6, 2], np.int32), "h": random(1, 2, H)}) for kind in GATES],
]


DERIVATIVES = [
    *[Derivative(op, {"x": near(4, 2, 3), "w": near(1, gates * 3, 3, seed=1), "r": near(1, gates * 3, 3, seed=2),
                      **({"b": near(1, 2 * gates * 3, seed=3)} if has_bias else {})}, {"hidden_size": 3, **more}, outputs=2)
      for op, gates, more in [("RNN", 1, {}), ("GRU", 3, {}), ("GRU", 3, {"linear_before_reset": 1}), ("LSTM", 4, {})]
      for has_bias in (False, True)],
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.attributes.get("direction") == "bidirectional"], ids=str
)
def test_directions_in_threads(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both directions of layers that would be too small for threads of their own."""
    monkeypatch.setattr(recurrent, "_PARALLEL_STEPS", 0)
    monkeypatch.setattr(recurrent, "_PARALLEL_HIDDEN", 0)
    check_case(case)


@pytest.mark.parametrize(
    ("activation", "inputs", "expected"),
    [
        ("Softplus", FAR_LEFT, np.log1p(np.exp(FAR_LEFT))),
        ("Elu", TINY, np.expm1(TINY)),
    ],
)
def test_small_results_keep_their_digits(activation: str, inputs: Array, expected: Array) -> None:
    """A sequence for each number, of one step in which nothing is added to it."""
    given = {"x": inputs.astype(np.float32).reshape(1, -1, 1), "w": np.ones((1, 1, 1), np.float32), "r": np.zeros((1, 1, 1), np.float32)}
    case = Case("RNN", 14, given, {"hidden_size": 1, "activations": [activation]}, ["w", "r"], outputs=["y"])
    with ScoringFunction(import_model(case_model(case))) as function:
        found = function({"x": given["x"]})["y"]
    np.testing.assert_allclose(found.reshape(-1), expected.astype(np.float32), 1e-5, 0)


@pytest.mark.parametrize(("scale", "is_doubled"), [(1.0, True), (2.0**127, False)])
def test_known_weights_come_doubled(scale: float, is_doubled: bool) -> None:
    """Those of the candidate of an LSTM, for a sigmoid in the place of tanh; not where float32 has no such numbers."""
    case = layer("LSTM", 14, "b", constants=("w", "r", "b"))
    weights = case.inputs["r"]
    assert weights is not None
    weights[:, -1, -1] = scale
    script = import_model(case_model(case))
    assert ("twice" not in script.text) == is_doubled


@pytest.mark.filterwarnings("error")
def test_known_weights_of_16_bits_come_doubled() -> None:
    """float16 has no number as large as the bound."""
    case = layer("LSTM", 14, "b", constants=("w", "r", "b"))
    inputs = {name: None if array is None else array.astype(np.float16) for name, array in case.inputs.items()}
    assert "twice" not in import_model(case_model(replace(case, inputs=inputs))).text


@pytest.mark.parametrize(("kind", "attributes"), [("RNN", {}), ("LSTM", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1})])
def test_a_bias_that_is_known_to_be_zero_is_not_added(kind: str, attributes: dict[str, int]) -> None:
    case = layer(kind, 14, "b", constants=("w", "r", "b"), **attributes)
    bias = case.inputs["b"]
    assert bias is not None
    bias[:] = 0
    text = import_model(case_model(case)).text
    assert "bias" not in text and "b_state" not in text
    check_case(case)
