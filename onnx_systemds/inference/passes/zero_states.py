"""Recurrent layers do not read initial states of zeros: those that they are not given are zeros, too.

Condition: a state is made of zeros by operators that move them, and has the sizes of the layer. Reason: PyTorch writes
the zeros of all layers at once, and a part of them for each layer and each state; a script would take them apart.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting

NEEDS = ("GRU", "LSTM", "RNN")
_MOVES = ("Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def drop_zero_states(facts: InferenceFacts) -> Rewriting:
    """The node without initial states that are zeros, None where it has no others."""
    states = [at for at in (5, 6) if facts.has(at)]
    zeros = [at for at in states if _is_zero(facts, facts.name(at))]
    if not zeros:
        return "its initial states are not known to be zeros" if states else None
    if any(facts.value(at).dims is None or facts.rank(at) != 3 for at in (0, 2)):
        return None  # which the layer refuses
    directions, _, units = facts.dims(2)
    batch = facts.dims(0)[0 if facts.attribute("layout") else 1]
    sizes = (batch, directions, units) if facts.attribute("layout") else (directions, batch, units)
    if any(facts.value(at).dims != sizes for at in zeros):
        return "its initial states are not known to have the sizes of the layer"
    inputs = ["" if at in zeros else name for at, name in enumerate(facts.node.inputs)]
    while not inputs[-1]:
        inputs.pop()
    return (replace(facts.node, inputs=tuple(inputs)),), "it begins with zeros anyway"


def _is_zero(facts: InferenceFacts, name: str) -> bool:
    """Whether all elements of a value are known to be 0."""
    while (moved := facts.made_by(name, *_MOVES)) is not None:
        name = moved.inputs[0]
    made = facts.made_by(name, "ConstantOfShape")
    number = facts.values[name].constant if made is None else made.attributes.get("value", 0.0)
    return number is not None and not np.any(np.asarray(number))
