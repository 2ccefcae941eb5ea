"""Rotary embeddings of onnxruntime: pairs of a head's elements turned by an angle that grows with the position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.contrib.attention import known_size


def rotated(
    node: Expansion, x: str, head_size: int, turned: int, angles: tuple[str, str], *, interleaved: bool, to: str = ""
) -> str:
    """The first ``turned`` elements of each head turned, the others as they are.

    ``x`` has rank 4 and heads of known size in its last axis. ``angles``: cosines and sines, which broadcast to half of
    what is turned. A pair are neighbours where ``interleaved``, else an element and that half of ``turned`` after it.
    """
    cosines, sines = angles
    front, rest = x, ""
    if turned != head_size:
        front, rest = node.split(x, ("turned", "kept"), [turned, head_size - turned])
    half = turned // 2
    if interleaved:
        left, right = (node.slice(front, 3, start, turned, 2) for start in (0, 1))
    else:
        left, right = node.split(front, ("left", "right"), [half, half])
    turned_left = node.emit("Sub", node.emit("Mul", left, cosines), node.emit("Mul", right, sines))
    turned_right = node.emit("Add", node.emit("Mul", left, sines), node.emit("Mul", right, cosines))
    parts = [turned_left, turned_right]
    if interleaved:
        pairs = node.emit("Concat", *(node.unsqueeze(part, 4) for part in parts), axis=-1)
        parts = [node.reshape(pairs, 0, 0, 0, turned)]
    return node.emit("Concat", *parts, *([rest] if rest else []), axis=-1, to=to)


@expander("RotaryEmbedding", domain=CONTRIB)
def rotary_embedding(node: Expansion) -> None:
    """Of [batch, length, heads * size] or [batch, heads, length, size]; positions for each token or the first one."""
    by_head = node.rank("input") == 4
    width, hidden = known_size(node, "cos_cache", 1), known_size(node, "input", 3 if by_head else 2)
    given = int(node.attribute("rotary_embedding_dim"))
    size = hidden if by_head else hidden // node.positive("num_heads") if given else 2 * width
    x = _by_head(node, size)
    positions = node.input("position_ids")
    if node.rank("position_ids") < 2:
        length = node.length(node.input("input"), 2 if by_head else 1)
        first = node.reshape(positions, 1)
        positions = node.unsqueeze(node.emit("Add", node.count_up(length), first), 0)
    heads_axis = 1 if by_head else 2
    cosines, sines = (
        node.unsqueeze(node.emit("Gather", node.input(cache), positions, axis=0), heads_axis) for cache in (2, 3)
    )
    _give_rotated(node, x, size, given or 2 * width, (cosines, sines))


def _by_head(node: Expansion, size: int) -> str:
    """The input with an axis for its heads of ``size``."""
    x = node.input("input")
    return x if node.rank("input") == 4 else node.reshape(x, 0, 0, known_size(node, "input", 2) // size, size)


def _give_rotated(node: Expansion, x: str, size: int, turned: int, angles: tuple[str, str]) -> None:
    """Give what `_by_head` returns `rotated`, in the dims of the input."""
    by_head = node.rank("input") == 4
    y = rotated(node, x, size, turned, angles, interleaved=bool(node.attribute("interleaved")),
                to=node.output() if by_head else "")
    if not by_head:
        node.reshape(y, 0, 0, known_size(node, "input", 2), to=node.output())


@expander("GemmaRotaryEmbedding", domain=CONTRIB)
def gemma_rotary_embedding(node: Expansion) -> None:
    """Queries and keys, which come with their turned halves, by angles: x * cos + turned * sin."""
    angles = node.unsqueeze(node.input("emb"), 1)
    cosines, sines = (node.emit("CastLike", node.emit(name, angles), node.input("q")) for name in ("Cos", "Sin"))
    for output, (x, turned) in enumerate(((1, 2), (3, 4))):
        if node.output(output):
            across = node.emit("Mul", node.input(turned), sines)
            node.emit("Add", node.emit("Mul", node.input(x), cosines), across, to=node.output(output))


@expander("MRotaryEmbedding", domain=CONTRIB)
def multimodal_rotary_embedding(node: Expansion) -> None:
    """RotaryEmbedding whose angles come from three streams of positions, [3, batch, length]; each has its columns."""
    sections = [int(size) for size in node.attribute("mrope_section")]
    by_head = node.rank("input") == 4
    hidden = known_size(node, "input", 3 if by_head else 2)
    size = hidden if by_head else hidden // node.positive("num_heads")
    x = _by_head(node, size)
    streams = node.known(_streams(sections, bool(node.attribute("mrope_layout")))[:, None, None, :])
    cosines, sines = (_of_streams(node, cache, streams, 1 if by_head else 2) for cache in (2, 3))
    _give_rotated(node, x, size, 2 * sum(sections), (cosines, sines))


def _streams(sections: Sequence[int], interleaved: bool) -> Array:
    """For each stream of positions which columns it has: 3 x columns of 0 and 1."""
    owner = np.repeat(np.arange(3), sections)
    if interleaved:
        owner = np.zeros(sum(sections), np.int64)
        for stream in (1, 2):
            owner[stream : 3 * sections[stream] : 3] = stream
    return np.asarray(owner == np.arange(3)[:, None], np.int64)


def _of_streams(node: Expansion, cache: int, streams: str, heads_axis: int) -> str:
    """Cosines or sines of the streams, each in its own columns."""
    found = node.emit("Gather", node.input(cache), node.input("position_ids"), axis=0)  # [3, batch, length, columns]
    own = node.emit("Mul", found, node.cast(streams, node.dtype(cache)))
    return node.unsqueeze(node.emit("ReduceSum", own, node.known([0]), keepdims=0), heads_axis)
