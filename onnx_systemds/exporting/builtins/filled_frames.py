"""Frames that a script fills itself: `frame`, with the types of their columns."""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Scalar, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.frames import NUMBER_TYPES
from onnx_systemds.exporting.graph.nodes import TEXT, Array
from onnx_systemds.exporting.values import FrameValue, ListValue, known_of, scalar_text
from onnx_systemds.inference.dims import Dim


@builtin("frame")
def frame(ctx: Context, data: Value, rows: Dim, cols: Dim, schema: ListValue | None = None) -> Value:
    """A frame of one string, of one string per column, or of strings given row by row; optionally with types."""
    if schema is None and isinstance(data, Scalar):
        return FrameValue((ctx.g.expand(ctx.tensor(data), (rows, cols)),))
    given = [_known_text(item) for item in (data.items if isinstance(data, ListValue) else (data,))]
    if not isinstance(cols, int) or len(given) not in (1, cols, rows * cols):
        raise UnsupportedCase(f"a frame of {rows} x {cols} that is filled with {len(given)} texts")
    cells = np.array(given * cols if len(given) == 1 else given, object).reshape(-1, cols)
    types = ["STRING"] if schema is None else [_known_text(item).upper() for item in schema.items]
    if len(types) not in (1, cols):
        raise UnsupportedCase(f"a frame of {cols} columns by a schema of {len(types)}")
    parts = [_typed(ctx, cells[:, [place]], types[place % len(types)]) for place in range(cols)]
    return FrameValue(tuple(ctx.g.expand(part, (rows, 1)) for part in parts),
                      types=tuple(types[place % len(types)] for place in range(cols)))


def _known_text(value: Value) -> str:
    known = known_of(value)
    if known is None:
        raise UnsupportedCase("what a frame is filled with, and its types, must be known")
    return scalar_text(known)


def _typed(ctx: Context, column: Array, type_: str) -> Tensor:
    """Return known texts as a column of a type of frames."""
    if type_ == "STRING":
        return ctx.g.constant(column, TEXT)
    if type_ == "BOOLEAN":
        return ctx.g.constant(np.char.lower(column.astype(str)) == "true")
    if type_ not in NUMBER_TYPES:
        raise UnsupportedCase(f"{quoted(type_)} is no type of a frame's columns")
    try:
        found = column.astype(np.float64)
    except ValueError as error:
        raise UnsupportedCase(f"a column of {type_} is filled with texts: {error}") from None
    return ctx.g.constant(np.trunc(found) if type_.startswith("INT") else found, FLOAT)
