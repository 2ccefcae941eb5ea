"""What all forms of a script give: as it is, and those that are specialised; onnxruntime judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

from onnx_systemds.engine import PreparedScript, ScriptCompileError
from onnx_systemds.runtime.autotune import Autotuner
from onnx_systemds.runtime.forms import SpecialisedScript
from onnx_systemds.runtime.scoring import ScoringFunction


def results_of_all_forms(function: ScoringFunction, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A call of each form that competes at these sizes; none may be refused by the engine, at compile time or later."""

    def refuse(self: Autotuner[Any], candidate: Any, instead: Any) -> None:
        raise AssertionError(f"the engine refuses form {self.candidates.index(candidate)} of {len(self.candidates)}")

    prepare = ScoringFunction._prepare_specialised

    def compiled(self: ScoringFunction, script: SpecialisedScript, form: int, *given: Any, **options: Any) -> PreparedScript:
        try:
            return prepare(self, script, form, *given, **options)
        except ScriptCompileError as error:
            raise AssertionError(f"the engine does not compile form {form} of {len(script.programs)}") from error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Autotuner, "drop", refuse)
        patch.setattr(ScoringFunction, "_prepare_specialised", compiled)
        results = [function(inputs)]
        if function._specialised is not None:
            results += [function(inputs) for _ in function._specialised.tuner.candidates[1:]]
        return results


def check_all_forms(
    function: ScoringFunction, model: ModelProto, inputs: Mapping[str, Any], rtol: float = 1e-5, atol: float = 1e-5
) -> None:
    """All forms give what onnxruntime gives, in shapes and numbers."""
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = dict(zip((output.name for output in runtime.get_outputs()), runtime.run(None, dict(inputs))))
    for results in results_of_all_forms(function, inputs):
        assert results.keys() == expected.keys()
        for name, array in expected.items():
            assert results[name].shape == array.shape, name
            np.testing.assert_allclose(results[name], array, rtol=rtol, atol=atol, err_msg=name)
