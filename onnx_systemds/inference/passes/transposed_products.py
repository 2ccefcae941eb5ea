"""MatMul of a right factor whose last two axes were swapped becomes a product that transposes by itself.

The Transpose may be one of three axes between two Reshapes, as PyTorch's exporter writes that of keys. Either factor
may have been scaled by one number: known ones scale the product instead. Condition: at least 3 axes, and the Transpose
brings the last axis to the place before it. Reason: so the keys of an attention stay as they are; only the axes before
the last are still brought in order.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.movements import order_of
from onnx_systemds.inference.values import FLOAT_DTYPES
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Node

NEEDS = ("MatMul",)


def transpose_in_product(facts: InferenceFacts) -> Rewriting:
    """The product that transposes, and what is left to do before it; None where the MatMul stays."""
    node = facts.node
    if facts.dtype(0) not in FLOAT_DTYPES or facts.value(1).dims is None or facts.rank(1) < 3:
        return None
    scaling = facts.made_by(node.inputs[1], "Mul")
    name = node.inputs[1] if scaling is None else scaling.inputs[0]
    made, last = facts.made_by(name, "Reshape", "Transpose"), facts.rank(1) - 1
    if made is None:
        return None
    if scaling is not None:
        by = facts.values[scaling.inputs[1]]
        if by.dims is None or any(dim != 1 for dim in by.dims) or len(by.dims) > last + 1:
            return "the right factor is not scaled by one number"
    found = _source(facts, made)
    if found is None:
        return None
    right, perm = found
    if perm[-2:-1] != (last,):
        return "the Transpose does not bring the last axis to the place before it"
    nodes: list[Node] = []
    prefix = f"{node.outputs[0]}/factor"
    left, alpha = _unscaled(facts, node.inputs[0], f"{prefix}/left", nodes)
    right, number = _unscaled(facts, right, f"{prefix}/right", nodes)
    alpha *= number
    swapped = (*perm[:-2], perm[-1], last)
    if swapped != tuple(range(last + 1)):
        nodes.append(replace(made, inputs=(right,), outputs=(f"{prefix}/transposed",), attributes={"perm": swapped}))
        right = nodes[-1].outputs[0]
    scale = None if scaling is None else facts.values[scaling.inputs[1]].number
    if scale is not None:
        alpha *= scale
    elif scaling is not None:
        nodes.append(replace(scaling, inputs=(right, scaling.inputs[1]), outputs=(f"{prefix}/scaled",)))
        right = nodes[-1].outputs[0]
    nodes.append(
        replace(node, op_type="FusedMatMul", domain=CONTRIB, version=1, inputs=(left, right),
                attributes={"transB": 1, "alpha": alpha})
    )
    return tuple(nodes), "with the Transpose before it"


def _source(facts: InferenceFacts, made: Node) -> tuple[str, tuple[int, ...]] | None:
    """What a Transpose moves, or a Reshape that only swaps the last two axes, and the axes in their new order."""
    dims = facts.dims_of(made.outputs[0])
    if made.op_type == "Transpose":
        return made.inputs[0], order_of(made, len(dims))
    swap = facts.made_by(made.inputs[0], "Transpose")
    before = None if swap is None else facts.made_by(swap.inputs[0], "Reshape")
    if swap is None or before is None:
        return None
    planes = facts.dims_of(swap.inputs[0])
    last = len(dims) - 1
    if len(planes) != 3 or order_of(swap, 3) != (0, 2, 1) or planes[1:] != dims[:-3:-1]:
        return None
    if facts.values[before.inputs[0]].dims != (*dims[:-2], *planes[1:]):
        return None
    return before.inputs[0], (*range(last - 1), last, last - 1)


def _unscaled(facts: InferenceFacts, name: str, result: str, nodes: list[Node]) -> tuple[str, float]:
    """A value without the number that scales it, or what it is a Transpose of, and that number; 1 where there is none.

    nodes: takes the Transpose of what is not scaled, which gives ``result``.
    """
    moved = facts.made_by(name, "Transpose")
    scaled = name if moved is None else moved.inputs[0]
    made = facts.made_by(scaled, "Div", "Mul")
    number = None if made is None else facts.values[made.inputs[1]].number
    if made is None or not number or facts.values[made.inputs[0]].dims != facts.values[scaled].dims:
        return name, 1.0
    if made.op_type == "Div":
        number = 1 / number
    if moved is None:
        return made.inputs[0], number
    nodes.append(replace(moved, inputs=made.inputs[:1], outputs=(result,)))
    return result, number
