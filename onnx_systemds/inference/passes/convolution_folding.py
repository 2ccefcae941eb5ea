"""Conv takes into its weights what scales and shifts each channel after it, or its input before it.

That is BatchNormalization, and Mul, Div, Add or Sub with constants: scales go into the filters, shifts into the bias.
A Gemm by rows of weights (transB) takes what comes after it as a Conv does.
Condition: the weights are constant and their type holds the new ones, nothing else reads what is in between, and a
shift of the input meets no padding.
Reason: the script computes nothing for it.
"""

from __future__ import annotations

import numpy as np

from onnx_systemds.inference.facts import default_attribute
from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.graph_editor import GraphEditor
from onnx_systemds.model.ir import Array, Graph, Node

NEEDS = ("Conv", "Gemm")
_AFFINE = frozenset(("", name) for name in ("BatchNormalization", "Mul", "Div", "Add", "Sub"))


def fold_into_convolutions(graph: Graph, notes: PassNotes) -> Graph:
    """Fold nodes that scale and shift into the Conv before or after them."""
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        if node.identity in _AFFINE:
            _fold_into_previous(editor, position, notes)
    for position in range(len(graph.nodes)):
        while _fold_into_next(editor, position, notes):
            pass
    return editor.graph()


def _weights(editor: GraphEditor, conv: Node | None) -> tuple[Array, Array] | None:
    """Filters, and bias in float64 (of zeros where there is none), of a Conv or Gemm, where they are constant."""
    if conv is None or not (conv.identity == ("", "Conv") or _is_layer(conv)):
        return None
    names = [name for name in conv.inputs[1:] if name]
    if not names or any(name not in editor.initializers for name in names):
        return None
    filters, *rest = (editor.initializers[name] for name in names)
    if filters.dtype.kind != "f" or any(bias.shape != (len(filters),) for bias in rest):
        return None
    return filters, rest[0].astype(np.float64) if rest else np.zeros(len(filters))


def _is_layer(node: Node) -> bool:
    """Whether a node is a Gemm with a row of weights for each column of its result, and no factors."""
    if node.identity != ("", "Gemm") or node.version < 7 or not node.attributes.get("transB"):
        return False
    return not node.attributes.get("transA") and all(node.attributes.get(name, 1) == 1 for name in ("alpha", "beta"))


def _fold_into_previous(editor: GraphEditor, position: int, notes: PassNotes) -> None:
    """Fold a node into the Conv before it."""
    node = editor.nodes[position]
    if node is None:
        return
    for data, other in _operands(node):
        made = editor.made_for(node.inputs[data])
        weights = _weights(editor, made.node) if made is not None else None
        if made is None or weights is None:
            continue
        filters, bias = weights
        affine = _affine(editor, node, other, len(filters), filters.ndim)
        if affine is None:
            continue
        factor, shift = affine
        with np.errstate(all="ignore"):
            filters = filters.astype(np.float64) * factor.reshape(-1, *[1] * (filters.ndim - 1))
            bias = bias * factor + shift
        folded = editor.with_weights(made.node, filters, bias, outputs=node.outputs[:1])
        if folded is None:
            continue
        editor.put(position, folded, [made.position])
        notes.fired(node, f"into the {folded.op_type} before it")
        return
    _note_left(editor, node, notes)


def _note_left(editor: GraphEditor, node: Node, notes: PassNotes) -> None:
    """Say why a node that scales or shifts by constants did not go into the Conv before it."""
    for data, other in _operands(node):
        conv = editor.producer(node.inputs[data])
        is_constant = node.op_type == "BatchNormalization" or node.inputs[other] in editor.initializers
        if conv is None or conv.identity != ("", "Conv") or not is_constant:
            continue
        weights = _weights(editor, conv)
        if weights is None:
            reason = "the weights of the Conv before it are not constant"
        elif editor.is_shared(node.inputs[data]):
            reason = "other nodes read the result of the Conv before it, too"
        elif node.op_type == "BatchNormalization":
            reason = "it trains, or its statistics are not constant"
        else:
            reason = "it does not change each channel of the Conv before it by one number that its weights can take"
        notes.left(node, reason)


