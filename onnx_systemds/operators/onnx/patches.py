"""MaxUnpool and Col2Im: elements and blocks go back to where windows took them from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.registry import generator, gradient, shape_rule
from onnx_systemds.limits import check_table
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.support.convolution_gradients import known_integers
from onnx_systemds.operators.support.windows import Image, given_pads, padded, per_axis

# --- MaxUnpool -------------------------------------------------------------------------------------------------


def pooled_dims(node: NodeFacts) -> Dims:
    """Dims of the tensor whose pooling gives the input; the indices count its elements. Raises UnsupportedCase."""
    dims = node.dims("X")
    spatial, kernel = dims[2:], tuple(node.attribute("kernel_shape"))
    rank = len(spatial)
    if len(kernel) != rank:
        raise UnsupportedCase(f"a window of {len(kernel)} axes on {rank} spatial axes")
    strides, pads = per_axis(node, "strides", rank), given_pads(node, rank)
    sizes = [
        (size - 1) * strides[axis] - pads[axis] - pads[rank + axis] + kernel[axis]
        for axis, size in enumerate(spatial)
    ]
    return (*dims[:2], *sizes)


@shape_rule("MaxUnpool")
def max_unpool_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As given, else that of the smallest input of the pooling."""
    for axis in range(node.rank("X")):
        node.assume_same_size((1, axis), (0, axis))
    if node.has("output_shape"):
        return (node.tensor(node.require_integers("output_shape", "the output shape")),)
    return (node.tensor(pooled_dims(node)),)


@generator("MaxUnpool", since=(9, 11, 22))
def max_unpool(node: NodeView) -> Fragment:
    """Elements go to their indices in zeros; a larger output shape adds zeros after each axis."""
    dims, wanted = pooled_dims(node), node.output_dims()
    count, total = node.size("X"), product(dims)
    x, index = node.view("X", View(count, 1)), node.named("index", node.view("I", View(count, 1)))
    places = f"({index} + 1) * ({index} < {node.factor(total)})"  # 0, which the engine refuses, beyond the elements
    text = node.call("scatter_rows", node.filled(0, View(total, 1)), x, places)
    more: Dims = tuple(after - before for before, after in zip(dims, wanted))
    if all(pad == 0 for pad in more):
        return node.result(text, View(total, 1))
    if more[:2] != (0, 0) or any(isinstance(pad, int) and pad < 0 for pad in more):
        raise UnsupportedCase("the output shape is smaller than the tensor that the indices count")
    image = Image(text, View(total, 1), lead=product(dims[:2]), sizes=dims[2:]).bound(node, "unpooled")
    image = padded(node, image, (0,) * len(dims[2:]), more[2:])
    return node.result(image.text, image.view)


# --- Col2Im ----------------------------------------------------------------------------------------------------


def _integers(node: NodeFacts, position: int, what: str) -> tuple[int, ...]:
    return tuple(int(size) for size in node.require_constant(position, what).ravel())


@shape_rule("Col2Im")
def col2im_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch, channels, and the image's sizes."""
    batch, columns, _ = node.dims("input")
    block = int(np.prod(_integers(node, 2, "the block's shape")))
    return (node.tensor((batch, columns // block, *node.require_integers("image_shape", "the image's shape"))),)


@generator("Col2Im", since=18)
def col2im(node: NodeView) -> Fragment:
    """Sums the blocks where they overlap; what lies in the padding goes to a row that is dropped."""
    block, image = _integers(node, 2, "the block's shape"), _integers(node, 1, "the image's shape")
    index = _image_positions(node, image, block)
    batch, columns, length = node.dims("input")
    if isinstance(length, int) and length * int(np.prod(block)) != len(index):
        raise UnsupportedCase(f"{length} blocks, the image's shape needs {len(index) // int(np.prod(block))}")
    planes: Dim = batch * (columns // int(np.prod(block)))
    total = int(np.prod(image))
    turned = f"t({node.view('input', View(planes, len(index)))})"
    places = node.constant_matrix(index.reshape(-1, 1), "places")
    call = node.call("scatter_add", node.filled(0, View(total, planes)), turned, places)
    return node.result(f"t({call})", View(planes, total))


@gradient("MaxUnpool")
def _max_unpool_gradient(n: Backward) -> Sequence[str]:
    """From where an element went, unless another one overwrote it there."""
    dims = pooled_dims(n)
    index = n.emit("Reshape", n.node.inputs[1], n.known([-1]))

    def read(name: str) -> str:
        if dims != n.values[n.out].dims:
            starts, ends, axes = [0] * len(dims[2:]), known_integers(n, dims[2:]), range(2, len(dims))
            name = n.emit("Slice", name, n.known(starts), n.known(ends), n.known(axes))
        return n.shaped(n.emit("Gather", n.emit("Reshape", name, n.known([-1])), index))

    return [n.where(n.emit("Equal", read(n.out), n.x), read(n.grad)), "", ""][: n.input_count]


@gradient("Col2Im")
def _col2im_gradient(n: Backward) -> Sequence[str]:
    """Each element of a block gets the derivative by where it went; in the padding there is none."""
    block, image = _integers(n, 2, "the block's shape"), _integers(n, 1, "the image's shape")
    planes = n.emit("Reshape", n.grad, n.known([-1, int(np.prod(image))]))
    places = n.known(_image_positions(n, image, block).ravel() - 1)
    return [n.shaped(n.emit("Gather", n.emit("Pad", planes, n.known([0, 0, 0, 1])), places, axis=1)), "", ""]


def _image_positions(node: NodeFacts, image: tuple[int, ...], block: tuple[int, ...]) -> Array:
    """For each element of each block (block element first) its place in the image from 1, after it for padding."""
    rank = len(image)
    pads = given_pads(node, rank)
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    axes, total = [], 1
    for axis, (size, kernel) in enumerate(zip(image, block)):
        extent = (kernel - 1) * dilations[axis] + 1
        count = (size + pads[axis] + pads[rank + axis] - extent) // strides[axis] + 1
        total *= max(count, 0) * kernel
        check_table(total, "the places of the blocks' elements")
        taps = np.arange(kernel)[:, None] * dilations[axis]
        axes.append((taps + np.arange(count)[None, :] * strides[axis] - pads[axis], size))
    place, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for at, size in axes:
        place = (place[:, None, :, None] * size + at[None, :, None, :]).reshape(len(place) * len(at), -1)
        fits = (at >= 0) & (at < size)
        inside = (inside[:, None, :, None] & fits[None, :, None, :]).reshape(place.shape)
    flat: Array = np.where(inside, place + 1, np.prod(image) + 1).ravel()
    return flat
