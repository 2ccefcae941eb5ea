"""Range of floats that were sizes becomes the Range of these sizes, and its elements floats.

Condition: each input is an integer known at conversion, or cast from an integer that is followed as a size.
Reason: so the number of elements is known as an expression of sizes, while it is the run that decides how many floats
there are between others. PyTorch's ``arange(1, height + 1, dtype=float)`` is written so.
"""

from __future__ import annotations

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.node_writer import NodeWriter

NEEDS = ("Range",)
_EXACT = 1 << 24  # integers up to this one are floats of FP32


def count_range(facts: InferenceFacts) -> Rewriting:
    """The Range of integers and the Cast of its elements, None where the node stays."""
    node, dtype = facts.node, facts.dtype(0)
    if dtype not in ("float", "double") or all(facts.constant(position) is not None for position in range(3)):
        return None
    writer = NodeWriter(node, node.outputs[0], node.version)
    given = [_whole(facts, position, writer) for position in range(3)]
    if None in given:
        return "what it takes is not known to be sizes"
    writer.cast(writer.emit("Range", *filter(None, given)), dtype, to=node.outputs[0])
    return tuple(writer.nodes), "of the sizes that were cast to floats"


def _whole(facts: InferenceFacts, position: int, writer: NodeWriter) -> str | None:
    """An input as an int64, None where it may be no integer, or one that is not followed."""
    known = facts.constant(position)
    if known is not None:
        number = float(known.ravel()[0]) if known.size == 1 else 0.5
        return writer.known(int(number)) if number.is_integer() and abs(number) <= _EXACT else None
    cast = facts.made_by(facts.name(position), "Cast")
    source = None if cast is None else facts.values[cast.inputs[0]]
    if cast is None or source is None or source.elements is None:
        return None
    return cast.inputs[0] if source.dtype == "int64" else writer.cast(cast.inputs[0], "int64")