def _fold_into_next(editor: GraphEditor, position: int, notes: PassNotes) -> bool:
    """Fold the scaling or shift by one number before a Conv into it; whether there was one."""
    conv = editor.nodes[position]
    weights = _weights(editor, conv) if conv is not None and conv.op_type == "Conv" else None
    made = editor.made_for(conv.inputs[0]) if conv is not None and weights is not None else None
    if conv is None or weights is None or made is None:
        return False
    filters, bias = weights
    node = made.node
    if node.identity not in _AFFINE or node.op_type == "BatchNormalization":
        return False
    for data, other in _operands(node):
        affine = _affine(editor, node, other, 1, filters.ndim)
        if affine is None:
            continue
        factor, shift = affine
        if shift.any() and _pads(conv):
            notes.left(node, "the Conv after it pads, with zeros that are not shifted")
            continue
        filters = filters.astype(np.float64)
        bias = bias + filters.sum(tuple(range(1, filters.ndim))) * shift
        inputs = (node.inputs[data], *conv.inputs[1:])
        folded = editor.with_weights(conv, filters * factor, bias, inputs=inputs)
        if folded is None:
            notes.left(node, "the Conv after it has a type that is too narrow for such weights")
            continue
        editor.put(position, folded, [made.position])
        notes.fired(node, "into the Conv after it")
        return True
    return False


def _operands(node: Node) -> tuple[tuple[int, int], ...]:
    """Positions that the changed input and the other one may have."""
    return ((0, 1), (1, 0)) if node.op_type in ("Mul", "Add") else ((0, 1),)


def _pads(conv: Node) -> bool:
    """Whether a Conv may pad."""
    pads = conv.attributes.get("pads")
    return conv.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or bool(np.any(np.asarray(pads or 0)))


def _affine(editor: GraphEditor, node: Node, other: int, channels: int, rank: int) -> tuple[Array, Array] | None:
    """The factor and the shift, a number for each channel, by which a node changes its input of a rank."""
    if node.op_type == "BatchNormalization":
        return normalization_row(editor, node)
    content = editor.initializers.get(node.inputs[other])
    if content is None or content.dtype.kind != "f" or content.ndim > rank or not np.isfinite(content).all():
        return None
    shape = (*[1] * (rank - content.ndim), *content.shape)
    if content.size != 1 and shape != (1, channels, *[1] * (rank - 2)):
        return None
    numbers = np.broadcast_to(content.astype(np.float64).ravel(), channels)
    zeros, ones = np.zeros(channels), np.ones(channels)
    if node.op_type == "Div":
        return (1 / numbers, zeros) if numbers.all() else None
    return {"Mul": (numbers, zeros), "Add": (ones, numbers), "Sub": (ones, -numbers)}[node.op_type]


def normalization_row(editor: GraphEditor, norm: Node) -> tuple[Array, Array] | None:
    """The factors and shifts of a BatchNormalization; None where something is not constant or it trains."""
    if norm.version < 7 or any(norm.outputs[1:]) or norm.attributes.get("training_mode"):
        return None
    if norm.attributes.get("spatial", 1) != 1 or any(name not in editor.initializers for name in norm.inputs[1:]):
        return None
    scale, shift, mean, variance = (editor.initializers[name].astype(np.float64) for name in norm.inputs[1:])
    if not scale.shape == shift.shape == mean.shape == variance.shape:
        return None  # the operator refuses them
    epsilon = norm.attributes.get("epsilon", default_attribute("", "BatchNormalization", norm.version, "epsilon"))
    with np.errstate(all="ignore"):  # what is infinite then is not folded
        factor = scale / np.sqrt(variance + epsilon)
        return factor, shift - mean * factor
