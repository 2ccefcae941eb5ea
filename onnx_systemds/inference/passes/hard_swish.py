"""x * Clip(x + 3, 0, 6) / 6 becomes HardSwish: so exporters write it before opset 14, and some still do.

The division may come before or after the product, and may be a product with 1/6. Condition: no other node reads what is
in between, and constants have rank 0. Reason: one pass over the elements in place of four.
"""

from __future__ import annotations

import math
from dataclasses import replace

from onnx_systemds.inference.notes import Notes
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Graph, Node

RULE = "hard-swish"
NEEDS = ("Clip",)


def join_hard_swish(graph: Graph, notes: Notes) -> Graph:
    """x * Clip(x + 3, 0, 6) / 6, divided before or after the product, is a HardSwish."""
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        found = _hard_swish(editor, node)
        if found is not None:
            x, gone = found
            editor.put(position, replace(node, op_type="HardSwish", inputs=(x,), attributes={}, version=14), gone)
            notes.fired(RULE, node, "with the three nodes before it")
    for clip in filter(None, editor.nodes):
        _note_left(editor, clip, notes)
    return editor.graph()


def _note_left(editor: GraphEditor, clip: Node, notes: Notes) -> None:
    """Say why a Clip(x + 3, 0, 6) did not become part of a HardSwish."""
    summed = editor.producer(clip.inputs[0]) if _is_clip(editor, clip) else None
    if summed is None or not any(_is_sum(editor, summed, x) for x in summed.inputs):
        return
    is_shared = editor.is_shared(clip.inputs[0]) or editor.is_shared(clip.outputs[0])
    notes.left(RULE, clip, "other nodes read what is in between, too" if is_shared
               else "it is not multiplied by the same value and divided by 6 next")  # fmt: skip


def _hard_swish(editor: GraphEditor, node: Node) -> tuple[str, list[int]] | None:
    """What a node gives the HardSwish of, and the positions of the nodes in between; None where it gives no such."""
    gone: list[int] = []
    whole = _sixth(editor, node)
    if whole is not None:
        made = editor.made_for(whole)
        if made is None:
            return None
        gone.append(made[0])
        node = made[1]
    if node.identity != ("", "Mul"):
        return None
    for x, other in (node.inputs, node.inputs[::-1]):
        clipped = editor.made_for(other)
        if whole is None and clipped is not None:
            part = _sixth(editor, clipped[1])
            gone = [clipped[0]]
            clipped = editor.made_for(part) if part is not None else None
        summed = editor.made_for(clipped[1].inputs[0]) if clipped is not None and _is_clip(editor, clipped[1]) else None
        if clipped is not None and summed is not None and _is_sum(editor, summed[1], x):
            return x, [*gone, clipped[0], summed[0]]
    return None


def _sixth(editor: GraphEditor, node: Node) -> str | None:
    """What a node gives a sixth of."""
    if node.identity == ("", "Div"):
        return node.inputs[0] if editor.number(node.inputs[1]) == 6 else None
    if node.identity == ("", "Mul"):
        for name, other in (node.inputs, node.inputs[::-1]):
            number = editor.number(other)
            if number is not None and math.isclose(number, 1 / 6, rel_tol=editor.tolerance(other)):
                return name
    return None


def _is_clip(editor: GraphEditor, node: Node) -> bool:
    """Whether a node clips to 0 and 6, by inputs or (before opset 11) by attributes."""
    if node.identity != ("", "Clip"):
        return False
    if len(node.inputs) == 3:
        return [editor.number(name) for name in node.inputs[1:]] == [0, 6]
    return [node.attributes.get(name) for name in ("min", "max")] == [0, 6]


def _is_sum(editor: GraphEditor, node: Node, x: str) -> bool:
    """Whether a node adds 3 to ``x``."""
    others = [name for name in node.inputs if name != x]
    return node.identity == ("", "Add") and len(others) == 1 and editor.number(others[0]) == 3
