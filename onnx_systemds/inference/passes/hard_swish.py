"""x * Clip(x + 3, 0, 6) / 6 becomes HardSwish: so exporters write it before opset 14, and some still do.

Factors may come in any order, and the division may be a product with 1/6. Condition: no other node reads what is in
between, and constants have rank 0. Reason: one pass over the elements in place of four.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.graph_editor import GraphEditor, product_of
from onnx_systemds.model.ir import Graph, Node

NEEDS = ("Clip",)


def join_hard_swish(graph: Graph, notes: PassNotes) -> Graph:
    """A sixth of x * Clip(x + 3, 0, 6) is a HardSwish."""
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        product = product_of(editor, node)
        for x, other in product.pairs(1 / 6):
            before = _clipped_sum(editor, x, other)
            if before is not None:
                swish = replace(node, op_type="HardSwish", inputs=(x,), attributes={}, version=14)
                removed = [*product.removed, *before]
                editor.put(position, swish, removed)
                notes.fired(node, f"with the {len(removed)} nodes before it")
                break
    for clip in filter(None, editor.nodes):
        _note_left(editor, clip, notes)
    return editor.graph()


def _note_left(editor: GraphEditor, clip: Node, notes: PassNotes) -> None:
    """Say why a Clip(x + 3, 0, 6) did not become part of a HardSwish."""
    summed = editor.producer(clip.inputs[0]) if _is_clip(editor, clip) else None
    if summed is None or not any(_is_sum(editor, summed, x) for x in summed.inputs):
        return
    is_shared = editor.is_shared(clip.inputs[0]) or editor.is_shared(clip.outputs[0])
    notes.left(clip, "other nodes also read an intermediate value" if is_shared
               else "it is not multiplied by the same value and divided by 6 next")


def _clipped_sum(editor: GraphEditor, x: str, name: str) -> tuple[int, int] | None:
    """The positions of the two nodes that make Clip(x + 3, 0, 6) for one other node alone; None of another value."""
    clip = editor.made_for(name)
    summed = editor.made_for(clip.node.inputs[0]) if clip is not None and _is_clip(editor, clip.node) else None
    if clip is None or summed is None or not _is_sum(editor, summed.node, x):
        return None
    return clip.position, summed.position


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
