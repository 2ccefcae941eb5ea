"""Streams side by side in the place of one residual stream: HyperConnectionPreMix and -PostMix of onnxruntime."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Expansion
from onnx_systemds.operators.contrib.attention import known_size


@expander("HyperConnectionPreMix", domain=CONTRIB)
def pre_mix(node: Expansion) -> None:
    """The weighted sum of the streams."""
    streams, rank, count = _streams(node)
    mixed = node.emit("Mul", streams, _gates(node, "pre_mix", rank, count))
    total = node.emit("ReduceSum", mixed, node.known([-2]), keepdims=0)
    scale = node.numeric("reduction_scale")
    node.emit("Mul", total, scale, to=node.output())


@expander("HyperConnectionPostMix", domain=CONTRIB)
def post_mix(node: Expansion) -> None:
    """The streams mixed with each other, and to each of them a share of what a block gives."""
    streams, rank, count = _streams(node)
    if node.has("stream_mix"):
        streams = node.emit("FusedMatMul", node.input("stream_mix"), streams, domain=CONTRIB, transA=1)
    share = node.emit("Mul", _gates(node, "post_mix", rank, count), node.unsqueeze(node.input("block_output"), -2))
    total = node.emit("Add", streams, share)
    node.emit("Reshape", total, node.emit("Shape", node.input("streams")), to=node.output())


def _streams(node: Expansion) -> tuple[str, int, int]:
    """The streams as [..., number, size], the rank of that, and their number."""
    rank, count = node.rank("streams"), int(node.attribute("num_branches"))
    if not count:
        return node.input("streams"), rank, known_size(node, "streams", rank - 2)
    return node.reshape(node.input("streams"), *(0,) * (rank - 1), count, -1), rank + 1, count


def _gates(node: Expansion, name: str, rank: int, count: int) -> str:
    """Weights of the streams: one for each stream, or one for each of its elements."""
    given = node.rank(name)
    if given == rank:
        return node.input(name)
    if given != rank - 1:
        raise UnsupportedCase(f"weights of rank {given} for streams of rank {rank}")
    return node.reshape(node.input(name), *(0,) * (rank - 2), count, -1)
