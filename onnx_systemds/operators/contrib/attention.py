"""Attention and MultiHeadAttention of onnxruntime, as the products and the softmax that they stand for.

Heads lie as [batch, heads, length, size] throughout. B: batch, S: queries, L: new keys, P: keys of before, T = P + L.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.facts import Input
from onnx_systemds.inference.known_dims import differ
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB

LOWEST = -3.4028234663852886e38  # what onnxruntime masks the keys after a query with: not -Inf, whose rows are NaN


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values by head, and the factor of their products; the numbers of heads agree."""

    query: str
    key: str
    value: str
    scale: float


def split_heads(node: Expansion, x: str, count: int, size: int) -> str:
    """[B, S, heads * size] as [B, heads, S, size]."""
    return node.emit("Transpose", node.reshape(x, 0, 0, count, size), perm=(0, 2, 1, 3))


def join_heads(node: Expansion, x: str, width: int) -> None:
    """[B, heads, S, size] as the output [B, S, width]."""
    node.reshape(node.emit("Transpose", x, perm=(0, 2, 1, 3)), 0, 0, width, to=node.output())


def scale_of(node: Expansion, head_size: int) -> float:
    """The attribute, or where it is missing or 0 one over the root of the head size."""
    return float(node.attribute("scale") or 0) or 1 / math.sqrt(head_size)


def attend(node: Expansion, heads: Heads, terms: Sequence[str], *, raw: str = "") -> str:
    """Values weighted by the softmax of scaled products plus ``terms``; ``raw`` names the sum before the softmax."""
    scores = node.emit("FusedMatMul", heads.query, heads.key, domain=CONTRIB, transB=1, alpha=heads.scale)
    for term in terms:
        scores = node.emit("Add", scores, term)
    if raw:
        node.emit("Identity", scores, to=raw)
    return node.emit("MatMul", node.emit("Softmax", scores, axis=-1), heads.value)


# --- masks -------------------------------------------------------------------------------------------------------


def mask_terms(node: Expansion, position: int, heads: Heads) -> list[str]:
    """What a mask (an input, or none), the order of the tokens and a bias add to the scores."""
    term = _padding_term(node, position, heads)
    if node.attribute("unidirectional"):
        nothing = term or node.number(0.0)
        term = node.emit("Where", after_queries(node, heads), node.number(LOWEST), nothing)
    return [each for each in (term, node.input("attention_bias")) if each]


def after_queries(node: Expansion, heads: Heads) -> str:
    """Whether a key is after a query, [S, T]: the last query and the last key are the same token."""
    keys = node.length(heads.key, 2)
    first = node.emit("Sub", keys, node.length(heads.query, 2))
    queries = node.unsqueeze(node.count_up(keys, first), 1)
    return node.emit("Greater", node.count_up(keys), queries)


def _padding_term(node: Expansion, position: int, heads: Heads) -> str:
    """The filter value where a mask of one of the forms says so; "" where there is none."""
    if not node.has(position):
        return ""
    dims = node.dims(position)
    mask = node.input(position)
    if len(dims) == 2 and dims[1] == 1:
        return ""  # a dummy
    if len(dims) in (2, 3):
        axes = (1, 2) if len(dims) == 2 else (1,)
        allowed = node.unsqueeze(node.emit("Greater", mask, node.known(0, node.dtype(position))), *axes)
    elif len(dims) == 1:
        allowed = _within_bounds(node, mask, dims[0], node.dims(0)[0], heads)
    else:
        raise UnsupportedCase(f"a mask of rank {len(dims)}")
    filtered = node.numeric("mask_filter_value")
    return node.emit("Where", allowed, node.number(0.0), filtered)


def _within_bounds(node: Expansion, mask: str, count: Dim, batch: Dim, heads: Heads) -> str:
    """Whether a key is before the end, and not before the start, that the mask gives for each sample: [B, 1, 1, T]."""
    keys = node.cast(node.count_up(node.length(heads.key, 2)), "int32")
    if count == batch * 2 and count != batch:
        ends, starts = node.split(mask, ("ends", "starts"), axis=0)
        inside = node.emit("Less", keys, node.unsqueeze(ends, 1))
        inside = node.emit("And", inside, node.emit("GreaterOrEqual", keys, node.unsqueeze(starts, 1)))
    elif differ(count, batch):
        raise UnsupportedCase(f"a mask of {count} elements for a batch of {batch}")
    else:
        inside = node.emit("Less", keys, node.unsqueeze(mask, 1))
    return node.unsqueeze(inside, 1, 2)


# --- operators ---------------------------------------------------------------------------------------------------


