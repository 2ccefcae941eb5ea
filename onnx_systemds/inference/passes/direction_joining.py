"""Recurrent layers whose hidden states of both directions are put side by side."""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Graph, Node

JOINED = "directions_joined"
"""The attribute, unknown to ONNX, of a layer whose Y is [steps, batch, directions, hidden]."""


def join_directions(graph: Graph) -> Graph:
    """A Transpose of all hidden states that puts the directions behind the sequences is left to the layer itself.

    So PyTorch writes layers of two directions. What the layer computes for each direction is what this reads.
    """
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        made = editor.made_for(node.inputs[0]) if _swaps_inner_axes(node) else None
        if made is not None and _gives_directions(made[1], node.inputs[0]):
            layer = made[1]
            outputs, attributes = (*node.outputs, *layer.outputs[1:]), {**layer.attributes, JOINED: 1}
            editor.put(made[0], replace(layer, outputs=outputs, attributes=attributes), [position])
    return editor.graph()


def _swaps_inner_axes(node: Node) -> bool:
    return node.identity == ("", "Transpose") and node.attributes.get("perm") == (0, 2, 1, 3)


def _gives_directions(node: Node, name: str) -> bool:
    """Whether a value is all hidden states of two directions, in the order of ONNX before layouts."""
    is_layer = node.domain == "" and node.op_type in ("RNN", "GRU", "LSTM") and node.outputs[0] == name
    is_two_way = str(node.attributes.get("direction")).lower() == "bidirectional"
    return is_layer and is_two_way and not node.attributes.get("layout")
