"""Normalizations by statistics of the input or of the training."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.engine.safe_forms import col_sums, row_sums
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.assumptions import Relation, certainly_differ
from onnx_systemds.inference.broadcast_dims import of_rank
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.known_dims import differ
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.api.layout import around
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first, mixes_at_axis, mixes_from_axis
from onnx_systemds.operators.support.broadcasting import expand_text, varies
from onnx_systemds.operators.support.convolution_gradients import by_channel, channel_sum
from onnx_systemds.operators.support.selection_products import is_finite

batch_rule("GroupNormalization", "InstanceNormalization", "LRN")(mixes_all_but_first)
batch_rule("LayerNormalization", "RMSNormalization")(mixes_from_axis)
batch_rule("LpNormalization")(mixes_at_axis)

shape_rule("LRN", "MeanVarianceNormalization", "LpNormalization")(same_dims)


@shape_rule("RMSNormalization")
def rms_normalization_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of the input, to which the scale fits; the type is that of the scale."""
    check_trailing(node, 1, node.dims(0)[node.axis() :])
    return (node.tensor(node.dims(0), node.dtype(1)),)


@shape_rule("InstanceNormalization")
def instance_normalization_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims of the input, which has a scale and a bias for each channel."""
    for position in (1, 2):
        node.assume_same_size((0, 1), (position, 0))
    return same_dims(node)


# --- statistics of trailing axes ----------------------------------------------------------------------------------


@shape_rule("LayerNormalization")
def layer_normalization_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The output is like the input; the statistics keep the axes before ``axis``."""
    dims = node.dims(0)
    axis = node.axis(rank=len(dims))
    for position in (1, 2):
        if node.has(position):
            check_trailing(node, position, dims[axis:])
    statistic_dims = (*dims[:axis], *[1] * (len(dims) - axis))
    dtype = {1: "float", 10: "float16", 11: "double", 16: "bfloat16"}.get(node.attribute("stash_type"), "float")
    statistics = Value(dtype, statistic_dims)
    return (node.tensor(dims), statistics, statistics)


def check_trailing(node: NodeFacts, position: int, normalized: Dims) -> None:
    """Take a scale or bias to fit the axes that are normalized. Raises InvalidModel where it is known not to."""
    own = node.dims(position)
    if product(own) == product(normalized):
        return
    for axis, (mine, whole) in enumerate(zip(reversed(own), reversed(normalized)), 1):
        if mine == 1:
            continue
        if certainly_differ(mine, whole):
            raise InvalidModel(f"{node.axis_words(position, -axis)} is {mine}, the axis of the input is {whole}")
        node.assume_equal(mine, whole, node.axis_words(position, -axis), "the axis of the input", Relation.BROADCAST)


@generator("LayerNormalization", since=(1, 17))
def layer_normalization(node: NodeView) -> Fragment:
    """Zero mean and unit variance over the axes from ``axis`` on, then scale and bias; onnxruntime's own before 17."""
    axis = node.axis()
    view = split_view(node.dims("X"), axis)
    x = node.view("X", view)
    if view.rows == 1 and not any(map(node.has_output, (1, 2))):  # an infinite number makes all NaN anyway
        centred = node.named("centred", f"{x} - mean({x})")
        spread = f"sqrt(mean({centred}^2) + {literal(node.attribute('epsilon'))})"
        return node.result(_scaled_and_shifted(node, f"{centred} / {spread}", axis), view)
    mean = node.named("mean", row_means(node, x, view.cols))
    centred = node.named("centred", f"{x} - {mean}")
    spread = node.named("deviation", root_mean_square(node, centred, view.cols))
    text, column = _scaled_and_shifted(node, f"{centred} / {spread}", axis), View(view.rows, 1)
    return node.result(text, view) + node.result(mean, column, 1) + node.result(f"1 / {spread}", column, 2)


def _scaled_and_shifted(node: NodeView, text: str, axis: int) -> str:
    """A matrix with the axes from ``axis`` on in the columns, times scale and plus bias."""
    dims = node.dims("X")
    if not _is_known(node, 1, 1):
        text += f" * {trailing_operand(node, 1, dims, axis)}"
    if node.has("B") and not _is_known(node, 2, 0):
        text += f" + {trailing_operand(node, 2, dims, axis)}"
    return text


@generator("RMSNormalization", since=23)
def rms_normalization(node: NodeView) -> Fragment:
    """The input over the root of its mean square over the axes from ``axis`` on, times scale."""
    dims = node.dims("X")
    axis = node.axis()
    view = split_view(dims, axis)
    x = node.view("X", view)
    text = f"{x} / {root_mean_square(node, x, view.cols)}"
    if not _is_known(node, 1, 1):
        text += f" * {trailing_operand(node, 1, dims, axis)}"
    return node.result(text, view)


