"""Frames: from and to matrices, joined, compared, and texts replaced. Texts become numbers only by as.matrix."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import Context, Matrix, Scalar, Tensor, Value, builtin, refuse
from onnx_systemds.exporting.builtins.texts import EQUAL_TEXTS, compare_texts, equal_texts, text
from onnx_systemds.exporting.graph.nodes import TEXT
from onnx_systemds.exporting.values import FrameValue, ListValue, scalar_text
from onnx_systemds.inference.dims import Dim, Dims

NUMBER_TYPES = ("FP64", "FP32", "INT64", "INT32")
"""Types of columns of a frame that a tensor of numbers holds."""

_NUMBER_OR_TRUTH = re.compile(r"NaN|true|false|[-+]?(0x[0-9a-f]+|[0-9.]+(e[-+]?[0-9]+)?)[dfl]?", re.IGNORECASE)
"""Texts that the engine takes for more than texts."""


@builtin("as.frame")
def as_frame(ctx: Context, x: Value) -> Value:
    """A matrix or a scalar as a frame, or a frame that is the item of a list."""
    return frame_of(ctx, x)


def frame_of(ctx: Context, x: Value) -> FrameValue:
    """Return a value as a frame."""
    if isinstance(x, ListValue) and len(x.items) == 1:
        return frame_of(ctx, x.items[0])
    if isinstance(x, Matrix):
        return FrameValue((ctx.flat(x),))
    return x if isinstance(x, FrameValue) else FrameValue((ctx.g.reshape(ctx.tensor(x), (1, 1)),))


def numbers(ctx: Context, part: Tensor) -> Tensor:
    """Return texts as the numbers they show, empty ones as NaN."""
    if part.kind == TEXT and ctx.g.opset >= EQUAL_TEXTS:
        part = ctx.g.where(equal_texts(ctx, part, text(ctx, "")), text(ctx, "NaN"), part)
    return ctx.g.floating(part)


def frame_as_matrix(ctx: Context, x: FrameValue) -> Matrix:
    """Return the numbers in the cells of a frame."""
    return ctx.matrix(ctx.g.concat([numbers(ctx, part) for part in x.parts], 1))


def joined(ctx: Context, x: FrameValue) -> Tensor:
    """Return a frame as one tensor. Raises UnsupportedCase when it holds both texts and numbers."""
    kinds = {part.kind for part in x.parts}
    if TEXT in kinds and len(kinds) > 1:
        raise UnsupportedCase("a frame of texts and numbers, which no tensor can hold",
                              hint="use its columns of texts and those of numbers one by one")
    parts = x.parts if len(kinds) == 1 else tuple(map(ctx.g.floating, x.parts))
    return ctx.g.concat(parts, 1)


def of_one_kind(x: FrameValue) -> list[FrameValue]:
    """Return the columns of a frame as frames that a tensor can hold: those of texts, or of numbers, side by side."""
    return [FrameValue(tuple(parts)) for _, parts in groupby(x.parts, lambda part: part.kind == TEXT)]


def check_fitting(parts: Sequence[Matrix | FrameValue], axis: int) -> None:
    """Raise UnsupportedCase for parts that cannot be joined along an axis, as the other one is known to differ."""
    if len({part.dims[1 - axis] for part in parts if isinstance(part.dims[1 - axis], int)}) > 1:
        raise UnsupportedCase(f"{' and '.join(map(str, parts[:4]))} do not fit together")


def join_frames(ctx: Context, frames: tuple[Value, ...], axis: int) -> FrameValue:
    """Return frames beside or below each other."""
    found = [part for part in frames if isinstance(part, FrameValue)]
    if len(found) != len(frames):
        raise UnsupportedCase("frames can only be joined with frames", hint="make them frames by as.frame")
    check_fitting(found, axis)
    if axis == 1:
        return FrameValue(tuple(part for one in found for part in one.parts))
    forms = {tuple((part.kind, part.dims[1]) for part in one.parts) for one in found}
    if len(forms) == 1:
        return FrameValue(tuple(ctx.g.concat(parts, 0) for parts in zip(*(one.parts for one in found))))
    whole = [joined(ctx, one) for one in found]
    if len({part.kind for part in whole}) > 1:
        raise UnsupportedCase("a column of texts and numbers, which no tensor can hold")
    return FrameValue((ctx.g.concat(whole, 0),))


def blank(ctx: Context, kind: str, dims: Dims) -> Tensor:
    """Return a tensor that stands for a frame which is not defined."""
    return ctx.g.expand(text(ctx, ""), dims) if kind == TEXT else ctx.g.cast(ctx.g.filled(0.0, dims), kind)


def compare_frames(ctx: Context, operator: str, left: Value, right: Value) -> FrameValue:
    """Return a frame of truths."""
    if not isinstance(left, FrameValue) or not isinstance(right, FrameValue):
        raise UnsupportedCase(f"'{operator}' of {left} and {right}", hint="the engine compares only frames with frames")
    if operator not in ("==", "!="):
        raise UnsupportedCase(f"'{operator}' of frames", hint="make them matrices by as.matrix")
    a, b = joined(ctx, left), joined(ctx, right)
    if any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in zip(a.dims, b.dims)):
        raise UnsupportedCase(f"{left} and {right} do not fit together")
    return FrameValue((compare_texts(ctx, operator, a, b),))


def replace_text(ctx: Context, target: FrameValue, pattern: Value, replacement: Value) -> FrameValue:
    """Return a frame in which every cell with one text, which may be that of a number, holds another."""
    wanted = [value.known for value in (pattern, replacement) if isinstance(value, Scalar) and value.known is not None]
    if len(wanted) != 2:
        raise UnsupportedCase("replace in a frame of what only the run knows")
    old, new = (str(known).lower() if isinstance(known, bool) else scalar_text(known) for known in wanted)
    if _NUMBER_OR_TRUTH.fullmatch(old) and any(part.kind != TEXT for part in target.parts):
        raise UnsupportedCase(f"replace of {old} in columns of numbers: their types are what the engine finds in them",
                              hint="replace in their matrix, as.matrix(F), or say that they are texts, string[N,3]")
    return FrameValue(tuple(
        ctx.g.where(equal_texts(ctx, part, text(ctx, old)), text(ctx, new), part) if part.kind == TEXT else part
        for part in target.parts))


def column_part(ctx: Context, x: FrameValue, start: Dim, size: Dim) -> FrameValue:
    """Return `size` columns of a frame, from `start` (counted from 0) on."""
    if len(x.parts) == 1:
        return FrameValue((ctx.g.slice(x.parts[0], 1, start, start + size, size=size),))
    widths = [part.dims[1] for part in x.parts]
    if not isinstance(start, int) or not isinstance(size, int) or not all(isinstance(width, int) for width in widths):
        raise UnsupportedCase("columns of a frame of texts and numbers that only the run can choose")
    found: list[Tensor] = []
    before = 0
    for part, width in zip(x.parts, map(int, widths)):  # type: ignore[arg-type]
        first, last = max(start - before, 0), min(start + size - before, width)
        if first < last:
            found.append(ctx.g.slice(part, 1, first, last))
        before += width
    return FrameValue(tuple(found))


refuse("transformencode", reason="it learns codes from the data of each run",
       hint="encode before, bind its meta frame, and export transformapply")
refuse("detectSchema", "applySchema", "transformdecode", reason="a tensor has one type, whatever its texts look like")
