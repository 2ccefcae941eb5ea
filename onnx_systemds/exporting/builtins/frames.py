"""Frames: from and to matrices, joined, compared, and texts replaced. Texts become numbers only by as.matrix."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Sequence
from itertools import chain, groupby

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import Context, Matrix, Scalar, Tensor, Value, builtin, refuse
from onnx_systemds.exporting.builtins.texts import EQUAL_TEXTS, compare_texts, equal_texts, text
from onnx_systemds.exporting.graph.nodes import FLOAT, TEXT
from onnx_systemds.exporting.values import STRING, FrameValue, ListValue, known_of, scalar_text
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.known_dims import as_ints, differ

NUMBER_TYPES = ("FP64", "FP32", "INT64", "INT32")
"""Types of columns of a frame that a tensor of numbers holds."""

_NUMBER_OR_TRUTH = re.compile(r"NaN|true|false|[-+]?(0x[0-9a-f]+|[0-9.]+(e[-+]?[0-9]+)?)[dfl]?", re.IGNORECASE)
"""Texts that the engine takes for more than texts."""

_REPLACED_IN = {"FP64": "FP64", "INT64": "INT", "INT32": "INT", "BOOLEAN": "BOOLEAN"}
"""By the type of a column of numbers or booleans what type a text must be of to be replaced in it."""


@builtin("as.frame")
def as_frame(ctx: Context, x: Value) -> Value:
    """A frame made of a matrix, of a scalar, or of the only item of a list."""
    return frame_of(ctx, x)


def frame_of(ctx: Context, x: Value) -> FrameValue:
    """Return a value as a frame."""
    if isinstance(x, ListValue) and len(x.items) == 1:
        return frame_of(ctx, x.items[0])
    if isinstance(x, Matrix):
        return FrameValue((ctx.flat(x),))
    return x if isinstance(x, FrameValue) else FrameValue((ctx.g.reshape(ctx.tensor(x), (1, 1)),))


def numbers(ctx: Context, part: Tensor, kind: str = FLOAT) -> Tensor:
    """Return texts as the numbers they show, empty ones as NaN; kind: FLOAT, or WIDE for all digits."""
    if part.kind == TEXT and ctx.g.opset >= EQUAL_TEXTS:
        part = ctx.g.where(equal_texts(ctx, part, text(ctx, "")), text(ctx, "NaN"), part)
    return ctx.g.cast(part, kind)


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
    """Return frames beside or below each other. Raises UnsupportedCase."""
    found = [part for part in frames if isinstance(part, FrameValue)]
    if len(found) != len(frames):
        raise UnsupportedCase("frames can only be joined with frames", hint="make them frames by as.frame")
    check_fitting(found, axis)
    if axis == 1:
        types = [one.types or ("",) * len(one.parts) for one in found]
        return FrameValue(tuple(part for one in found for part in one.parts), types=tuple(chain.from_iterable(types)))
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
    """Return a frame of booleans. Raises UnsupportedCase."""
    if not isinstance(left, FrameValue) or not isinstance(right, FrameValue):
        raise UnsupportedCase(f"'{operator}' of {left} and {right}", hint="the engine compares only frames with frames")
    if operator not in ("==", "!="):
        raise UnsupportedCase(f"'{operator}' of frames", hint="make them matrices by as.matrix")
    if any(map(differ, left.dims, right.dims)):
        raise UnsupportedCase(f"{left} and {right} do not fit together")
    sides = left.parts, right.parts
    if len({tuple((part.kind, part.dims[1]) for part in parts) for parts in sides}) > 1:
        sides = (joined(ctx, left),), (joined(ctx, right),)
    return FrameValue(tuple(compare_texts(ctx, operator, a, b) for a, b in zip(*sides)))


def replace_text(ctx: Context, target: FrameValue, pattern: Value, replacement: Value) -> FrameValue:
    """Return a frame in which every cell with one text, which may be that of a number, holds another."""
    shown = [_shown(value) for value in (pattern, replacement)]
    old, new = (text(ctx, each) if isinstance(each, str) else each for each in shown)
    types = target.types or ("",) * len(target.parts)
    parts = [ctx.g.where(equal_texts(ctx, part, old), new, part) if part.kind == TEXT
             else _replaced(ctx, part, type_, *shown) for part, type_ in zip(target.parts, types)]
    return FrameValue(tuple(parts), types=target.types)


def _shown(value: Value) -> str | Tensor:
    """Return the string that `replace` uses for a number, boolean or string; a tensor if only the run knows it."""
    known = known_of(value)
    if known is not None:
        return str(known).lower() if isinstance(known, bool) else scalar_text(known)
    if not isinstance(value, Scalar) or not isinstance(value.content, Tensor) or value.type != STRING:
        raise UnsupportedCase("replace in a frame of what is no text, and only the run knows")
    return value.content


def _replaced(ctx: Context, part: Tensor, type_: str, old: str | Tensor, new: str | Tensor) -> Tensor:
    """Return columns of numbers or booleans in which one that a text shows is replaced.

    As in the engine it is if the text is of their type: digits alone are an integer, -1 is none.
    """
    if not isinstance(old, str) or not isinstance(new, str):
        raise UnsupportedCase("replace in columns of numbers of a text that only the run knows")
    if not _NUMBER_OR_TRUTH.fullmatch(old):
        return part
    shown = [_type_shown(each) for each in (old, new)]
    if type_ not in _REPLACED_IN or shown[0] != shown[1]:
        raise UnsupportedCase(f"replace of {old} in columns of numbers: their types are what the engine finds in them",
                              hint="replace in their matrix, as.matrix(F), or say that they are texts, string[N,3]")
    if _REPLACED_IN[type_] != shown[0]:
        return part
    if type_ == "BOOLEAN":
        return ctx.g.where(part.equals(ctx.g.constant(old == "true")), ctx.g.constant(new == "true"), part)
    number = float(old)
    found = part.apply("IsNaN") if math.isnan(number) else part.equals(number)
    if number == 0:  # 0 and -0 are two texts
        found = found & (1.0 / part).equals(math.copysign(math.inf, number))
    return ctx.g.where(found, ctx.g.number(float(new)), part)


def _type_shown(shown: str) -> str:
    """Return what type the engine takes a text for."""
    if shown in ("true", "false"):
        return "BOOLEAN"
    return "INT" if shown.isdigit() else "FP64" if _NUMBER_OR_TRUTH.fullmatch(shown) else "STRING"


def without_texts(ctx: Context, target: FrameValue, unwanted: Value, filling: str) -> FrameValue:
    """Return a frame in which another text stands in the place of some, which are known, and of those of no length."""
    given = unwanted.items if isinstance(unwanted, ListValue) else (unwanted,)
    known = [item.known for item in given if isinstance(item, Scalar)]
    if len(known) != len(given) or not all(isinstance(item, str) for item in known):
        raise UnsupportedCase("which texts are missing must be known when the script is exported")
    if any(part.kind != TEXT for part in target.parts):
        raise UnsupportedCase(f"texts that are missing in {target} of numbers",
                              hint="leave out naStrings, or say that its cells are texts, string[N,3]")
    texts = [text(ctx, each) for each in [*map(str, known), *([""] if filling else [])]]
    if not texts:
        return target
    parts = []
    for part in target.parts:
        missing = functools.reduce(operator.or_, (equal_texts(ctx, part, each) for each in texts))
        parts.append(ctx.g.where(missing, text(ctx, filling), part))
    return FrameValue(tuple(parts))


def column_part(ctx: Context, x: FrameValue, start: Dim, size: Dim) -> FrameValue:
    """Return `size` columns of a frame, from `start` (counted from 0) on. Raises UnsupportedCase."""
    known = as_ints((start, size, *(part.dims[1] for part in x.parts)))
    if len(x.parts) == 1 or (known is None and len({part.kind for part in x.parts}) == 1):
        return FrameValue((ctx.g.slice(joined(ctx, x), 1, start, start + size, size=size),))
    if known is None:
        raise UnsupportedCase("columns of a frame of texts and numbers that only the run can choose")
    begin, count, *widths = known
    found: list[Tensor] = []
    before = 0
    for part, width in zip(x.parts, widths):
        first, last = max(begin - before, 0), min(begin + count - before, width)
        if first < last:
            found.append(ctx.g.slice(part, 1, first, last))
        before += width
    return FrameValue(tuple(found))


refuse("transformencode", reason="it learns codes from the data of each run",
       hint="encode before, bind its meta frame, and export transformapply")
refuse("detectSchema", "applySchema", reason="a tensor has one type, whatever its texts look like")
