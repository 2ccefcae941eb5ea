"""Which scripts a scoring function prepares."""

from __future__ import annotations

from typing import Any

from onnx_systemds.engine import PreparedScript
from onnx_systemds.runtime.driver import Program
from onnx_systemds.runtime.scoring import ScoringFunction


def recorded(function: ScoringFunction) -> list[str]:
    """The texts of the scripts that the function prepares from now on."""
    texts: list[str] = []
    prepare = function._prepare

    def record(program: Program, *given: Any, **named: Any) -> PreparedScript:
        texts.append(program.text)
        return prepare(program, *given, **named)

    function._prepare = record  # type: ignore[method-assign]
    return texts
