"""Integers and booleans that follow evenly from their places become known as such.

Condition: they are made of Range and constants by operators that `inference.ramps` knows. Reason: a comparison that is
true everywhere masks nothing, and rows whose numbers count are a slice (see `ramp_uses`).
"""

from __future__ import annotations

from onnx_systemds.inference.inference_facts import Finding, InferenceFacts
from onnx_systemds.inference.ramps import with_ramp
from onnx_systemds.inference.values import Value


def follow_ramps(facts: InferenceFacts, outputs: tuple[Value, ...]) -> Finding:
    """The outputs, the first with how its elements follow from their places; None where that is not known."""
    first = with_ramp(facts, outputs[0])
    return None if first is None else ((first, *outputs[1:]), "its elements follow from their places")
