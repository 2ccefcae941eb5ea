"""RNN, GRU and LSTM as Scans, for derivatives of what no operator of its own knows.

These are other activations, clipping, peepholes, lengths of sequences, coupled gates and sequences in front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_systemds.inference.backward import OPSET
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.passes.differentiation import gradient_node
from onnx_systemds.inference.passes.direction_joining import JOINED
from onnx_systemds.model import protos
from onnx_systemds.model.ir import Graph, ValueInfo
from onnx_systemds.operators.api import Backward
from onnx_systemds.operators.onnx.recurrent import direction_of
from onnx_systemds.operators.onnx.recurrent_steps import Activation, chosen_activations, is_linear_before_reset

_X, _W, _R, _B, _LENS, _H, _C, _P = range(8)
_OPERATORS = {
    "sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "softsign": "Softsign", "softplus": "Softplus",
    "leakyrelu": "LeakyRelu", "thresholdedrelu": "ThresholdedRelu", "hardsigmoid": "HardSigmoid", "elu": "Elu",
}
"""Of ONNX, by activation; Affine and ScaledTanh are none."""


def gradient_by_scan(n: Backward) -> Sequence[str]:
    """The derivatives by the inputs, of the layer written as a Scan in each direction."""
    given = {place: n.emit("Identity", name) for place, name in enumerate(n.node.inputs) if name}
    results = _layer(n, given)
    seeds = {results[place]: n.emit("Identity", seed) for place, seed in enumerate(n.given) if seed}
    wanted = [place for place in given if n.needs(place)]
    found = {place: f"{n.prefix}/by{place}" for place in wanted}
    n.nodes.append(gradient_node([given[place] for place in wanted], [*found.values()], seeds))
    return [found.get(place, "") for place in range(n.input_count)]


def _layer(n: Backward, given: Mapping[int, str]) -> list[str]:
    """All hidden states, the last ones, and the last cell states of an LSTM."""
    kind, is_turned = n.node.op_type, bool(n.attribute("layout"))
    ways = {"forward": [0], "reverse": [1]}.get(direction_of(n), [0, 1])
    turned = {place: n.emit("Transpose", given[place], perm=(1, 0, 2)) if is_turned else given[place]
              for place in (_X, _H, _C) if place in given}
    chosen = chosen_activations(n, kind, len(ways))
    found = [_direction(n, {**given, **turned}, number, way, chosen[number]) for number, way in enumerate(ways)]
    every, *last = zip(*found)
    axis = 2 if is_turned or n.attribute(JOINED) else 1
    if is_turned:
        every = tuple(n.emit("Transpose", name, perm=(1, 0, 2)) for name in every)
    return [_stacked(n, every, axis), *(_stacked(n, each, int(is_turned)) for each in last)]


def _stacked(n: Backward, names: Sequence[str], axis: int) -> str:
    return n.emit("Concat", *(n.unsqueeze(name, axis) for name in names), axis=axis)


def _direction(
    n: Backward, given: Mapping[int, str], number: int, way: int, chosen: Sequence[Activation]
) -> list[str]:
    """All hidden states of a direction, [steps, batch, units], and the last states."""
    kind, x = n.node.op_type, given[_X]
    units, count = n.known_dims(_R, "the derivative of a recurrent layer")[2], 2 if kind == "LSTM" else 1
    own = {place: n.emit("Gather", given[place], n.known(number))
           for place in (_W, _R, _B, _H, _C, _P) if place in given}
    sizes = n.emit("Concat", n.emit("Shape", x, start=1, end=2), n.known([units]), axis=0)
    zero = np.zeros(1, protos.numpy_dtype(n.dtype(_X)))
    states = [own.get(place) or n.emit("ConstantOfShape", sizes, value=zero) for place in (_H, _C)[:count]]
    weights = {"R": n.emit("Transpose", own[_R], perm=(1, 0))}
    inputs = n.emit("MatMul", x, n.emit("Transpose", own[_W], perm=(1, 0)))
    if _B in own:
        first, weights["b"] = _parts(n, own[_B], 2, 0)
        inputs = n.emit("Add", inputs, first)
    if _P in own:
        weights |= zip("iof", _parts(n, own[_P], 3, 0))
    slices = [inputs]
    if _LENS in given:
        steps = n.emit("Range", n.known(0), n.emit("Squeeze", n.emit("Shape", x, start=0, end=1)), n.known(1))
        lengths = n.unsqueeze(n.cast(given[_LENS], "int64"), 0)
        slices.append(n.unsqueeze(n.emit("Less", n.unsqueeze(steps, 1), lengths), 2))
    body = _Step(n, f"{n.prefix}/way{number}", chosen, weights).graph(count, len(slices))
    last = [n.fresh(f"last{place}_") for place in range(count)]
    every = n.fresh("every")
    n.emit_several("Scan", [*last, every], *states, *slices, body=body, num_scan_inputs=len(slices),
                   scan_input_directions=(way,) * len(slices), scan_output_directions=(way,))
    return [every, *last]


def _parts(writer: NodeWriter, name: str, count: int, axis: int) -> tuple[str, ...]:
    names = [writer.fresh(f"part{place}_") for place in range(count)]
    return writer.emit_several("Split", names, name, axis=axis, num_outputs=count)


class _Step(NodeWriter):
    """The nodes of one step of a direction."""

    def __init__(self, n: Backward, prefix: str, chosen: Sequence[Activation], weights: Mapping[str, str]) -> None:
        super().__init__(n.node, prefix, OPSET)
        self.layer = n
        self.chosen = chosen
        self.weights = weights
        self.dtype = n.dtype(_X)

    def graph(self, count: int, slices: int) -> Graph:
        """The body of a Scan: states, gates of the inputs, and whether sequences go on; states and hidden states."""
        states = [f"{self.prefix}/{name}" for name in ("h", "c")[:count]]
        taken = [f"{self.prefix}/{name}" for name in ("g", "goes_on")[:slices]]
        rules: Mapping[str, Callable[..., list[str]]] = {"RNN": self.rnn, "GRU": self.gru, "LSTM": self.lstm}
        found = rules[self.layer.node.op_type](taken[0], *states)
        shown = found[0]
        if slices == 2:
            found = [self.emit("Where", taken[1], new, old) for new, old in zip(found, states)]
            shown = self.emit("Where", taken[1], found[0], self.known(0.0, self.dtype))
        outputs = [self.emit("Identity", name) for name in (*found, shown)]
        infos = [tuple(ValueInfo(name, None) for name in names) for names in ([*states, *taken], outputs)]
        return Graph("step", "", infos[0], infos[1], {}, tuple(self.nodes), {})

    def rnn(self, g: str, h: str) -> list[str]:
        """The hidden states."""
        return [self.active(0, self.emit("Add", g, self.of_state(h)))]

    def gru(self, g: str, h: str) -> list[str]:
        """The hidden states, between those before and the candidates."""
        z, r, new = _parts(self, g, 3, 1)
        of_z, of_r, of_new = _parts(self, self.of_state(h), 3, 1)
        z, r = (self.active(0, self.emit("Add", *pair)) for pair in ((z, of_z), (r, of_r)))
        if is_linear_before_reset(self.layer):
            inner = self.emit("Mul", r, of_new)
        else:
            inner = _parts(self, self.of_state(self.emit("Mul", r, h)), 3, 1)[2]
        candidate = self.active(1, self.emit("Add", new, inner))
        return [self.emit("Add", candidate, self.emit("Mul", z, self.emit("Sub", h, candidate)))]

    def lstm(self, g: str, h: str, c: str) -> list[str]:
        """The hidden and the cell states."""
        i, o, f, new = _parts(self, self.emit("Add", g, self.of_state(h)), 4, 1)
        i = self.active(0, self.seen("i", i, c))
        f = self.emit("Sub", self.known(1.0, self.dtype), i) if self.layer.attribute("input_forget") else (
            self.active(0, self.seen("f", f, c)))
        cell = self.emit("Add", self.emit("Mul", f, c), self.emit("Mul", i, self.active(1, new)))
        o = self.active(0, self.seen("o", o, cell))
        return [self.emit("Mul", o, self.active(2, cell, is_clipped=False)), cell]

    def of_state(self, h: str) -> str:
        """What hidden states add to all gates."""
        product = self.emit("MatMul", h, self.weights["R"])
        return self.emit("Add", product, self.weights["b"]) if "b" in self.weights else product

    def seen(self, gate: str, x: str, c: str) -> str:
        """A gate with what it sees of cell states through a peephole."""
        return self.emit("Add", x, self.emit("Mul", c, self.weights[gate])) if gate in self.weights else x

    def active(self, which: int, x: str, *, is_clipped: bool = True) -> str:
        """The activation of that place, of an argument that is clipped where the layer does so."""
        clip = self.layer.attribute("clip")
        if clip and is_clipped:
            x = self.emit("Clip", x, self.known(-float(clip), self.dtype), self.known(float(clip), self.dtype))
        name, alpha, beta = self.chosen[which]
        if name == "affine":
            return self.emit("Add", self.emit("Mul", x, self.known(alpha, self.dtype)), self.known(beta, self.dtype))
        if name == "scaledtanh":
            inner = self.emit("Tanh", self.emit("Mul", x, self.known(beta, self.dtype)))
            return self.emit("Mul", inner, self.known(alpha, self.dtype))
        numbers: dict[str, Any] = {"alpha": alpha, "beta": beta}
        return self.emit(_OPERATORS[name], x, **{key: number for key, number in numbers.items() if number is not None})
