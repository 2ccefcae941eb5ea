"""A Pad that puts back one element beside a Slice without the first or last one goes before the Slice.

Condition: the axis is open, and the element is put at its other end: ``x[:, 1:]`` and a place after it, ``x[:, :-1]``
and one before it. Reason: of an axis of one element, as a sentence of one token, the Slice would leave none, which
scripts refuse. MobileBERT looks at the words before and after each one so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_systemds.inference.dims import may_be_zero
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.model.ir import Node

NEEDS = ("Pad",)
_FAR = 2**31 - 1


def pad_before_slice(facts: InferenceFacts) -> Rewriting:
    """The Pad of what is sliced, and the Slice; None where they are in another order for good."""
    node = facts.node
    if facts.version < 11:
        return None
    made = facts.made_by(node.inputs[0], "Slice")
    if made is None or len(made.inputs) < 4:
        return None
    if reason := _obstacle(facts, made):
        return reason
    padded = f"{node.outputs[0]}/padded"
    return (
        replace(node, inputs=(made.inputs[0], *node.inputs[1:]), outputs=(padded,)),
        replace(made, inputs=(padded, *made.inputs[1:]), outputs=node.outputs),
    ), "before the Slice before it"


def _obstacle(facts: InferenceFacts, made: Node) -> str:
    """Why the Pad does not put back what the Slice takes; "" if it does."""
    pads = facts.constant("pads")
    constants = [facts.values[name].constant if name else None for name in made.inputs[1:]]
    dims = facts.values[made.inputs[0]].dims
    if pads is None or dims is None or any(content is None or content.size != 1 for content in constants):
        return "what is sliced and padded is not known to be one axis"
    start, end, axis, *steps = (int(content.item()) for content in constants if content is not None)
    axis %= len(dims)
    if isinstance(dims[axis], int) or may_be_zero(dims[axis]):
        return "its axis is not known to be open and to have elements"
    before, after = np.zeros((2, 2 * len(dims)), int)
    before[axis] = after[axis + len(dims)] = 1
    wanted = after if start == 1 and end >= _FAR else before if start == 0 and end == -1 else None
    is_plain = facts.attribute("mode") == "constant" and not facts.has(3) and steps in ([], [1])
    if wanted is None or not is_plain or not np.array_equal(pads, wanted):
        return "it does not put one element where the Slice leaves one out at the other end"
    return ""
