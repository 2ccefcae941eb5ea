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
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import layer_function, plain
from onnx_systemds.exporting.graph.nodes import made_by, pairs
from onnx_systemds.importing.convert import import_model
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.operators.onnx.recurrent_steps import GATES


def is_layer(function: tree.Function) -> bool:
    """Whether a function is one direction of a layer with the usual activations, as the importer writes it."""
    kind = function.name.partition("_")[0].upper()
    given = {parameter.name for parameter in function.parameters}
    return kind in GATES and _unnamed(function) == _reference(kind, linear="b_state" in given, doubled="R2" in given)


def _unnamed(function: tree.Function) -> tree.Function:
    return replace(plain(function), name="layer")


@cache
def _reference(kind: str, *, linear: bool, doubled: bool) -> tree.Function:
    """Return the function that the importer writes for a layer. doubled: of known weights, see `lstm_layer`."""
    shapes: dict[str, Sequence[int | str]] = {"X": ["steps", "rows", 2], "W": [1, GATES[kind] * 3, 2]}
    shapes |= {"R": [1, GATES[kind] * 3, 3], "B": [1, GATES[kind] * 6]}
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
    return next(_unnamed(function) for function in functions if function.name == f"{kind.lower()}_layer")


@layer_function("lstm_layer", is_layer)
def lstm_layer(
    ctx: Context, X: Matrix, h0: Matrix, c0: Matrix, direction: Matrix, R: Matrix | None = None,
    R2: Matrix | None = None,
) -> Value | tuple[Value, ...] | None:
    """All hidden states, the last one, and the last cell state."""
    weights = R if R2 is None else R2
    return None if weights is None else _layer(ctx, "LSTM", (X, weights), [h0, c0], direction, doubled=R2 is not None)


@layer_function("gru_layer", is_layer)
def gru_layer(
    ctx: Context, X: Matrix, R: Matrix, h0: Matrix, direction: Matrix, b_state: Matrix | None = None,
) -> Value | tuple[Value, ...] | None:
    """All hidden states and the last one."""
    return _layer(ctx, "GRU", (X, R), [h0], direction, b_state)


@layer_function("rnn_layer", is_layer)
def rnn_layer(ctx: Context, X: Matrix, R: Matrix, h0: Matrix, direction: Matrix) -> Value | tuple[Value, ...] | None:
    """All hidden states and the last one."""
    return _layer(ctx, "RNN", (X, R), [h0], direction)


def _layer(
    ctx: Context, kind: str, given: tuple[Matrix, Matrix], states: Sequence[Matrix], direction: Matrix,
    state_bias: Matrix | None = None, *, doubled: bool = False,
) -> tuple[Value, ...] | None:
    """Return what the operator gives; onnxruntime has it in float32 alone.

    doubled: whether weights, and what inputs add, are doubled for the candidate, which comes last.
    """
    g, (added, recurrent) = ctx.g, given
    rows, units = states[0].dims
    steps = added.rows // rows
    ways = [way for way in (1.0, -1.0) if g.filling(ctx.flat(direction)) is g.number(way)]
    if g.dtype == "float64" or not isinstance(units, int) or steps == 0 or rows == 0 or not ways:
        return None
    count = GATES[kind] * units
    halves = g.constant(np.repeat([[1.0, 0.5]], (count - units, units), axis=1)) if doubled else None
    x, w, bias = _product(ctx, ctx.flat(added), count)
    r = ctx.flat(recurrent)
    if halves is not None:  # numbers that were doubled are as they were
        w, r, bias = w * halves, r * halves, None if bias is None else bias * halves
    inputs: list[Tensor | None] = [
        g.reshape(x, (steps, rows, x.dims[1])), *(_transposed(ctx, weights, count) for weights in (w, r)),
        None if bias is None and state_bias is None else _offsets(ctx, bias, state_bias, count),
    ]
    if any(g.filling(ctx.flat(state)) is not g.number(0.0) for state in states):
        inputs += [None, *(ctx.viewed(state, (1, rows, units)) for state in states)]
    while inputs[-1] is None:
        inputs.pop()
    dims: list[Dims] = [(steps, 1, rows, units), *[(1, rows, units) for _ in states]]
    attributes = {"hidden_size": units, "direction": "forward" if ways == [1.0] else "reverse"}
    if state_bias is not None:
        attributes["linear_before_reset"] = 1
    every, *last = g.nodes(kind, inputs, [(FLOAT, d) for d in dims], **attributes)
    return Matrix(every, added.rows, units), *(Matrix(state, rows, units) for state in last)


def _product(ctx: Context, added: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the inputs, weights and offset of which a matrix is made; by the unit matrix where it is not made so."""
    g = ctx.g
    for product, offset in [(added, None), *pairs(made_by(added, "Add"))]:
        node = made_by(product, "MatMul")
        if node is None or (offset is not None and not _is_row(offset, count)):
            continue
        x, weights = node.operand(0), node.operand(1)
        if x.rank == weights.rank == 2 and x.dims[0] == added.dims[0]:
            return x, weights, None if offset is None else g.expand(offset, (1, count))
    return added, g.constant(np.eye(count)), None


def _is_row(x: Tensor, count: int) -> bool:
    """Whether a tensor adds the same to each row of so many columns."""
    return x.dims in ((), (1,), (count,), (1, 1), (1, count))


def _transposed(ctx: Context, weights: Tensor, count: Dim) -> Tensor:
    """Return weights with a row per gate and unit, of one direction."""
    return ctx.g.reshape(ctx.g.transpose(weights, (1, 0)), (1, count, weights.dims[0]))


def _offsets(ctx: Context, bias: Tensor | None, state_bias: Matrix | None, count: int) -> Tensor:
    """Return the offsets of what goes in, and of the state."""
    g, size = ctx.g, 0 if state_bias is None else state_bias.cols
    assert isinstance(size, int)
    parts = [g.filled(0.0, (1, count)) if bias is None else bias, g.filled(0.0, (1, count - size))]
    return g.concat(parts if state_bias is None else [*parts, ctx.viewed(state_bias, (1, size))], 1)
