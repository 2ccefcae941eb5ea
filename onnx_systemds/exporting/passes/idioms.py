"""Formulas that are one operator of ONNX: GELU, normalizations, missing values replaced where there are any.

Each rule turns the last node of a formula into the operator and returns whether it did.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np

from onnx_systemds.exporting.graph.nodes import FLOAT, Array, Attribute, Node, SubGraph, Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.inference.dims import Dim, Dims

_GELU_SINCE, _LAYER_NORM_SINCE = 20, 17
_COUNTING = ("ReduceSum", "ReduceMax", "Cast", "Reshape")
_FARTHEST_MEAN = 100.0
"""Means of so many deviations: onnxruntime takes the mean from the scaled numbers, which costs as many digits."""


class Fusing(Protocol):
    """What a rule asks of the pass."""

    builder: Operators

    def single(self, tensor: Tensor | None, op: str) -> Node | None:
        """Return the node `op` that makes a tensor that only one node uses."""

    def become(self, node: Node, op: str, inputs: list[Tensor | None], **attributes: object) -> bool:
        """Make `node` another one with the same result."""

    def inserted(
        self, place: Node, op: str, inputs: Iterable[Tensor | None], output: Tensor,
        attributes: Mapping[str, Attribute] = ...,
    ) -> Tensor:  # fmt: skip
        """Put a new node in front of another one; returns its output."""

    def viewed(self, source: Tensor, dims: Dims, node: Node) -> Tensor | None:
        """Return a tensor with other dims, of a Reshape in front of `node`; None where sizes must be computed."""


def gelu(fusing: Fusing, node: Node) -> bool:
    """``0.5 * (1 + tanh(sqrt(2/pi) * (X + 0.044715 * X^3))) * X``; onnxruntime knows it to float32 alone."""
    if fusing.builder.opset < _GELU_SINCE or fusing.builder.dtype != "float32":
        return False
    for half, x in pairs(node):
        raised = beside_number(fusing, half, "Mul", 0.5)
        bent = beside_number(fusing, raised, "Add", 1.0)
        tanh = fusing.single(bent, "Tanh")
        inner = beside_number(fusing, None if tanh is None else tanh.inputs[0], "Mul", math.sqrt(2 / math.pi))
        total = fusing.single(inner, "Add")
        for cubic, same in pairs(total) if total is not None else ():
            cube = fusing.single(beside_number(fusing, cubic, "Mul", 0.044715), "Pow")
            if same is x and cube is not None and cube.inputs[0] is x and is_number(cube.inputs[1], 3.0):
                return fusing.become(node, "Gelu", [x], approximate="tanh")
    return False


def batch_normalization(fusing: Fusing, node: Node) -> bool:
    """``(X - mean) / deviation * scale + shift`` by known rows."""
    for scaled, shift in pairs(node):
        product = fusing.single(scaled, "Mul")
        for quotient, scale in pairs(product) if product is not None else ():
            divided = fusing.single(quotient, "Div")
            centered = None if divided is None else fusing.single(divided.inputs[0], "Sub")
            if divided is None or centered is None or centered.inputs[0] is None:
                continue
            width = centered.inputs[0].dims[-1]
            rows = [_known_row(tensor, width) for tensor in (scale, shift, centered.inputs[1], divided.inputs[1])]
            known = [row for row in rows if row is not None]
            if centered.inputs[0].rank != 2 or len(known) < 4 or not all(np.isfinite(row).all() for row in known):
                continue
            mean, deviation = known[2:]
            if (deviation <= 0).any() or (np.abs(mean) > _FARTHEST_MEAN * deviation).any():
                continue
            stored = [fusing.builder.constant(row, FLOAT, hint) for row, hint in
                      zip((*known[:3], deviation**2), ("scale", "shift", "mean", "variance"))]  # fmt: skip
            return fusing.become(node, "BatchNormalization", [centered.inputs[0], *stored], epsilon=0.0)
    return False


def layer_normalization(fusing: Fusing, node: Node) -> bool:
    """``(X - mean) / sqrt(variance + epsilon)`` along the last axis."""
    centered, deviation = node.inputs
    lowered = None if centered is None else centered.node
    root = fusing.single(deviation, "Sqrt")
    total = None if root is None else fusing.single(root.inputs[0], "Add")
    if lowered is None or lowered.op != "Sub" or total is None or fusing.builder.opset < _LAYER_NORM_SINCE:
        return False
    x = lowered.inputs[0]
    width = None if x is None else x.dims[-1]
    if x is None or not isinstance(width, int) or x.rank < 2 or _mean_of(lowered.inputs[1]) is not x:
        return False
    for variance, epsilon in pairs(total):
        squares = _mean_of(variance)
        if epsilon is None or epsilon.constant is None or epsilon.constant.size != 1 or squares is None:
            continue
        if _square_of(squares) is centered and epsilon.constant.item() > 0:
            scale = fusing.builder.constant(np.ones(width), FLOAT)
            return fusing.become(node, "LayerNormalization", [x, scale], axis=-1, epsilon=epsilon.constant.item())
    return False


def normalized_scaled(fusing: Fusing, node: Node) -> bool:
    """A layer normalization times a row."""
    for product, row in pairs(node):
        made = fusing.single(product, "LayerNormalization")
        if made is None or len(made.inputs) != 2 or made.inputs[1] is None or made.inputs[1].constant is None:
            continue
        scale = _known_row(row, made.inputs[1].constant.size)
        if scale is not None and (made.inputs[1].constant == 1).all() and row is not None:
            constant = fusing.builder.constant(scale, FLOAT, row.hint)
            return fusing.become(node, made.op, [made.inputs[0], constant], **made.attributes)
    return False


def normalized_shifted(fusing: Fusing, node: Node) -> bool:
    """A layer normalization plus a row."""
    for product, row in pairs(node):
        made = fusing.single(product, "LayerNormalization")
        scale = None if made is None or len(made.inputs) != 2 else made.inputs[1]
        shift = None if scale is None or scale.constant is None else _known_row(row, scale.constant.size)
        if made is not None and shift is not None and row is not None:
            constant = fusing.builder.constant(shift, FLOAT, row.hint)
            return fusing.become(node, made.op, [*made.inputs, constant], **made.attributes)
    return False


def _mean_of(tensor: Tensor | None) -> Tensor | None:
    """Return what a tensor is the mean of along its last axis, None for any other."""
    node = None if tensor is None else tensor.node
    divided = node is not None and node.op == "Div"
    summed = node.inputs[0].node if divided and node is not None and node.inputs[0] is not None else node
    wanted = "ReduceSum" if divided else "ReduceMean"
    if summed is None or summed.op != wanted or not summed.attributes.get("keepdims"):
        return None
    source = summed.inputs[0]
    if source is None or reduced_axes(summed) != (source.rank - 1,):
        return None
    if divided and (node is None or not is_number(node.inputs[1], float(_size(source.dims[-1])))):
        return None
    return source


def _size(dim: Dim) -> int:
    return dim if isinstance(dim, int) else -1


def _square_of(tensor: Tensor) -> Tensor | None:
    """Return what a tensor is the square of, None for any other."""
    node = tensor.node
    if node is not None and node.op == "Mul" and node.inputs[0] is node.inputs[1]:
        return node.inputs[0]
    return node.inputs[0] if node is not None and node.op == "Pow" and is_number(node.inputs[1], 2.0) else None


def reduced_axes(node: Node) -> tuple[int, ...] | None:
    """Return the axes of a Reduce node, None where they are not known."""
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1] is not None and node.inputs[1].constant is not None:
        axes = tuple(node.inputs[1].constant.ravel().tolist())
    source = node.inputs[0]
    if not isinstance(axes, tuple) or source is None:
        return None
    return tuple(int(axis) % source.rank for axis in axes)


def only_axis(node: Node) -> int | None:
    """Return the axis along which a Reduce node works, which it keeps; None for any other."""
    axes = reduced_axes(node)
    return axes[0] if axes is not None and len(axes) == 1 and node.attributes.get("keepdims") == 1 else None


def unit_rows(fusing: Fusing, node: Node) -> bool:
    """Rows by their Euclidean lengths, rows of zeros as they are: ``X / (n + (n == 0))``, n the root of the sums."""
    x, divisor = node.inputs
    total = fusing.single(divisor, "Add")
    for length, other in pairs(total) if total is not None else ():
        cast = fusing.single(other, "Cast")
        test = None if cast is None else fusing.single(cast.inputs[0], "Equal")
        if test is None or not any(one is length and is_number(zero, 0.0) for one, zero in pairs(test)):
            continue
        root = None if length is None else length.node
        summed = fusing.single(root.inputs[0], "ReduceSum") if root is not None and root.op == "Sqrt" else None
        squares = None if summed is None else summed.inputs[0]
        if x is None or summed is None or squares is None or _square_of(squares) is not x or x.kind != FLOAT:
            continue
        if summed.attributes.get("keepdims") and reduced_axes(summed) == (x.rank - 1,):
            return fusing.become(node, "LpNormalization", [x], axis=x.rank - 1, p=2)
    return False


def missing_replaced(fusing: Fusing, node: Node) -> bool:
    """Numbers replaced where they are NaN, if any is."""
    then, otherwise = node.attributes["then_branch"], node.attributes["else_branch"]
    if not isinstance(then, SubGraph) or not isinstance(otherwise, SubGraph) or len(node.outputs) != 1:
        return False
    chosen, kept = then.outputs[0].node, otherwise.outputs[0].node
    if chosen is None or kept is None or chosen.op != "Where" or kept.op != "Identity":
        return False
    gaps, _, x = chosen.inputs
    test = None if gaps is None else gaps.node
    if gaps is None or test is None or test.op != "IsNaN" or x is not kept.inputs[0] or test.inputs[0] is not x:
        return False
    if any(tensor is not None and tensor.node is not None and tensor.node.scope is then.scope
           for tensor in chosen.inputs):  # fmt: skip
        return False
    return _counted(node.inputs[0], gaps) and fusing.become(node, "Where", list(chosen.inputs))


def _counted(condition: Tensor | None, gaps: Tensor) -> bool:
    """Whether a condition is that some of the truths are."""
    source, compared = condition, None if condition is None else condition.node
    if compared is not None and compared.op == "Greater" and is_number(compared.inputs[1], 0.0):
        source = compared.inputs[0]
    while source is not None and source.node is not None and source.node.op in _COUNTING:
        source = source.node.inputs[0]
    return source is gaps


def pairs(node: Node) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """Return the two inputs of a node in both orders."""
    yield node.inputs[0], node.inputs[1]
    yield node.inputs[1], node.inputs[0]


def beside_number(fusing: Fusing, tensor: Tensor | None, op: str, number: float) -> Tensor | None:
    """Return what a node of its own combines with a number, None for anything else."""
    node = fusing.single(tensor, op)
    return next((x for x, other in pairs(node) if is_number(other, number)), None) if node is not None else None


def is_number(tensor: Tensor | None, number: float) -> bool:
    """Whether a tensor is one known number."""
    known = None if tensor is None else tensor.constant
    return known is not None and known.size == 1 and math.isclose(known.item(), number, rel_tol=1e-12)


def _known_row(tensor: Tensor | None, width: object) -> Array | None:
    """Return a known row as an array of rank 1."""
    known = None if tensor is None else tensor.constant
    return known.ravel() if known is not None and known.shape == (1, width) else None