def _is_known(node: NodeView, position: int, number: int) -> bool:
    """Whether an input is known to be this number everywhere, as a scale and a bias are before a model is trained."""
    content = node.constant(position)
    return content is not None and bool(np.all(content == number))


def root_mean_square(node: NodeView, x: str, cols: Dim) -> str:
    """Text of the roots of the mean squares of the rows of a matrix, which the attribute epsilon keeps from 0."""
    return f"sqrt({row_means(node, f'{x}^2', cols)} + {literal(node.attribute('epsilon'))})"


def row_means(node: NodeView, x: str, cols: Dim) -> str:
    """Text of the means of the rows of a matrix with ``cols`` columns."""
    return f"{row_sums(x, node.dim(cols))} / {node.factor(cols)}"


def trailing_operand(node: NodeView, position: int, dims: Dims, axis: int) -> str:
    """A scale or bias as right operand of a matrix with the axes from ``axis`` on in the columns."""
    view = split_view(dims, axis)
    own = node.dims(position)
    if product(own) == 1:
        return node.scalar(position)
    if product(own) == view.cols and len(own) <= len(dims) - axis:
        return node.view(position, View(1, view.cols))
    pattern = varies(own, dims)
    if all(dim == 1 for dim in of_rank(own, len(dims))[:axis]):
        pattern, dims, view = pattern[axis:], dims[axis:], View(1, view.cols)
    form = View(1, product(own))
    text = node.view(position, form)
    return expand_text(node, text, form, pattern, dims, view, finite=is_finite(node, position))


# --- statistics of images -----------------------------------------------------------------------------------------


def _standardized(node: NodeView, view: View) -> str:
    """Text of the rows of a view with zero mean and unit variance."""
    x = node.view(0, view)
    centred = node.named("centred", f"{x} - {row_means(node, x, view.cols)}")
    return f"{centred} / {root_mean_square(node, centred, view.cols)}"


@generator("InstanceNormalization", since=(1, 6))
def instance_normalization(node: NodeView) -> Fragment:
    """Zero mean and unit variance of each plane; opset 6 drops consumed_inputs."""
    dims = node.dims("input")
    planes = View(dims[0] * dims[1], product(dims[2:]))
    return _per_channel(node, _standardized(node, planes), planes)


def _per_channel(node: NodeView, text: str, view: View) -> Fragment:
    """``text`` in a view, times input 1 and plus input 2, which have an element per channel."""
    dims = node.dims(0)
    column = View(dims[1], 1)
    has_scale, has_bias = not _is_known(node, 1, 1), not _is_known(node, 2, 0)
    if not has_scale and not has_bias:
        return node.result(text, view)
    is_single = dims[0] == 1
    form = View(dims[1], product(dims[2:])) if is_single else View(dims[0], product(dims[1:]))
    text = node.converted(text, view, form)
    if has_scale:
        scale = node.view(1, column)
        text = f"{text} * {scale}" if is_single else node.call("scaled_channels", text, scale)
    if has_bias:
        bias = node.view(2, column)
        text = f"{text} + {bias}" if is_single else f"bias_add({text}, {bias})"
    return node.result(text, form)


