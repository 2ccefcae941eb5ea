"""The builtin of recurrent networks: lstm, with the caches that it hands to its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Tensor, Value, builtin
from onnx_systemds.inference.dims import Dim, Dims

_ONNX_ORDER = (0, 2, 1, 3)
"""Where ONNX takes its gates (input, output, forget, cell) from DML's columns (input, forget, output, cell)."""

_UNROLLED = 100
"""An LSTM of so many steps is written out in float64."""


@dataclass(frozen=True)
class _Sizes:
    """Rows of the batch, steps of a sequence, numbers per step, and numbers of the state."""

    rows: Dim
    steps: int
    features: int
    units: int


@builtin("lstm")
def lstm(
    ctx: Context, x: Matrix, w: Matrix, bias: Matrix, out0: Matrix, c0: Matrix, return_sequences: bool
) -> tuple[Value, ...]:
    """The outputs and the last cell state of an LSTM; then all outputs, cell states and gates, one row per step."""
    sizes = _sizes(x, w)
    g, rows, steps, units = ctx.g, x.rows, sizes.steps, sizes.units
    sequence = g.transpose(ctx.viewed(x, (rows, steps, sizes.features)), (1, 0, 2))
    hidden, cell = (ctx.viewed(_first_rows(ctx, state, rows), (1, rows, units)) for state in (out0, c0))
    if g.dtype == "float64" and steps <= _UNROLLED:
        every, cells, gates = _unrolled(ctx, sequence, hidden, cell, w, bias, sizes)
        last, final = (g.slice(tensor, 0, steps - 1, steps) for tensor in (every, cells))
    else:
        every, last, final = _operator(ctx, sequence, hidden, cell, _weights(ctx, w, bias, sizes), sizes)
        gates = _all_gates(ctx, sequence, every, hidden, w, bias, sizes)
        cells = _all_cells(ctx, gates, cell, sizes)
    if return_sequences:
        out = ctx.matrix(g.transpose(every, (1, 0, 2)))
    else:
        out = ctx.matrix(g.reshape(last, (rows, units)))
    caches = [ctx.matrix(tensor, steps, rows * width)
              for tensor, width in ((every, units), (cells, units), (gates, 4 * units))]
    return out, ctx.matrix(g.reshape(final, (rows, units))), *caches


def _sizes(x: Matrix, w: Matrix) -> _Sizes:
    units = w.cols // 4
    features = w.rows - units
    steps = x.cols // features
    if not (isinstance(units, int) and isinstance(features, int) and isinstance(steps, int)):
        raise UnsupportedCase("the sizes of an LSTM must be known when the script is exported")
    if units * 4 != w.cols or features < 1 or steps * features != x.cols:
        raise UnsupportedCase(f"weights of {w.rows} x {w.cols} do not fit a sequence of {x.cols} columns")
    return _Sizes(x.rows, steps, features, units)


def _first_rows(ctx: Context, state: Matrix, rows: Dim) -> Matrix:
    """Return as much of a state as there are rows."""
    if state.rows == rows:
        return state
    return ctx.matrix(ctx.g.slice(ctx.flat(state), 0, 0, rows, size=rows))


def _weights(ctx: Context, w: Matrix, bias: Matrix, sizes: _Sizes) -> list[Tensor]:
    """Return the weights of the inputs, those of the state, and the offsets as the operator LSTM wants them."""
    g, units, width = ctx.g, sizes.units, sizes.features
    turned = g.transpose(ctx.flat(w), (1, 0))
    ordered = g.concat(_single_gates(ctx, turned, 0, units, _ONNX_ORDER), 0)
    inputs = g.reshape(g.slice(ordered, 1, 0, width), (1, 4 * units, width))
    recurrent = g.reshape(g.slice(ordered, 1, width, width + units), (1, 4 * units, units))
    offsets = _single_gates(ctx, ctx.column(bias), 0, units, _ONNX_ORDER)
    both = g.concat([*offsets, g.filled(0.0, (4 * units,))], 0)
    return [inputs, recurrent, g.reshape(both, (1, 8 * units))]


