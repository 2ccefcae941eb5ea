"""MurmurHash3 of onnxruntime: the 32-bit hash of each element's bytes, a block of 32 bits after the other.

Elements of 64 bits have two blocks, the lower half first. Of integers FP64 gives the bytes; of floats it does not
(zeros have no sign). Those of texts are in UTF-8, and hashed by Java.
"""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import batch_rule, expander, generator, shape_rule, takes_text
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.onnx.text import numbers_of_codes
from onnx_systemds.operators.support.batch_rules import mixes_nothing

_HALF = 2**32

batch_rule("MurmurHash3", domain=CONTRIB)(mixes_nothing)
takes_text("MurmurHash3", domain=CONTRIB)


@shape_rule("MurmurHash3", domain=CONTRIB)
def murmur_hash_3_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A number for each text."""
    return (node.tensor(node.dims("X"), "uint32" if node.attribute("positive") else "int32"),)


@generator("MurmurHash3", since=1, domain=CONTRIB)
def murmur_hash_3_of_text(node: NodeView) -> Fragment:
    """Each different text is hashed once."""
    seed = (int(node.attribute("seed")) + _HALF // 2) % _HALF - _HALF // 2
    rest = (node.texts.dictionary(), seed, bool(node.attribute("positive")))
    return numbers_of_codes(node, lambda codes: node.call("hashed_texts", codes, *rest))


@expander("MurmurHash3", domain=CONTRIB)
def murmur_hash_3(node: Expansion) -> None:
    """The hash with a seed, as uint32, or as int32 where positive is 0."""
    dtype = node.dtype("X")
    if dtype not in ("int32", "uint32", "int64", "uint64"):
        raise UnsupportedCase(f"only integers and texts can be hashed: the script does not have the bytes of {dtype}")
    blocks = _blocks(node, dtype)
    hashed = node.known(int(node.attribute("seed")) % _HALF, "uint32")
    for block in blocks:
        mixed = _times(node, _rotated(node, _times(node, block, 0xCC9E2D51), 15), 0x1B873593)
        hashed = _rotated(node, node.emit("BitwiseXor", hashed, mixed), 13)
        hashed = node.emit("Add", _times(node, hashed, 5), node.known(0xE6546B64, "uint32"))
    hashed = node.emit("BitwiseXor", hashed, node.known(4 * len(blocks), "uint32"))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = _times(node, _folded(node, hashed, shift), factor)
    hashed = _folded(node, hashed, 16)
    node.cast(hashed, "uint32" if node.attribute("positive") else "int32", to=node.output())


def _blocks(node: Expansion, dtype: str) -> list[str]:
    """The bytes of each element as numbers of 32 bits."""
    x = node.input("X")
    if not dtype.endswith("64"):
        return [node.cast(x, "uint32")]
    half = node.known(_HALF, dtype)
    low, high = node.emit("Mod", x, half, fmod=1), node.emit("Div", x, half)
    if dtype == "int64":  # both are cut off towards zero, and two's complement counts from below
        below = node.emit("Less", low, node.known(0, dtype))
        high = node.emit("Sub", high, node.cast(below, dtype))
    return [node.cast(low, "uint32"), node.cast(high, "uint32")]


def _times(node: Expansion, x: str, factor: int) -> str:
    return node.emit("Mul", x, node.known(factor, "uint32"))


def _shifted(node: Expansion, x: str, bits: int, direction: str) -> str:
    return node.emit("BitShift", x, node.known(bits, "uint32"), direction=direction)


def _rotated(node: Expansion, x: str, bits: int) -> str:
    return node.emit("BitwiseOr", _shifted(node, x, bits, "LEFT"), _shifted(node, x, 32 - bits, "RIGHT"))


def _folded(node: Expansion, x: str, bits: int) -> str:
    return node.emit("BitwiseXor", x, _shifted(node, x, bits, "RIGHT"))
