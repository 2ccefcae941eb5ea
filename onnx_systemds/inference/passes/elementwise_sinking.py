"""A function of single elements goes after what only moves, chooses or averages its results.

A maximum (MaxPool) goes before what keeps the order of numbers (Relu, Clip, a quantisation), if its indices are not
used; movements (Reshape, Transpose, Slice ...) and means go before a DequantizeLinear of one scale, means unless
they count zeros of the padding. Reason: fewer elements, and a quantisation after it may vanish (see `requantization`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx import TensorProto

from onnx_systemds.inference.dims import product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, producer_of
from onnx_systemds.inference.passes.requantization import known_scale
from onnx_systemds.model.ir import Node

RULE = "elementwise-sinking"
_MOVEMENTS = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice")
_MEANS = ("AveragePool", "GlobalAveragePool")
_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")
_RISING = ("Relu", "Clip", *_QUANTIZING)  # the latter by a positive scale


def sink_elementwise(facts: InferenceFacts, before: Sequence[Node]) -> tuple[Node, ...] | None:
    """A node and, after it, the function that its elements went through before; None where they stay."""
    node = facts.node
    if node.domain or node.op_type not in (*_MOVEMENTS, *_MEANS, "MaxPool") or not node.inputs[0]:
        return None
    made = producer_of(node.inputs[0], before)
    if made is None or made.domain or made.op_type not in (_RISING if node.op_type == "MaxPool" else _RISING[-1:]):
        return None
    reason = _obstacle(facts, made)
    if reason:
        facts.context.notes.left(RULE, node, reason)
        return None
    prefix = f"{node.outputs[0]}/factor"
    source, numbers = made.inputs[0], ()  # type: str, tuple[Node, ...]
    if node.op_type in _MEANS:  # what a mean gives is no longer of the quantised type
        source = f"{prefix}/numbers"
        to = {"to": int(TensorProto.FLOAT)}
        numbers = (replace(node, op_type="Cast", inputs=made.inputs[:1], outputs=(source,), attributes=to),)
    moved = f"{prefix}/moved"
    facts.context.notes.fired(RULE, node, f"before the {made.op_type} before it")
    return (
        *numbers,
        replace(node, inputs=(source, *node.inputs[1:]), outputs=(moved,)),
        replace(made, inputs=(moved, *made.inputs[1:]), outputs=node.outputs[:1]),
    )


def _obstacle(facts: NodeFacts, made: Node) -> str:
    """Why a node does not go before the one that makes its input, "" where it does."""
    node = facts.node
    if node.op_type == "MaxPool":
        if made.op_type in _QUANTIZING and not (known_scale(facts, made) or 0) > 0:
            return f"the scale of the {made.op_type} before it is not one known positive number"
        return "its indices are used" if any(node.outputs[1:]) else ""
    dims = [facts.values[name].dims for name in made.inputs[1:] if name]
    if not all(size is not None and product(size) == 1 for size in dims):
        return "the DequantizeLinear before it has several scales"
    return "it counts the zeros of the padding" if node.attributes.get("count_include_pad") else ""
