"""LSTMs as the layer nn/layers/lstm.dml: sequences in the rows, one direction, all weights of a gate side by side."""

from __future__ import annotations

import numpy as np

from onnx_systemds.inference.registry import nn_layer
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Fragment, NodeView, View
from onnx_systemds.operators.onnx.recurrent import Shape, direction_of, shape_of

_GATES = (0, 2, 1, 3)  # the layer has input, forget, output and cell where ONNX has input, output, forget and cell
_DEFAULTS = ["sigmoid", "tanh", "tanh"]


@nn_layer("LSTM")
def lstm_layer(node: NodeView) -> Fragment | None:
    """One forward direction of known weights, without peepholes, clipping or lengths of sequences."""
    weights = [node.constant(position) for position in ("W", "R")]
    biases = node.constant("B") if node.has("B") else None
    if any(weight is None for weight in weights) or (node.has("B") and biases is None) or not _is_plain(node):
        return None
    shape = shape_of(node)
    steps, inputs, hidden = shape.steps, shape.inputs, shape.hidden
    by_gate = np.concatenate([_gates(weight[0], hidden).T for weight in weights if weight is not None])
    weight = node.constant_matrix(by_gate, "weight")
    row = View(1, 4 * hidden)
    bias = node.filled(0, row)
    if biases is not None:
        total = biases[0].reshape(2, 4 * hidden).astype(float).sum(axis=0)
        bias = node.constant_matrix(_gates(total[:, None], hidden).T, "bias")
    states = View(shape.batch, hidden)
    start, cells = (node.view(name, states) if node.has(name) else node.filled(0, states)
                    for name in ("initial_h", "initial_c"))
    x, every = _sequences(node, shape), node.wants(0)
    call = node.layer("lstm", x, weight, bias, node.dim(steps), node.dim(inputs), every, start, cells)
    out, cell, *caches = (node.temporary(hint) for hint in ("out", "c", "cache_out", "cache_c", "cache_gates"))
    node.write(f"[{', '.join([out, cell, *caches])}] = {call}")
    fragment = _every(node, shape, out) if every else node.fragment()
    last = f"{out}[, ({node.dim((steps - 1) * hidden + 1)}):({node.dim(steps * hidden)})]" if every else out
    for position, text in ((1, last), (2, cell)):
        if node.wants(position):
            fragment += node.result(text, states, position)
    return fragment


def _is_plain(node: NodeView) -> bool:
    names = [str(name).lower() for name in node.attribute("activations") or _DEFAULTS]
    has_more = node.has("sequence_lens") or node.has("P") or node.attribute("clip") or node.attribute("input_forget")
    return direction_of(node) == "forward" and not has_more and names == _DEFAULTS


def _gates(rows: Array, hidden: int) -> Array:
    """Rows by gate in the layer's order."""
    ordered: Array = rows.reshape(4, hidden, -1)[list(_GATES)].reshape(4 * hidden, -1)
    return ordered


def _sequences(node: NodeView, shape: Shape) -> str:
    """X with a sequence per row; a Transpose that brings the steps to the front is passed over."""
    view = View(shape.batch, shape.steps * shape.inputs)
    if shape.batch_first or shape.batch == 1:
        return node.view("X", view)
    turned = node.upstream("X")
    if turned is not None and turned.node.identity == ("", "Transpose") and turned.attribute("perm") == [1, 0, 2]:
        return turned.view(0, view)
    steps = node.view("X", View(shape.steps * shape.batch, shape.inputs))
    swapped = node.call("swapped_rows", steps, 1, node.dim(shape.steps), node.dim(shape.batch))
    return node.named("sequences", node.reshape(swapped, view))


def _every(node: NodeView, shape: Shape, out: str) -> Fragment:
    """The first output: the hidden states of all steps."""
    if shape.batch_first or shape.batch == 1:
        return node.result(out, View(shape.batch, shape.steps * shape.hidden))
    rows = View(shape.batch * shape.steps, shape.hidden)
    swapped = node.call("swapped_rows", node.reshape(out, rows), 1, node.dim(shape.batch), node.dim(shape.steps))
    return node.result(swapped, rows)
