"""BatchNormalization: with given statistics, or with those of the batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.engine.safe_forms import col_sums, row_sums
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, nn_layer, shape_rule
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.convolution_gradients import by_channel, channel_sum


@shape_rule("BatchNormalization")
def batch_normalization_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The output is like the input, the statistics are like the mean: one number for each channel."""
    what = "elements of a sample" if node.attribute("spatial") == 0 else "channels"
    for position in (1, 2, 3, 4):
        words = f"the number of elements of {quoted(node.name(position))}"
        node.assume_equal(node.size(position), _channels(node), words, f"that of {what}")
    statistics = Value(node.dtype(3), node.dims(3))
    return (node.tensor(node.dims("X")), *[statistics] * 4)


@batch_rule("BatchNormalization")
def _batch_normalization_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Statistics of all samples, where it trains."""
    trains = node.has_output(1) or bool(node.attribute("training_mode"))
    trains_by_default = node.version < 7 and not node.attribute("is_test")
    return trains or trains_by_default or mixes_all_but_first(node, position, axis)


@generator("BatchNormalization", since=(1, 6, 7, 9, 14))
def batch_normalization(node: NodeView) -> Fragment:
    """Scale and shift per channel.

    From opset 14 on an attribute asks for training and gives the running statistics; before, further outputs do,
    unless is_test (1, 6) is set. Before opset 9 spatial=0 keeps statistics per element instead of per channel.
    """
    return _trained(node) if _is_training(node) else _scaled(node, *_factors(node))


def _is_training(node: NodeView) -> bool:
    if node.version >= 14:
        return bool(node.attribute("training_mode"))
    return not node.attribute("is_test") and any(node.has_output(k) for k in range(1, 5))


@nn_layer("BatchNormalization")
def batch_norm_layer(node: NodeView) -> Fragment | None:
    """nn/layers/batch_norm2d.dml in its mode "test", for images, and batch_norm1d.dml for rows.

    Means that are all 0 end the run of the former (normalized-without-means).
    """
    dims, means = node.dims("X"), node.value(3).content
    if _is_training(node) or len(dims) not in (2, 4) or (len(dims) == 4 and _is_flat(node)):
        return None
    if len(dims) == 4 and means is not None and not means.any():
        return None
    view, is_image = _statistics_view(node), len(dims) == 4
    x = node.view("X", View(dims[0], product(dims[1:])))
    gamma, beta, mean, variance = (node.view(position, view) for position in (1, 2, 3, 4))
    numbers = (literal(node.attribute("momentum")), literal(node.attribute("epsilon")))
    sizes = map(node.dim, dims[1:]) if is_image else ()
    layer = "batch_norm2d" if is_image else "batch_norm1d"
    call = node.layer(layer, x, gamma, beta, *sizes, '"test"', mean, variance, *numbers)
    unused = ["mean", "variance", "cache_mean", "cache_variance", *([] if is_image else ["cache_norm"])]
    return node.layer_result(call, View(dims[0], product(dims[1:])), unused)


def _channels(node: NodeFacts) -> Dim:
    """Number of statistics: channels, or with spatial=0 the elements of an image."""
    dims = node.dims("X")
    if node.attribute("spatial") == 0:
        return product(dims[1:])
    return dims[1] if len(dims) > 1 else 1


def _statistics_view(node: NodeView) -> View:
    """A row where an image has one element per statistic, else a column."""
    channels = _channels(node)
    return View(1, channels) if _is_flat(node) else View(channels, 1)


def _is_flat(node: NodeView) -> bool:
    return product(node.dims("X")[1:]) == _channels(node)


def _factors(node: NodeView) -> tuple[str, str]:
    """The identifiers of what the input is multiplied by, and of what is added; computed now where these are known."""
    view = _statistics_view(node)
    epsilon = node.attribute("epsilon")
    known = [node.constant(position) for position in (1, 2, 3, 4)]
    if all(content is not None for content in known):
        gamma, beta, mean, variance = (np.asarray(content).astype(np.float64).ravel() for content in known)
        factor = gamma / np.sqrt(variance + epsilon)
        shape = (1, -1) if view.rows == 1 else (-1, 1)
        scale = node.constant_matrix(factor.reshape(shape), "scale")
        return scale, node.constant_matrix((beta - mean * factor).reshape(shape), "shift")
    gamma_text, beta_text, mean_text, variance_text = (node.view(position, view) for position in (1, 2, 3, 4))
    scale = node.named("scale", f"{gamma_text} / sqrt({variance_text} + {literal(epsilon)})")
    return scale, node.named("shift", f"{beta_text} - {mean_text} * {scale}")


def _scaled(node: NodeView, scale: str, shift: str) -> Fragment:
    """The input times ``scale`` plus ``shift``, both per statistic."""
    dims, channels = node.dims("X"), _channels(node)
    if _is_flat(node) or dims[0] == 1:
        view = View(dims[0], channels) if _is_flat(node) else View(channels, product(dims[2:]))
        return node.result(f"{node.view('X', view)} * {scale} + {shift}", view)
    view = View(dims[0], product(dims[1:]))
    return node.result(f"bias_add({node.call('scaled_channels', node.view('X', view), scale)}, {shift})", view)


def _trained(node: NodeView) -> Fragment:
    """Statistics of the batch; running statistics move towards them by ``1 - momentum``."""
    dims, channels = node.dims("X"), _channels(node)
    flat = _statistics_view(node)
    wide = View(dims[0], product(dims[1:]))
    x = node.view("X", wide)

    def averaged(text: str) -> str:
        """Means over the images, then over the elements of a channel."""
        rows, size = dims[0], product(dims[1:]) // channels
        if _is_flat(node):
            return f"{col_sums(text, node.dim(rows))} / {node.factor(rows)}"
        sums = node.reshape(col_sums(text, node.dim(rows)), View(channels, size))
        return f"{row_sums(sums, node.dim(size))} / {node.factor(rows * size)}"

    gamma, beta = node.view("scale", flat), node.view("B", flat)
    mean = node.named("mean", averaged(x))
    centred = node.named("centred", f"{x} - {mean}" if _is_flat(node) else f"bias_add({x}, 0 - {mean})")
    variance = node.named("variance", averaged(f"{centred}^2"))
    factor = f"{gamma} / sqrt({variance} + {literal(node.attribute('epsilon'))})"
    if _is_flat(node):
        scaling = f"{centred} * ({factor}) + {beta}"
    else:
        scaling = f"bias_add({node.call('scaled_channels', centred, factor)}, {beta})"
    fragment = node.result(node.named("scaled", scaling), wide)
    momentum = node.attribute("momentum")

    def moved(position: int, own: str) -> str:
        # the smaller factor is 1 - momentum in double precision, as the reference has it
        if not momentum:
            return own
        return f"{node.view(position, flat)} * {literal(momentum)} + {own} * (1 - {literal(momentum)})"

    for output, (position, own) in enumerate([(3, mean), (4, variance)], start=1):
        if node.wants(output):
            fragment += node.result(moved(position, own), flat, output)
        if node.wants(output + 2):  # before opset 14
            fragment += node.result(own, flat, output + 2)
    return fragment


@gradient("BatchNormalization", untrained=(3, 4))
def _batch_normalization_gradient(n: Backward) -> Sequence[str]:
    """With the statistics given, or since opset 14 with those of the batch."""
    rank = n.rank(0)
    trains = bool(n.attribute("training_mode"))
    if (n.version < 14 and any(n.node.outputs[1:])) or (n.version < 7 and not n.attribute("is_test")):
        raise UnsupportedCase("the derivative of a BatchNormalization that trains, before opset 14")
    if n.attribute("spatial") == 0:
        raise UnsupportedCase("the derivative of a BatchNormalization of elements, as spatial = 0 asks for")
    scale, mean, variance = (n.node.inputs[position] for position in (1, 3, 4))
    of_batch = [name for name in n.node.outputs[1:] if name and not n.attribute("momentum")]
    if trains and len(of_batch) == 2:
        mean, variance = of_batch

    def cast(name: str, own: int, other: int) -> str:
        """From the type of an input to that of another one: statistics and factors may have types of their own."""
        return n.retyped(name, n.dtype(other), n.dtype(own))

    centred_by, spread = (by_channel(n, cast(name, 3, 0), rank) for name in (mean, variance))
    others = [0, *range(2, rank)]
    if trains and len(of_batch) < 2:
        centred_by = n.mean(n.x, others)
        deviation = n.emit("Sub", n.x, centred_by)
        spread = n.mean(n.squared(deviation), others)
    root = n.emit("Sqrt", n.emit("Add", spread, n.number(float(n.attribute("epsilon")))))
    normal = n.emit("Div", n.emit("Sub", n.x, centred_by), root)
    weighted = n.times(n.grad, normal)
    factor = n.emit("Div", by_channel(n, cast(scale, 1, 0), rank), root)
    inner = n.grad
    if trains:
        inner = n.centred_mean(n.grad, normal, others)
    of_statistics = [
        lambda: cast(n.emit("Neg", channel_sum(n, n.times(n.grad, factor), rank)), 0, 3),
        lambda: cast(channel_sum(n, n.emit("Div", n.times(n.times(weighted, factor), -0.5), root), rank), 0, 3),
    ]
    return n.needed([
        lambda: n.times(inner, factor),
        lambda: cast(channel_sum(n, weighted, rank), 0, 1),
        lambda: cast(channel_sum(n, n.grad, rank), 0, 2),
        *([] if trains else of_statistics),
    ])
