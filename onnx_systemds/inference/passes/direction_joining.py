"""A bidirectional RNN, GRU or LSTM takes the Transpose that puts its two directions side by side into itself.

So PyTorch writes layers of two directions. Condition: perm is [0, 2, 1, 3], nothing else reads the layer's Y, and the
layer has ONNX's first layout. Reason: what the layer computes for each direction is already what this reads.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Graph, Node

NEEDS = ("Transpose",)
JOINED = "directions_joined"
"""The attribute, unknown to ONNX, of a layer whose Y is [steps, batch, directions, hidden]."""


def join_directions(graph: Graph, notes: PassNotes) -> Graph:
    """A Transpose of all hidden states that puts the directions after the sequences is left to the layer itself."""
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        layer = editor.producer(node.inputs[0]) if _swaps_inner_axes(node) else None
        if layer is None or not _gives_directions(layer, node.inputs[0]):
            continue
        made = editor.made_for(node.inputs[0])
        if made is None:
            notes.left(node, "other nodes also read the layer's hidden states")
        elif layer.attributes.get("layout"):
            notes.left(node, "the layer has the batch first (layout 1)")
        else:
            outputs, attributes = (*node.outputs, *layer.outputs[1:]), {**layer.attributes, JOINED: 1}
            editor.put(made.position, replace(layer, outputs=outputs, attributes=attributes), [position])
            notes.fired(node, "into the layer before it")
    return editor.graph()


def _swaps_inner_axes(node: Node) -> bool:
    return node.identity == ("", "Transpose") and node.attributes.get("perm") == (0, 2, 1, 3)


def _gives_directions(node: Node, name: str) -> bool:
    """Whether a value is all hidden states of two directions."""
    is_layer = node.domain == "" and node.op_type in ("RNN", "GRU", "LSTM") and node.outputs[0] == name
    return is_layer and str(node.attributes.get("direction")).lower() == "bidirectional"
