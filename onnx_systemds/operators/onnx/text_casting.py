"""Casts between numbers and text.

Numbers are written as numpy writes them, which ONNX's reference follows: the fewest digits that tell a number from its
neighbours. ONNX itself only asks for a plain representation.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.inference.registry import takes_text
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.operators.api import SCALAR, Fragment, NodeView
from onnx_systemds.operators.api.layout import Form, in_form
from onnx_systemds.operators.onnx.combining import truncated, wrapped
from onnx_systemds.operators.onnx.precision import as_float

takes_text("Cast", "CastLike")

_KINDS = {"bool": "bool", "double": "float64", "float": "float32", "float16": "float16"}


def _given(node: NodeView) -> tuple[str, Form]:
    """The input as a matrix, and the form that stands for."""
    form = node.known_form(0)
    return (f"as.matrix({node.scalar(0)})" if form is SCALAR else node.view(0, form)), form


def number_to_text(node: NodeView, rounding: Sequence[object]) -> Fragment:
    """The first input as text; ``rounding``: the arguments of round_to_float for the input's type, if any."""
    x, form = _given(node)
    source = node.dtype(0)
    if rounding:
        x = as_float(node, x, single=False) if source == "float" else node.call("round_to_float", x, *rounding)
    # types of fewer bits than float are written as the floats they are
    kind = "int" if source in INTEGER_DTYPES else _KINDS.get(source, "float32")
    return node.text_result(node.call("numbers_texts", x, node.texts.dictionary(), f'"{kind}"'), form)


def text_to_number(node: NodeView, target: str, rounding: Sequence[object]) -> Fragment:
    """The numbers that the first input writes; ``rounding``: the arguments of round_to_float for the target, if any.

    To integers fractions are cut off, and what does not fit loses its higher bits, as in casts of numbers.
    """
    codes, form = _given(node)
    text = node.call("texts_numbers", codes, node.texts.dictionary())
    if target == "bool" or target in INTEGER_DTYPES:
        number = node.named("number", text)
        text = f"({truncated(number)} != 0)" if target == "bool" else wrapped(target, truncated(number))
    elif rounding:
        text = node.call("round_to_float", text, *rounding)
    return node.result(in_form(text, form), form)
