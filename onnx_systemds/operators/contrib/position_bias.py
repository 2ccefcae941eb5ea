"""Biases of attention by the distance of two tokens, which onnxruntime's optimisers find in T5 and WavLM."""

from __future__ import annotations

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.contrib.attention import split_heads


@expander("RelativePositionBias", domain=CONTRIB)
def relative_position_bias(node: Expansion) -> None:
    """A bias for each distance, of which far ones share a bucket: [1, heads, queries, keys].

    The table says [buckets, heads], but lies head by head.
    """
    buckets = node.dims("bias_table")[0]
    if not isinstance(buckets, int):
        raise UnsupportedCase("the number of buckets must be known")
    farthest = int(node.attribute("max_distance"))
    both_ways = bool(node.attribute("is_bidirectional"))
    near = node.known(buckets_of_distances(buckets // 2 if both_ways else buckets, farthest))
    queries, keys = (node.count_up(node.emit("Squeeze", node.input(position))) for position in (1, 2))
    ahead = node.emit("Sub", node.unsqueeze(keys, 0), node.unsqueeze(queries, 1))
    if both_ways:
        second_half = node.emit("Mul", node.cast(node.emit("Greater", ahead, node.known(0)), "int64"),
                                node.known(buckets // 2))
        distance = node.emit("Abs", ahead)
    else:  # all keys after a query share the first bucket
        distance = node.emit("Max", node.emit("Neg", ahead), node.known(0))
    bucket = node.emit("Gather", near, node.emit("Min", distance, node.known(farthest)), axis=0)
    if both_ways:
        bucket = node.emit("Add", bucket, second_half)
    found = node.emit("Gather", node.reshape(node.input("bias_table"), -1, buckets), bucket, axis=1)
    node.emit("Unsqueeze", found, node.known([0]), to=node.output())


def buckets_of_distances(count: int, farthest: int) -> Array:
    """The bucket of each distance up to the farthest: half of them for small distances, then ever wider ones.

    Computed in FP32 like where the models come from, because whole powers lie at the edges.
    """
    exact = count // 2
    distances = np.arange(farthest + 1)
    ratio = np.maximum(distances, 1).astype(np.float32) / np.float32(exact)
    parts = np.log(ratio) / np.log(np.float32(farthest / exact)) * np.float32(count - exact)
    wide = np.minimum(exact + parts.astype(np.int64), count - 1)
    return np.where(distances < exact, distances, wide)


@expander("GatedRelativePositionBias", domain=CONTRIB)
def gated_relative_position_bias(node: Expansion) -> None:
    """A given bias times a gate that each query opens."""
    if node.has("token_offset"):
        raise UnsupportedCase("queries without padding")
    count = node.positive("num_heads")
    size, columns = node.known_dims("weight", "the weight of the gates")
    query = split_heads(node, node.emit("Add", node.input("query_layer"), node.input("query_bias")), count, size)
    gates = node.emit("Add", node.emit("MatMul", query, node.input("weight")), node.input("bias"))
    halves = node.reshape(gates, 0, 0, 0, 2, columns // 2)
    opened = node.emit("Sigmoid", node.emit("ReduceSum", halves, node.known([-1]), keepdims=0))
    update, reset = node.split(opened, ("update", "reset"))
    one, two = (node.number(number) for number in (1.0, 2.0))
    inner = node.emit("Sub", node.emit("Mul", reset, node.input("eco_a")), one)
    gate = node.emit("Add", node.emit("Mul", update, inner), two)
    node.emit("Mul", gate, node.input("rel_pos"), to=node.output())
