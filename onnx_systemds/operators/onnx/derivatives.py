"""Operators that only derivatives have: each is a builtin of SystemDS, or one operation.

They take samples of any number. What they do not cover is written with ONNX's operators (`convolution_gradients`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onnx_systemds.inference.dims import product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.model import protos
from onnx_systemds.model.ir import DERIVATIVES
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.activation import by_function
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.movement import input_source
from onnx_systemds.operators.support.windows import Image, Windows, builtin_padding, padded, shape_list, windows

shape_rule("GeluGradient", "MaxPoolGradient", "ReluGradient", domain=DERIVATIVES)(same_dims)
batch_rule("MaxPoolGradient", domain=DERIVATIVES)(mixes_all_but_first)
batch_rule("GeluGradient", "ReluGradient", "Retyped", domain=DERIVATIVES)(lambda node, position, axis: False)


@shape_rule("Retyped", domain=DERIVATIVES)
def retyped_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The dims of X, and the type ``dtype``."""
    value, known = node.tensor(node.dims(0), protos.element_name(node.attribute("dtype"))), node.constant(0)
    return (replace(value, constant=None if known is None else protos.held(known, value.dtype)),)


@generator("Retyped", since=1, domain=DERIVATIVES)
def retyped(node: NodeView) -> Fragment:
    """The numbers of X as those of another type, which are not rounded to it."""
    return node.same_elements()


@gradient("Retyped", domain=DERIVATIVES)
def _retyped_gradient(n: Backward) -> Sequence[str]:
    return [n.retyped(n.grad, n.dtype(0))]


@generator("ReluGradient", since=1, domain=DERIVATIVES)
def relu_gradient(node: NodeView) -> Fragment:
    """D where Y is positive, else 0: inputs are Y, the result of Relu, and D of the same dims."""
    form = node.wanted_form()
    if form is SCALAR:
        return node.result(f"as.double({node.scalar(0)} > 0) * {node.scalar(1)}", form)
    return node.result(f"({node.view(0, form)} > 0) * {node.view(1, form)}", form)


@gradient("ReluGradient", domain=DERIVATIVES)
def _relu_gradient_gradient(n: Backward) -> Sequence[str]:
    return ["", n.emit("ReluGradient", n.x, n.grad, domain=DERIVATIVES)]


@generator("GeluGradient", since=1, domain=DERIVATIVES)
def gelu_gradient(node: NodeView) -> Fragment:
    """The derivative of Gelu, by the normal distribution, at X."""
    return by_function(node, "gelu_gradient")


@gradient("GeluGradient", domain=DERIVATIVES)
def _gelu_gradient_gradient(n: Backward) -> Sequence[str]:
    """The density of a normal number at x, times 2 less the square of x."""
    square = n.squared(n.x)
    density = n.times(n.emit("Exp", n.times(square, -0.5)), 1 / math.sqrt(2 * math.pi))
    return n.chain(n.times(density, n.emit("Sub", n.number(2.0), square)))


@shape_rule("ConvFilterGradient", domain=DERIVATIVES)
def conv_filter_gradient_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Filters, channels of a group, sizes of the kernel."""
    filters, channels = node.dims(1)[1], node.dims(0)[1]
    return (node.tensor((filters, channels // node.positive("group"), *node.attribute("kernel_shape"))),)


@generator("ConvFilterGradient", since=1, domain=DERIVATIVES)
def conv_filter_gradient(node: NodeView) -> Fragment:
    """The derivative by the filters of a convolution: inputs are images and the derivative of the result.

    Attributes are those of the convolution, of one or two spatial axes and without dilations; rest: rows and columns
    after the last window.
    """
    window, group = _planar(node), node.positive("group")
    (batch, channels), filters = node.dims(0)[:2], node.dims(1)[1]
    padding, left, right = ((0, 0), window.before, window.after) if group > 1 else builtin_padding(window)
    home = View(batch, channels * product(window.sizes))
    given = Image(input_source(node, 0)(home), home, lead=batch * channels, sizes=window.sizes)
    image = padded(node, given, left, right)
    images = image.seen(node, View(batch, channels * product(image.sizes)))
    derivatives = node.view(1, View(batch, filters * product(window.outputs)))
    view = View(filters, channels // group * product(window.kernel))
    sizes = map(node.dim, (*image.sizes, *window.kernel, *window.strides))
    if group > 1:
        is_depthwise = channels == group and filters == group
        own = (channels,) if is_depthwise else (group, channels // group, filters // group)
        function = f"{'depthwise' if is_depthwise else 'grouped'}_filter_gradient"
        return node.result(node.call(function, images, derivatives, *map(node.dim, own), *sizes), view)
    shape = shape_list(node, (batch, channels, *image.sizes))
    text = (
        f"conv2d_backward_filter({images}, {derivatives}, input_shape={shape}, "
        f"filter_shape={shape_list(node, (filters, channels, *window.kernel))}, "
        f"stride={shape_list(node, window.strides)}, padding={shape_list(node, padding)})"
    )
    return node.result(text, view)


@gradient("ConvFilterGradient", domain=DERIVATIVES)
def _conv_filter_gradient_gradient(n: Backward) -> Sequence[str]:
    sizes: dict[str, Any] = {name: n.node.attributes[name] for name in ("strides", "pads", "group")}
    return n.needed([
        lambda: n.emit("ConvTranspose", n.node.inputs[1], n.grad, **sizes, output_padding=n.attribute("rest")),
        lambda: n.emit("Conv", n.x, n.grad, **sizes),
    ])


@generator("MaxPoolGradient", since=1, domain=DERIVATIVES)
def max_pool_gradient(node: NodeView) -> Fragment:
    """The derivative of MaxPool: each number goes to the first maximum of its window.

    Inputs are images and the derivative of the result; attributes are those of MaxPool, of one or two spatial axes,
    without padding and dilations. Windows stand apart: of those that overlap the builtin loses derivatives. It gives
    none where all images are 0, as if that were no maximum.
    """
    window = _planar(node)
    lead = product(node.dims(0)[:2])
    images = node.view(0, View(lead, product(window.sizes)))
    derivatives = node.view(1, View(lead, product(window.outputs)))
    text = (
        f"max_pool_backward({images}, {derivatives}, input_shape={shape_list(node, (lead, 1, *window.sizes))}, "
        f"pool_size={shape_list(node, window.kernel)}, stride={shape_list(node, window.strides)}, padding=[0, 0])"
    )
    return node.result(text, View(lead, product(window.sizes)))


def _planar(node: NodeView) -> Windows:
    """The windows, over two axes."""
    window = windows(node, node.dims(0)[2:], tuple(node.attribute("kernel_shape")))
    return window if window.rank == 2 else window.with_flat_axis()
