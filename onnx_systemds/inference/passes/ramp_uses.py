"""What is read by places that count, or masked by what is true everywhere, is not looked up and not masked.

Gather of rows by numbers that count is a Slice, by the same number everywhere that row; And with true is the other
input; numbers of columns compared with those of rows are a triangle. An Expand along the first axes goes behind a
choice between single numbers, and vanishes where a sum repeats what it takes anyway. Condition: `inference.ramps` knows
the indices or the mask. Reason: exporters number positions and mask nothing by general means; those who write a script
by hand would not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_systemds.correspondence import MIRRORED_ORDERS
from onnx_systemds.inference.dims import Dims, may_be_zero
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.ramps import ramp_of
from onnx_systemds.inference.values import Ramp
from onnx_systemds.model.ir import Node

_OPSET = 14  # of what is written, at least
NEEDS = ("Add", "And", "Gather", "Where", *MIRRORED_ORDERS)


def use_ramps(facts: InferenceFacts) -> Rewriting:
    """The nodes that stand for a node which reads what counts, None where it stays."""
    node = facts.node
    if any(not facts.has(at) or facts.value(at).dims is None for at in range(facts.input_count)):
        return None
    if node.op_type == "Gather":
        return _gathered(facts)
    if node.op_type == "And":
        return _masked(facts)
    if node.op_type in MIRRORED_ORDERS:
        return _compared(facts)
    return _expanded_later(facts) if node.op_type == "Where" else _not_expanded(facts)


def _gathered(facts: InferenceFacts) -> Rewriting:
    """Rows by numbers that count."""
    ramp, node = ramp_of(facts.value(1)), facts.node
    if ramp is None or facts.axis() != 0 or facts.constant(1) is not None or facts.rank(0) < 2 or not facts.rank(1):
        return None
    dims = facts.dims(1)
    counted = [axis for axis, step in enumerate(ramp.steps) if step != 0]
    size = facts.dims(0)[0]
    if len(counted) > 1 or (counted and ramp.steps[counted[0]] != 1) or not isinstance(size, int):
        return "the indices count, but not one after the other along one axis"
    number = dims[counted[0]] if counted else 1
    is_there = ramp.start + number <= size if isinstance(number, int) else ramp.start == 0 or not may_be_zero(number)
    if not 0 <= ramp.start < size or not is_there or facts.value(0).is_text:
        return None  # the Gather refuses what is not there
    writer = NodeWriter(node, node.outputs[0], max(node.version, _OPSET))
    numbers = writer.emit("Shape", node.inputs[1])
    start, axis = writer.known([ramp.start]), writer.known([0])
    if counted:
        length = writer.emit("Slice", numbers, writer.known(counted), writer.known([counted[0] + 1]), axis)
        end = writer.emit("Add", length, start)
    else:
        end = writer.known([ramp.start + 1])
    rows = writer.emit("Slice", node.inputs[0], start, end, axis)
    new = [at for at in range(len(dims)) if at not in counted] if counted else list(range(1, len(dims)))
    repeated = [at for at, dim in enumerate(dims) if dim != 1 and at not in counted]
    goes_to = "" if repeated else node.outputs[0]
    found = writer.emit("Unsqueeze", rows, writer.known(new), to=goes_to) if new else rows
    if repeated:
        table = writer.emit("Shape", node.inputs[0])
        row = writer.emit("Slice", table, writer.known([1]), writer.known([facts.rank(0)]))
        writer.emit("Expand", found, writer.emit("Concat", numbers, row, axis=0), to=node.outputs[0])
    elif not new:
        writer.emit("Identity", rows, to=node.outputs[0])
    return tuple(writer.nodes), "rows that are one below the other" if counted else "one row"


def _masked(facts: InferenceFacts) -> Rewriting:
    """A mask that is true everywhere: the other one is left, repeated where the first one has more elements."""
    for mask, other in ((0, 1), (1, 0)):
        ramp = ramp_of(facts.value(mask))
        if ramp is None or not ramp.is_even or not ramp.start:
            continue
        node, name = facts.node, facts.node.inputs[other]
        writer = NodeWriter(node, node.outputs[0], max(node.version, _OPSET))
        if _covers(facts.dims(other), facts.dims(mask)):
            writer.nodes.append(replace(node, op_type="Identity", inputs=(name,), attributes={}))
        else:
            writer.emit("Expand", name, _shape(facts, writer), to=node.outputs[0])
        return tuple(writer.nodes), "one of the masks is true everywhere"
    return None


def _covers(dims: Dims, others: Dims) -> bool:
    """Whether a tensor of such dims keeps them, broadcast with others."""
    return len(others) <= len(dims) and all(
        other in (1, dim) for dim, other in zip(reversed(dims), reversed(others))
    )


def _shape(facts: InferenceFacts, writer: NodeWriter) -> str:
    """The shape that two inputs are broadcast to, as a value."""
    dims, zero = [facts.dims(at) for at in (0, 1)], writer.known([0])
    shapes = [writer.emit("Shape", name) for name in facts.node.inputs]
    parts = []
    for axis in range(-max(map(len, dims)), 0):
        at = 0 if len(dims[0]) >= -axis and (len(dims[1]) < -axis or dims[1][axis] == 1) else 1
        place = len(dims[at]) + axis
        parts.append(writer.emit("Slice", shapes[at], writer.known([place]), writer.known([place + 1]), zero))
    return writer.emit("Concat", *parts, axis=0)


def _compared(facts: InferenceFacts) -> Rewriting:
    """Numbers of columns compared with numbers of rows, as a causal mask is made: a triangle, repeated if need be."""
    node, given = facts.node, [ramp_of(facts.value(at)) for at in (0, 1)]
    axes = [None if ramp is None else _counted_axis(ramp) for ramp in given]
    if axes not in ([-2, -1], [-1, -2]):
        return None
    start, other = (ramp.start for ramp in given if ramp is not None)
    rows_first = axes[0] == -2
    upper = (node.op_type in ("Less", "LessOrEqual")) is rows_first
    offset = start - other if rows_first else other - start
    if node.op_type in ("Greater", "Less"):
        offset += 1 if upper else -1
    writer = NodeWriter(node, node.outputs[0], max(node.version, _OPSET))
    shape = _shape(facts, writer)
    rank = max(facts.rank(0), facts.rank(1))
    plane = writer.emit("Slice", shape, writer.known([rank - 2]), writer.known([rank]), writer.known([0]))
    ones = writer.emit("ConstantOfShape", plane, value=np.array([True]))
    shift = (writer.known(offset),) if offset else ()
    triangle = writer.emit("Trilu", ones, *shift, upper=int(upper))
    writer.emit("Expand", triangle, shape, to=node.outputs[0])
    return tuple(writer.nodes), "numbers of columns and of rows make a triangle"


def _counted_axis(ramp: Ramp) -> int | None:
    """The axis along which elements count one after the other, from the last one, if there is none but that."""
    axes = [axis - len(ramp.steps) for axis, step in enumerate(ramp.steps) if step != 0]
    return axes[0] if len(axes) == 1 and ramp.steps[axes[0]] == 1 else None


def _expanded_later(facts: InferenceFacts) -> Rewriting:
    """A choice between two numbers, by a mask that is repeated: the numbers are chosen, then repeated."""
    node = facts.node
    made = _expansion(facts, node.inputs[0])
    if made is None or any(dim != 1 for at in (1, 2) for dim in facts.dims(at)):
        return None
    if any(facts.rank(at) > len(facts.dims_of(made.inputs[0])) for at in (1, 2)):
        return None
    chosen = f"{node.outputs[0]}/chosen"
    return (
        replace(node, inputs=(made.inputs[0], *node.inputs[1:]), outputs=(chosen,)),
        replace(made, inputs=(chosen, made.inputs[1]), outputs=node.outputs),
    ), "the mask is repeated"


def _not_expanded(facts: InferenceFacts) -> Rewriting:
    """A sum with what an Expand repeats, though the sum repeats it, too."""
    for at in (0, 1):
        made = _expansion(facts, facts.node.inputs[at])
        if made is not None and _covers(facts.dims(1 - at), facts.dims(at)):
            inputs = list(facts.node.inputs)
            inputs[at] = made.inputs[0]
            return (replace(facts.node, inputs=tuple(inputs)),), "it repeats what an Expand would"
    return None


def _expansion(facts: InferenceFacts, name: str) -> Node | None:
    """The Expand that gives a value, if all that it repeats is axes of size 1."""
    made = facts.makers.get(name)
    while made is not None and made.identity == ("", "Identity"):
        made = facts.makers.get(made.inputs[0])
    if made is None or made.identity != ("", "Expand"):
        return None
    own, dims = facts.values[made.inputs[0]].dims, facts.values[made.outputs[0]].dims
    if own is None or dims is None or own == dims or not _covers(dims, own):
        return None
    return made
