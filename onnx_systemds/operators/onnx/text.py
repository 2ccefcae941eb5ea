"""Text: operators that work on codes as on numbers, and those that make new strings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_systemds.dml.java_text import java_regex, java_string_literal
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule, takes_text
from onnx_systemds.model.texts import EMPTY
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, View, split_view, unknown_size
from onnx_systemds.operators.api.layout import Form
from onnx_systemds.operators.support.batch_rules import mixes_nothing, mixes_unless_aligned
from onnx_systemds.operators.support.broadcasting import SINGLE, broadcast, operands

batch_rule("StringConcat")(mixes_unless_aligned)
batch_rule("RegexFullMatch")(mixes_nothing)
takes_text("StringConcat", "RegexFullMatch", "StringSplit", "StringNormalizer")


@shape_rule("StringConcat")
def string_concat_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Broadcast dims."""
    return (node.tensor(broadcast(node, {0: node.dims("X"), 1: node.dims("Y")})),)


@generator("StringConcat", since=20)
def string_concat_20(node: NodeView) -> Fragment:
    """Each different pair is joined once."""
    given = operands(node, (0, 1), node.output_dims(), full=True)
    matrices = [_full(node, operand.text, operand.kind, given.form) for operand in given.items]
    return node.text_result(node.call("concat_texts", *matrices, node.texts.dictionary()), given.form)


def _full(node: NodeView, text: str, kind: str, form: Form) -> str:
    if form is SCALAR:
        return f"as.matrix({text})"
    return node.filled(text, form) if kind == SINGLE else text


@shape_rule("RegexFullMatch")
def regex_full_match_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A boolean for each string."""
    return (node.tensor(node.dims("X"), "bool"),)


@generator("RegexFullMatch", since=20)
def regex_full_match_20(node: NodeView) -> Fragment:
    """Each different string is matched once, by Java's regular expressions."""
    pattern = _in_dml(java_string_literal(java_regex(str(node.attribute("pattern") or ""))))
    return numbers_of_codes(node, lambda codes: node.call("texts_match", codes, node.texts.dictionary(), pattern))


def _in_dml(java: str) -> str:
    """A Java expression as a DML string: it holds double quotes, and no single one."""
    return f"'{java}'"


def numbers_of_codes(node: NodeView, call: Callable[[str], str]) -> Fragment:
    """A call on a matrix of codes that gives numbers of the same form."""
    form = node.known_form("X")
    if form is SCALAR:
        return node.result(f"as.scalar({call(f'as.matrix({node.scalar(0)})')})", SCALAR)
    return node.result(call(node.view("X", form)), form)


@shape_rule("StringSplit")
def string_split_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The pieces along a new last axis as long as the most pieces, and how many they are."""
    dims = node.dims("X")
    most: Dim = 0 if node.value("X").is_known_size and node.size("X") == 0 else unknown_size(node, 0, len(dims))
    return (node.tensor((*dims, most)), node.tensor(dims, "int64"))


@generator("StringSplit", since=20)
def string_split_20(node: NodeView) -> Fragment:
    """Each different string is split once."""
    count = node.size("X")
    limit = node.attribute("maxsplit")
    delimiter = _in_dml(java_string_literal(str(node.attribute("delimiter") or "")))
    codes = node.view("X", View(count, 1))
    pieces, counts = node.temporary("pieces"), node.temporary("counts")
    call = node.call("split_texts", codes, node.texts.dictionary(), delimiter, -1 if limit is None else int(limit))
    node.write(node.texts.extending(call, pieces, counts))
    dims, text = node.output_dims(0), pieces
    if not isinstance(dims[-1], int):
        node.write(f"{node.dim(dims[-1])} = ncol({pieces})")
    if len(dims) == 1 and dims != (count,):  # of one string
        text = f"t({pieces})"
    elif dims[:1] != (count,):
        text = node.of_rows(pieces, product(dims[:1]))
    return node.result(text, split_view(dims, 1)) + node.result(counts, View(count, 1), 1)


@shape_rule("StringNormalizer")
def string_normalizer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The strings that are no stop words along the last axis."""
    dims = node.dims("X")
    if len(dims) not in (1, 2) or (len(dims) == 2 and dims[0] != 1):
        raise UnsupportedCase("the input is neither [C] nor [1, C]")
    if not node.attribute("stopwords"):
        return (node.tensor(dims),)
    return (node.tensor((*dims[:-1], unknown_size(node, 0, len(dims) - 1))),)


@generator("StringNormalizer", since=10)
def string_normalizer_10(node: NodeView) -> Fragment:
    """Stop words are left out, compared in lower case unless case counts; then the case is changed."""
    codes = node.view("X", View(node.size("X"), 1))
    stop = [str(word) for word in node.attribute("stopwords") or ()]
    action = str(node.attribute("case_change_action"))
    locale = str(node.attribute("locale") or "en_US").replace("_", "-")
    if stop:
        compared = codes
        if not node.attribute("is_case_sensitive"):
            compared = _cased(node, codes, "LOWER", locale, "folded")
            stop = sorted({word.lower() for word in stop})
        words = node.constant_matrix(node.texts.codes(np.array(stop, dtype=object)).reshape(1, -1), "stopwords")
        kept = node.named("kept", f'rowSums(outer({compared}, {words}, "==")) == 0')
        # nothing left is one empty string, code 1
        node.write(f'{kept} = max(removeEmpty(target={codes}, margin="rows", select={kept}), {EMPTY})')
        codes = kept
    if action != "NONE":
        codes = _cased(node, codes, action, locale, "changed")
    dims = node.output_dims()
    if len(dims) == 1:
        return node.result(codes, split_view(dims, 1))
    if not isinstance(dims[-1], int):  # a reader of a column asks for it before the row has it
        node.write(f"{node.dim(dims[-1])} = nrow({codes})")
    return node.result(f"t({codes})", split_view(dims, 1))


def _cased(node: NodeView, codes: str, action: str, locale: str, hint: str) -> str:
    method = {"LOWER": "toLowerCase", "UPPER": "toUpperCase"}.get(action)
    if method is None:
        raise UnsupportedCase(f"case_change_action {action!r} is none of LOWER, UPPER and NONE")
    java = f"x.{method}(java.util.Locale.forLanguageTag({java_string_literal(locale)}))"
    return node.new_codes(hint, node.call("map_texts", codes, node.texts.dictionary(), _in_dml(java)))