def _operator(
    ctx: Context, sequence: Tensor, hidden: Tensor, cell: Tensor, weights: list[Tensor], sizes: _Sizes
) -> tuple[Tensor, Tensor, Tensor]:
    """Return all outputs (steps x rows x units), the last one and the last cell state, of the operator LSTM."""
    steps, rows, units = sizes.steps, sizes.rows, sizes.units
    dims: list[Dims] = [(steps, 1, rows, units), (1, rows, units), (1, rows, units)]
    if all(ctx.g.filling(state) is ctx.g.number(0.0) for state in (hidden, cell)):
        first: list[Tensor | None] = []  # zeros, as the operator begins by itself
    else:
        first = [None, hidden, cell]
    inputs = [sequence, *weights, *first]
    every, last, final = ctx.g.nodes("LSTM", inputs, [(FLOAT, d) for d in dims], hidden_size=units)
    return ctx.g.reshape(every, (steps, rows, units)), last, final


def _unrolled(
    ctx: Context, sequence: Tensor, hidden: Tensor, cell: Tensor, w: Matrix, bias: Matrix, sizes: _Sizes
) -> tuple[Tensor, Tensor, Tensor]:
    """Return outputs, cell states and gates of all steps, step by step: onnxruntime runs LSTM in float32 only."""
    g = ctx.g
    outputs, cells, gates = [], [], []
    for step in range(sizes.steps):
        gate = _gates(ctx, g.slice(sequence, 0, step, step + 1), hidden, w, bias, sizes)
        taken, forget, shown, new = _single_gates(ctx, gate, 2, sizes.units)
        cell = forget * cell + taken * new
        hidden = shown * cell.apply("Tanh")
        outputs.append(hidden)
        cells.append(cell)
        gates.append(gate)
    return g.concat(outputs, 0), g.concat(cells, 0), g.concat(gates, 0)


def _gates(ctx: Context, sequence: Tensor, before: Tensor, w: Matrix, bias: Matrix, sizes: _Sizes) -> Tensor:
    """Return the gates of steps, steps x rows x 4*units, from what goes in and the outputs before."""
    g, squashed = ctx.g, 3 * sizes.units
    product = g.matmul(g.concat([sequence, before], 2), ctx.flat(w))
    sums = product + ctx.viewed(bias, (1, 1, 4 * sizes.units))
    new = g.slice(sums, 2, squashed, 4 * sizes.units)
    return g.concat([g.slice(sums, 2, 0, squashed).apply("Sigmoid"), new.apply("Tanh")], 2)


def _single_gates(ctx: Context, gates: Tensor, axis: int, units: int, order: Sequence[int] = range(4)) -> list[Tensor]:
    """Return the parts of four gates that lie side by side along an axis."""
    return [ctx.g.slice(gates, axis, k * units, (k + 1) * units) for k in order]


def _all_gates(
    ctx: Context, sequence: Tensor, every: Tensor, first: Tensor, w: Matrix, bias: Matrix, sizes: _Sizes
) -> Tensor:
    """Return the gates of all steps from what the steps gave."""
    before = ctx.g.concat([first, ctx.g.slice(every, 0, 0, sizes.steps - 1)], 0) if sizes.steps > 1 else first
    return _gates(ctx, sequence, before, w, bias, sizes)


def _all_cells(ctx: Context, gates: Tensor, first: Tensor, sizes: _Sizes) -> Tensor:
    """Return the cell states of all steps, steps x rows x units."""
    g = ctx.g
    taken, forget, _, new = _single_gates(ctx, gates, 2, sizes.units)
    added = taken * new
    cells = [first]
    for step in range(sizes.steps):
        scaled = g.slice(forget, 0, step, step + 1) * cells[-1]
        cells.append(scaled + g.slice(added, 0, step, step + 1))
    return g.concat(cells[1:], 0)
