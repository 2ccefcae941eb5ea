"""Range of floats that were sizes becomes the Range of these sizes, and its elements floats.

Condition: each input is an integer known at conversion, or cast from an integer that is followed as a size.
Reason: so the number of elements is known as an expression of sizes, while it is the run that decides how many floats
there are between others. PyTorch's ``arange(1, height + 1, dtype=float)`` is written so.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.inference.inference_facts import InferenceFacts, made_by
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.model.ir import Node

RULE = "counted-ranges"
NEEDS = ("Range",)
_EXACT = 1 << 24  # integers up to this one are floats of FP32


def count_range(facts: InferenceFacts, before: Sequence[Node]) -> tuple[Node, ...] | None:
    """The Range of integers and the Cast of its elements, None where the node stays."""
    node = facts.node
    dtype = facts.dtype(0)
    if node.identity != ("", "Range") or dtype not in ("float", "double"):
        return None
    if all(facts.constant(position) is not None for position in range(3)):
        return None
    writer = NodeWriter(node, node.outputs[0], node.version)
    given = [_whole(facts, before, position, writer) for position in range(3)]
    if None in given:
        facts.context.notes.left(RULE, node, "what it takes is not known to be sizes")
        return None
    writer.cast(writer.emit("Range", *filter(None, given)), dtype, to=node.outputs[0])
    facts.context.notes.fired(RULE, node, "of the sizes that were cast to floats")
    return tuple(writer.nodes)


def _whole(facts: InferenceFacts, before: Sequence[Node], position: int, writer: NodeWriter) -> str | None:
    """An input as an int64, None where it may be no integer, or one that is not followed."""
    known = facts.constant(position)
    if known is not None:
        number = float(known.ravel()[0]) if known.size == 1 else 0.5
        return writer.known(int(number)) if number.is_integer() and abs(number) <= _EXACT else None
    cast = made_by(facts.name(position), before, "Cast")
    source = None if cast is None else facts.values[cast.inputs[0]]
    if cast is None or source is None or source.elements is None:
        return None
    return cast.inputs[0] if source.dtype == "int64" else writer.cast(cast.inputs[0], "int64")
