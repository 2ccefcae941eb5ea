"""Means over windows and planes of quantised images, the channels first or last."""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.onnx.pooling import counted_share, pool_windows, pooled
from onnx_systemds.operators.onnx.requantizing import Number, Parameters, requantized, saturated, unshifted
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.movement import Moved, input_source, permuted
from onnx_systemds.operators.support.windows import Image, Windows, padded

batch_rule("QLinearAveragePool", "QLinearGlobalAveragePool", domain=CONTRIB)(mixes_all_but_first)


def _channels_first(node: NodeFacts) -> Dims:
    """The input's dims as batch, channels, spatial axes."""
    dims = node.dims("X")
    if len(dims) < 3:
        raise UnsupportedCase(f"pooling of an input of rank {len(dims)}")
    return (dims[0], dims[-1], *dims[1:-1]) if node.attribute("channels_last") else dims


def _as_given(node: NodeFacts, dims: Dims) -> Dims:
    """Batch, channels, spatial axes in the node's order of axes."""
    return (dims[0], *dims[2:], dims[1]) if node.attribute("channels_last") else dims





@shape_rule("QLinearAveragePool", domain=CONTRIB)
def pool_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch, channels, number of windows."""
    dims = _channels_first(node)
    return (node.tensor(_as_given(node, (*dims[:2], *pool_windows(node, dims).outputs))),)


@shape_rule("QLinearGlobalAveragePool", domain=CONTRIB)
def global_pool_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Spatial axes of size 1."""
    dims = _channels_first(node)
    return (node.tensor(_as_given(node, (*dims[:2], *[1] * (len(dims) - 2)))),)


def _planes(node: NodeView) -> str:
    """A plane in each row: those of all channels of the first image, then those of the next one."""
    dims = _channels_first(node)
    view = split_view(dims, 2)
    if not node.attribute("channels_last") or dims[1] == 1 or view.cols == 1:
        return node.view("X", view)
    given = (dims[0], view.cols, dims[1])
    return permuted(node, input_source(node, 0), given, (0, 2, 1), finite=True).bound(node, "planes").seen(node, view)


def _result(node: NodeView, text: str, view: View) -> Fragment:
    """The fragment of a result whose rows are planes, given in the node's order of axes."""
    dims = _channels_first(node)
    if not node.attribute("channels_last") or dims[1] == 1 or view.cols == 1:
        return node.result(text, view)
    whole = Moved(text, view).bound(node, "means")
    planes = (dims[0], dims[1], view.cols)
    moved = permuted(node, whole.source(node), planes, (0, 2, 1), finite=True)
    return node.result(moved.text, moved.view)


@generator("QLinearGlobalAveragePool", since=1, domain=CONTRIB)
def qlinear_global_average_pool(node: NodeView) -> Fragment:
    """The sum of each plane by one factor."""
    return _global_means(node, product(_channels_first(node)[2:]))


def _global_means(node: NodeView, size: Dim) -> Fragment:
    steps = Parameters(node)
    count = Number.of(size) if isinstance(size, int) else Number(node.factor(size))
    factor = steps.combined(steps.number(1), "/", steps.combined(steps.number(3), "*", count))
    zero = steps.number(2)
    planes = _planes(node)
    total = f"rowSums({planes})" if zero.known == 0 else f"(rowSums({planes}) - {zero.text} * {count.text})"
    text = requantized(node, f"{total} * {factor.text}", steps.number(4), node.dtype("X"))
    return _result(node, text, View(product(_channels_first(node)[:2]), 1))


@generator("QLinearAveragePool", since=1, domain=CONTRIB)
def qlinear_average_pool(node: NodeView) -> Fragment:
    """Means of dequantised windows, quantised: the zero point is added before they are rounded."""
    window = pool_windows(node, _channels_first(node))
    if not window.is_padded and window.kernel == window.sizes:
        return _global_means(node, product(window.sizes))
    steps = Parameters(node)
    lead = product(_channels_first(node)[:2])
    view = View(lead, product(window.sizes))
    zero = steps.number(2)
    dequantized = node.call("single_precision", f"{unshifted(_planes(node), zero)} * {steps.number(1).text}")
    image = Image(dequantized, view, lead=lead, sizes=window.sizes).bound(node, "values")
    sums = _sums(node, image, window)
    count = str(product(window.kernel))
    if window.is_padded and not node.attribute("count_include_pad"):
        share = counted_share(node, window, include=False)
        count = f"round({share} * {count})" if share else count
    means = node.call("single_precision", f"{sums.text} / {count}")
    quotients = node.call("single_precision", f"{means} / {steps.number(3).text}")
    total = node.call("single_precision", f"{quotients} + {steps.number(4).text}")
    text = saturated(node.call("nearest_integer", total), node.dtype("X"))
    return _result(node, text, View(lead, product(window.outputs)))


def _sums(node: NodeView, image: Image, window: Windows) -> Moved:
    """The sum of each window, with the roundings of FP32 on up to two axes."""
    if window.rank > 2:
        found = pooled(node, image, window, "avg_pool")
        return replace(found, text=f"({found.text} * {product(window.kernel)})")
    if window.rank == 1:
        window, image = window.with_flat_axis(), replace(image, sizes=(1, *image.sizes))
    image = padded(node, image, window.before, window.after)
    view = View(image.lead, product(image.sizes))
    if image.view != view:
        image = image.reshaped(node, view).bound(node, "padded")
    sizes = (*image.sizes, *window.kernel, *window.strides, *window.outputs)
    call = node.call("pooled_singles", image.text, *map(node.dim, sizes))
    view = View(image.lead, product(window.outputs))
    return Moved(node.reshape(call, view), view)
