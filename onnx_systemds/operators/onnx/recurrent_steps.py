"""The DML function that runs one direction of RNN, GRU or LSTM over time, with its activations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import is_name
from onnx_systemds.dml.templates import render_operator
from onnx_systemds.engine.safe_forms import counted
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.operators.api import NodeFacts, NodeView

Activation: TypeAlias = tuple[str, float | None, float | None]
"""Its name, alpha and beta; None: it takes none."""
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_W, _R, _B, _LENS, _P = 1, 2, 3, 4, 7
_LARGEST_DOUBLED = 2.0**126
"""Weights below it are doubled in float32; those of float16 are in float32, too."""

# activation -> (DML text, default alpha, default beta); None: the activation takes none
ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "sigmoid": ("1 / (1 + exp(-{x}))", None, None),
    # exact to 2e-16; the engine's sigmoid takes 25 ns for a number, its tanh 80
    "tanh": ("2 * (1 / (1 + exp(-2 * {x}))) - 1", None, None),
    "relu": ("max({x}, 0)", None, None),
    "softsign": ("{x} / (1 + abs({x}))", None, None),
    "softplus": ("softplus({x})", None, None),
    "affine": ("{a} * {x} + {b}", 1.0, 0.0),
    "leakyrelu": ("max({x}, 0) + {a} * min({x}, 0)", 0.01, None),
    "thresholdedrelu": (counted("ifelse({x} > {a}, {x}, matrix(0, rows=nrow({x}), cols=ncol({x})))"), 1.0, None),
    "scaledtanh": ("{a} * tanh({b} * {x})", 1.0, 1.0),
    "hardsigmoid": ("max(min({a} * {x} + {b}, 1), 0)", 0.2, 0.5),
    "elu": ("max({x}, 0) + {a} * exp_less_one(min({x}, 0))", 1.0, None),
}
_LIBRARY = ("softplus", "exp_less_one")
"""Functions of the library that the texts above call."""


def is_linear_before_reset(node: NodeFacts) -> bool:
    """Whether a GRU resets the product of its state, not the state."""
    return node.node.op_type == "GRU" and bool(node.attribute("linear_before_reset"))


# --- activations ------------------------------------------------------------------------------------------------


def activations_of(node: NodeFacts, kind: str, directions: int) -> list[list[str]]:
    """For each direction the activations as texts with ``{x}``."""
    return [[_with_numbers(*each) for each in chosen] for chosen in chosen_activations(node, kind, directions)]


def chosen_activations(node: NodeFacts, kind: str, directions: int) -> list[list[Activation]]:
    """For each direction the activations, in lower case; those that use alpha or beta take them in turn."""
    defaults = DEFAULTS[kind]
    names = list(node.attribute("activations") or ()) or list(defaults) * directions
    if len(names) < len(defaults) * directions:
        raise UnsupportedCase(f"{len(names)} activations, {len(defaults) * directions} are needed")
    alphas = iter(node.attribute("activation_alpha") or ())
    betas = iter(node.attribute("activation_beta") or ())
    chosen = [_activation(str(name), alphas, betas) for name in names[: len(defaults) * directions]]
    return [chosen[start : start + len(defaults)] for start in range(0, len(chosen), len(defaults))]


def _activation(name: str, alphas: Any, betas: Any) -> Activation:
    found = ACTIVATIONS.get(name.lower())
    if found is None:
        raise UnsupportedCase(f"the activation {name!r} is unknown")
    _, alpha, beta = found
    return (name.lower(), None if alpha is None else float(np.float32(next(alphas, alpha))),
            None if beta is None else float(np.float32(next(betas, beta))))


def _with_numbers(name: str, alpha: float | None, beta: float | None) -> str:
    text = ACTIVATIONS[name][0]
    for mark, number in (("{a}", alpha), ("{b}", beta)):
        text = text.replace(mark, "" if number is None else literal(np.float32(number)))
    return text


# --- the function of one variant ----------------------------------------------------------------------------------


def has_bias(node: NodeView) -> bool:
    """Whether a layer has a bias that is not known to be zero."""
    known = node.constant(_B)
    return node.has(_B) and (known is None or bool(known.any()))


class Variant:
    """The DML function for one combination of activations, bias, clipping, peepholes and lengths."""

    def __init__(self, node: NodeView, kind: str, activations: Sequence[str]) -> None:
        self.node = node
        self.kind = kind
        self.activations = activations
        clip = node.attribute("clip")
        self.clip = None if not clip else literal(np.float32(clip))
        self.has_bias = has_bias(node)
        self.has_lens = node.has(_LENS)
        self.has_peepholes = kind == "LSTM" and node.has(_P)
        self.is_doubled = self._is_doubled()
        # the new states; where sequences end, the old ones are kept beside them
        self.h, self.c = ("h_new", "c_new") if self.has_lens else ("h", "c")

    def register(self) -> str:
        """Hand the function's text to the node; returns the function's name, the same one for the same variant."""
        node = self.node
        states = ["h", "c"] if self.kind == "LSTM" else ["h"]
        inputs = ["X", "R2" if self.is_doubled else "R"]
        inputs += ["b_state"] if self._adds_state_bias() else []
        inputs += [f"{state}0" for state in states]
        inputs += ["P"] if self.has_peepholes else []
        inputs += ["lens"] if self.has_lens else []
        inputs += ["direction"]
        steps = [*getattr(self, f"{self.kind.lower()}_step")(), *self._advance(states)]
        as_given = [f"{state} = {state}0" for state in states]
        setup, scaling, rescaling = self._scaled() if self._is_scaled() else (as_given, [], [])
        if self.has_lens:
            message = ('"the lengths of sequences are " + min(lens) + " to " + max(lens) + ", the axis is " + steps'
                       ' + "; the script takes them to be within"')
            setup = [f"if (min(lens) < 0 | max(lens) > steps) {{\n    stop({message})\n  }}", *setup]
        parts = {
            "comments": [
                f"One direction of {self.kind}: 1, or -1 for backward, as a matrix. Called with several numbers, the",
                "function would be compiled anew each time.",
                "X has a row for each step and sequence, what the inputs add to the gates; so has Y.",
            ],
            "inputs": [f"matrix[double] {name}" for name in inputs],
            "outputs": [f"matrix[double] {name}" for name in ["Y", *states]],
            "gates": GATES[self.kind],
            "scaling": scaling,
            "setup": setup,
            "steps": steps,
            "rescaling": rescaling,
        }
        write = partial(render_operator, "recurrent_layer", **parts)
        return node.own_function(f"{self.kind.lower()}_layer", write(name=""), lambda name: write(name=name))

    def _is_scaled(self) -> bool:
        """Whether it is an LSTM of which one sigmoid gives all gates and the candidate."""
        usual = [ACTIVATIONS[name.lower()][0] for name in DEFAULTS["LSTM"]]
        is_plain = self.clip is None and not self.has_peepholes and not self.node.attribute("input_forget")
        return self.kind == "LSTM" and self.activations == usual and is_plain

    def _is_doubled(self) -> bool:
        """Whether the weights of such an LSTM come with those of the candidate doubled, as conversion knows them."""
        known = [self.node.constant(position) for position in (_W, _R, _B) if self.node.has(position)]
        return self.node.node.op_type == "LSTM" and self._is_scaled() and all(
            weight is not None and float(np.abs(weight).max(initial=0)) < _LARGEST_DOUBLED for weight in known)

    def _scaled(self) -> tuple[list[str], list[str], list[str]]:
        """What sets up such an LSTM, what scales its weights, and what scales its cell state back."""
        twice = [
            "twice = cbind(matrix(1, rows=1, cols=3 * m), matrix(2, rows=1, cols=m))",
            *(f"{name} = {name} * twice" for name in "XR"),
        ]
        scaling = [
            "# tanh(x) is 2 * sigmoid(2 * x) - 1: the candidate comes doubled, and the cell state is kept so",
            *([] if self.is_doubled else twice),
            *(f"minus_{name} = matrix(-{number}, rows=n, cols=m)" for name, number in (("one", 1), ("two", 2))),
        ]
        return ["h = h0", "c = 2 * c0"], scaling, ["c = c / 2"]

    def _adds_state_bias(self) -> bool:
        return self.has_bias and is_linear_before_reset(self.node)

    def _active(self, which: int, target: str, text: str, *, clipped: bool = True) -> list[str]:
        """``target = activation(text)``, the argument clipped where that is wanted."""
        if clipped and self.clip is not None:
            text = f"max(min({text}, {self.clip}), -{self.clip})"
        form = self.activations[which]
        for function in _LIBRARY:
            if f"{function}(" in form:
                self.node.call(function)
        if is_name(text):
            return [f"{target} = {form.replace('{x}', text)}"]
        return [f"{target} = {text}", f"{target} = {form.replace('{x}', target)}"]

    def _of_state(self, weights: str) -> str:
        """What the state ``h`` adds to gates."""
        return f"h %*% {weights}"

    def rnn_step(self) -> list[str]:
        """From the gates ``G``, which hold the part of the inputs, and the state ``h`` to the new state."""
        return self._active(0, self.h, "matrix(G[at, ], rows=n, cols=m) + " + self._of_state("R"))

    def gru_step(self) -> list[str]:
        """The gates z and r, the candidate, and the new state between it and ``h``."""
        lines = ["g = matrix(G[at, ], rows=n, cols=3 * m)", "k = 2 * m", "l = k + 1", "w = 3 * m"]
        if self.node.attribute("linear_before_reset"):
            state = "u[, l:w] + b_state" if self._adds_state_bias() else "u[, l:w]"
            lines += [f"u = {self._of_state('R')}", *self._active(0, "zr", "g[, 1:k] + u[, 1:k]")]
            inner = f"g[, l:w] + zr[, (m + 1):k] * ({state})"
        else:
            lines += self._active(0, "zr", f"g[, 1:k] + {self._of_state('R[, 1:k]')}")
            inner = "g[, l:w] + (zr[, (m + 1):k] * h) %*% R[, l:w]"
        lines += ["z = zr[, 1:m]", *self._active(1, "h_tilde", inner), f"{self.h} = (1 - z) * h_tilde + z * h"]
        return lines

    def lstm_step(self) -> list[str]:
        """The gates i, o, f (in this order) and the candidate, then both new states; peepholes read ``c``."""
        product = self._of_state("R2" if self.is_doubled else "R")
        lines = [f"g = matrix(G[at, ], rows=n, cols=4 * m) + {product}", "k = 2 * m", "l = 3 * m", "w = 4 * m"]
        if self._is_scaled():
            sigmoid = ACTIVATIONS["sigmoid"][0]
            return [
                *lines,
                f"g = {sigmoid.format(x='g')}",
                f"{self.c} = g[, (k + 1):l] * c + g[, 1:m] * (minus_two + 4 * g[, (l + 1):w])",
                f"{self.h} = g[, (m + 1):k] * (minus_one + 2 * ({sigmoid.format(x=self.c)}))",
            ]
        coupled = bool(self.node.attribute("input_forget"))
        if self.has_peepholes:
            lines += self._active(0, "i", "g[, 1:m] + c * P[1, ]")
            lines += ["f = 1 - i"] if coupled else self._active(0, "f", "g[, (k + 1):l] + c * P[3, ]")
        else:
            lines += [*self._active(0, "iof", "g[, 1:l]"), "i = iof[, 1:m]", "o = iof[, (m + 1):k]"]
            lines += ["f = 1 - i" if coupled else "f = iof[, (k + 1):l]"]
        lines += [*self._active(1, "c_tilde", "g[, (l + 1):w]"), f"{self.c} = f * c + i * c_tilde"]
        if self.has_peepholes:
            lines += self._active(0, "o", f"g[, (m + 1):k] + {self.c} * P[2, ]")
        # as in onnxruntime, the cell state is not clipped on its way into the last activation
        return [*lines, *self._active(2, "c_active", self.c, clipped=False), f"{self.h} = o * c_active"]

    def _advance(self, states: Sequence[str]) -> list[str]:
        """Take the new states; a sequence that has ended keeps its state and gives zeros."""
        if not self.has_lens:
            return ["Y[at, ] = matrix(h, rows=1, cols=n * m)"]
        # not as a product with a row of ones, which may be a single one: ifelse-of-a-vector-of-unknown-length
        lines = ["ended = matrix(1, rows=n, cols=m) * lens < at"]
        lines += [f"{state} = {counted(f'ifelse(ended, {state}, {state}_new)')}" for state in states]
        return [*lines, "y = ifelse(ended, matrix(0, rows=n, cols=m), h)", "Y[at, ] = matrix(y, rows=1, cols=n * m)"]
