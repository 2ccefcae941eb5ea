"""x * (1 + Erf(x / sqrt(2))) / 2 becomes Gelu: so exporters write it before opset 20, and some still do.

The factors x, 1 + Erf(..) and 0.5 may be multiplied in any order, and the division by sqrt(2) be a product. Condition:
no other node reads what is in between. Reason: fewer passes over the elements, and small results keep their digits.
"""

from __future__ import annotations

import math
from dataclasses import replace

from onnx_systemds.inference.notes import Notes
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Graph, Node

RULE = "gelu"
_SLACK = 1e-7
"""How far a number may be from sqrt(2) or its reciprocal; single precision is nearer."""


def join_gelu(graph: Graph, notes: Notes) -> Graph:
    """x * (1 + Erf(x / sqrt(2))) * 0.5, multiplied in whatever order, is a Gelu."""
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        found = _gelu(editor, node)
        if found is not None:
            x, gone = found
            editor.put(position, replace(node, op_type="Gelu", inputs=(x,), attributes={}, version=20), gone)
            notes.fired(RULE, node, "with the four nodes before it")
    for erf in filter(None, editor.nodes):
        _note_left(editor, erf, notes)
    return editor.graph()


def _note_left(editor: GraphEditor, erf: Node, notes: Notes) -> None:
    """Say why an Erf(x / sqrt(2)) did not become part of a Gelu."""
    scaled = editor.producer(erf.inputs[0]) if erf.identity == ("", "Erf") else None
    if scaled is None or _divided(editor, scaled) is None:
        return
    is_shared = editor.is_shared(erf.inputs[0]) or editor.is_shared(erf.outputs[0])
    notes.left(RULE, erf, "other nodes read what is in between, too" if is_shared
               else "its sum with 1 is not multiplied by the same value and 0.5 next")  # fmt: skip


def _gelu(editor: GraphEditor, node: Node) -> tuple[str, list[int]] | None:
    """What a node gives the Gelu of, and the positions of the nodes in between; None where it gives no such."""
    if node.identity != ("", "Mul"):
        return None
    for whole, part in (node.inputs, node.inputs[::-1]):
        inner = editor.made_for(part)
        if inner is None or inner[1].identity != ("", "Mul"):
            continue
        factors = (whole, *inner[1].inputs)
        for name in factors:
            others = [other for other in factors if other != name]
            gone = _probability(editor, name, others)
            if gone is not None and len(others) == 2 and any(_number(editor, other) == 0.5 for other in others):
                return next(other for other in others if _number(editor, other) != 0.5), [inner[0], *gone]
    return None


def _probability(editor: GraphEditor, name: str, others: list[str]) -> list[int] | None:
    """The positions of the nodes that make 1 + Erf(x / sqrt(2)) of one of the others; None where none do."""
    summed = editor.made_for(name)
    if summed is None or summed[1].identity != ("", "Add"):
        return None
    for part, one in (summed[1].inputs, summed[1].inputs[::-1]):
        erf = editor.made_for(part) if _number(editor, one) == 1 else None
        scaled = editor.made_for(erf[1].inputs[0]) if erf is not None and erf[1].identity == ("", "Erf") else None
        if erf is not None and scaled is not None and _divided(editor, scaled[1]) in others:
            return [summed[0], erf[0], scaled[0]]
    return None


def _divided(editor: GraphEditor, node: Node) -> str | None:
    """What a node divides by sqrt(2)."""
    if node.identity == ("", "Div"):
        return node.inputs[0] if _is_near(_number(editor, node.inputs[1]), math.sqrt(2)) else None
    if node.identity == ("", "Mul"):
        for name, other in (node.inputs, node.inputs[::-1]):
            if _is_near(_number(editor, other), math.sqrt(0.5)):
                return name
    return None


def _number(editor: GraphEditor, name: str) -> float | None:
    """A constant of rank 0: one of a higher rank might give the result that rank."""
    content = editor.initializers.get(name)
    return None if content is None or content.ndim else editor.number(name)


def _is_near(number: float | None, goal: float) -> bool:
    return number is not None and abs(number - goal) < _SLACK
