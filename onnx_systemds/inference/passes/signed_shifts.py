"""Shifts of int64 that are written by uint64 become those of int64, which opset 28 has.

PyTorch's exporter casts to uint64, shifts and casts back; to the right it sets the upper bits of negative numbers by a
mask. Condition: known amounts below 64, and just that mask. Reason: as uint64, negative numbers lie where FP64 does not
hold them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.model.ir import Array, Node

NEEDS = ("Cast", "Where")
_ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class _Shift:
    """What is shifted, by how much, and the shifted number as uint64."""

    source: str
    amounts: Array
    result: str


def shift_signed(facts: InferenceFacts) -> Rewriting:
    """The shift of the int64 itself, None where the node is none."""
    node = facts.node
    is_left = node.op_type == "Cast"
    if is_left and node.attributes.get("to") != TensorProto.INT64:
        return None
    shift = _cast_back(facts, node, "LEFT") if is_left else _arithmetic(facts)
    if not isinstance(shift, _Shift):
        return shift
    direction = "LEFT" if is_left else "RIGHT"
    amounts = f"{node.outputs[0]}/amounts"
    return (
        node.inner("Constant", (), (amounts,), {"value": shift.amounts.astype(np.int64)}),
        replace(
            node, op_type="BitShift", inputs=(shift.source, amounts), attributes={"direction": direction}, version=28
        ),
    ), "uint64 in between is left out"


def _cast_back(facts: InferenceFacts, node: Node, direction: str) -> _Shift | str | None:
    """The shift whose result a Cast takes back, if it is of an int64 that was cast to uint64 before it; or why not."""
    made = facts.made_by(node.inputs[0], "BitShift")
    cast = None if made is None else facts.made_by(made.inputs[0], "Cast")
    if made is None or cast is None or made.attributes.get("direction") != direction:
        return None
    if facts.values[cast.inputs[0]].dtype != "int64" or facts.values[cast.outputs[0]].dtype != "uint64":
        return None
    amounts = facts.values[made.inputs[1]].constant
    if amounts is None or np.any(amounts >= 64):
        return "the amounts are not known to be below 64"
    return _Shift(cast.inputs[0], amounts, made.outputs[0])


def _arithmetic(facts: InferenceFacts) -> _Shift | str | None:
    """The shift to the right of which a Where takes the masked result for negative numbers, else the plain one."""
    if len(facts.node.inputs) != 3:
        return None
    less, masked, plain = map(facts.makers.get, facts.node.inputs)
    if less is None or masked is None or plain is None or not masked.op_type == plain.op_type == "Cast":
        return None
    if facts.values[masked.outputs[0]].dtype != "int64" or facts.values[plain.outputs[0]].dtype != "int64":
        return None
    shift, filled = _cast_back(facts, plain, "RIGHT"), facts.made_by(masked.inputs[0], "BitwiseOr")
    if not isinstance(shift, _Shift):
        return shift
    if less.identity != ("", "Less") or filled is None:
        return None
    bound, mask = (facts.values[each.inputs[1]].constant for each in (less, filled))
    is_sign = less.inputs[0] == shift.source and bound is not None and not np.any(bound)
    is_filled = mask is not None and bool(np.all(mask == ~(_ALL >> shift.amounts))) and filled.inputs[0] == shift.result
    if not (is_sign and is_filled):
        return "the mask is not that of the upper bits of negative numbers"
    return shift
