"""MatMul of a right factor whose last two axes were swapped becomes a product that transposes by itself.

The factor may have been scaled by one number after its Transpose. Condition: at least 3 axes, and the Transpose brings
the last axis to the place before it. Reason: so the keys of an attention stay as they are; only the axes before the
last are still brought in order.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
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
    made = facts.made_by(node.inputs[1] if scaling is None else scaling.inputs[0], "Transpose")
    if made is None:
        return None
    if scaling is not None:
        by = facts.values[scaling.inputs[1]]
        if by.dims is None or any(dim != 1 for dim in by.dims) or len(by.dims) > facts.rank(1):
            return "the right factor is not scaled by one number"
    last = facts.rank(1) - 1
    perm = _permutation(made, last + 1)
    if perm[-2:-1] != (last,):
        return "the Transpose does not bring the last axis to the place before it"
    right, nodes = made.inputs[0], []  # type: str, list[Node]
    swapped = (*perm[:-2], perm[-1], last)
    prefix = f"{node.outputs[0]}/factor"
    if swapped != tuple(range(last + 1)):
        nodes.append(replace(made, inputs=(right,), outputs=(f"{prefix}/transposed",), attributes={"perm": swapped}))
        right = nodes[-1].outputs[0]
    if scaling is not None:
        nodes.append(replace(scaling, inputs=(right, scaling.inputs[1]), outputs=(f"{prefix}/scaled",)))
        right = nodes[-1].outputs[0]
    nodes.append(
        replace(node, op_type="FusedMatMul", domain=CONTRIB, version=1, inputs=(node.inputs[0], right),
                attributes={"transB": 1, "alpha": 1.0})
    )
    return tuple(nodes), "with the Transpose before it"


def _permutation(node: Node, rank: int) -> tuple[int, ...]:
    """The axes of a Transpose, which reverses them where it does not say."""
    given = node.integers("perm")
    return tuple(range(rank - 1, -1, -1)) if given is None else given
