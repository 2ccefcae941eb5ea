"""Symbols that stand in several inputs: the script itself checks that these agree, and says where they do not."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import shared_session
from onnx_systemds.engine.errors import ScriptRuntimeError
from onnx_systemds.runtime.driver import program_of

MODEL = """<ir_version: 10, opset_import: ["" : 18]>
g (float[batch,seq,4] x, float[batch,seq] y, float[seq,seq] w) => (float[batch,seq,4] z, float[seq,seq] v) {
  axes = Constant <value_ints = [2]> ()
  u = Unsqueeze(y, axes)
  z = Add(x, u)
  v = Neg(w)
}"""


@pytest.mark.parametrize("dims, message", [
    ([(2, 12), (2, 3), (3, 3)], ""),
    ([(2, 12), (1, 3), (3, 3)], "y has 1 rows, not batch = 2"),
    ([(2, 12), (2, 5), (3, 3)], "y has 5 columns, not seq_ = 3"),
    ([(2, 12), (2, 3), (3, 4)], "w has 4 columns, not seq_ = 3"),
])
def test_inputs_that_disagree(dims: list[tuple[int, int]], message: str) -> None:
    script = import_model(onnx.parser.parse_model(MODEL))
    names = [f"in{position}" for position in range(3)]
    prepared = shared_session().prepare(program_of(script).text, names, ["out0", "out1"])
    given = {name: np.ones(size) for name, size in zip(names, dims)}
    if not message:
        assert prepared(given)["out0"].shape == (2, 12)
        return
    with pytest.raises(ScriptRuntimeError, match=message):
        prepared(given)


def test_a_symbol_of_one_input_needs_no_check() -> None:
    text = import_model(onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[batch,seq,4] x) => (float[batch,seq,4] z) { z = Neg(x) }""")).text
    assert "stop(" not in text
