"""Normalizations of onnxruntime: of layers (simplified, after a sum, over embeddings), of groups, gated."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.registry import batch_rule, expander, generator, gradient, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Expansion, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.onnx.normalization import (
    layer_normalization_rule,
    rms_normalization_rule,
    root_mean_square,
    root_mean_square_gradient,
    trailing_operand,
)
from onnx_systemds.operators.support.batch_rules import mixes_from_axis

batch_rule("SimplifiedLayerNormalization")(mixes_from_axis)
gradient("SimplifiedLayerNormalization")(root_mean_square_gradient)


@shape_rule("SimplifiedLayerNormalization")
def simplified_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As RMSNormalization; the statistic keeps the axes before ``axis``."""
    return (*rms_normalization_rule(node), layer_normalization_rule(node)[1])


@generator("SimplifiedLayerNormalization", since=1)
def simplified_layer_normalization(node: NodeView) -> Fragment:
    """The input over the root of its mean square over the axes from ``axis`` on, times scale.

    It stands in ONNX's domain without being an operator of ONNX, in any opset; RMSNormalization came after it.
    """
    dims = node.dims("X")
    axis = node.axis()
    view = split_view(dims, axis)
    x = node.view("X", view)
    root = node.named("root", root_mean_square(node, x, view.cols))
    fragment = node.result(f"{x} / {root} * {trailing_operand(node, 1, dims, axis)}", view)
    return fragment + node.result(f"1 / {root}", View(view.rows, 1), 1)


def _skipped(node: Expansion, bias: int) -> str:
    """The sum of input, skipped input and bias, which is an output of its own, too."""
    total = node.output(3)
    if node.has(bias):
        biased = node.emit("Add", node.input("input"), node.input(bias))
        return node.emit("Add", biased, node.input("skip"), to=total)
    return node.emit("Add", node.input("input"), node.input("skip"), to=total)


@expander("SkipLayerNormalization", domain=CONTRIB)
def skip_layer_normalization(node: Expansion) -> None:
    """LayerNormalization of a sum; without a beta nothing is added."""
    total = _skipped(node, 4)
    outputs = [node.output(0) or node.fresh("normalized"), node.output(1), node.output(2)]
    node.emit_several(
        "LayerNormalization", outputs, total, node.input("gamma"), node.input("beta"),
        axis=-1, epsilon=node.attribute("epsilon"),
    )


@expander("SkipSimplifiedLayerNormalization", domain=CONTRIB)
def skip_simplified_layer_normalization(node: Expansion) -> None:
    """SimplifiedLayerNormalization of a sum. The mean is not part of it, but an output."""
    total = _skipped(node, 3)
    if node.output(1):
        node.emit("ReduceMean", total, node.known([-1]), to=node.output(1), keepdims=1)
    outputs = [node.output(0) or node.fresh("normalized"), node.output(2)]
    node.emit_several(
        "SimplifiedLayerNormalization", outputs, total, node.input("gamma"), axis=-1, epsilon=node.attribute("epsilon")
    )


@expander("EmbedLayerNormalization", domain=CONTRIB)
def embed_layer_normalization(node: Expansion) -> None:
    """LayerNormalization of the sum of the embeddings of words, positions and segments.

    The second output counts the ones of each row of the mask; it is zeros without a mask.
    """
    for given in (1, 7):  # segments and mask are of the same words
        for axis in (0, 1) if node.has(given) else ():
            node.assume_same_size((given, axis), (0, axis))
    total = node.emit("Gather", node.input("word_embedding"), node.input("input_ids"), axis=0)
    shape = node.emit("Shape", node.input("input_ids"))
    if node.has("position_ids"):
        positions = node.emit("Gather", node.input("position_embedding"), node.input("position_ids"), axis=0)
    else:
        length = node.emit("Slice", shape, node.known([1]), node.known([2]), node.known([0]))
        positions = node.emit("Slice", node.input("position_embedding"), node.known([0]), length, node.known([0]))
    has_segments = node.has("segment_ids")
    total = node.emit("Add", total, positions, to="" if has_segments else node.output(2))
    if has_segments:
        segments = node.emit("Gather", node.input("segment_embedding"), node.input("segment_ids"), axis=0)
        total = node.emit("Add", total, segments, to=node.output(2))
    node.emit(
        "LayerNormalization", total, node.input("gamma"), node.input("beta"),
        to=node.output() or node.fresh("normalized"), axis=-1, epsilon=node.attribute("epsilon"),
    )
    if node.output(1) and node.has("mask"):
        ones = node.cast(node.emit("Equal", node.input("mask"), node.known(1, "int32")), "int32")
        node.emit("ReduceSum", ones, node.known([1]), to=node.output(1), keepdims=0)
    elif node.output(1):
        batch = node.emit("Slice", shape, node.known([0]), node.known([1]), node.known([0]))
        node.emit("Expand", node.known(0, "int32"), batch, to=node.output(1))