@expander("Attention", domain=CONTRIB)
def attention(node: Expansion) -> None:
    """Projection to queries, keys and values by one weight, then attention; past and present hold keys and values."""
    if node.attribute("do_rotary"):
        raise UnsupportedCase("rotary embeddings inside Attention, which onnxruntime computes on no CPU either")
    if node.has("past_sequence_length") or (node.attribute("past_present_share_buffer") and node.has("past")):
        raise UnsupportedCase("keys and values of before in a buffer that the model shares with its caller")
    count = node.positive("num_heads")
    sizes = _projected_sizes(node)
    projected = node.emit("MatMul", node.input("input"), node.input("weights"))
    if node.has("bias"):
        projected = node.emit("Add", projected, node.input("bias"))
    parts = node.split(projected, ("query", "key", "value"), sizes)
    query, key, value = (split_heads(node, part, count, size // count) for part, size in zip(parts, sizes))
    if node.has("past"):
        before = [node.emit("Gather", node.input("past"), node.known(which), axis=0) for which in (0, 1)]
        key, value = (node.emit("Concat", old, new, axis=2) for old, new in zip(before, (key, value)))
    if node.output(1):
        both = [node.unsqueeze(part, 0) for part in (key, value)]
        node.emit("Concat", *both, axis=0, to=node.output(1))
    heads = Heads(query, key, value, scale_of(node, sizes[0] // count))
    join_heads(node, attend(node, heads, mask_terms(node, 3, heads)), sizes[2])


def _projected_sizes(node: Expansion) -> tuple[int, int, int]:
    given, count = node.attribute("qkv_hidden_sizes"), node.positive("num_heads")
    if given:
        if len(given) != 3 or any(size < count or size % count for size in given):
            raise UnsupportedCase(f"qkv_hidden_sizes {list(given)} are no three multiples of {count} heads")
        query, key, value = (int(size) for size in given)
        return query, key, value
    width = node.known_dims("weights", "the weight of Attention")[1] // 3
    return width, width, width


@expander("MultiHeadAttention", domain=CONTRIB)
def multi_head_attention(node: Expansion) -> None:
    """Attention of queries, keys and values that are projected already, each alone or packed."""
    if node.has("past_sequence_length") or node.has("cache_indirection"):
        raise UnsupportedCase("keys and values of before in a buffer that the model shares with its caller")
    count = node.positive("num_heads")
    (query, key, value), size, value_size = _separate_heads(node, count)
    if node.has("past_key"):
        key = node.emit("Concat", node.input("past_key"), key, axis=2)
        value = node.emit("Concat", node.input("past_value"), value, axis=2)
    node.give(key, 1)
    node.give(value, 2)
    heads = Heads(query, key, value, scale_of(node, size))
    join_heads(node, attend(node, heads, mask_terms(node, 4, heads), raw=node.output(3)), count * value_size)


def _separate_heads(node: Expansion, count: int) -> tuple[tuple[str, str, str], int, int]:
    """Queries, keys and values by head with their bias, and the sizes of a head of keys and of values."""
    if node.rank("query") == 5:  # [B, S, heads, 3, size]
        size = known_size(node, 0, 4)
        parts = [_packed(node, 0, which, count * size) for which in range(3)]
        value_size = size
    else:
        size = known_size(node, 0, 2) // count
        if not node.has("value"):  # [B, L, heads, 2, size]
            parts = [node.input("query"), _packed(node, 1, 0, count * size), _packed(node, 1, 1, count * size)]
            value_size = size
        else:
            parts = node.first_inputs(3)
            value_size = known_size(node, 2, 3) if node.rank("value") == 4 else known_size(node, 2, 2) // count
    widths = (count * size, count * size, count * value_size)
    biases = [""] * 3
    if node.has("bias"):
        biases = node.split(node.input("bias"), ("bias0", "bias1", "bias2"), widths, axis=0)
    by_head = []
    for which, (part, bias, width) in enumerate(zip(parts, biases, widths)):
        if which and node.has("value") and node.rank(which) == 4:
            by_head.append(part)  # split by heads already
            continue
        part = node.emit("Add", part, bias) if bias else part
        by_head.append(split_heads(node, part, count, width // count))
    query, key, value = by_head
    return (query, key, value), size, value_size


def _packed(node: Expansion, position: int, which: int, width: int) -> str:
    """One of the tensors that are packed after the heads, as [B, S, width]."""
    return node.reshape(node.emit("Gather", node.input(position), node.known(which), axis=3), 0, 0, width)


def known_size(node: Expansion, given: Input, axis: int) -> int:
    """The size of an axis that determines that of a head. Raises UnsupportedCase if it is unknown."""
    if node.rank(given) <= axis:
        raise UnsupportedCase(f"input {node.index(given)} has rank {node.rank(given)}, it has {axis + 1} axes at least")
    size = node.dims(given)[axis]
    if not isinstance(size, int):
        raise UnsupportedCase(f"the size of a head must be known, axis {axis} of input {node.index(given)} is {size}")
    return size
