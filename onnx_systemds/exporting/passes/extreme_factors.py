"""Factors of 0 and infinity beside products, which stay apart from these in onnxruntime by a Sum of one.

It makes a known factor one of the product itself. There it refuses infinities, multiplies sums in which infinities
would have met, and makes 0 of NaN where the factor is 0.
"""

from __future__ import annotations

import numpy as np

from onnx_systemds.exporting.graph.nodes import Node, Tensor, made_by
from onnx_systemds.exporting.passes.fusing import Fusing


def behind(fusing: Fusing, node: Node) -> bool:
    """A product times 0 or infinity, or divided by them."""
    operands = node.inputs
    products = [x is not None and made_by(x, "MatMul") is not None for x in operands]
    if not any(products) or not _is_extreme(node):
        return False
    return fusing.become(node, node.op, [_apart(fusing, x, node) if is_product else x
                                         for x, is_product in zip(operands, products)])


def in_front(fusing: Fusing, node: Node) -> bool:
    """A product of what is multiplied by 0 or infinity, or divided by them, and maybe transposed."""
    scaled = []
    for x in node.inputs:
        turned = made_by(x, "Transpose")
        made = made_by(x if turned is None else turned.operand(), "Mul", "Div")
        scaled.append(made is not None and _is_extreme(made))
    if not any(scaled):
        return False
    return fusing.become(node, node.op, [_apart(fusing, x, node) if is_scaled else x
                                         for x, is_scaled in zip(node.inputs, scaled)])


def _is_extreme(node: Node) -> bool:
    """Whether a Mul or Div is that with a known number which, as a factor in float32, is 0 or infinite."""
    factors = node.inputs if node.op == "Mul" else node.inputs[1:]
    known = [x.constant.item() for x in factors if x is not None and x.constant is not None and x.constant.size == 1]
    with np.errstate(all="ignore"):
        narrow = [np.float32(each if node.op == "Mul" else 1 / np.float64(each)) for each in known]
    return any(each == 0 or np.isinf(each) for each in narrow)


def _apart(fusing: Fusing, x: Tensor | None, place: Node) -> Tensor | None:
    return None if x is None else fusing.inserted(place, "Sum", [x], Tensor(x.kind, x.dims))
