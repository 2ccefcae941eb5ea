"""Products of 32-bit integers that wrap around exactly: their 64 bits are more than FP64 holds.

Narrower integers need nothing of it, and of 64-bit ones the engine holds 53 bits anyway.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_systemds.inference.dims import Dim
from onnx_systemds.operators.api import SCALAR, NodeFacts, NodeView
from onnx_systemds.operators.onnx.combining import as_matrix
from onnx_systemds.operators.support.broadcasting import FULL, SINGLE, Operand, Operands

WORDS = frozenset(["int32", "uint32"])
_MOST_TERMS = 33_025  # so many products of 8-bit integers less their zero points stay below 2^31
_FACTOR_BITS = 21  # a word times a number of so many bits is exact in FP64


def sign_offset(dtype: str) -> str:
    """What must be added before 2^32 is cut off: 2^31 for signed words."""
    return "2147483648" if dtype == "int32" else "0"


def may_wrap(terms: Dim) -> bool:
    """Whether sums of so many products of 8-bit integers less their zero points may have more than 32 bits."""
    return not isinstance(terms, int) or terms > _MOST_TERMS


def may_exceed(node: NodeFacts, terms: Dim = 1) -> bool:
    """Whether sums of so many products of the first two inputs may have more bits than FP64 holds."""
    if node.dtype(0) not in WORDS:
        return False
    count = terms if isinstance(terms, int) else 1 << 53
    return all(_largest(node, position) * count > 1 << _FACTOR_BITS for position in (0, 1))


def _largest(node: NodeFacts, position: int) -> int:
    content = node.constant(position)
    if content is None or content.size > 1 << 16:
        return 1 << 32
    return int(np.abs(content.astype(np.int64)).max(initial=0))


def wrapped_products(node: NodeView, given: Operands) -> Operand:
    """Elementwise product of two operands."""
    left, right = given.items
    if right.kind == FULL:
        left, right = right, left
    texts = [as_matrix(node, operand, given.form) for operand in (left, right)]
    text = node.call("wrapped_product", *texts, sign_offset(node.dtype(0)))
    return Operand(f"as.scalar({text})", SINGLE) if given.form is SCALAR else Operand(text, FULL)


def wrapped_matmul(node: NodeView, x: str, y: str, multiply: Callable[[str, str], str]) -> str:
    """A matrix product by halves of 16 bits; ``multiply`` writes one of two identifiers.

    The result still has to be wrapped: it has fewer than 53 bits as long as a sum has fewer than 2^19 terms.
    """
    left = node.named("left", x)
    upper = node.named("upper", f"floor({left} / 65536)")
    lower = node.named("lower", f"{left} - {upper} * 65536")
    right = node.named("right", y)
    high = node.named("high", f"floor({right} / 65536)")
    low = node.named("low", f"{right} - {high} * 65536")
    middle = node.named("middle", f"{multiply(upper, low)} + {multiply(lower, high)}")
    return f"(({middle} - 65536 * floor({middle} / 65536)) * 65536 + {multiply(lower, low)})"
