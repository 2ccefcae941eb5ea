"""LabelEncoder of ai.onnx.ml: each element is looked up in a table of keys and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_systemds.broadcasting import gather_rows_text
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.importing import protos
from onnx_systemds.importing.facts import NodeFacts
from onnx_systemds.importing.fragment import Fragment
from onnx_systemds.importing.node_view import NodeView
from onnx_systemds.importing.values import INTEGER_DTYPES, Value
from onnx_systemds.layout import View
from onnx_systemds.operator_generators.class_labels import text_labels_error
from onnx_systemds.operator_generators.feature_scaling import ML
from onnx_systemds.operator_generators.registry import generator, shape_rule

Column = np.ndarray[Any, np.dtype[Any]]
LONGEST_RUN = 16  # entries of a table without gaps for each of its keys


def _column(node: NodeFacts, side: str) -> tuple[Column, str]:
    """The keys or the values, and their element type."""
    for kind, dtype in (("strings", "string"), ("int64s", "int64"), ("floats", "float")):
        found = node.attribute(f"{side}_{kind}")
        if found:
            return np.asarray(found), dtype
    tensor = node.attribute(f"{side}_tensor")
    if tensor is None or not tensor.size:
        raise UnsupportedCase(f"LabelEncoder without {side}")
    return tensor.ravel(), protos.dtype_of(tensor)


def _default(node: NodeFacts, dtype: str) -> float:
    """What an element without key becomes."""
    tensor = node.attribute("default_tensor")
    if tensor is not None and tensor.size:
        return float(tensor.ravel()[0])
    return float(node.attribute("default_int64" if dtype in INTEGER_DTYPES else "default_float"))


def _values_dtype(node: NodeFacts) -> str:
    if node.version < 2:  # texts on one side, positions on the other
        return "int64" if node.dtype(0) == "string" else "string"
    return _column(node, "values")[1]


@shape_rule("LabelEncoder", domain=ML)
def label_encoder_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The input's dims, the values' element type."""
    return (node.tensor(node.dims(0), _values_dtype(node)),)


@generator("LabelEncoder", since=1, domain=ML)
def label_encoder_1(node: NodeView) -> Fragment:
    """Opset 1: between texts and their positions."""
    raise text_labels_error()


@generator("LabelEncoder", since=2, domain=ML)
@generator("LabelEncoder", since=4, domain=ML)
def label_encoder(node: NodeView) -> Fragment:
    """Opset 2: keys and values of any types; a NaN finds a NaN. Opset 4: tensors; the last of equal keys counts."""
    keys, keys_dtype = _column(node, "keys")
    values, values_dtype = _column(node, "values")
    if "string" in (keys_dtype, values_dtype):
        raise text_labels_error()
    if len(keys) != len(values):
        raise UnsupportedCase(f"LabelEncoder with {len(keys)} keys and {len(values)} values")
    keys, values = _unique(keys.astype(np.float64), values.astype(np.float64), last=node.version >= 4)
    default = _default(node, values_dtype)
    if node.dtype(0) in INTEGER_DTYPES and np.ptp(keys) < LONGEST_RUN * len(keys):
        keys, values = _without_gaps(keys, values, default)
    entries = np.concatenate([[default], values]).reshape(-1, 1)
    size = node.size(0)
    x = node.view(0, View(size, 1)) if node.dims(0) else f"as.matrix({node.scalar(0)})"
    place = node.temporary("place")
    text = gather_rows_text(
        node, node.constant_matrix(entries, "values"), f"{place} + 1", len(entries), size, 1,
        finite=bool(np.isfinite(entries).all()),
    )  # fmt: skip
    return node.result(text[1:-1], View(size, 1), before=[f"{place} = {_place_text(node, x, keys)}"])


def _unique(keys: Column, values: Column, *, last: bool) -> tuple[Column, Column]:
    """The table without repeated keys; NaN equals NaN."""
    table: dict[Any, int] = {}
    for position, key in enumerate(keys.tolist()):
        name = None if key != key else key
        if last or name not in table:
            table[name] = position
    kept = list(table.values())
    return keys[kept], values[kept]


def _without_gaps(keys: Column, values: Column, default: float) -> tuple[Column, Column]:
    """The table for all integers from the smallest key to the largest: it is read by position instead of searched."""
    every = np.arange(keys.min(), keys.max() + 1)
    filled = np.full(every.shape, default)
    filled[(keys - keys.min()).astype(np.int64)] = values
    return every, filled


def _place_text(node: NodeView, x: str, keys: Column) -> str:
    """Text of the place (from 1) of each element among the keys, 0 where it is none."""
    count = len(keys)
    if node.dtype(0) in INTEGER_DTYPES and bool((keys == keys[0] + np.arange(count)).all()):
        first = int(keys[0])
        shifted = x if first == 1 else f"({x} - ({first - 1}))"
        return f"{shifted} * ({shifted} > 0) * ({shifted} <= {count})"
    row = node.constant_matrix(keys.reshape(1, -1), "keys")
    found = f'outer({x}, {row}, "==") %*% seq(1, {count})'
    unknown = np.flatnonzero(np.isnan(keys))
    return f"{found} + ({x} != {x}) * {int(unknown[0]) + 1}" if unknown.size else found
