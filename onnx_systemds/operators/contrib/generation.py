"""What onnxruntime does with texts as numbers: scores of a token to be generated, and words by their letters."""

from __future__ import annotations

import math

from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB


@expander("NGramRepeatBlock", domain=CONTRIB)
def ngram_repeat_block(node: Expansion) -> None:
    """The lowest score for each token with which the last ones would repeat some that stand in the text already."""
    ids, scores, size = node.input("input_ids"), node.input("scores"), node.attribute("ngram_size")
    tokens = node.slice(ids, 1, size - 1)  # the last ones of all n-grams
    repeated = node.emit("Equal", tokens, tokens)
    for place in range(size - 1):
        before = node.slice(ids, 1, place, place - size + 1)
        last = node.slice(ids, 1, place - size + 1, place - size + 2 or None)
        repeated = node.emit("And", repeated, node.emit("Equal", before, last))
    kind = node.dtype("scores")
    none, hits = node.filled_like(scores, kind, 0), node.cast(repeated, kind)
    is_banned = node.cast(node.emit("ScatterElements", none, tokens, hits, axis=1, reduction="max"), "bool")
    node.emit("Where", is_banned, node.known(-math.inf, kind), scores, to=node.output())


@expander("WordConvEmbedding", domain=CONTRIB)
def word_conv_embedding(node: Expansion) -> None:
    """For each word the maxima of a convolution over its letters; those of a word without letters are undefined."""
    width = node.known_dims("W", "a convolution's weight")[2]
    letters = node.unsqueeze(node.emit("Gather", node.input("C"), node.input("Sequence"), axis=0), 1)
    y = node.emit("Tanh", node.emit("Conv", letters, node.input("W"), node.input("B")))
    is_letter = node.emit("Greater", node.input("Sequence"), node.known(0, node.dtype("Sequence")))
    lengths = node.emit("ReduceSum", node.cast(is_letter, "int64"), node.known([1]), keepdims=1)
    windows = node.emit("Max", node.emit("Sub", lengths, node.known(width - 1)), node.known(1))
    inside = node.unsqueeze(node.emit("Less", node.count_up(node.length(y, 2)), windows), 1, 3)
    best = node.emit("Where", inside, y, node.known(-1e12, node.dtype("C")))
    node.emit("ReduceMax", best, node.known([2, 3]), to=node.output(), keepdims=0)
