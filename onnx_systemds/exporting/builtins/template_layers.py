"""The recurrent layers of converted models: the function of one direction becomes the operator that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import layer_function
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.passes.block_cuts import NEVER, cut, is_never
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.operators.onnx.recurrent_steps import GATES


def is_layer(function: tree.Function) -> bool:
    """Whether a function is one direction of a layer with the usual activations, as the importer writes it."""
    kind = function.name.partition("_")[0].upper()
    given = {parameter.name for parameter in function.parameters}
    if kind not in GATES:
        return False
    has_bias, is_doubled = not given.isdisjoint(("b", "b2")), "W2" in given
    return _plain(function) == _reference(kind, bias=has_bias, linear="b_state" in given, doubled=is_doubled)


@cache
def _reference(kind: str, *, bias: bool, linear: bool, doubled: bool) -> tree.Function:
    """Return the function that the importer writes for a layer. doubled: of known weights, see `lstm_layer`."""
    shapes: dict[str, Sequence[int | str]] = {"X": ["steps", "rows", 2], "W": [1, GATES[kind] * 3, 2]}
    shapes |= {"R": [1, GATES[kind] * 3, 3], **({"B": [1, GATES[kind] * 6]} if bias else {})}
    weights = [numpy_helper.from_array(np.zeros(tuple(map(int, dims)), np.float32), name)
               for name, dims in shapes.items() if doubled and name != "X"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in shapes.items()
              if not doubled or name == "X"]
    attributes: dict[str, Any] = {"hidden_size": 3, **({"linear_before_reset": 1} if linear else {})}
    node = helper.make_node(kind, list(shapes), ["Y"], **attributes)
    outputs = [onnx.ValueInfoProto(name="Y")]
    model = helper.make_model(helper.make_graph([node], "layer", inputs, outputs, weights),
                              opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    script = import_model(model, functions="flat", specialised=False)
    functions = parse_script(script.text).functions.values()  # without the spelling of the importer
    return next(_plain(function) for function in functions if function.name == f"{kind.lower()}_layer")


def _plain(function: tree.Function) -> tree.Function:
    """Return a function without its name and what only keeps the engine's compiler from something."""
    body = tuple(statement for statement in function.body if not is_never(statement) and statement != cut(NEVER))
    return replace(function, name="layer", body=body)


@layer_function("lstm_layer", is_layer)
def lstm_layer(
    ctx: Context, X: Matrix, h0: Matrix, c0: Matrix, backward: int, W: Matrix | None = None, R: Matrix | None = None,
    b: Matrix | None = None, W2: Matrix | None = None, R2: Matrix | None = None, b2: Matrix | None = None,
) -> Value | tuple[Value, ...] | None:
    """All hidden states, the last one, and the last cell state."""
    if W2 is not None and R2 is not None:  # those of the candidate, which come last, are doubled
        given = X, _halved(ctx, W2), _halved(ctx, R2), None if b2 is None else _halved(ctx, b2)
        return _layer(ctx, "LSTM", given, [h0, c0], backward)
    return None if W is None or R is None else _layer(ctx, "LSTM", (X, W, R, b), [h0, c0], backward)


def _halved(ctx: Context, weights: Matrix) -> Matrix:
    """Weights of an LSTM with half of those of the candidate; numbers that were doubled are as they were."""
    if not isinstance(weights.cols, int):
        raise UnsupportedCase("the number of units is not known")
    units = weights.cols // 4
    halves = ctx.g.constant(np.repeat([[1.0, 0.5]], (3 * units, units), axis=1))
    return Matrix(ctx.flat(weights) * halves, weights.rows, weights.cols)


@layer_function("gru_layer", is_layer)
def gru_layer(
    ctx: Context, X: Matrix, W: Matrix, R: Matrix, h0: Matrix, backward: int, b: Matrix | None = None,
    b_state: Matrix | None = None,
) -> Value | tuple[Value, ...] | None:
    """All hidden states and the last one."""
    return _layer(ctx, "GRU", (X, W, R, b), [h0], backward, b_state)


@layer_function("rnn_layer", is_layer)
def rnn_layer(
    ctx: Context, X: Matrix, W: Matrix, R: Matrix, h0: Matrix, backward: int, b: Matrix | None = None
) -> Value | tuple[Value, ...] | None:
    """All hidden states and the last one."""
    return _layer(ctx, "RNN", (X, W, R, b), [h0], backward)


def _layer(
    ctx: Context, kind: str, given: tuple[Matrix, Matrix, Matrix, Matrix | None], states: Sequence[Matrix],
    backward: int, state_bias: Matrix | None = None,
) -> tuple[Value, ...] | None:
    """Return what the operator gives; onnxruntime has it in float32 alone."""
    g, (x, w, r, bias) = ctx.g, given
    rows, units = states[0].dims
    steps = x.rows // rows
    if g.dtype == "float64" or not isinstance(units, int) or steps == 0 or rows == 0:
        return None
    count = GATES[kind] * units
    inputs: list[Tensor | None] = [
        ctx.viewed(x, (steps, rows, x.cols)), *(_turned(ctx, weights, count) for weights in (w, r)),
        None if bias is None else _offsets(ctx, bias, state_bias, count),
    ]
    if any(g.filling(ctx.flat(state)) is not g.number(0.0) for state in states):
        inputs += [None, *(ctx.viewed(state, (1, rows, units)) for state in states)]
    while inputs[-1] is None:
        inputs.pop()
    dims: list[Dims] = [(steps, 1, rows, units), *[(1, rows, units) for _ in states]]
    attributes = {"hidden_size": units, "direction": "reverse" if backward else "forward"}
    if state_bias is not None:
        attributes["linear_before_reset"] = 1
    every, *last = g.nodes(kind, inputs, [(FLOAT, d) for d in dims], **attributes)
    return Matrix(every, x.rows, units), *(Matrix(state, rows, units) for state in last)


def _turned(ctx: Context, weights: Matrix, count: Dim) -> Tensor:
    """Return weights with a row per gate and unit, of one direction."""
    return ctx.g.reshape(ctx.g.transpose(ctx.flat(weights), (1, 0)), (1, count, weights.rows))


def _offsets(ctx: Context, bias: Matrix, state_bias: Matrix | None, count: int) -> Tensor:
    """Return the offsets of what goes in, and of the state."""
    g, size = ctx.g, 0 if state_bias is None else state_bias.cols
    assert isinstance(size, int)
    parts = [ctx.viewed(bias, (1, count)), g.filled(0.0, (1, count - size))]
    return g.concat(parts if state_bias is None else [*parts, ctx.viewed(state_bias, (1, size))], 1)
