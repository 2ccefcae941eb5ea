"""What all forms of a script give: as it is, and those that are compiled for sizes that stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from onnx_systemds.scoring import ScoringFunction
from onnx_systemds.steady.contest import Contest


def results_of_all_forms(function: ScoringFunction, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A call of each form that competes at these sizes; none may be refused by the engine."""

    def refuse(self: Contest[Any], candidate: Any, instead: Any) -> None:
        raise AssertionError(f"the engine refuses form {self.candidates.index(candidate)} of {len(self.candidates)}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Contest, "drop", refuse)
        results = [function(inputs)]
        if function._steady is not None:
            results += [function(inputs) for _ in function._steady[1].candidates[1:]]
        return results
