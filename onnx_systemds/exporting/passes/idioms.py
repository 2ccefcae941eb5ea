"""Formulas that are one operator of ONNX: GELU, normalizations, missing values replaced where there are any."""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.exporting.graph.nodes import FLOAT, Array, Node, SubGraph, Tensor, made_by, pairs, source_of
from onnx_systemds.exporting.passes.fusing import Fusing, is_number, reduced_axes

_COUNTING = ("ReduceSum", "ReduceMax", "Cast", "Reshape")
_FARTHEST_MEAN = 100.0
"""Means of so many deviations: onnxruntime takes the mean from the scaled numbers, which costs as many digits."""


def missing_filled(fusing: Fusing, node: Node) -> bool:
    """``replace(X, NaN, 0) + is.nan(X) * row`` for a known row."""
    for replaced, filled in pairs(node):
        chosen = made_by(replaced, "Where")
        test = None if chosen is None else made_by(chosen.inputs[0], "IsNaN")
        if chosen is None or test is None or test.inputs[0] is not chosen.inputs[2]:
            continue
        if not is_number(chosen.inputs[1], 0.0):
            continue
        for mask, row in pairs(fusing.single(filled, "Mul")):
            gaps, known = made_by(mask, "Cast"), row.constant
            is_row = known is not None and bool(np.isfinite(known).all()) and node.outputs[0].dims == replaced.dims
            if gaps is not None and gaps.inputs[0] is chosen.inputs[0] and is_row:
                return fusing.become(node, "Where", [chosen.inputs[0], row, chosen.inputs[2]])
    return False


def gelu(fusing: Fusing, node: Node) -> bool:
    """``0.5 * (1 + tanh(sqrt(2/pi) * (X + 0.044715 * X^3))) * X``; onnxruntime knows it to float32 alone."""
    if not fusing.builder.knows("Gelu") or fusing.builder.dtype != "float32":
        return False
    for half, x in pairs(node):
        bent = fusing.beside_number(fusing.beside_number(half, "Mul", 0.5), "Add", 1.0)
        inner = fusing.beside_number(fusing.source(bent, "Tanh"), "Mul", math.sqrt(2 / math.pi))
        for cubic, same in pairs(fusing.single(inner, "Add")):
            cube = fusing.single(fusing.beside_number(cubic, "Mul", 0.044715), "Pow")
            if same is x and cube is not None and cube.inputs[0] is x and is_number(cube.inputs[1], 3.0):
                return fusing.become(node, "Gelu", [x], approximate="tanh")
    return False


def batch_normalization(fusing: Fusing, node: Node) -> bool:
    """``(X - mean) / deviation * scale + shift`` by known rows."""
    for scaled, shift in pairs(node):
        for quotient, scale in pairs(fusing.single(scaled, "Mul")):
            divided, centered = fusing.single(quotient, "Div"), fusing.single(quotient, "Div", "Sub")
            if divided is None or centered is None:
                continue
            x = centered.operand()
            width = x.dims[-1] if x.rank == 2 else None
            rows = [_known_row(row, width) for row in (scale, shift, centered.operand(1), divided.operand(1))]
            known = [row for row in rows if row is not None]
            if width is None or len(known) < 4 or not all(np.isfinite(row).all() for row in known):
                continue
            mean, deviation = known[2:]
            if (deviation <= 0).any() or (np.abs(mean) > _FARTHEST_MEAN * deviation).any():
                continue
            stored = [fusing.builder.constant(row, FLOAT, hint) for row, hint in
                      zip((*known[:3], deviation**2), ("scale", "shift", "mean", "variance"))]
            return fusing.become(node, "BatchNormalization", [x, *stored], epsilon=0.0)
    return False


def layer_normalization(fusing: Fusing, node: Node) -> bool:
    """``(X - mean) / sqrt(variance + epsilon)`` along the last axis."""
    centered, deviation = node.operand(0), node.operand(1)
    lowered = made_by(centered, "Sub")
    if lowered is None or not fusing.builder.knows("LayerNormalization"):
        return False
    x = lowered.operand()
    width = x.dims[-1] if x.rank >= 2 else None
    if not isinstance(width, int) or _mean_of(lowered.operand(1)) is not x:
        return False
    for variance, epsilon in pairs(fusing.single(deviation, "Sqrt", "Add")):
        squares = _mean_of(variance)
        number = epsilon.only_element
        if number is None or squares is None:
            continue
        if _square_of(squares) is centered and number > 0:
            scale = fusing.builder.constant(np.ones(width), FLOAT)
            return fusing.become(node, "LayerNormalization", [x, scale], axis=-1, epsilon=number)
    return False


