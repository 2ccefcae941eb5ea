"""Cuts before calls of functions that are called several times."""

from __future__ import annotations

from dataclasses import replace

import onnx

from onnx_systemds import import_model
from onnx_systemds.dml.scopes import called_in
from onnx_systemds.importing.passes.block_cuts import CALLED_CUT, NEVER, cut
from onnx_systemds.importing.passes.call_cuts import with_call_cuts
from onnx_systemds.importing.script import with_main


def test_a_call_that_nothing_stands_before_needs_no_cut() -> None:
    """As in the function of a branch that takes the sizes of the graph around it."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n, h, h] X) => (float[n, h, h] Y) { a = MatMul(X, X) b = MatMul(a, a) Y = MatMul(b, a) }""")
    script = import_model(model)
    calls = tuple(it for it in script.main.body if "batch_matmul" in called_in(it))
    found = with_call_cuts(with_main(script, replace(script.main, body=calls))).main.body
    assert len(calls) > 1 and found == (cut(NEVER), calls[0], *(it for each in calls[1:] for it in (cut(CALLED_CUT), each)))
