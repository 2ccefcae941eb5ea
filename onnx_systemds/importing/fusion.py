"""Nodes that become one with what was computed before them, where that is less work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_systemds.contrib_schemas import CONTRIB
from onnx_systemds.importing.facts import NodeFacts
from onnx_systemds.importing.ir import Node

_FLOATS = frozenset(["float", "double", "float16", "bfloat16"])
_NEAR = 64  # nodes in front of a product in which its factor is looked for


def fused(facts: NodeFacts, before: Sequence[Node], prefix: str) -> tuple[Node, ...] | None:
    """The nodes that stand for a node and for those ``before`` it on which it depends; None where nothing fuses."""
    return _product_of_transposed(facts, before, prefix) if facts.node.identity == ("", "MatMul") else None


def _product_of_transposed(facts: NodeFacts, before: Sequence[Node], prefix: str) -> tuple[Node, ...] | None:
    """A batched product whose right factor is transposed, and possibly scaled, before: the product transposes.

    So the keys of an attention stay as they are; only the axes in front of the last are still brought in order.
    """
    node = facts.node
    if facts.dtype(0) not in _FLOATS or facts.value(1).dims is None or facts.rank(1) < 3:
        return None
    producer = {name: made for made in before[-_NEAR:] for name in made.outputs if name}
    made, scaling = producer.get(node.inputs[1]), None
    if made is not None and made.identity == ("", "Mul"):
        scaling = made
        made = producer.get(made.inputs[0])
        by = facts.values[scaling.inputs[1]]
        if by.dims is None or any(dim != 1 for dim in by.dims) or len(by.dims) > facts.rank(1):
            return None
    if made is None or made.identity != ("", "Transpose"):
        return None
    last = facts.rank(1) - 1
    perm = _permutation(made, last + 1)
    if perm[-2:-1] != (last,):
        return None
    right, nodes = made.inputs[0], []  # type: str, list[Node]
    swapped = (*perm[:-2], perm[-1], last)
    if swapped != tuple(range(last + 1)):
        nodes.append(replace(made, inputs=(right,), outputs=(f"{prefix}/transposed",), attributes={"perm": swapped}))
        right = nodes[-1].outputs[0]
    if scaling is not None:
        nodes.append(replace(scaling, inputs=(right, scaling.inputs[1]), outputs=(f"{prefix}/scaled",)))
        right = nodes[-1].outputs[0]
    nodes.append(
        replace(node, op_type="FusedMatMul", domain=CONTRIB, version=1, inputs=(node.inputs[0], right),
                attributes={"transB": 1, "alpha": 1.0})
    )  # fmt: skip
    return tuple(nodes)


def _permutation(node: Node, rank: int) -> tuple[int, ...]:
    """The axes of a Transpose, which reverses them where it does not say."""
    given = node.attributes.get("perm")
    return tuple(range(rank - 1, -1, -1)) if given is None else tuple(map(int, given))  # type: ignore[arg-type]