def normalized_scaled(fusing: Fusing, node: Node) -> bool:
    """A layer normalization times a row."""
    made, scale = _normalized_and_row(fusing, node, is_plain=True) or (None, None)
    return made is not None and fusing.become(node, made.op, [made.operand(), scale], **made.attributes)


def normalized_shifted(fusing: Fusing, node: Node) -> bool:
    """A layer normalization plus a row."""
    made, shift = _normalized_and_row(fusing, node) or (None, None)
    return made is not None and fusing.become(node, made.op, [*made.inputs, shift], **made.attributes)


def _normalized_and_row(fusing: Fusing, node: Node, *, is_plain: bool = False) -> tuple[Node, Tensor] | None:
    """Return the layer normalization that makes one input, with a scale (`is_plain`: of ones), and the other one."""
    for product, row in pairs(node):
        made = fusing.single(product, "LayerNormalization")
        scale = None if made is None or len(made.inputs) != 2 else made.operand(1).constant
        known = None if scale is None else _known_row(row, scale.size)
        if made is not None and scale is not None and known is not None and (not is_plain or (scale == 1).all()):
            return made, fusing.builder.constant(known, FLOAT, row.hint)
    return None


def _mean_of(tensor: Tensor) -> Tensor | None:
    """Return what a tensor is the mean of along its last axis, as of all elements of a row, None for any other."""
    divided = made_by(tensor, "Div")
    summed = made_by(tensor, "ReduceMean") if divided is None else made_by(divided.inputs[0], "ReduceSum")
    if summed is None:
        return None
    source = summed.operand()
    if divided is None and reduced_axes(summed) == (0, 1) and source.dims[0] == 1 and isinstance(source.dims[1], int):
        return source
    if not summed.attributes.get("keepdims"):
        return None
    size = source.dims[-1] if reduced_axes(summed) == (source.rank - 1,) else None
    is_mean = divided is None or (isinstance(size, int) and is_number(divided.inputs[1], float(size)))
    return source if is_mean and size is not None else None


def _square_of(tensor: Tensor) -> Tensor | None:
    """Return what a tensor is the square of, None for any other."""
    product, power = made_by(tensor, "Mul"), made_by(tensor, "Pow")
    if product is not None and product.inputs[0] is product.inputs[1]:
        return product.inputs[0]
    return power.inputs[0] if power is not None and is_number(power.inputs[1], 2.0) else None


def unit_rows(fusing: Fusing, node: Node) -> bool:
    """Rows by their Euclidean lengths, rows of zeros as they are: ``X / (n + (n == 0))``, n the root of the sums."""
    x, divisor = node.operand(0), node.operand(1)
    for length, other in pairs(fusing.single(divisor, "Add")):
        test = fusing.single(other, "Cast", "Equal")
        if not any(one is length and is_number(zero, 0.0) for one, zero in pairs(test)):
            continue
        summed = fusing.single(source_of(length, "Sqrt"), "ReduceSum")
        if summed is None or _square_of(summed.operand()) is not x or x.kind != FLOAT:
            continue
        if summed.attributes.get("keepdims") and reduced_axes(summed) == (x.rank - 1,):
            return fusing.become(node, "LpNormalization", [x], axis=x.rank - 1, p=2)
    return False


def missing_replaced(fusing: Fusing, node: Node) -> bool:
    """Numbers replaced where they are NaN, if any is."""
    then, otherwise = node.attributes["then_branch"], node.attributes["else_branch"]
    if not isinstance(then, SubGraph) or not isinstance(otherwise, SubGraph) or len(node.outputs) != 1:
        return False
    chosen, unchanged = made_by(then.outputs[0], "Where"), made_by(otherwise.outputs[0], "Identity")
    if chosen is None or unchanged is None:
        return False
    gaps, x = chosen.operand(0), chosen.operand(2)
    test = made_by(gaps, "IsNaN")
    if test is None or x is not unchanged.inputs[0] or test.inputs[0] is not x:
        return False
    if any(tensor is not None and tensor.node is not None and tensor.node.scope is then.scope
           for tensor in chosen.inputs):
        return False
    return _counted(node.inputs[0], gaps) and fusing.become(node, "Where", list(chosen.inputs))


def _counted(condition: Tensor | None, gaps: Tensor) -> bool:
    """Whether a condition is that some of the booleans are."""
    compared = made_by(condition, "Greater")
    source = compared.inputs[0] if compared is not None and is_number(compared.inputs[1], 0.0) else condition
    while (counting := made_by(source, *_COUNTING)) is not None:
        source = counting.inputs[0]
    return source is gaps


def _known_row(tensor: Tensor, width: object) -> Array | None:
    """Return a known row as an array of rank 1."""
    known = tensor.constant
    return known.ravel() if known is not None and known.shape == (1, width) else None
