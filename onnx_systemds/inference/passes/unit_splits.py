"""SplitToSequence into as many parts of size 1 as its axis is long becomes one without sizes.

Condition: the sizes are a ConstantOfShape of ones, as long as the axis. Reason: so the size of the items is known while
the length of the axis is open. PyTorch's repeat_interleave writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.inference.inference_facts import InferenceFacts, made_by
from onnx_systemds.model.ir import Node

RULE = "unit-splits"
NEEDS = ("SplitToSequence",)


def split_into_single_places(facts: InferenceFacts, before: Sequence[Node]) -> tuple[Node, ...] | None:
    """The node without sizes, None where they are others, or not known."""
    node = facts.node
    if node.identity != ("", "SplitToSequence") or not facts.has("split") or facts.constant("split") is not None:
        return None
    made = made_by(facts.name("split"), before, "ConstantOfShape")
    value = None if made is None else made.attributes.get("value")
    if value is None or np.any(np.asarray(value) != 1):
        facts.context.notes.left(RULE, node, "its sizes are not known to be ones")
        return None
    if facts.value("split").dims != (facts.dims("input")[facts.axis()],):
        facts.context.notes.left(RULE, node, "there are not known to be as many ones as places")
        return None
    facts.context.notes.fired(RULE, node, "into parts of size 1")
    return (replace(node, inputs=node.inputs[:1], attributes={**node.attributes, "keepdims": 1}),)
