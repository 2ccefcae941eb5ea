"""(x - mean) / sqrt(mean((x - mean)^2) + epsilon) becomes LayerNormalization, the same without means RMSNormalization.

So exporters write them before opset 17 and 23, and some still do. The root divides, or its reciprocal is a factor.
A product with a constant row after it is the scale, a sum of that with one the bias.
Condition: the means are those of the last axis, which has the number -1, epsilon has rank 0, and no other node reads
what is in between. Reason: the script says what it is, and other passes know it (`product_folding`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Graph, Node

NEEDS = ("Sqrt",)
_VERSIONS = {"LayerNormalization": 17, "RMSNormalization": 23}


def join_layer_normalization(graph: Graph, notes: PassNotes) -> Graph:
    """What is divided by the root of its mean square is an RMSNormalization, or a LayerNormalization."""
    editor = GraphEditor(graph)
    joined: set[str] = set()
    for position, node in enumerate(graph.nodes):
        for x, root, before in _quotients(editor, node):
            normalized = _normalization(editor, node, x, root)
            if normalized is not None:
                removed = [*before, *normalized[1]]
                editor.put(position, normalized[0], removed)
                joined.add(node.outputs[0])
                notes.fired(node, f"with the {len(removed)} nodes before it")
                break
        else:
            _take_row(editor, position, node, joined)
    for root_node in filter(None, editor.nodes):
        if root_node.identity == ("", "Sqrt") and _mean_square(editor, root_node) is not None:
            notes.left(root_node, "it divides other values, or other nodes also read an intermediate value")
    return editor.graph()


def _quotients(editor: GraphEditor, node: Node) -> Iterator[tuple[str, str, list[int]]]:
    """What a node divides, the divisor, and the position of the node that makes its reciprocal."""
    if node.identity == ("", "Div"):
        dividend, divisor = node.inputs
        yield dividend, divisor, []
    for x, factor in (node.inputs, node.inputs[::-1]) if node.identity == ("", "Mul") else ():
        made = editor.made_for(factor, "Reciprocal", "Div")
        if made is not None and (made.node.op_type == "Reciprocal" or editor.number(made.node.inputs[0]) == 1):
            yield x, made.node.inputs[-1], [made.position]


def _normalization(editor: GraphEditor, node: Node, x: str, divisor: str) -> tuple[Node, list[int]] | None:
    """The normalization that divides ``x``, and the positions of the nodes before it that it makes needless."""
    root = editor.made_for(divisor, "Sqrt")
    found = None if root is None else _mean_square(editor, root.node)
    if root is None or found is None or found.x != x:
        return None
    epsilon = editor.initializers[found.epsilon]
    removed = [root.position, *found.positions]
    op_type = "RMSNormalization"
    centred = editor.made_for(x, "Sub", readers=2)
    mean = None if centred is None else editor.made_for(centred.node.inputs[1])
    if centred is not None and mean is not None and _is_mean(editor, mean.node, centred.node.inputs[0]):
        op_type, x = "LayerNormalization", centred.node.inputs[0]
        removed += [centred.position, mean.position]
    ones = f"{node.outputs[0]}/ones"
    editor.initializers[ones] = np.ones(1, epsilon.dtype)
    attributes = {"axis": -1, "epsilon": float(epsilon)}
    return node.inner(op_type, (x, ones), node.outputs, attributes, _VERSIONS[op_type]), removed


class _MeanSquare(NamedTuple):
    """The mean of the squares of `x` plus a number. positions: those of the nodes that make it."""

    x: str
    epsilon: str
    positions: list[int]


def _mean_square(editor: GraphEditor, root: Node) -> _MeanSquare | None:
    """What a node is the root of, if that is a mean square and a number."""
    total = editor.made_for(root.inputs[0], "Add")
    if total is None:
        return None
    for name, epsilon in (total.node.inputs, total.node.inputs[::-1]):
        mean = editor.made_for(name, "ReduceMean")
        square = None if mean is None else editor.made_for(mean.node.inputs[0], "Pow", "Mul")
        if mean is None or square is None or editor.number(epsilon) is None:
            continue
        x, *others = square.node.inputs
        is_square = editor.number(others[0]) == 2 if square.node.op_type == "Pow" else others == [x]
        if is_square and _is_mean(editor, mean.node, square.node.outputs[0]):
            return _MeanSquare(x, epsilon, [total.position, mean.position, square.position])
    return None


def _is_mean(editor: GraphEditor, node: Node, x: str) -> bool:
    """Whether a node gives the means of ``x`` along the last axis, and keeps that."""
    if node.identity != ("", "ReduceMean") or node.inputs[0] != x or node.attributes.get("keepdims", 1) != 1:
        return False
    return node.axes(editor.initializers) == (-1,)


def _take_row(editor: GraphEditor, position: int, node: Node, joined: set[str]) -> None:
    """Give the normalization that a Mul or Add with a constant row comes after its scale or bias.

    joined: what normalizations give that were joined here; those of the model stay, which may have further outputs.
    """
    for name, other in (node.inputs, node.inputs[::-1]) if node.identity in (("", "Mul"), ("", "Add")) else ():
        made = editor.made_for(name) if name in joined else None
        row = editor.initializers.get(other)
        if made is None or row is None or row.ndim != 1:
            continue
        x, scale, *bias = made.node.inputs
        if node.op_type == "Mul" and scale == f"{name}/ones" and not bias:
            scale = other
        elif node.op_type == "Add" and made.node.op_type == "LayerNormalization" and not bias:
            bias = [other]
        else:
            continue
        editor.put(position, replace(made.node, inputs=(x, scale, *bias), outputs=node.outputs), [made.position])
        joined.add(node.outputs[0])
        return
