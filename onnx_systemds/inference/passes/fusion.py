"""Nodes that become one with what was computed before them, where that is less work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx import TensorProto

from onnx_systemds.inference.dims import product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Node

_FLOATS = frozenset(["float", "double", "float16", "bfloat16"])
_NEAR = 64  # nodes in front of a node among which the one that makes its input is looked for
_QUANTIZING = ("QuantizeLinear", "DequantizeLinear")
_MOVEMENTS = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice")
_MEANS = ("AveragePool", "GlobalAveragePool")


def fused(facts: NodeFacts, before: Sequence[Node], prefix: str) -> tuple[Node, ...] | None:
    """The nodes that stand for a node and for those ``before`` it on which it depends; None where nothing fuses."""
    node = facts.node
    if node.identity == ("", "MatMul"):
        return _product_of_transposed(facts, before, prefix)
    if node.domain == "" and node.op_type in (*_MOVEMENTS, *_MEANS, "MaxPool", "QuantizeLinear") and node.inputs[0]:
        made = next((made for made in reversed(before[-_NEAR:]) if node.inputs[0] in made.outputs), None)
        if made is not None and made.domain == "":
            return _requantized(facts, made) if node.op_type == "QuantizeLinear" else _exchanged(facts, made, prefix)
    return None


def _exchanged(facts: NodeFacts, made: Node, prefix: str) -> tuple[Node, ...] | None:
    """A node in front of the function that its elements went through: fewer elements, and a quantisation may vanish.

    A maximum goes before what keeps the order of numbers, where its indices are not asked for; a mean before what is
    linear, unless it counts zeros of the padding, and what it gives is no longer of the quantised type.
    """
    node = facts.node
    if node.op_type == "MaxPool":
        is_rising = made.op_type in ("Relu", "Clip") or (_scale(facts, made) or 0) > 0
        if not is_rising or any(node.outputs[1:]):
            return None
    elif not _is_per_tensor(facts, made):
        return None
    source, numbers = made.inputs[0], ()  # type: str, tuple[Node, ...]
    if node.op_type in _MEANS:
        if node.attributes.get("count_include_pad"):
            return None
        source = f"{prefix}/numbers"
        to = {"to": int(TensorProto.FLOAT)}
        numbers = (replace(node, op_type="Cast", inputs=made.inputs[:1], outputs=(source,), attributes=to),)
    moved = f"{prefix}/moved"
    return (
        *numbers,
        replace(node, inputs=(source, *node.inputs[1:]), outputs=(moved,)),
        replace(made, inputs=(moved, *made.inputs[1:]), outputs=node.outputs[:1]),
    )


def _requantized(facts: NodeFacts, made: Node) -> tuple[Node, ...] | None:
    """What is quantised as it was before it was dequantised is what it was: FP32 has room enough for 16 bits."""
    node, scale = facts.node, _scale(facts, made)
    source = facts.values[made.inputs[0]].dtype
    target = facts.dtype(2) if facts.has(2) else node.attributes.get("output_dtype") or "uint8"
    is_same = source == target and _scale(facts, node) == scale and _zero(facts, node) == _zero(facts, made)
    if facts.dtype(0) != "float" or not scale or not is_same:
        return None
    return (replace(node, op_type="Identity", inputs=made.inputs[:1], attributes={}),)


def _is_per_tensor(facts: NodeFacts, node: Node) -> bool:
    """Whether a node dequantises by one scale and zero point."""
    dims = [facts.values[name].dims for name in node.inputs[1:] if name]
    return node.op_type == "DequantizeLinear" and all(size is not None and product(size) == 1 for size in dims)


def _scale(facts: NodeFacts, node: Node) -> float | None:
    """The one known scale of a quantising or dequantising node."""
    content = facts.values[node.inputs[1]].constant if node.op_type in _QUANTIZING else None
    return float(content.item()) if content is not None and content.size == 1 else None


def _zero(facts: NodeFacts, node: Node) -> float | None:
    """The one known zero point of a quantising or dequantising node."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return 0
    content = facts.values[node.inputs[2]].constant
    return float(content.item()) if content is not None and content.size == 1 else None


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
