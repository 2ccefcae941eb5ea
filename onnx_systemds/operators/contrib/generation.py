"""What onnxruntime does with the scores of a token that is to be generated."""

from __future__ import annotations

import math

from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB

_TO_END = 2**63 - 1


@expander("NGramRepeatBlock", domain=CONTRIB)
def ngram_repeat_block(node: Expansion) -> None:
    """The lowest score for each token with which the last ones would repeat some that stand in the text already."""
    ids, scores, size = node.input("input_ids"), node.input("scores"), node.attribute("ngram_size")
    tokens = node.slice(ids, 1, size - 1, _TO_END)  # the last ones of all n-grams
    repeated = node.emit("Equal", tokens, tokens)
    for place in range(size - 1):
        before = node.slice(ids, 1, place, place - size + 1)
        last = node.slice(ids, 1, place - size + 1, place - size + 2 or _TO_END)
        repeated = node.emit("And", repeated, node.emit("Equal", before, last))
    kind = node.dtype("scores")
    none, hits = node.filled_like(scores, kind, 0), node.cast(repeated, kind)
    is_banned = node.cast(node.emit("ScatterElements", none, tokens, hits, axis=1, reduction="max"), "bool")
    node.emit("Where", is_banned, node.known(-math.inf, kind), scores, to=node.output())
