"""Texts of converted models, which scripts hold as codes."""

from __future__ import annotations

from onnx_systemds.exporting.builtins.api import INT, Context, Value
from onnx_systemds.exporting.builtins.frames import joined
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.graph.nodes import TEXT
from onnx_systemds.exporting.values import FrameValue


@template_function("text_codes")
def text_codes(ctx: Context, F: Value, texts: Value) -> tuple[Value, Value] | None:
    """The codes (from 1) of the strings of a column, and the dictionary extended by new strings."""
    if not isinstance(F, FrameValue) or not isinstance(texts, FrameValue) or (F.cols, texts.cols) != (1, 1):
        return None
    g, known, given = ctx.g, joined(ctx, texts), joined(ctx, F)
    if known.kind != TEXT or given.kind != TEXT:
        return None
    every = g.reshape(g.concat([known, given], 0), (texts.rows + F.rows,))
    count = g.size_symbol("texts")
    outputs = [(TEXT, (count,)), (INT, (count,)), (INT, every.dims), (INT, (count,))]
    distinct, _, numbers, _ = g.nodes("Unique", [every], outputs, sorted=0)
    g.bind_dims(distinct)
    own = g.slice(numbers, 0, texts.rows, texts.rows + F.rows, size=F.rows)
    codes = g.floating(g.reshape(own, (F.rows, 1))) + 1
    return ctx.matrix(codes), FrameValue((g.reshape(distinct, (count, 1)),))
