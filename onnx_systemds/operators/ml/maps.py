"""ZipMap, DictVectorizer and CastMap of ai.onnx.ml: maps are matrices in DML.

A sequence of maps with the same keys, as ZipMap gives it, is the matrix of the values: a row for each map and a column
for each key, which are known at conversion (`Value.keys`). A map that a graph takes is a matrix or frame of two
columns, the keys and the values (see `inference.declared_value`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule, takes_text
from onnx_systemds.model.ir import ML, MapType, TensorType
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.ml.feature_scaling import data_view
from onnx_systemds.operators.onnx.combining import truncated
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first

batch_rule("ZipMap", domain=ML)(mixes_all_but_first)
takes_text("CastMap", "DictVectorizer", domain=ML)

_SHOWN = 20  # keys named in a comment of the script

# --- ZipMap ----------------------------------------------------------------------------------------------------


@shape_rule("ZipMap", domain=ML)
def zip_map_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The input's matrix, of rank 1 as a row, whose columns are the keys."""
    texts, integers = node.attribute("classlabels_strings"), node.attribute("classlabels_int64s")
    keys = tuple(texts or ()) or tuple(int(key) for key in integers or ())
    rows, cols = data_view(node)
    if not keys or (isinstance(cols, int) and cols != len(keys)):
        raise UnsupportedCase(f"ZipMap of {cols} columns with {len(keys)} keys")
    return (Value(node.dtype("X"), (rows, len(keys)), keys=keys),)


@generator("ZipMap", since=1, domain=ML)
def zip_map(node: NodeView) -> Fragment:
    """The values as they are."""
    rows, cols = node.output_dims()
    keys = node.values[node.node.outputs[0]].keys
    shown = ", ".join(repr(key) for key in keys[:_SHOWN]) + (", ..." if len(keys) > _SHOWN else "")
    comment = "".join(c if c.isprintable() else " " for c in f"# maps: a row for each, columns are the keys {shown}")
    x = node.view("X", View(rows, cols))
    return node.fragment([comment]) + node.result(x, View(rows, cols))


# --- maps that a graph takes -------------------------------------------------------------------------------------


def _types(node: NodeFacts) -> tuple[str, str]:
    """Element types of the keys and of the values."""
    given = node.value("X").type
    if not isinstance(given, MapType) or not isinstance(given.value, TensorType):
        raise UnsupportedCase("the input is no map of single elements")
    return given.key, given.value.dtype


def _columns(node: NodeView, missing: str, *, as_text: bool) -> tuple[str, str]:
    """The identifiers of the keys and of the values: codes of keys that are text, else numbers.

    ``as_text``: whether values that are text stay codes. The first row has Inf or 0 for a key, which is
    none, and for a value ``missing``.
    """
    key, value = _types(node)
    given = node.view("X", View(node.dims("X")[0], 2))
    if "string" in (key, value):
        first = [0.0 if key == "string" else float(node.texts.code("inf")), float(node.texts.code(missing))]
    else:
        first = [np.inf, float(missing)]
    row = node.constant_matrix(np.array([first], dtype=np.float64), "missing")
    name = node.named("map", f"rbind({row}, {given})")
    texts = [f"{name}[, 1]", f"{name}[, 2]"]
    if "string" in (key, value):
        stays = (key == "string", value == "string" and as_text)
        texts = [text if is_code else node.call("texts_numbers", text, node.texts.dictionary())
                 for text, is_code in zip(texts, stays)]
    return node.named("keys", texts[0]), node.named("values", texts[1])


def _wanted(node: NodeView, keys: str, values: str, wanted: Sequence[int]) -> str:
    """The values of the wanted keys, in a row."""
    column = node.constant_matrix(np.array(wanted, dtype=np.float64).reshape(-1, 1), "wanted")
    return f"t({node.call('map_values', keys, values, column)})"


@shape_rule("DictVectorizer", domain=ML)
def dict_vectorizer_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A row of the values, in their type."""
    words = node.attribute("string_vocabulary") or node.attribute("int64_vocabulary") or ()
    return (node.tensor((1, len(words)), _types(node)[1]),)


@generator("DictVectorizer", since=1, domain=ML)
def dict_vectorizer(node: NodeView) -> Fragment:
    """The values of the keys in the vocabulary; 0 or the empty text where there is none."""
    key, value = _types(node)
    words = node.attribute("string_vocabulary" if key == "string" else "int64_vocabulary") or ()
    if not words:
        raise UnsupportedCase(f"DictVectorizer without a vocabulary of type {key}")
    keys, values = _columns(node, "" if value == "string" else "0", as_text=True)
    if key == "string":
        words = node.texts.codes(np.array(words, dtype=object)).tolist()
    return node.result(_wanted(node, keys, values, words), View(1, len(words)))


_CASTS = {"TO_FLOAT": "float", "TO_STRING": "string", "TO_INT64": "int64"}


@shape_rule("CastMap", domain=ML)
def cast_map_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A row: as long as the map, or of max_map elements."""
    target = _CASTS.get(str(node.attribute("cast_to")))
    if target is None or _types(node)[0] != "int64":
        raise UnsupportedCase(f"CastMap with cast_to {node.attribute('cast_to')!r} and keys of {_types(node)[0]}")
    return (node.tensor((1, _map_size(node)), target),)


def _map_size(node: NodeFacts) -> Dim:
    form, size = node.attribute("map_form"), int(node.attribute("max_map"))
    if form not in ("DENSE", "SPARSE") or (form == "SPARSE" and size < 1):
        raise UnsupportedCase(f"CastMap with map_form {form!r} and max_map {size}")
    return node.dims("X")[0] if form == "DENSE" else size


@generator("CastMap", since=1, domain=ML)
def cast_map(node: NodeView) -> Fragment:
    """Dense: the values by ascending key. Sparse: in the positions that the keys name, others hold 0.

    What onnxruntime does decides on texts: numbers have six digits after the point, and the fill is 0.f.
    """
    value, target = _types(node)[1], _CASTS[str(node.attribute("cast_to"))]
    to_text = target == "string"
    keys, values = _columns(node, "0.f" if value == target == "string" else "0", as_text=to_text)
    if to_text and value != "string":
        values = node.new_codes("written", node.call("fixed_texts", values, node.texts.dictionary()))
        node.write(f"{values}[1, 1] = {node.texts.code('0.f')}")
    size = _map_size(node)
    if node.attribute("map_form") == "DENSE":
        ordered = node.named("ordered", f"order(target=cbind({keys}, {values}), by=1)")  # what is no key comes last
        row = f"t({ordered}[1:{node.dim(size)}, 2])"
    else:
        row = _wanted(node, keys, values, range(int(node.attribute("max_map"))))
    if target == "int64":
        row = truncated(node.named("number", row))
    return node.result(row, View(1, size))
