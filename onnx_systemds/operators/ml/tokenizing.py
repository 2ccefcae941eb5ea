"""Tokenizer of com.microsoft: the pieces of texts between separators, the matches of an expression, or characters."""

from __future__ import annotations

import re

from onnx_systemds.dml.java_text import java_regex, java_string_literal
from onnx_systemds.dml.literals import text_parts
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.inference.registry import generator, shape_rule, takes_text
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View, split_view, unknown_size

takes_text("Tokenizer", domain=CONTRIB)

# One class or plain character, once or repeated: its first match is its longest.
_GREEDY = re.compile(r"(\[[^\[\]\\&]+\]|[A-Za-z0-9 ,;:_])\+?")


@shape_rule("Tokenizer", domain=CONTRIB)
def tokenizer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The tokens along a new last axis as long as the most tokens; no texts give no new axis."""
    dims = node.dims("X")
    if len(dims) not in (1, 2):
        raise UnsupportedCase(f"the input has rank {len(dims)}, not 1 or 2")
    if node.value("X").is_known_size and node.size("X") == 0:
        return (node.tensor(dims),)
    most: Dim = unknown_size(node, 0, len(dims))
    return (node.tensor((*dims, most)),)


@generator("Tokenizer", since=1, domain=CONTRIB)
def tokenizer(node: NodeView) -> Fragment:
    """Each different text is taken apart once."""
    for required in ("mark", "mincharnum", "pad_value"):
        if node.attribute(required) is None:
            raise UnsupportedCase(f"attribute {required!r} is missing")
    codes = node.view("X", View(node.size("X"), 1))
    pad = java_string_literal(str(node.attribute("pad_value")))
    marked = bool(node.attribute("mark"))
    statement = " + ".join(f"'{part}'" for part in text_parts(_statement(node)))
    call = node.call("tokenize_texts", codes, node.texts.dictionary(), statement, f"'{pad}'", marked)
    text, dims = node.new_codes("tokens", call), node.output_dims()
    if len(dims) != 2:  # the width shows in the tokens only
        text = node.of_rows(text, product(dims[:1]))
    return node.result(text, split_view(dims, 1))


def _statement(node: NodeView) -> str:
    """The Java statement that puts the tokens of the text x into the list p."""
    least = int(node.attribute("mincharnum"))
    if least < 1:
        raise UnsupportedCase(f"mincharnum is {least}, not positive")
    separators, expression = node.attribute("separators"), node.attribute("tokenexp")
    if separators is None and not expression:
        raise UnsupportedCase("there are neither separators nor tokenexp")
    # a point alone is every character for onnxruntime, line feeds too
    if (expression == "." if separators is None else tuple(separators) == ("",)):
        if least > 1:
            raise UnsupportedCase(f"mincharnum is {least}, but the tokens are characters")
        return ("for (int k = 0; k < x.length(); k = x.offsetByCodePoints(k, 1)) "
                "{ p.add(x.substring(k, x.offsetByCodePoints(k, 1))); }")
    if separators is None:
        return _matches(str(expression), least)
    return "p.add(x); " + " ".join(_split(str(separator), least) for separator in separators)


_PATTERN = "java.util.regex.Pattern"


def _matcher(expression: str, text: str) -> str:
    literal = java_string_literal(java_regex(expression))
    return (f"java.util.regex.Matcher m = {_PATTERN}.compile({literal}, {_PATTERN}.UNIX_LINES).matcher({text}); "
            "m.useTransparentBounds(true); m.useAnchoringBounds(false);")


def _next(expression: str, text: str) -> str:
    """Java that sets s and e to the match just found, made as long as possible: Java takes the first that it finds."""
    found = "int s = m.start(); int e = m.end();"
    if _GREEDY.fullmatch(expression):
        return found
    return (f"{found} for (int k = {text}.length(); k > e; k--) "
            f"{{ if (m.region(s, k).matches()) {{ e = k; break; }} }}")


def _after(text: str) -> str:
    """The place where the search goes on: after the match, or a character further where that is empty."""
    return f"e > s ? e : s < {text}.length() ? {text}.offsetByCodePoints(s, 1) : s + 1"


def _matches(expression: str, least: int) -> str:
    """All matches one after the other."""
    return (f"{_matcher(expression, 'x')} int from = 0; "
            f"while (from <= x.length() && m.find(from)) {{ {_next(expression, 'x')} "
            f"if (e > s && x.codePointCount(s, e) >= {least}) {{ p.add(x.substring(s, e)); }} "
            f"from = {_after('x')}; }}")


def _split(separator: str, least: int) -> str:
    """The tokens so far taken apart by one more separator."""
    return ("{ java.util.ArrayList q = new java.util.ArrayList(); for (int t = 0; t < p.size(); t++) { "
            f"String y = (String) p.get(t); {_matcher(separator, 'y')} int from = 0; "
            f"while (from <= y.length() && m.find(from)) {{ {_next(separator, 'y')} "
            f"if (s > from && y.codePointCount(from, s) >= {least}) {{ q.add(y.substring(from, s)); }} "
            f"from = {_after('y')}; }} "
            f"if (from < y.length() && y.codePointCount(from, y.length()) >= {least}) {{ q.add(y.substring(from)); }} "
            "} p = q; }")