@shape_rule("GroupNormalization")
def group_normalization_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As the input, whose channels are divided into groups; scale and bias of groups, since opset 21 of channels."""
    groups, channels = int(node.attribute("num_groups") or 0), node.dims("X")[1]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise InvalidModel(f"{channels} channels cannot be divided into {groups} groups")
    whole = channels // groups * groups
    node.assume_equal(channels, whole, node.axis_words("X", 1), "that of whole groups")
    wanted, what = (groups, "group") if node.version < 21 else (channels, "channel")
    for position, name in ((1, "scale"), (2, "bias")):
        size = node.size(position)
        if differ(size, wanted):
            raise InvalidModel(f"in this opset there is one {name} for each {what}: {wanted}, not {size}")
        node.assume_equal(size, wanted, f"the size of the {name}", f"the number of {what}s")
    return same_dims(node)


@generator("GroupNormalization", since=(18, 21))
def group_normalization(node: NodeView) -> Fragment:
    """Zero mean and unit variance of each group of channels; scale and bias per group, since opset 21 per channel."""
    dims, groups = node.dims("X"), int(node.attribute("num_groups"))
    view = View(dims[0] * groups, product(dims[1:]) // groups)
    text = _standardized(node, view)
    if node.version >= 21:
        return _per_channel(node, text, view)
    column = View(groups, 1)
    scale, bias = node.view("scale", column), node.view("bias", column)
    wide = View(dims[0], product(dims[1:]))
    # a group is to its scale what a channel is to a bias
    whole = f"bias_add({node.call('scaled_channels', node.reshape(text, wide), scale)}, {bias})"
    return node.result(whole, wide)


@generator("LRN", since=1)
def lrn(node: NodeView) -> Fragment:
    """The input over a power of the squares summed over neighbouring channels: a window over the channel axis."""
    dims, size = node.dims("X"), int(node.attribute("size"))
    below, above = (size - 1) // 2, size // 2
    plane = product(dims[2:])
    view = View(dims[0], dims[1] * plane)
    x = node.view("X", view)
    squares, channels = f"{x}^2", dims[1]
    if above != below:
        squares, channels = f"cbind({x}^2, {node.filled(0, View(dims[0], plane))})", channels + 1
    shape = f"[{node.dim(dims[0])}, 1, {node.dim(channels)}, {node.dim(plane)}]"
    mean = f"avg_pool({squares}, input_shape={shape}, pool_size=[{size}, 1], stride=[1, 1], padding=[{below}, 0])"
    alpha, beta, bias = (literal(node.attribute(name)) for name in ("alpha", "beta", "bias"))
    return node.result(f"{x} / ({bias} + {alpha} * {mean})^{beta}", view)


# --- statistics of any axes ---------------------------------------------------------------------------------------


@generator("MeanVarianceNormalization", since=9)
def mean_variance_normalization(node: NodeView) -> Fragment:
    """Zero mean and unit variance over some axes; a tiny number keeps constant planes from a division by zero."""
    dims = node.dims("X")
    axes = sorted({node.normalize_axis(int(axis), len(dims)) for axis in node.attribute("axes")})
    home = split_view(dims, 1)
    x = node.view("X", home)
    mean = node.named("mean", _mean_over(node, x, home, dims, axes))
    centred = node.named("centred", f"{x} - {_repeated(node, mean, dims, axes, home)}")
    deviation = node.named("deviation", f"sqrt({_mean_over(node, f'{centred}^2', home, dims, axes)}) + 1e-9")
    return node.result(f"{centred} / {_repeated(node, deviation, dims, axes, home)}", home)


def _mean_over(node: NodeView, text: str, view: View, dims: Dims, axes: Sequence[int]) -> str:
    """Text of the means over ``axes``, in a row with the elements of the other axes."""
    left = list(dims)
    for axis in reversed(axes):
        prefix, size, suffix = around(left, axis)
        text, view = mean_of_axis(node, text, view, prefix, size, suffix)
        left[axis] = 1
    return node.converted(text, view, View(1, product(left)))


def mean_of_axis(node: NodeView, text: str, view: View, prefix: Dim, size: Dim, suffix: Dim) -> tuple[str, View]:
    """Text and view of the means over the middle one of three axes."""
    seen = partial(node.converted, text, view)
    if size == 1:
        return text, view
    if suffix == 1:
        return row_means(node, seen(View(prefix, size)), size), View(prefix, 1)
    if prefix == 1:
        return f"{col_sums(seen(View(size, suffix)), node.dim(size))} / {node.factor(size)}", View(1, suffix)
    shape = f"[{node.dim(prefix)}, 1, {node.dim(size)}, {node.dim(suffix)}]"
    pool = f"pool_size=[{node.dim(size)}, 1], stride=[1, 1], padding=[0, 0]"
    return f"avg_pool({seen(View(prefix, size * suffix))}, input_shape={shape}, {pool})", View(prefix, suffix)


def _repeated(node: NodeView, row: str, dims: Dims, axes: Sequence[int], view: View) -> str:
    """Text of a row of statistics repeated along ``axes``."""
    pattern = [axis not in axes for axis in range(len(dims))]
    count = product(dim for dim, varies in zip(dims, pattern) if varies)
    return expand_text(node, row, View(1, count), pattern, dims, view, finite=is_finite(node, 0))


@generator("LpNormalization", since=1)
def lp_normalization(node: NodeView) -> Fragment:
    """The input over its 1-norm or 2-norm along an axis; zeros where the norm is zero."""
    dims, axis, p = node.dims("input"), node.axis(), int(node.attribute("p"))
    if p not in (1, 2):
        raise UnsupportedCase(f"LpNormalization with p = {p}")
    prefix, size, suffix = around(dims, axis)
    view = View(prefix, size) if suffix == 1 else View(prefix * size, suffix)
    x = node.view("input", view)
    powers = f"abs({x})" if p == 1 else f"{x}^2"
    mean, found = mean_of_axis(node, powers, view, prefix, size, suffix)
    total = f"{mean} * {node.factor(size)}"
    norm = node.named("norm", total if p == 1 else f"sqrt({total})")
    # the quotient by 1 of zeros is zero
    divisor = f"({norm} + ({norm} == 0))"
    if not (suffix == 1 or prefix == 1 or size == 1):
        divisor = expand_text(node, divisor, found, (True, False, True), (prefix, size, suffix), view, finite=False)
    return node.result(f"{x} / {divisor}", view)


# --- derivatives -----------------------------------------------------------------------------------------------


@gradient("LRN")
def _lrn_gradient(n: Backward) -> Sequence[str]:
    """x over a power of its base, in which the squares of its neighbours are; so it is in the base of others, too."""
    channels, size = n.dims(0)[1], int(n.attribute("size"))
    if not isinstance(channels, int):
        raise UnsupportedCase("the derivative of an LRN of an open number of channels")
    alpha, beta, bias = (float(n.attribute(name)) for name in ("alpha", "beta", "bias"))
    distance = np.subtract.outer(np.arange(channels), np.arange(channels))  # of a channel to one that counts for it
    counts = ((distance <= (size - 1) // 2) & (distance >= -(size // 2))).astype(np.float64)
    sums = n.along(n.squared(n.x), 1, counts.T)
    base = n.emit("Add", n.times(sums, alpha / size), n.number(bias))
    power = n.emit("Pow", base, n.number(-beta))
    others = n.along(n.emit("Div", n.times(n.times(n.grad, n.x), power), base), 1, counts)
    return [n.emit("Sub", n.times(n.grad, power), n.times(n.times(n.x, others), 2 * alpha * beta / size))]


@gradient("LayerNormalization")
def _layer_normalization_gradient(n: Backward) -> Sequence[str]:
    axes = range(n.axis(), n.rank(0))
    normal, deviation = _normal(n, n.x, axes)
    scaled = n.times(n.grad, n.node.inputs[1])
    return n.needed([
        lambda: n.emit("Div", n.centred_mean(scaled, normal, axes), deviation),
        lambda: n.fit(n.times(n.grad, normal), 1),
        lambda: n.fit(n.grad, 2),
    ])


@gradient("RMSNormalization")
def root_mean_square_gradient(n: Backward) -> Sequence[str]:
    """That of an input over the root of its mean square over the axes from ``axis`` on, times scale."""
    axes, own, result = range(n.axis(), n.rank(0)), n.dtype(0), n.dtype(1)
    x = n.retyped(n.x, result, own)
    inverse = n.inverse_root(n.emit("Add", n.mean(n.squared(x), axes), n.number(float(n.attribute("epsilon")))))
    normal, scaled = n.times(x, inverse), n.times(n.grad, n.node.inputs[1])
    return n.needed([
        lambda: n.retyped(n.times(n.emit("Sub", scaled, n.mean_along(scaled, normal, axes)), inverse), own, result),
        lambda: n.fit(n.times(n.grad, normal), 1),
    ])


@gradient("InstanceNormalization")
def _instance_normalization_gradient(n: Backward) -> Sequence[str]:
    rank = n.rank(0)
    axes = range(2, rank)
    normal, deviation = _normal(n, n.x, axes)
    scaled = n.times(n.grad, by_channel(n, n.node.inputs[1], rank))
    return n.needed([
        lambda: n.emit("Div", n.centred_mean(scaled, normal, axes), deviation),
        lambda: channel_sum(n, n.times(n.grad, normal), rank),
        lambda: channel_sum(n, n.grad, rank),
    ])


@gradient("GroupNormalization")
def _group_normalization_gradient(n: Backward) -> Sequence[str]:
    """That of InstanceNormalization, of groups; ONNX's definition takes the variance from the mean of squares."""
    grouped = n.known([0, int(n.attribute("num_groups")), -1])
    normal, deviation = _normal(n, n.emit("Reshape", n.x, grouped), [2])
    grad, rank = n.grad, n.rank(0)
    if n.version < 21:  # scale and bias are of groups
        grad, rank = n.emit("Reshape", n.grad, grouped), 3
    scaled = n.times(grad, by_channel(n, n.node.inputs[1], rank))
    of_groups = scaled if n.version < 21 else n.emit("Reshape", scaled, grouped)
    normal_of_scale = normal if n.version < 21 else n.shaped(normal)
    return n.needed([
        lambda: n.shaped(n.emit("Div", n.centred_mean(of_groups, normal, [2]), deviation)),
        lambda: channel_sum(n, n.times(grad, normal_of_scale), rank),
        lambda: channel_sum(n, grad, rank),
    ])


@gradient("LpNormalization")
def _lp_normalization_gradient(n: Backward) -> Sequence[str]:
    return [n.by_norm(n.x, n.axis(default=-1), is_first=n.attribute("p") == 1)]


def _normal(n: Backward, x: str, axes: Sequence[int]) -> tuple[str, str]:
    """A value less its mean along some axes, by its deviation, and this."""
    centred = n.emit("Sub", x, n.mean(x, axes))
    variance = n.mean(n.squared(centred), axes)
    deviation = n.emit("Sqrt", n.emit("Add", variance, n.number(float(n.attribute("epsilon")))))
    return n.emit("Div", centred, deviation), deviation
