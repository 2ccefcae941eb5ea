"""Operators of onnxruntime that ONNX has, too, with other inputs or attributes: data movement, softmax, pooling."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.registry import expander
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.onnx.sampling import grid_mode


@expander("GatherND", domain=CONTRIB)
def gather_nd(node: Expansion) -> None:
    """ONNX's GatherND without batch axes."""
    node.emit("GatherND", node.input("data"), node.cast(node.input("indices"), "int64"), to=node.output())


@expander("DequantizeLinear", "Gelu", "QuantizeLinear", "Trilu", domain=CONTRIB)
@expander("ThresholdedRelu")
def as_in_onnx(node: Expansion) -> None:
    """ONNX's operator, which came later, or got its element types later."""
    inputs = map(node.input, range(node.input_count))
    node.emit(node.node.op_type, *inputs, to=node.output(), **node.attributes(*node.node.attributes))


@expander("Range", domain=CONTRIB)
def range_(node: Expansion) -> None:
    """ONNX's Range, of scalars or tensors of one element; the step may be left out."""
    given = [_scalar(node, position) for position in range(3 if node.has("delta") else 2)]
    node.emit("Range", *given, *([] if node.has("delta") else [node.known(1, node.dtype("start"))]), to=node.output())


def _scalar(node: Expansion, given: int | str) -> str:
    name = node.input(given)
    return node.emit("Squeeze", name, node.known([0])) if node.rank(given) else name


@expander("ExpandDims", domain=CONTRIB)
def expand_dims(node: Expansion) -> None:
    """A new axis of size 1; a negative one is counted from the end of the result."""
    axis = node.require_constant("axis", "the axis")
    node.emit("Unsqueeze", node.input("X"), node.known([int(axis.ravel()[0])]), to=node.output())


@expander("Pad", domain=CONTRIB)
def pad(node: Expansion) -> None:
    """ONNX's Pad, whose amounts may lie in a matrix of one row and whose value in a tensor of one element."""
    pads = node.input("pads")
    if node.rank("pads") == 2:
        pads = node.emit("Squeeze", pads, node.known([0]))
    value = _scalar(node, "value") if node.has("value") else ""
    node.emit("Pad", node.input("data"), pads, value, to=node.output(), mode=node.attribute("mode"))


@expander("BiasSoftmax", domain=CONTRIB)
def bias_softmax(node: Expansion) -> None:
    """Softmax of a sum over all axes from ``axis`` on.

    The bias is repeated along leading axes where ``is_inner_broadcast`` is 0, else within the batch: each of its parts
    serves several consecutive ones of the data.
    """
    bias, dims = node.input("bias"), node.dims("data")
    own = node.dims("bias")
    axis = node.axis()
    if node.attribute("is_inner_broadcast") and len(own) != len(dims):
        raise UnsupportedCase("a bias that is repeated inside the batch and has fewer axes than the data")
    total = node.emit("Add", node.input("data"), bias)
    if axis == len(dims) - 1:
        node.emit("Softmax", total, to=node.output(), axis=-1)
        return
    flat = node.emit("Softmax", node.emit("Flatten", total, axis=axis), axis=-1)
    node.emit("Reshape", flat, node.emit("Shape", node.input("data")), to=node.output())


@expander("NhwcMaxPool", domain=CONTRIB)
def nhwc_max_pool(node: Expansion) -> None:
    """MaxPool of images with the channels last."""
    rank = node.rank("x")
    first = node.channels_first(node.input("x"), rank)
    attributes = node.attributes("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    node.channels_last(node.emit("MaxPool", first, **attributes), rank, to=node.output())


@expander("Unique", domain=CONTRIB)
def unique(node: Expansion) -> None:
    """The elements in the order of their first appearance, the index of each one among them, and their counts."""
    values = node.output(0) or node.fresh("values")
    node.emit_several("Unique", [values, "", node.output(1), node.output(2)], node.input("x"), sorted=0)


@expander("GridSample", domain=CONTRIB)
def grid_sample(node: Expansion) -> None:
    """ONNX's GridSample under older names of its modes."""
    attributes = {"mode": grid_mode(node), "padding_mode": node.attribute("padding_mode"),
                  "align_corners": node.attribute("align_corners")}
    node.emit("GridSample", node.input("X"), node.input("Grid"), to=node.output(), **attributes)


@expander("NhwcConv", domain=CONTRIB)
def nhwc_conv(node: Expansion) -> None:
    """Conv of images with the channels last, also in the weight."""
    rank = node.rank("X")
    attributes = node.attributes("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    given = [node.channels_first(node.input(position), rank) for position in (0, 1)]
    node.channels_last(node.emit("Conv", *given, node.input("B"), **attributes), rank, to=node.output())


@expander("UnfoldTensor", domain=CONTRIB)
def unfold(node: Expansion) -> None:
    """All windows along an axis, each as a new last axis."""
    rank, axis = node.rank("input"), node.axis("dim")
    size, step = int(node.attribute("size")), int(node.attribute("step"))
    length = node.length(node.input("input"), axis)
    starts = node.emit("Range", node.known(0), node.emit("Sub", length, node.known(size - 1)), node.known(step))
    places = node.emit("Add", node.unsqueeze(starts, 1), node.known([list(range(size))]))
    windows = node.emit("Gather", node.input("input"), places, axis=axis)  # the windows' elements after their numbers
    perm = (*range(axis + 1), *range(axis + 2, rank + 1), axis + 1)
    node.emit("Transpose", windows, to=node.output(), perm=perm)


@expander("IsAllFinite", domain=CONTRIB)
def is_all_finite(node: Expansion) -> None:
    """Whether no element of any input is infinite or no number."""
    found = []
    for position in range(node.input_count):
        flat = node.reshape(node.input(position), -1)
        tests = [node.emit("IsNaN", flat)] if not node.attribute("isinf_only") else []
        tests += [node.emit("IsInf", flat)] if not node.attribute("isnan_only") else []
        found += [node.emit("ReduceSum", node.cast(test, "int32"), node.known([0]), keepdims=0) for test in tests]
    node.emit("Equal", node.emit("Max", *found), node.known(0, "int32"), to=node.output())


@expander("TorchEmbedding", domain=CONTRIB)
def torch_embedding(node: Expansion) -> None:
    """Rows of a table; what else is given concerns gradients only."""
    node.emit("Gather", node.input("weight"), node.input("indices"), axis=0, to=node.output())


@expander("SampleOp", domain=CONTRIB)
def sample(node: Expansion) -> None:
    """The input, unchanged: onnxruntime's example of an operator."""
    node.give(node.input("X"))
