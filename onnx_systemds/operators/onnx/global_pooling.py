"""Pooling over whole planes."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.dml.literals import literal
from onnx_systemds.engine.safe_forms import row_sums
from onnx_systemds.inference.dims import product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, nn_layer, shape_rule
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first

batch_rule("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")(mixes_all_but_first)


@shape_rule("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
def global_pool_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Spatial axes of size 1."""
    dims = node.dims("X")
    return (node.tensor((*dims[:2], *[1] * (len(dims) - 2))),)


def _planes(node: NodeView) -> View:
    dims = node.dims("X")
    return split_view(dims, 2)


@generator("GlobalAveragePool", since=1)
def global_average_pool(node: NodeView) -> Fragment:
    """Mean of each plane."""
    view = _planes(node)
    sums = row_sums(node.view("X", view), node.dim(view.cols))
    return node.result(f"{sums} / {node.factor(view.cols)}", View(view.rows, 1))


@nn_layer("GlobalAveragePool")
def global_average_pool_layer(node: NodeView) -> Fragment | None:
    """nn/layers/global_avg_pool2d.dml: two spatial axes."""
    batch, channels, *sizes = node.dims("X")
    if len(sizes) != 2:
        return None
    x = node.view("X", View(batch, channels * product(sizes)))
    call = node.layer("global_avg_pool2d", x, *map(node.dim, (channels, *sizes)))
    return node.layer_result(call, View(batch, channels), ["height", "width"])


@generator("GlobalMaxPool", since=1)
def global_max_pool(node: NodeView) -> Fragment:
    """Maximum of each plane."""
    view = _planes(node)
    return node.result(f"rowMaxs({node.view('X', view)})", View(view.rows, 1))


@generator("GlobalLpPool", since=(1, 2))
def global_lp_pool(node: NodeView) -> Fragment:
    """p-norm of each plane; p is a float in opset 1."""
    view, p = _planes(node), node.attribute("p")
    sums = row_sums(power(node.view("X", view), p), node.dim(view.cols))
    return node.result(root(f"({sums})", p), View(view.rows, 1))


def power(x: str, p: float) -> str:
    """What a p-norm sums up."""
    return f"abs({x})" if p == 1 else f"{x}^2" if p == 2 else f"abs({x})^{literal(p)}"


def root(text: str, p: float) -> str:
    """The p-norm of such a sum."""
    return text if p == 1 else f"sqrt({text})" if p == 2 else f"({text})^(1 / {literal(p)})"


@gradient("GlobalAveragePool")
def _global_average_pool_gradient(n: Backward) -> Sequence[str]:
    share = n.share(n.grad, range(2, n.rank(0)))
    return [n.emit("Expand", share, n.emit("Shape", n.x))]


@gradient("GlobalMaxPool")
def _global_max_pool_gradient(n: Backward) -> Sequence[str]:
    """Equal maxima share the derivative."""
    hits = n.emit("CastLike", n.emit("Equal", n.x, n.out), n.x)
    return [n.times(n.emit("Div", hits, n.total(hits, range(2, n.rank(0)))), n.grad)]
