"""MoEGroupRouter of onnxruntime: which experts serve a token, of the groups that its router prefers.

T: tokens, E: experts, G: groups of as many experts each.
"""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import InvalidModel
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.contrib.attention import LOWEST, known_size

_SMALLEST = 1e-20  # whose logarithm is the least that an expert gets


@expander("MoEGroupRouter", domain=CONTRIB)
def moe_group_router(node: Expansion) -> None:
    """The logarithms of what the chosen experts get, or for all experts what chooses them and what weighs them."""
    count = known_size(node, "expert_bias", 0)
    if node.output(0) and (node.output(1) or node.output(2)):
        raise InvalidModel("scores of the chosen experts beside those of all")
    logits = node.cast(node.input("logits"), "float")
    if node.has("projection_weight"):
        weight = node.cast(node.input("projection_weight"), "float")
        logits = node.emit("MatMul", logits, node.emit("Transpose", weight, perm=(1, 0)))
    scores = node.emit("Sigmoid", node.reshape(logits, -1, count))
    ranked = node.emit("Add", scores, node.input("expert_bias"))
    node.give(ranked, 1)
    node.give(scores, 2)
    if not node.output(0):
        return
    chosen = _chosen(node, ranked, count)
    parts = node.emit("Log", node.emit("Max", scores, node.known(_SMALLEST, "float")))
    others = node.known(float(node.attribute("router_sentinel")), "float")
    node.cast(node.emit("Where", chosen, parts, others), node.dtype("logits"), to=node.output(0))


def _chosen(node: Expansion, ranked: str, count: int) -> str:
    """Whether an expert serves a token: [T, E]."""
    groups, wanted = node.positive("n_group"), min(node.positive("top_k"), count)
    if count % groups:
        raise InvalidModel(f"{count} experts in {groups} groups")
    if groups == 1:
        return _best(node, ranked, wanted, count)
    size = count // groups
    best, places = node.fresh("best"), node.fresh("places")
    within = node.known([min(node.positive("group_topk"), size)])
    node.emit_several("TopK", [best, places], node.reshape(ranked, -1, groups, size), within, axis=-1)
    sums = node.emit("ReduceSum", best, node.known([-1]), keepdims=0)
    preferred = _best(node, sums, min(node.positive("topk_group"), groups), groups)
    allowed = node.emit("Gather", preferred, node.known(np.repeat(np.arange(groups), size)), axis=1)
    ranked = node.emit("Where", allowed, ranked, node.known(LOWEST, "float"))
    return node.emit("And", allowed, _best(node, ranked, wanted, count))


def _best(node: Expansion, x: str, wanted: int, count: int) -> str:
    """Whether an element is one of the largest of its row; of equal ones the first ones are."""
    values, places = node.fresh("values"), node.fresh("places")
    node.emit_several("TopK", [values, places], x, node.known([wanted]), axis=-1)
    marks = node.emit("OneHot", places, node.known(count), node.known([0.0, 1.0], "float"), axis=-1)
    found = node.emit("ReduceSum", marks, node.known([1]), keepdims=0)
    return node.emit("Greater", found, node.known(0.5, "float"))
