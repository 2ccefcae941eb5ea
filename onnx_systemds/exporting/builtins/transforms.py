"""``transformapply`` with a spec and a meta frame that are known, and ``transformdecode`` of codes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase, quoted, quoted_list
from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.bins import binned
from onnx_systemds.exporting.builtins.frames import column_part, frame_of, joined, numbers
from onnx_systemds.exporting.builtins.texts import number_in
from onnx_systemds.exporting.graph.nodes import TEXT, Array
from onnx_systemds.exporting.values import FrameValue
from onnx_systemds.model.ir import ML

_BETWEEN = "·"
"""Between a text and its code, or the ends of a bin, in a cell of a meta frame."""
_EMBEDDING = "word_embedding"
_METHODS = ("recode", "dummycode", "bin", _EMBEDDING)
_IMPUTE = "impute"
_IMPUTED_BY = ("global_mean", "global_mode", "constant")
_TRUTHS = {"true": 1.0, "false": 0.0}
_WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z_][\w.-]*')


@builtin("transformapply")
def transform_apply(ctx: Context, target: Value, spec: str, meta: Value, embedding: Matrix | None = None) -> Value:
    """The encoding by a known meta frame: codes, or the rows of `embedding` with these numbers.

    A text without a code is NaN, or zeros as dummies and as an embedding; in a column that is imputed it is missing.
    """
    frame, known = frame_of(ctx, target), frame_of(ctx, meta)
    if not isinstance(frame.cols, int):
        raise UnsupportedCase(f"{frame} is transformed, whose columns must be known")
    content = _content("transformapply", spec, (*_METHODS, _IMPUTE))
    if _EMBEDDING in content and embedding is None:
        raise UnsupportedCase(f"transformapply with {quoted(_EMBEDDING)} in its spec needs the argument embedding")
    names = known.names if len(known.names) == frame.cols and not content.get("ids") else ()
    place_of = partial(_column, ids=bool(content.get("ids")), cols=frame.cols, names=names)
    chosen = _methods(content, place_of)
    if names:
        ctx.interface.name_columns(frame, names)
    cells = _cells(ctx, known)
    if chosen and cells.shape[1] != frame.cols:
        raise UnsupportedCase(f"{frame} is transformed by a meta frame of {cells.shape[1]} columns")
    numbers_of = {place: _imputed(cells, known.missing, place, chosen.get(place, set()))
                  for place in _imputed_places(content, frame.cols, chosen, place_of)}
    bins = {place_of(item): item for item in content.get("bin", ())}
    found: list[Tensor] = []
    place = 0
    while place < frame.cols:
        width = 1
        if place in chosen:
            column = joined(ctx, column_part(ctx, frame, place, 1))
            entries = _entries(cells, place)
            vectors = embedding if _EMBEDDING in chosen[place] else None
            imputed = numbers_of.get(place)
            found.append(_coded(ctx, column, entries, chosen[place], imputed, bins.get(place)) if vectors is None else
                         _embedded(ctx, column, entries, vectors))
        else:
            while place + width < frame.cols and place + width not in chosen:
                width += 1
            found += _filled(ctx, column_part(ctx, frame, place, width), numbers_of, place)
        place += width
    return ctx.matrix(ctx.g.concat(found, 1))


@builtin("transformdecode")
def transform_decode(ctx: Context, target: Matrix, spec: str, meta: Value) -> Value:
    """The texts of codes by a known meta frame, if all columns are recoded; no text for what is no code."""
    known = frame_of(ctx, meta)
    content = _content("transformdecode", spec, ("recode",))
    cells = _cells(ctx, known)
    if target.cols != cells.shape[1]:
        raise UnsupportedCase(f"{target} is decoded by a meta frame of {cells.shape[1]} columns")
    names = () if content.get("ids") else known.names
    place_of = partial(_column, ids=bool(content.get("ids")), cols=cells.shape[1], names=names)
    chosen = _methods(content, place_of)
    numbers_left = [place + 1 for place in range(cells.shape[1]) if place not in chosen]
    if numbers_left:
        what = f"transformdecode of column {numbers_left[0]}, which its spec does not recode"
        raise UnsupportedCase(f"{what}: the engine makes a text of its number", hint="decode columns of codes alone")
    codes = ctx.whole(ctx.flat(target))
    return FrameValue(tuple(_decoded(ctx, ctx.g.slice(codes, 1, place, place + 1), _pairs(_entries(cells, place)))
                            for place in range(cells.shape[1])))


def _decoded(ctx: Context, codes: Tensor, pairs: list[tuple[str, int]]) -> Tensor:
    """Return the texts of a column of codes."""
    return ctx.g.node("LabelEncoder", [codes], codes.dims, TEXT, _domain=ML, default_string="",
                      keys_int64s=tuple(code for _, code in pairs), values_strings=tuple(token for token, _ in pairs))


def _cells(ctx: Context, meta: FrameValue) -> Array:
    """Return what is in a meta frame."""
    cells = joined(ctx, meta).constant
    if cells is None:
        raise UnsupportedCase("the meta frame must be known when the script is exported",
                              hint="run transformencode before, and bind its meta frame")
    return cells


def _entries(cells: Array, place: int) -> list[str]:
    """Return the cells of a column of a meta frame that are not empty."""
    return [str(cell) for cell in cells[:, place].tolist() if cell]


def _content(function: str, spec: str, methods: tuple[str, ...]) -> dict[str, Any]:
    """Return a spec, read and checked."""
    try:
        content = json.loads(_WORDS.sub(_quoted_word, spec))
    except ValueError as error:
        raise UnsupportedCase(f"the spec of {function} is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise UnsupportedCase(f"the spec of {function} is no JSON object")
    unknown = [key for key in content if key not in (*methods, "ids")]
    if unknown:
        raise UnsupportedCase(f"{function} with {quoted_list(unknown)} in its spec",
                              hint=f"it is exported with {', '.join(methods)}")
    return content


def _methods(content: dict[str, Any], place_of: Callable[[Any], int]) -> dict[int, set[str]]:
    """Return what a spec asks for of columns counted from 0, without what it imputes."""
    found: dict[int, set[str]] = {}
    for method in _METHODS:
        for item in content.get(method, ()):
            found.setdefault(place_of(item), set()).add(method)
    return found


def _imputed_places(
    content: dict[str, Any], cols: int, chosen: dict[int, set[str]], place_of: Callable[[Any], int]
) -> list[int]:
    """Return the columns, from 0 on, whose missing cells are filled. Raises UnsupportedCase where the engine errs."""
    places: list[int] = []
    first_wide = min((place for place, asked in chosen.items() if asked & {"dummycode", _EMBEDDING}), default=cols)
    for item in content.get(_IMPUTE, ()):
        place = place_of(item)
        method = item.get("method") if isinstance(item, dict) else None
        if method not in _IMPUTED_BY:
            raise UnsupportedCase(f"column {place + 1} is imputed by {quoted(str(method))}",
                                  hint=f"the engine has {', '.join(_IMPUTED_BY)}")
        if places and place <= places[-1]:
            raise UnsupportedCase(
                "columns are imputed in another order than that of the frame: the engine mixes up their methods",
                hint="name them in ascending order",
            )
        if place >= first_wide:
            what = f"column {place + 1} is imputed, and column {first_wide + 1} becomes several"
            raise UnsupportedCase(f"{what}: the engine then fills another column", hint="impute columns before it")
        if "bin" in chosen.get(place, ()):
            what = f"column {place + 1} is imputed and put into bins"
            raise UnsupportedCase(f"{what}: the engine gives the number itself for a missing one, and not its bin",
                                  hint="impute it before, by replace")
        places.append(place)
    return places


def _imputed(cells: Array, missing: tuple[str, ...], place: int, methods: set[str]) -> float:
    """Return the number, or the code, that a meta frame notes for missing cells of a column."""
    text = missing[place] if place < len(missing) else ""
    if not text:
        raise UnsupportedCase(f"the meta frame does not say what missing cells of column {place + 1} become",
                              hint="bind the file that the engine wrote, with its .mtd")
    pairs = dict(str(cell).rpartition(_BETWEEN)[::2] for cell in cells[:, place].tolist() if cell)
    try:
        return float(pairs[text] if "recode" in methods else text)
    except (KeyError, ValueError) as error:
        what = f"missing cells of column {place + 1} become {quoted(text)}"
        raise UnsupportedCase(f"{what}, which the column does not know") from error


def _filled(ctx: Context, x: FrameValue, numbers_of: dict[int, float], place: int) -> list[Tensor]:
    """Return columns of a frame from `place` on as numbers, those that are missing filled."""
    g = ctx.g
    found: list[Tensor] = []
    for part in map(partial(numbers, ctx), x.parts):
        assert isinstance(part.dims[1], int)
        row = [numbers_of.get(column, np.nan) for column in range(place, place + part.dims[1])]
        place += part.dims[1]
        if not np.isnan(row).all():
            part = g.where(part.apply("IsNaN"), g.constant(np.array([row]), FLOAT), part)
        found.append(part)
    return found


def _column(item: Any, ids: bool, cols: int, names: tuple[str, ...]) -> int:
    """Return the column of an item of a spec, from 0 on: by its number, or by its name."""
    name = str(item.get("id", item.get("name")) if isinstance(item, dict) else item)
    if name in names:
        return names.index(name)
    digits = name if ids else name.removeprefix("C")
    if not digits.isdigit() or (not ids and digits == name):
        if names:
            raise UnsupportedCase(f"the column {name} of a spec is none of the meta frame",
                                  hint=f"its columns: {', '.join(names)}")
        raise UnsupportedCase(
            f"the column {name} of a spec, where the meta frame does not say what its columns are called",
            hint="write the meta frame as binary, or as csv with header=TRUE; "
                 'or name columns by number, with "ids": true',
        )
    place = int(digits) - 1
    if not 0 <= place < cols:
        raise UnsupportedCase(f"the spec names {item}, which is no column of {cols}")
    return place


def _quoted_word(found: re.Match[str]) -> str:
    """Return a word of a spec as JSON has it; the engine reads them also in single quotes, and without any."""
    word = found[0]
    if word[0] == '"' or word in ("true", "false", "null"):
        return word
    return json.dumps(word.strip("'"))


def _coded(
    ctx: Context, column: Tensor, entries: list[str], methods: set[str], imputed: float | None, bins: Any
) -> Tensor:
    """Return a column as codes or dummies; imputed: the code of texts without one, bins: what the spec says of them."""
    g = ctx.g
    if imputed is not None:
        return g.floating(_recoded(ctx, column, entries, int(imputed))[0])
    if "bin" in methods:
        codes, count = binned(ctx, column, [_ends(entry) for entry in entries], bins), len(entries)
    else:
        codes, count = _recoded(ctx, column, entries)
    if "dummycode" in methods:
        places = g.constant(np.arange(1, count + 1).reshape(1, count), codes.kind)
        return g.floating(codes.equals(places))
    if codes.kind == FLOAT:
        return codes
    return g.where(codes.equals(0), np.nan, g.floating(codes))


def _embedded(ctx: Context, column: Tensor, entries: list[str], embedding: Matrix) -> Tensor:
    """Return the rows of a matrix that the codes of texts are the numbers of, zeros for those without one."""
    g, rows = ctx.g, ctx.flat(embedding)
    codes, _ = _recoded(ctx, column, entries)
    padded = g.concat([g.filled(0.0, (1, embedding.cols)), rows], 0)
    return g.gather(padded, g.reshape(codes, codes.dims[:1]), 0)


def _recoded(ctx: Context, column: Tensor, entries: list[str], other: int = 0) -> tuple[Tensor, int]:
    """Return the codes of texts or numbers as ints, `other` for those without one, and the highest code."""
    pairs = _pairs(entries)
    codes = tuple(code for _, code in pairs)
    if column.kind != TEXT:
        return _codes_of_numbers(ctx, column, pairs, other), max(codes, default=0)
    found = ctx.g.node("LabelEncoder", [column], column.dims, INT, _domain=ML, default_int64=other,
                       keys_strings=tuple(token for token, _ in pairs), values_int64s=codes)
    return found, max(codes, default=0)


def _codes_of_numbers(ctx: Context, column: Tensor, pairs: list[tuple[str, int]], other: int) -> Tensor:
    """Return the codes of numbers by what texts stand for; the engine's text of 1 is 1, 1.0 or true, by its column.

    Raises UnsupportedCase where several texts stand for one number.
    """
    g = ctx.g
    texts: dict[float, list[str]] = {}
    known: list[tuple[float, int]] = []
    for text, code in pairs:
        if (number := _TRUTHS.get(text, number_in(text))) is not None:
            known.append((number, code))
            texts.setdefault(math.nan if math.isnan(number) else number, []).append(text)
    if several := next((alike for alike in texts.values() if len(alike) > 1), None):
        raise UnsupportedCase(f"numbers are recoded by texts, of which {quoted_list(several)} are one number",
                              hint="give the frame as texts: string[N,3]")
    if not known:
        return g.expand(g.constant([[other]]), column.dims)
    numbers, codes = (g.constant(np.array([row]), kind) for row, kind in zip(zip(*known), (FLOAT, INT)))
    matched = column.equals(numbers)
    if any(number != number for number, _ in known):
        matched = matched | (column.apply("IsNaN") & numbers.apply("IsNaN"))
    found = g.reduce("ReduceSum", g.cast(matched, INT) * codes, (1,))
    return g.where(found.equals(0), g.constant(other), found) if other else found


def _pairs(entries: list[str]) -> list[tuple[str, int]]:
    """Return texts with their codes."""
    return [(entry.rpartition(_BETWEEN)[0], int(_number(entry))) for entry in entries]


def _ends(entry: str) -> tuple[float, float]:
    """Return the ends of a bin that a cell of a meta frame notes."""
    return _number(entry, 0), _number(entry)


def _number(entry: str, side: int = 2) -> float:
    """Return the code of a text, or an end of a bin, that a cell of a meta frame notes."""
    try:
        return float(entry.rpartition(_BETWEEN)[side])
    except ValueError:
        raise UnsupportedCase(f"the meta frame has a cell {quoted(entry)} without a code or an end",
                              hint="bind the file that transformencode and write gave") from None
