"""A function of single elements goes after what only moves, chooses or averages its results.

A maximum (MaxPool) goes before what keeps the order of numbers (Relu, Clip, a quantisation), if its indices are not
used; movements (Reshape, Transpose, Slice ...) and means go before a DequantizeLinear of one scale, means unless
they count zeros of the padding. Reason: fewer elements, and a quantisation after it may vanish (see `requantization`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from onnx import TensorProto

from onnx_systemds.inference.dims import Dims, product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.passes.requantization import QUANTIZING, known_scale
from onnx_systemds.model.ir import Node

_MOVEMENTS = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice")
_LARGE_TABLE = 1024
"""If the number of indices of a Gather is unknown, it is assumed to be smaller than an axis of this size."""
_MEANS = ("AveragePool", "GlobalAveragePool")
NEEDS = (*_MOVEMENTS, *_MEANS, "Gather", "MaxPool")
_RISING = ("Relu", "Clip", *QUANTIZING)  # the latter by a positive scale


def sink_elementwise(facts: InferenceFacts) -> Rewriting:
    """A node and, after it, the function that its elements went through before; None where they stay."""
    node = facts.node
    made = facts.makers.get(node.inputs[0])
    if made is None or made.domain or made.op_type not in (_RISING if node.op_type == "MaxPool" else _RISING[-1:]):
        return None
    if reason := _obstacle(facts, made):
        return reason
    prefix = f"{node.outputs[0]}/factor"
    source, numbers = made.inputs[0], ()  # type: str, tuple[Node, ...]
    if node.op_type in _MEANS:  # what a mean gives is no longer of the quantised type
        source = f"{prefix}/numbers"
        to = {"to": int(TensorProto.FLOAT)}
        numbers = (replace(node, op_type="Cast", inputs=made.inputs[:1], outputs=(source,), attributes=to),)
    moved = f"{prefix}/moved"
    return (
        *numbers,
        replace(node, inputs=(source, *node.inputs[1:]), outputs=(moved,)),
        replace(made, inputs=(moved, *made.inputs[1:]), outputs=node.outputs[:1], attributes=_attributes(facts, made)),
    ), f"before the {made.op_type} before it"


def _attributes(facts: NodeFacts, made: Node) -> Mapping[str, Any]:
    """Those of the node that goes after: a Gather gives its axis as many positions as the indices have axes."""
    if facts.node.op_type != "Gather":
        return made.attributes
    others = {name: value for name, value in made.attributes.items() if name != "axis"}
    dims = facts.values[made.inputs[1]].dims
    if dims is None or product(dims) == 1:
        return others
    rank = facts.rank(0)
    chosen, scaled = int(facts.attribute("axis")) % rank, _scaled_axis(made, rank)
    return {**others, "axis": scaled + (facts.rank(1) - 1 if scaled > chosen else 0)}


def _scaled_axis(made: Node, rank: int) -> int:
    """The axis along which a DequantizeLinear has its scales."""
    axis = made.attributes.get("axis", 1)
    assert isinstance(axis, int)
    return axis % rank


def _obstacle(facts: NodeFacts, made: Node) -> str:
    """Why a node does not go before the one that makes its input, "" where it does."""
    node = facts.node
    if node.op_type == "MaxPool":
        if made.op_type in QUANTIZING and not (known_scale(facts, made) or 0) > 0:
            return f"the scale of the {made.op_type} before it is not one known positive number"
        return "its indices are used" if any(node.outputs[1:]) else ""
    dims = [facts.values[name].dims for name in made.inputs[1:] if name]
    if node.op_type == "Gather":
        return _obstacle_to_gather(facts, made, dims)
    if not all(size is not None and product(size) == 1 for size in dims):
        return "the DequantizeLinear before it has several scales"
    return "it counts the zeros of the padding" if node.attributes.get("count_include_pad") else ""


def _obstacle_to_gather(facts: NodeFacts, made: Node, dims: Sequence[Dims | None]) -> str:
    """The same for a Gather after a DequantizeLinear whose scale and zero point have these dims."""
    table, taken = facts.value(0).dims, facts.value(1).dims
    if table is None or taken is None or not table:
        return "the ranks of its inputs are not known"
    chosen = int(facts.attribute("axis")) % len(table)
    count, size = product(taken), table[chosen]
    if isinstance(size, int) and not (count <= size if isinstance(count, int) else size >= _LARGE_TABLE):
        return "it does not take fewer elements than there are"
    if not isinstance(size, int) and size != count:
        return "it is not known whether it takes fewer elements than there are"
    if made.attributes.get("block_size"):
        return "the DequantizeLinear before it has a scale for each block"
    if all(size is not None and product(size) == 1 for size in dims):
        return ""
    if _scaled_axis(made, len(table)) == chosen or not all(size is not None and len(size) == 1 for size in dims):
        return "the DequantizeLinear before it has a scale for each of the places that it chooses among"
    return ""
