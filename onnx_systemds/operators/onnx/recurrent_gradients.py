"""Derivatives of RNN, GRU and LSTM: one direction over all steps is an operator, a call of a library function.

Layers with other activations, lengths of sequences and the like are those of a Scan, see `recurrent_scan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_systemds.inference.passes.direction_joining import JOINED
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.model import protos
from onnx_systemds.model.ir import DERIVATIVES
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.recurrent import direction_of, directions_of
from onnx_systemds.operators.onnx.recurrent_scan import gradient_by_scan
from onnx_systemds.operators.onnx.recurrent_steps import DEFAULTS, GATES

_X, _W, _R, _B, _LENS, _H, _C, _P = range(8)
_OPERATORS = {"RNNGradient": "rnn_gradient", "GRUGradient": "gru_gradient", "LSTMGradient": "lstm_gradient"}

batch_rule(*_OPERATORS, domain=DERIVATIVES)(lambda node, position, axis: True)


# --- one direction -------------------------------------------------------------------------------------------------
# Inputs: X [steps, batch, inputs], W [gates, inputs], R [gates, units], its biases [gates] (of a GRU two), the initial
# states [batch, units], the derivatives by all hidden states [steps, batch, units] and by the last states.
# Outputs: the derivatives by X, W, R, the biases and the initial states.


@shape_rule(*_OPERATORS, domain=DERIVATIVES)
def recurrent_gradient_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The dims of X, W, R, the biases and the initial states."""
    return tuple(node.tensor(node.dims(place)) for place in range(len(node.node.outputs)))


@generator("RNNGradient", since=1, domain=DERIVATIVES)
@generator("GRUGradient", since=1, domain=DERIVATIVES)
@generator("LSTMGradient", since=1, domain=DERIVATIVES)
def recurrent_gradient(node: NodeView) -> Fragment:
    """A call of the function that goes over the steps forwards, and back."""
    views = [_view(node, place) for place in range(node.input_count)]
    (_, batch, _), units = node.dims(0), node.dims(2)[1]
    given = [node.view(place, view) for place, view in enumerate(views)]
    options = ["TRUE" if node.attribute("linear") else "FALSE"] if node.node.op_type == "GRUGradient" else []
    call = node.call(_OPERATORS[node.node.op_type], *given, node.dim(batch), node.dim(units), *options)
    count = len(node.node.outputs)
    hints = ("by_x", "by_w", "by_r", "by_b", *("by_b",) * len(options), "by_h", "by_c")
    names = [node.temporary(hint) for hint in hints[:count]]
    node.write(f"[{', '.join(names)}] = {call}")
    fragment = Fragment()
    for output in range(count):
        fragment += node.result(names[output], views[output], output)
    return fragment


def _view(node: NodeView, place: int) -> View:
    """Steps and sequences are rows, biases are a row."""
    dims = node.dims(place)
    if len(dims) == 3:
        return View(dims[0] * dims[1], dims[2])
    return View(1, dims[0]) if len(dims) == 1 else View(dims[0], dims[1])


# --- layers --------------------------------------------------------------------------------------------------------


@gradient("RNN", "GRU", "LSTM")
def _recurrent_gradient(n: Backward) -> Sequence[str]:
    """Of each direction the derivatives of its own, backwards for steps from the last one; X has the sum of both."""
    kind = n.node.op_type
    if not _is_plain(n, kind):
        return gradient_by_scan(n)
    directions = {"forward": [False], "reverse": [True]}.get(direction_of(n), [False, True])
    found = [_of_direction(n, kind, place, is_reverse) for place, is_reverse in enumerate(directions)]
    by_x = [n.reversed(each[0], [0]) if is_reverse else each[0] for each, is_reverse in zip(found, directions)]
    biases = [n.emit("Concat", *_biases(each[3:], kind), axis=0) for each in found]
    states = [each[3 + (kind == "GRU") + 1:] for each in found]
    stacked = [[each[1] for each in found], [each[2] for each in found], biases, *zip(*states)]
    by_w, by_r, by_b, *by_states = (
        n.emit("Concat", *(n.unsqueeze(name, 0) for name in names), axis=0) for names in stacked
    )
    result = {_X: n.emit("Sum", *by_x), _W: by_w, _R: by_r, _B: by_b, **dict(zip((_H, _C), by_states))}
    return [result.get(place, "") if n.needs(place) else "" for place in range(n.input_count)]


def _is_plain(n: Backward, kind: str) -> bool:
    """Whether a layer is one that the operators know, as exporters write it."""
    known = [name.lower() for name in DEFAULTS[kind]] * directions_of(n)
    given = [str(name).lower() for name in n.attribute("activations") or known]
    is_changed = any(n.attribute(name) for name in ("clip", "input_forget", "layout")) or n.has(_LENS) or n.has(_P)
    return given[: len(known)] == known and not is_changed


def _of_direction(n: Backward, kind: str, place: int, is_reverse: bool) -> tuple[str, ...]:
    """The results of the operator of one direction."""
    x = n.reversed(n.x, [0]) if is_reverse else n.x
    w, r = (_part(n, n.node.inputs[position], place, 0) for position in (_W, _R))
    units = n.known_dims(_R, "the derivative of a recurrent layer")[2]
    gates = GATES[kind] * units
    none = _zeros(n, n.emit("Shape", n.x, start=1, end=2), units)
    if n.has(_B):
        both = n.fresh("Split")
        given = _part(n, n.node.inputs[_B], place, 0)
        biases = n.emit_several("Split", [both, f"{both}_1"], given, axis=0, num_outputs=2)
    else:
        biases = (n.known([0.0] * gates, n.dtype(_X)),) * 2
    own = biases if kind == "GRU" else (n.emit("Add", *biases),)
    count = 2 if kind == "LSTM" else 1
    states = [_part(n, n.node.inputs[position], place, 0) if n.has(position) else none for position in (_H, _C)[:count]]
    every = n.given[0] and _part(n, n.given[0], place, 2 if n.attribute(JOINED) else 1)
    every = every or _zeros(n, n.emit("Shape", n.x, start=0, end=2), units)
    last = [_part(n, given, place, 0) if given else none for given in (*n.given[1:], "", "")[:count]]
    every = n.reversed(every, [0]) if is_reverse and n.given[0] else every
    attributes: dict[str, Any] = {"linear": n.attribute("linear_before_reset")} if kind == "GRU" else {}
    first = n.fresh(f"{kind}Gradient")
    outputs = [first, *(f"{first}_{number}" for number in range(1, 3 + len(own) + count))]
    inputs = (x, w, r, *own, *states, every, *last)
    return n.emit_several(f"{kind}Gradient", outputs, *inputs, domain=DERIVATIVES, **attributes)


def _zeros(n: Backward, sizes: str, units: int) -> str:
    """Zeros for each unit of what has some sizes."""
    fill = np.zeros(1, protos.numpy_dtype(n.dtype(_X)))
    return n.emit("ConstantOfShape", n.emit("Concat", sizes, n.known([units]), axis=0), value=fill)


def _biases(found: Sequence[str], kind: str) -> tuple[str, str]:
    """The derivatives by the biases of the inputs and of the state, of one sum the same."""
    return (found[0], found[1]) if kind == "GRU" else (found[0], found[0])


def _part(n: Backward, name: str, place: int, axis: int) -> str:
    """The part of one direction."""
    return n.emit("Gather", name, n.known(place), axis=axis)
