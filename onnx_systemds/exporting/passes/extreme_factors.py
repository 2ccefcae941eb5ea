"""Numbers that onnxruntime's optimizer treats wrongly.

Factors of 0 and infinity are kept apart from products by a Sum of one tensor. onnxruntime fuses a known factor into the
product. With infinity it then fails, or multiplies sums in which infinities would have cancelled to NaN; with 0 it
makes 0 of NaN.

It leaves out the addition of a float64 that is 0 in float32, such as 1e-300, and factors that are 1 there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.exporting.graph.nodes import FLOAT, WIDE, Node, Tensor, made_by
from onnx_systemds.exporting.passes.fusing import Fusing, number_of


def scaled_product(fusing: Fusing, node: Node) -> bool:
    """A product that is multiplied by 0 or infinity, or divided by them."""
    products = [made_by(x, "MatMul") is not None for x in node.inputs]
    return any(products) and _is_extreme(node) and _with_apart(fusing, node, products)


def product_of_scaled(fusing: Fusing, node: Node) -> bool:
    """A product with an operand that is multiplied by 0 or infinity, or divided by them, and maybe transposed."""
    scaled = []
    for x in node.inputs:
        transposed = made_by(x, "Transpose")
        made = made_by(x if transposed is None else transposed.operand(), "Mul", "Div")
        scaled.append(made is not None and _is_extreme(made))
    return any(scaled) and _with_apart(fusing, node, scaled)


def almost_neutral(fusing: Fusing, node: Node) -> bool:
    """A float64 that is added, or multiplied with a tensor, and that float32 rounds to 0 or 1."""
    neutral = 0.0 if node.op in ("Add", "Sub") else 1.0
    doubles = (WIDE, FLOAT) if fusing.builder.dtype == "float64" else (WIDE,)
    for x, other in [*zip(node.inputs, node.inputs[::-1])][: 2 if node.op in ("Add", "Mul") else 1]:
        number = number_of(other)
        if x is None or number is None or x.kind not in doubles:
            continue
        with np.errstate(over="ignore"):
            if np.float32(number) == neutral != number:
                return _spelt_out(fusing, node, x, number)
    return False


def _spelt_out(fusing: Fusing, node: Node, x: Tensor, number: float) -> bool:
    """Let the node give the same by a Sum, or by two factors."""
    numbers = fusing.builder.constant
    if node.op in ("Add", "Sub"):
        return fusing.become(node, "Sum", [x, numbers(np.float64(number if node.op == "Add" else -number), x.kind)])
    part = numbers(np.float64(number / 2 if node.op == "Mul" else number * 2), x.kind)
    scaled = fusing.inserted(node, node.op, [x, part], Tensor(x.kind, node.outputs[0].dims))
    return fusing.become(node, "Mul", [scaled, numbers(np.float64(2), x.kind)])


def _is_extreme(node: Node) -> bool:
    """Whether a Mul or Div has a known number that is 0 or infinite as a factor in float32."""
    factors = node.inputs if node.op == "Mul" else node.inputs[1:]
    known = [None if x is None else x.only_element for x in factors]
    with np.errstate(all="ignore"):
        narrow = [np.float32(each if node.op == "Mul" else 1 / np.float64(each)) for each in known if each is not None]
    return any(each == 0 or np.isinf(each) for each in narrow)


def _with_apart(fusing: Fusing, node: Node, apart: Sequence[bool]) -> bool:
    """Keep these inputs of a node apart from it."""
    inputs = [x if x is None or not is_apart else fusing.inserted(node, "Sum", [x], Tensor(x.kind, x.dims))
              for x, is_apart in zip(node.inputs, apart)]
    return fusing.become(node, node.op, inputs)
