"""LabelEncoder and CategoryMapper of ai.onnx.ml: each element is looked up in a table of keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.engine.safe_forms import equal_pairs
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.registry import batch_rule, generator, looks_up_text, shape_rule, takes_text
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model import protos
from onnx_systemds.model.ir import ML, Array
from onnx_systemds.model.single_precision import has_other_decimals
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.casting import single_text
from onnx_systemds.operators.support.batch_rules import mixes_nothing
from onnx_systemds.operators.support.selection_products import gather_rows_text

LONGEST_RUN = 16  # entries of a table without gaps for each of its keys


batch_rule("LabelEncoder", "CategoryMapper", domain=ML)(mixes_nothing)
takes_text("LabelEncoder", "CategoryMapper", domain=ML)
looks_up_text("LabelEncoder", "CategoryMapper", domain=ML)


def _column(node: NodeFacts, side: str) -> tuple[Array, str]:
    """The keys or the values, and their element type."""
    for kind, dtype in (("strings", "string"), ("int64s", "int64"), ("floats", "float")):
        found = node.attribute(f"{side}_{kind}")
        if found:
            return np.array(found, dtype=object if dtype == "string" else None), dtype
    tensor = node.attribute(f"{side}_tensor")
    if tensor is None or not tensor.size:
        raise UnsupportedCase(f"LabelEncoder without {side}")
    return tensor.ravel(), protos.dtype_of(tensor)


def _default(node: NodeFacts, dtype: str) -> Any:
    """What an element without key becomes."""
    tensor = node.attribute("default_tensor")
    if tensor is not None and tensor.size:
        return tensor.ravel()[0]
    if dtype == "string":
        return node.attribute("default_string")
    return node.attribute("default_int64" if dtype in INTEGER_DTYPES else "default_float")


@shape_rule("LabelEncoder", domain=ML)
def label_encoder_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The input's dims, the values' element type."""
    dtype = _other_side(node) if node.version < 2 else _column(node, "values")[1]
    return (node.tensor(node.dims("X"), dtype),)


@shape_rule("CategoryMapper", domain=ML)
def category_mapper_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The input's dims; integers for texts, texts for integers."""
    return (node.tensor(node.dims("X"), _other_side(node)),)


def _other_side(node: NodeFacts) -> str:
    return "int64" if node.dtype("X") == "string" else "string"


@generator("LabelEncoder", since=1, domain=ML)
def label_encoder_1(node: NodeView) -> Fragment:
    """Opset 1: from texts to their positions, or back."""
    classes = np.array(node.attribute("classes_strings") or (), dtype=object)
    return _between(node, classes, np.arange(len(classes)))


@generator("CategoryMapper", since=1, domain=ML)
def category_mapper(node: NodeView) -> Fragment:
    """From texts to the integers in the same positions, or back; the last of equal ones counts."""
    texts = np.array(node.attribute("cats_strings") or (), dtype=object)
    return _between(node, texts, np.array(node.attribute("cats_int64s") or (), dtype=np.int64))


def _between(node: NodeView, texts: Array, integers: Array) -> Fragment:
    if not len(texts) or len(texts) != len(integers):
        raise UnsupportedCase(f"{len(texts)} texts for {len(integers)} integers")
    if node.dtype("X") == "string":
        return _looked_up(node, texts, integers, node.attribute("default_int64"), last=True)
    return _looked_up(node, integers, texts, node.attribute("default_string"), last=True)


@generator("LabelEncoder", since=(2, 4), domain=ML)
def label_encoder(node: NodeView) -> Fragment:
    """Opset 2: keys and values of any types; a NaN finds a NaN. Opset 4: tensors; the last of equal keys counts."""
    keys, keys_dtype = _column(node, "keys")
    values, values_dtype = _column(node, "values")
    if len(keys) != len(values):
        raise UnsupportedCase(f"LabelEncoder with {len(keys)} keys and {len(values)} values")
    if (keys_dtype == "string") != (node.dtype("X") == "string"):
        raise UnsupportedCase(f"LabelEncoder with keys of type {keys_dtype} for {node.dtype('X')}")
    return _looked_up(node, keys, values, _default(node, values_dtype), last=node.version >= 4)


def _looked_up(node: NodeView, given: Array, results: Array, otherwise: Any, *, last: bool) -> Fragment:
    """The input's elements looked up in a table; what is text stands for itself by its code."""
    keys = _numbers(node, given)
    [default], values = _numbers(node, np.array([otherwise], results.dtype)), _numbers(node, results)
    keys, values = _unique(keys, values, last=last)
    if _is_whole(node) and np.ptp(keys) < LONGEST_RUN * len(keys):
        keys, values = _without_gaps(keys, values, default)
    entries = np.concatenate([[default], values]).reshape(-1, 1)
    size = node.size("X")
    x = node.view("X", View(size, 1)) if node.dims("X") else f"as.matrix({node.scalar('X')})"
    if node.dtype("X") == "float" and has_other_decimals(keys):
        x = node.named("rounded", single_text(node, x))
    table = node.constant_matrix(entries, "values")
    place = node.named("place", _place_text(node, x, keys))
    text = gather_rows_text(
        node, table, f"{place} + 1", len(entries), size, 1, finite=bool(np.isfinite(entries).all())
    )
    return node.result(text, View(size, 1))


def _numbers(node: NodeView, column: Array) -> Array:
    return (node.texts.codes(column) if column.dtype == object else column).astype(np.float64)


def _is_whole(node: NodeFacts) -> bool:
    """Whether the elements are integers, as codes are."""
    return node.dtype("X") in INTEGER_DTYPES or node.dtype("X") == "string"


def _unique(keys: Array, values: Array, *, last: bool) -> tuple[Array, Array]:
    """The table without repeated keys; NaN equals NaN."""
    table: dict[Any, int] = {}
    for position, key in enumerate(keys.tolist()):
        name = None if key != key else key
        if last or name not in table:
            table[name] = position
    kept = list(table.values())
    return keys[kept], values[kept]


def _without_gaps(keys: Array, values: Array, default: float) -> tuple[Array, Array]:
    """The table for all integers from the smallest key to the largest: it is read by position instead of searched."""
    every = np.arange(keys.min(), keys.max() + 1)
    filled = np.full(every.shape, default)
    filled[(keys - keys.min()).astype(np.int64)] = values
    return every, filled


def _place_text(node: NodeView, x: str, keys: Array) -> str:
    """Text of the place (from 1) of each element among the keys, 0 where it is none."""
    count = len(keys)
    if _is_whole(node) and bool((keys == keys[0] + np.arange(count)).all()):
        first = int(keys[0])
        shifted = x if first == 1 else f"({x} - ({first - 1}))"
        return f"{shifted} * ({shifted} > 0) * ({shifted} <= {count})"
    row = node.constant_matrix(keys.reshape(1, -1) + 0.0, "keys")
    found = f"{equal_pairs(x, row, count)} %*% seq(1, {count})"
    unknown = np.flatnonzero(np.isnan(keys))
    return f"{found} + ({x} != {x}) * {int(unknown[0]) + 1}" if unknown.size else found
