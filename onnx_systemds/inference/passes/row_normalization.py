"""Drops a Normalizer (L1) after a softmax of rows, as in exported classifiers of scikit-learn with several classes.

Condition: the probabilities come from a LinearClassifier of several scores with SOFTMAX. Reason: they are not below 0
and their sum is 1 already, or all are NaN.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import ML, Graph, Node

NEEDS = ((ML, "Normalizer"),)


def drop_row_normalization(graph: Graph, notes: PassNotes) -> Graph:
    """The L1 Normalizer of a softmax is an Identity."""
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        if node.identity != (ML, "Normalizer") or node.attributes.get("norm", "MAX") != "L1":
            continue
        classifier = editor.producer(node.inputs[0])
        if classifier is None or classifier.identity != (ML, "LinearClassifier"):
            continue
        if _is_softmax(classifier) and node.inputs[0] in classifier.outputs[1:]:  # not its labels
            identity = replace(node, domain="", op_type="Identity", attributes={}, version=1)
            editor.put(position, identity, [])
            notes.fired(node, "its rows have the sum 1 already")
        else:
            notes.left(node, "the classifier before it gives no softmax of several scores")
    return editor.graph()


def _is_softmax(classifier: Node) -> bool:
    intercepts = classifier.attributes.get("intercepts")
    several = isinstance(intercepts, tuple) and len(intercepts) > 1
    return several and classifier.attributes.get("post_transform", "NONE") == "SOFTMAX"
