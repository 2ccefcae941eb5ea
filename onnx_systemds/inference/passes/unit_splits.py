"""SplitToSequence into as many parts of size 1 as its axis is long becomes one without sizes.

Condition: the sizes are a ConstantOfShape of ones, as long as the axis. Reason: so the size of the items is known while
the length of the axis is open. PyTorch's repeat_interleave writes it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting

NEEDS = ("SplitToSequence",)


def split_into_single_places(facts: InferenceFacts) -> Rewriting:
    """The node without sizes, None where they are others, or not known."""
    node = facts.node
    if not facts.has("split") or facts.constant("split") is not None:
        return None
    made = facts.made_by(facts.name("split"), "ConstantOfShape")
    value = None if made is None else made.attributes.get("value")
    if value is None or np.any(np.asarray(value) != 1):
        return "its sizes are not known to be ones"
    if facts.value("split").dims != (facts.dims("input")[facts.axis()],):
        return "there are not known to be as many ones as places"
    split = replace(node, inputs=node.inputs[:1], attributes={**node.attributes, "keepdims": 1})
    return (split,), "into parts of size 1"
