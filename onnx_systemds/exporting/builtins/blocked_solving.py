"""Elimination in large matrices of known size: block by block of columns, most of it by one product each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_systemds.exporting.builtins.api import BOOL, INT, Context, Tensor

SMALLEST = 128
"""From so many columns on it pays."""

_WIDTH = 32
"""Columns of a block."""


def solved_in_blocks(
    ctx: Context, a: Tensor, b: Tensor, size: int, solved: Callable[[Context, Tensor, Tensor], Tensor]
) -> Tensor:
    """Return what the elimination of `a`, a square matrix of `size` columns, makes of `b`.

    The pivots are the largest of their columns, as column by column. Their rows stay where they are until the end.
    solved: the same column by column.
    """
    g = ctx.g
    whole, rest = divmod(size, _WIDTH)

    def step(k: Tensor, going: Tensor, *state: Tensor) -> list[Tensor]:
        return [going, *_eliminated(ctx, state, k * _WIDTH, _WIDTH, solved)]

    start = [g.concat([a, b], 1), g.cast(g.filled(1.0, (size,)), BOOL), g.cast(g.filled(0.0, (size,)), INT)]
    state: Sequence[Tensor] = g.loop(g.constant(whole), start, step)
    rows, _, order = _eliminated(ctx, state, g.constant(size - rest), rest, solved) if rest else state
    return g.gather(g.slice(rows, 1, size, None), order, 0)


def _eliminated(
    ctx: Context, state: Sequence[Tensor], first: Tensor, count: int,
    solved: Callable[[Context, Tensor, Tensor], Tensor],
) -> list[Tensor]:
    """Return the state after `count` columns from `first` on.

    It is the rows, which of them hold no pivot yet, and in which row the pivot of each column is.
    """
    g, (rows, free, order) = ctx.g, state
    columns = g.count(0, count) + first
    panel = g.gather(rows, columns, 1)
    pivots, free = _pivots(ctx, panel, free, count)
    own = solved(ctx, g.gather(panel, pivots, 0), g.gather(rows, pivots, 0))
    less = rows - g.matmul(panel, own)
    return [
        g.node("ScatterND", [less, g.reshape(pivots, (count, 1)), own], rows.dims),
        free,
        g.node("ScatterElements", [order, columns, pivots], order.dims, INT, axis=0),
    ]


def _pivots(ctx: Context, panel: Tensor, free: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the rows of the pivots of a block, in their order, and which rows are free then."""
    g, size = ctx.g, panel.dims[0]
    places, numbers = g.count(0, size), g.count(0, count)

    def step(k: Tensor, going: Tensor, panel: Tensor, free: Tensor, found: Tensor) -> list[Tensor]:
        column = g.gather(panel, k, 1)
        largest = g.node("ArgMax", [g.where(free, abs(column), -1.0)], (), INT, axis=0, keepdims=0)
        here = places.equals(largest)
        row = g.gather(panel, largest, 0)
        shares = g.where(here, 0.0, column / g.gather(column, largest, 0))
        less = panel - g.reshape(shares, (size, 1)) * g.reshape(row, (1, count))
        return [going, less, free & ~here, g.where(numbers.equals(k), largest, found)]

    start = [panel, free, g.constant([0] * count)]
    _, left, pivots = g.loop(g.constant(count), start, step)
    return pivots, left
