"""Calls in a single round trip, which scripts that are called often take: they give what others give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onnx_systemds.engine import ScriptRuntimeError, shared_session, transfer
from onnx_systemds.engine.prepared_script import _CALLS_BEFORE
from onnx_systemds.engine.session import Session

SCRIPT = """
X = read("./X")
W = read("./W")
if (sum(X) == 77) {
  stop("seventy-seven")
}
Y = X %*% W
z = sum(X)
E = X * 0
L = matrix(1, rows=1000, cols=600) * z
F = as.frame(X)
write(Y, "./Y")
write(z, "./z")
write(E, "./E")
write(L, "./L")
write(F, "./F")
"""


def prepared(weights: Any = None) -> Any:
    script = shared_session().prepare(SCRIPT, ["X", "W"], ["Y", "z", "E", "L", "F"])
    script.pin("W", np.arange(12.0).reshape(3, 4) if weights is None else weights)
    return script


def called_often(script: Any) -> None:
    for _ in range(_CALLS_BEFORE):
        script({"X": np.ones((2, 3))})


def round_trips(action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    client = shared_session()._gateway._gateway_client
    sent: list[str] = []
    send = client.send_command
    with monkeypatch.context() as patch:
        patch.setattr(client, "send_command", lambda command, *more: (sent.append(command), send(command, *more))[1])
        action()
    return sum(not command.startswith("m\n") for command in sent)  # without those that forget objects


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (500, 3), (200_000, 3)])
def test_results_are_those_of_other_calls(shape: tuple[int, int], dtype: str) -> None:
    weights = np.arange(12.0).reshape(3, 4)
    script = prepared(weights)
    called_often(script)
    x = (np.random.default_rng(5).integers(-3, 4, size=shape) * (np.arange(3) == 1)).astype(dtype)
    for given in (x, np.asfortranarray(x)):
        found = script({"X": given})
        np.testing.assert_array_equal(found["Y"], x.astype(float) @ weights)
        assert found["z"].tolist() == [[x.sum()]] and found["E"].shape == shape and not found["E"].any()
        assert found["L"].shape == (1000, 600) and (found["L"] == x.sum()).all()
        assert found["F"].shape == shape
        assert (script._caller is not None) == (x.size < 2**19), "a larger one comes in pieces"


def test_a_call_takes_one_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'X = read("./X")\nY = X + 1\nZ = X * 2\nwrite(Y, "./Y")\nwrite(Z, "./Z")\n'
    script = shared_session().prepare(text, ["X"], ["Y", "Z"])
    x = np.ones((40, 40))
    before = round_trips(lambda: script({"X": x}), monkeypatch)
    for _ in range(_CALLS_BEFORE):
        script({"X": x})
    assert (round_trips(lambda: script({"X": x}), monkeypatch), before > 8) == (1, True)


def test_errors_are_told_and_the_next_call_works() -> None:
    script = prepared()
    called_often(script)
    for _ in range(2):
        with pytest.raises(ScriptRuntimeError, match="seventy-seven"):
            script({"X": np.full((1, 1), 77.0) * np.array([[1.0, 0.0, 0.0]])})
        assert script({"X": np.ones((1, 3))})["z"].tolist() == [[3.0]]


def test_what_is_pinned_later_counts() -> None:
    script = prepared()
    called_often(script)
    script.pin("W", np.ones((3, 2)))
    assert script({"X": np.ones((1, 3))})["Y"].tolist() == [[3.0, 3.0]]
    script.pin("X", np.full((1, 3), 2.0))
    assert script({})["Y"].tolist() == [[6.0, 6.0]]


def test_an_engine_without_its_compiler_is_called_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(jvm: Any) -> Any:
        raise TypeError("'JavaPackage' object is not callable")

    monkeypatch.setattr(transfer, "caller_class", missing)
    monkeypatch.setattr(shared_session()._channel, "_caller_class", None)
    script = prepared()
    called_often(script)
    for _ in range(2):
        assert script({"X": np.ones((1, 3))})["z"].tolist() == [[3.0]]
    assert script._caller is None


def test_scripts_that_run_together_share_the_class_of_their_callers() -> None:
    text = 'X = read("./X", rows=1, cols=1)\nY = X + 1\nwrite(Y, "./Y")\n'
    with Session(max_heap="512m") as session:
        scripts = [session.prepare(text, ["X"], ["Y"], single_threaded=True) for _ in range(4)]
        given = [{"X": np.full((1, 1), float(number))} for number, _ in enumerate(scripts)]
        for _ in range(_CALLS_BEFORE + 3):
            found = session.run_together(scripts, given)
            assert [float(result["Y"].item()) for result in found] == [1.0, 2.0, 3.0, 4.0]
