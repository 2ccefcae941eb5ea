"""SparseAttention of onnxruntime: GroupQueryAttention with a table of the blocks of keys that tokens see."""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import InvalidModel
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.contrib.attention import LOWEST


@expander("SparseAttention", domain=CONTRIB)
def sparse_attention(node: Expansion) -> None:
    """Attention with a bias that hides blocks of keys; heads take the layouts of the table in turn."""
    heads, size = node.positive("num_heads"), node.positive("sparse_block_size")
    layouts = _layouts(node)
    count, last = len(layouts), layouts.shape[1] - 1
    length = node.length(node.input("query"), 1)
    whole = node.cast(node.reshape(node.input("key_total_sequence_lengths"), -1, 1), "int64")
    total = node.reshape(node.cast(node.input("total_sequence_length"), "int64"), 1)
    before = node.emit("Where", node.emit("Equal", total, length), node.known(0), node.emit("Sub", whole, length))
    own = node.emit("Add", before, node.count_up(length))
    keys = node.count_up(node.length(node.input("past_key"), 2))
    rows, cols = (node.emit("Clip", node.emit("Div", places, node.known(size)), node.known(0), node.known(last))
                  for places in (own, keys))
    seen = node.emit("Gather", node.known(layouts, "float"), rows, axis=1)
    seen = node.emit("Transpose", node.emit("Gather", seen, cols, axis=3), perm=(1, 0, 2, 3))
    seen = node.emit("Gather", seen, node.known(np.arange(heads) % count), axis=1)
    hidden = node.emit("Greater", node.known(0.5, "float"), seen)
    bias = node.emit("Where", hidden, node.number(LOWEST), node.number(0.0))
    bias = node.emit("Slice", bias, node.known([0]), total, node.known([3]))  # the caches are longer
    lengths = node.emit("Sub", node.input("key_total_sequence_lengths"), node.known([1], "int32"))
    names = ("query", "key", "value", "past_key", "past_value")
    inputs = (*(node.input(name) for name in names), lengths, node.input("total_sequence_length"),
              node.input("cos_cache"), node.input("sin_cache"), "", bias)
    attributes = node.attributes("do_rotary", "kv_num_heads", "num_heads", "rotary_interleaved", "scale")
    outputs = [node.output() or node.fresh("output"), *(node.fresh(hint) for hint in ("keys", "values"))]
    node.emit_several("GroupQueryAttention", outputs, *inputs, domain=CONTRIB, **attributes)
    # the caches are buffers: what lies after the new tokens stays
    filled = node.unsqueeze(node.emit("Less", keys, node.emit("Add", before, length)), 1, 3)
    for place, name in ((1, "past_key"), (2, "past_value")):
        if node.output(place):
            node.emit("Where", filled, outputs[place], node.input(name), to=node.output(place))


def _layouts(node: Expansion) -> Array:
    """For each layout which blocks of keys (axis 2) a block of tokens (axis 1) sees."""
    starts = node.require_constant("block_row_indices", "which blocks are seen")
    places = node.require_constant("block_col_indices", "which blocks are seen")
    if starts.ndim != 2 or places.ndim != 2 or len(starts) != len(places) or node.positive("num_heads") % len(starts):
        raise InvalidModel(f"blocks that are seen in tables of dims {starts.shape} and {places.shape}")
    count = starts.shape[1] - 1
    layouts = np.zeros((len(starts), count, count), np.float32)
    for layout, bounds, columns in zip(layouts, starts, places):
        for row in range(count):
            layout[row, columns[bounds[row] : bounds[row + 1]]] = 1
    return layouts
