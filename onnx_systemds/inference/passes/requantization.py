"""QuantizeLinear of what was dequantised becomes what it was before.

Condition: the same known scale that is not huge, zero point and type of integers, and numbers of FP32. Reason: FP32 has
room enough for 16 bits, so nothing is rounded. Of float8 an infinity becomes the largest number on the way.
"""

from __future__ import annotations

import math
from dataclasses import replace

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model.ir import Node

NEEDS = ("QuantizeLinear",)
_LARGEST = 1e33
"""By a scale beyond it, integers of 16 bits may be infinite."""
QUANTIZING = ("QuantizeLinear", "DequantizeLinear")


def drop_requantization(facts: InferenceFacts) -> Rewriting:
    """The quantised numbers themselves, None where they are quantised in another way than before."""
    node = facts.node
    made = facts.made_by(node.inputs[0], "DequantizeLinear")
    if made is None:
        return None
    scale = known_scale(facts, made)
    source = facts.values[made.inputs[0]].dtype
    target = facts.dtype(2) if facts.has(2) else node.attributes.get("output_dtype") or "uint8"
    is_same = known_scale(facts, node) == scale and _zero(facts, node) == _zero(facts, made)
    is_whole = source == target and target in INTEGER_DTYPES
    if facts.dtype(0) != "float" or not scale or not is_same or not is_whole:
        return "type, scale or zero point are not known to be those of before"
    if abs(scale) > _LARGEST:
        return "its numbers may be beyond FP32"
    same = replace(node, op_type="Identity", inputs=made.inputs[:1], attributes={})
    return (same,), "of numbers that were quantised the same way"


def known_scale(facts: NodeFacts, node: Node) -> float | None:
    """The one known scale of a quantising or dequantising node, if it is finite."""
    scale = facts.values[node.inputs[1]].number if node.op_type in QUANTIZING else None
    return scale if scale is not None and math.isfinite(scale) else None


def _zero(facts: NodeFacts, node: Node) -> float | None:
    """The one known zero point of a quantising or dequantising node."""
    return facts.values[node.inputs[2]].number if len(node.inputs) > 2 and node.inputs[2] else 0
