"""Packed sequences of onnxruntime: the tokens of all samples below each other, without padding.

B: batch, S: length of the padded sequences. The offsets say where each token stands among the B * S, padding last.
"""

from __future__ import annotations

from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB


@expander("RemovePadding", domain=CONTRIB)
def remove_padding(node: Expansion) -> None:
    """The tokens before the length of their sample, and what puts them back."""
    x, counts = node.input("input"), node.cast(node.input("sequence_token_count"), "int64")
    inside = node.emit("Less", node.count_up(node.length(x, 1)), node.unsqueeze(counts, 1))
    places = _true_places(node, node.reshape(inside, -1))
    rows = node.emit("Flatten", x, axis=2)
    node.emit("Gather", rows, places, to=node.output() or node.fresh("tokens"), axis=0)
    if node.output(1):
        padding = _true_places(node, node.emit("Not", node.reshape(inside, -1)))
        both = node.cast(node.emit("Concat", places, padding, axis=0), "int32")
        node.emit("Reshape", both, node.emit("Shape", inside), to=node.output(1))
    if node.output(2):
        ends = node.emit("CumSum", counts, node.known(0))
        node.cast(node.emit("Concat", node.known([0]), ends, axis=0), "int32", to=node.output(2))
    if node.output(3):
        node.emit("ReduceMax", node.input("sequence_token_count"), node.known([0]), to=node.output(3), keepdims=1)


def _true_places(node: Expansion, mask: str) -> str:
    return node.reshape(node.emit("NonZero", mask), -1)


@expander("RestorePadding", domain=CONTRIB)
def restore_padding(node: Expansion) -> None:
    """The tokens at their positions, zeros elsewhere."""
    offsets = node.input("token_offset")
    places = _token_places(node, node.input("input"), offsets)
    size = node.emit("Concat", node.emit("Shape", node.reshape(offsets, -1)),
                     node.emit("Shape", node.input("input"), start=1), axis=0)
    zeros = node.emit("Expand", node.number(0.0), size)
    filled = node.emit("ScatterND", zeros, node.unsqueeze(places, 1), node.input("input"))
    shape = node.emit("Concat", node.emit("Shape", offsets), node.emit("Shape", node.input("input"), start=1), axis=0)
    node.emit("Reshape", filled, shape, to=node.output())


def _token_places(node: Expansion, tokens: str, offsets: str) -> str:
    """The positions of the tokens among the padded ones: the first offsets."""
    flat = node.cast(node.reshape(offsets, -1), "int64")
    count = node.emit("Shape", tokens, start=0, end=1)
    return node.emit("Slice", flat, node.known([0]), count, node.known([0]))


@expander("PackedAttention", domain=CONTRIB)
def packed_attention(node: Expansion) -> None:
    """Attention over packed sequences, of one input that is projected here."""
    projected = node.emit("Add", node.emit("MatMul", node.input("input"), node.input("weights")), node.input("bias"))
    width = node.known_dims("weights", "the weight of PackedAttention")[1] // 3
    sizes = [int(size) for size in node.attribute("qkv_hidden_sizes") or (width, width, width)]
    _attend(node, node.split(projected, ("query", "key", "value"), sizes), 3)


@expander("PackedMultiHeadAttention", domain=CONTRIB)
def packed_multi_head_attention(node: Expansion) -> None:
    """Attention over packed sequences whose queries, keys and values are projected already, each alone or packed."""
    parts = node.first_inputs(3)
    if not node.has("key"):  # [tokens, heads, 3, size]
        parts = [node.emit("Flatten", node.emit("Gather", node.input("query"), node.known(which), axis=2), axis=1)
                 for which in range(3)]
    if node.has("bias"):
        widths = node.emit("Concat", *(node.emit("Shape", part, start=1) for part in parts), axis=0)
        biases = node.split(node.input("bias"), ("bias0", "bias1", "bias2"), widths, axis=0)
        parts = [node.emit("Add", part, bias) for part, bias in zip(parts, biases)]
    _attend(node, parts, 4)


def _attend(node: Expansion, parts: list[str], offsets: int) -> None:
    """Attention over the padded sequences, of which the tokens are kept; input ``offsets`` says where they are."""
    places = _token_places(node, parts[0], node.input(offsets))
    padded = [node.emit("RestorePadding", part, node.input(offsets), domain=CONTRIB) for part in parts]
    ends = node.input(offsets + 1)
    counts = node.emit("Sub", node.slice(ends, 0, 1), node.slice(ends, 0, 0, -1))
    given = {key: value for key in ("scale", "mask_filter_value") if (value := node.attribute(key)) is not None}
    y = node.emit("MultiHeadAttention", *padded, "", counts, node.input(offsets + 2), domain=CONTRIB,
                  num_heads=node.positive("num_heads"), **given)
    node.emit("Gather", node.emit("Flatten", y, axis=2), places, to=node.output(), axis=0)
