"""DecoderMaskedMultiHeadAttention of onnxruntime: attention of one new token, as a loop over tokens asks for it.

B: batch, M: length of a buffer of keys and values, of which P are filled.
"""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.contrib.attention import LOWEST, known_size, split_heads

_OPTIONAL = ("scale", "mask_filter_value")


@expander("DecoderMaskedMultiHeadAttention", domain=CONTRIB)
def decoder_masked_multi_head_attention(node: Expansion) -> None:
    """MultiHeadAttention with its inputs in another order; the cache grows, or is a buffer for the new token."""
    if node.has("cache_indirection"):
        raise UnsupportedCase("a cache whose parts belong to several beams")
    parts = node.first_inputs(3)
    if not node.has("key"):
        given, axis = ("bias", 0) if node.has("bias") else ("query", 2)
        known_size(node, given, axis)
        parts = node.split(node.input("query"), ("query", "key", "value"))
    attributes = node.attributes(*_OPTIONAL) | {"num_heads": node.positive("num_heads")}
    outputs = [node.output(0) or node.fresh("output"), node.output(1), node.output(2), node.output(3)]
    if node.has("past_key") and node.attribute("past_present_share_buffer"):
        _with_buffer(node, parts, attributes)
        return
    node.emit_several(
        "MultiHeadAttention", outputs, *parts, node.input("bias"), node.input("mask_index"),
        node.input("attention_bias"), node.input("past_key"), node.input("past_value"), domain=CONTRIB, **attributes,
    )


def _with_buffer(node: Expansion, parts: list[str], attributes: dict[str, int | float]) -> None:
    """The new key and value replace row P of the buffers, and what lies after it is not looked at."""
    if node.output(3):
        raise UnsupportedCase("the products of queries and keys as an output, beside a buffer of keys and values")
    heads, size = int(attributes["num_heads"]), known_size(node, "past_key", 3)
    if node.has("bias"):
        biases = node.split(node.input("bias"), ("bias0", "bias1", "bias2"), axis=0)
        parts = [node.emit("Add", part, bias) for part, bias in zip(parts, biases)]
    filled = node.cast(node.reshape(node.input("past_sequence_length"), 1), "int64")
    places = node.count_up(node.length(node.input("past_key"), 2))
    is_new = node.unsqueeze(node.emit("Equal", places, filled), 1)
    key, value = (
        node.emit("Where", is_new, split_heads(node, part, heads, size), node.input(position), to=node.output(output))
        for part, position, output in ((parts[1], 5, 1), (parts[2], 6, 2))
    )
    seen = node.unsqueeze(node.emit("LessOrEqual", places, filled), 0, 1, 2)
    bias = node.emit("Where", seen, node.number(0.0), node.number(LOWEST))
    if node.has("attention_bias"):
        bias = node.emit("Add", bias, node.input("attention_bias"))
    # a mask has no columns for what lies after the new token
    mask = ""
    if node.has("mask_index"):
        mask = node.emit("Gather", node.input("mask_index"), node.emit("Min", places, filled), axis=1)
    node.emit(
        "MultiHeadAttention", parts[0], key, value, "", mask, bias, domain=CONTRIB, to=node.output(), **attributes
    )
