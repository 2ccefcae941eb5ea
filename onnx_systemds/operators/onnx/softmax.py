"""The softmax family, in its old and its new meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from onnx_systemds.inference.dims import product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, nn_layer, shape_rule
from onnx_systemds.operators.api import Backward, Fragment, NodeView, View, split_view
from onnx_systemds.operators.api.layout import around
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.support.batch_rules import mixes_at_axis, mixes_from_axis
from onnx_systemds.operators.support.selection_products import minus_vector

# before opset 13 all axes from the attribute on are one
batch_rule("Softmax", "LogSoftmax", "Hardmax")(mixes_from_axis)
batch_rule("Softmax", "LogSoftmax", "Hardmax", since=13)(mixes_at_axis)

Columns = bool  # whether a matrix is normalized along its columns instead of its rows
Normalize = Callable[[NodeView, str, Columns], str]


def softmax(node: NodeView, x: str, columns: Columns) -> str:
    """The softmax of each row, or of each column."""
    side = "col" if columns else "row"
    powers = node.named("exp", f"exp({x} - {side}Maxs({x}))")
    return f"{powers} / {side}Sums({powers})"


def _log_softmax(node: NodeView, x: str, columns: Columns) -> str:
    side = "col" if columns else "row"
    shifted = node.named("shifted", f"{x} - {side}Maxs({x})")
    return minus_vector(shifted, f"log({side}Sums(exp({shifted})))")


def _hardmax(node: NodeView, x: str, columns: Columns) -> str:
    """The first of equal maxima: the one up to which one of them was counted."""
    side, count = ("col", "cumsum") if columns else ("row", "rowcumsum")
    maxima = node.named("maxima", f"{x} == {side}Maxs({x})")
    return f"{maxima} * ({count}({maxima}) == 1)"


def normalized_along(node: NodeView, normalize: Normalize) -> Fragment:
    """Normalize along the node's axis: rows where it is the last, columns where it is the first of what is not 1.

    An axis in between comes to the front by one transposition, and back by another.
    """
    dims, axis = node.dims(0), node.axis()
    if not dims:
        return node.result(normalize(node, node.view(0, View(1, 1)), False), View(1, 1))
    before, size, after = around(dims, axis)
    if after == 1 or before == 1:
        by_rows = after == 1
        view = View(before, size) if by_rows else View(size, after)
        return node.result(normalize(node, node.view(0, view), not by_rows), view)
    whole = View(before, size * after)
    front = node.named("front", node.reshape(f"t({node.view(0, whole)})", View(size, after * before)))
    return node.result(f"t({node.reshape(normalize(node, front, True), View(size * after, before))})", whole)


def flattened(node: NodeView, normalize: Normalize) -> Fragment:
    """Before opset 13: all axes from ``axis`` on are normalized as one."""
    view = split_view(node.dims(0), node.axis())
    return node.result(normalize(node, node.view(0, view), False), view)


for _name, _normalize in {"Softmax": softmax, "LogSoftmax": _log_softmax, "Hardmax": _hardmax}.items():
    shape_rule(_name)(same_dims)
    generator(_name, (1, 11))(partial(flattened, normalize=_normalize))  # from 11 on with negative axes
    generator(_name, 13)(partial(normalized_along, normalize=_normalize))


@nn_layer("Softmax")
def softmax_layer(node: NodeView) -> Fragment | None:
    """nn/layers/softmax.dml, where the distributions are rows: along the last axis (before opset 13 the last ones)."""
    dims = node.dims(0)
    if not dims or (node.version >= 13 and product(dims[node.axis() + 1 :]) != 1):
        return None
    view = split_view(dims, node.axis())
    return node.result(node.layer("softmax", node.view(0, view)), view)


@gradient("Softmax")
def _softmax_gradient(n: Backward) -> Sequence[str]:
    weighted = n.total(n.times(n.grad, n.out), _softmax_axes(n))
    return [n.times(n.emit("Sub", n.grad, weighted), n.out)]


@gradient("LogSoftmax")
def _log_softmax_gradient(n: Backward) -> Sequence[str]:
    total = n.total(n.grad, _softmax_axes(n))
    return [n.emit("Sub", n.grad, n.times(n.emit("Exp", n.out), total))]


def _softmax_axes(n: Backward) -> Sequence[int]:
    """The axes of one distribution: before opset 13 all from the axis on."""
    axis = n.axis()
    return [axis] if n.version >= 13 else range(axis, n.rank(0))