# --- by groups -----------------------------------------------------------------------------------------------------


def _by_groups(node: Expansion, x: str, rank: int) -> None:
    """Normalization over groups of channels, which lie last where ``channels_last``; SiLU after it where asked for.

    In the type of the scale, which may be wider than that of the images.
    """
    last, dtype, wide = bool(node.attribute("channels_last")), node.dtype("X"), node.dtype("gamma")
    if wide != dtype:
        x = node.cast(x, wide)
    if last:
        x = node.channels_first(x, rank)
    y = node.emit("GroupNormalization", x, node.input("gamma"), node.input("beta"),
                  num_groups=int(node.attribute("groups")), epsilon=node.attribute("epsilon"))
    if node.attribute("activation"):
        y = node.silu(y)
    if wide != dtype:
        y = node.cast(y, dtype)
    if last:
        node.channels_last(y, rank, to=node.output())
    else:
        node.give(y)


@expander("GroupNorm", domain=CONTRIB)
def group_norm(node: Expansion) -> None:
    """GroupNormalization of images in either layout."""
    _by_groups(node, node.input("X"), node.rank("X"))


@expander("SkipGroupNorm", domain=CONTRIB)
def skip_group_norm(node: Expansion) -> None:
    """GroupNormalization of a sum, which is an output, too; what is skipped may have one number per channel.

    Raises UnsupportedCase where it has them last and the images do not.
    """
    rank, skip = node.rank("X"), node.input("skip")
    after = range(1, rank - 1) if node.attribute("channels_last") else range(2, rank)
    if node.rank("skip") == 2:
        skip = node.unsqueeze(skip, *after)
    elif not node.attribute("channels_last") and any(
        1 in pair and pair != (1, 1) for pair in zip(node.dims("X"), node.dims("skip"))
    ):
        raise UnsupportedCase("what is skipped has other dims than images whose channels come first")
    bias = node.input("bias")
    if bias and not node.attribute("channels_last"):
        bias = node.unsqueeze(bias, *range(1, rank - 1))
    total = node.emit("Add", node.input("X"), skip, to="" if bias else node.output(1))
    if bias:
        total = node.emit("Add", total, bias, to=node.output(1))
    _by_groups(node, total, rank)


@expander("GatedRMSNorm", domain=CONTRIB)
def gated_rms_norm(node: Expansion) -> None:
    """Each run of as many elements as the scale has over the root of its mean square, times the activated gate."""
    size = node.known_dims("scale", "the scale")[0]
    shape = node.emit("Shape", node.input("X"))
    rows = node.reshape(node.input("X"), -1, size)
    epsilon = node.attribute("epsilon")
    normal = node.emit("SimplifiedLayerNormalization", rows, node.input("scale"), axis=-1, epsilon=epsilon)
    given = node.input("gate")
    gate = node.emit("Sigmoid", given) if node.attribute("activation") == "sigmoid" else node.silu(given)
    node.emit("Mul", node.emit("Reshape", normal, shape), gate, to=node.output())


@expander("BranchwiseRMSNorm", domain=CONTRIB)
def branchwise_rms_norm(node: Expansion) -> None:
    """Each branch over the root of its mean square; branches are the last but one axis, or parts of the last one."""
    count = int(node.attribute("num_branches"))
    x = node.input("X")
    if count:
        x = node.reshape(x, *[0] * (node.rank("X") - 1), count, -1)
    y = node.over_root_mean_square(x)
    if node.has("scale"):
        scale = node.input("scale")
        branches, size = count or node.dims("X")[-2], node.dims("scale")[-1]
        if node.rank("scale") == 1 and isinstance(branches, int) and _size_of_branch(node, count) != size:
            scale = node.reshape(scale, branches, -1)
        y = node.emit("Mul", y, scale)
    node.emit("Reshape", y, node.emit("Shape", node.input("X")), to=node.output())


def _size_of_branch(node: Expansion, count: int) -> Dim:
    last = node.dims("X")[-1]
    return last // count if count else last
