"""Layer normalizations of onnxruntime's optimisers: simplified, behind a sum, and over embeddings."""

from __future__ import annotations

from onnx_systemds.contrib_schemas import CONTRIB
from onnx_systemds.dims import product
from onnx_systemds.importing.expansion import Expansion
from onnx_systemds.importing.facts import NodeFacts
from onnx_systemds.importing.fragment import Fragment
from onnx_systemds.importing.node_view import NodeView
from onnx_systemds.importing.values import Value
from onnx_systemds.layout import View
from onnx_systemds.numbers import literal
from onnx_systemds.operator_generators.normalization import layer_normalization_rule, trailing_operand
from onnx_systemds.operator_generators.registry import expander, generator, shape_rule


@shape_rule("SimplifiedLayerNormalization")
def simplified_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The output is like the input; the statistic keeps the axes before ``axis``."""
    return layer_normalization_rule(node)[:2]


@generator("SimplifiedLayerNormalization", since=1)
def simplified_layer_normalization(node: NodeView) -> Fragment:
    """The input over the root of its mean square over the axes from ``axis`` on, times scale.

    It stands in ONNX's domain without being an operator of ONNX, in any opset; RMSNormalization came after it.
    """
    dims = node.dims(0)
    axis = node.axis()
    view = View(product(dims[:axis]), product(dims[axis:]))
    x, root = node.view(0, view), node.temporary("root")
    before = [f"{root} = sqrt(rowMeans({x}^2) + {literal(node.attribute('epsilon'))})"]
    fragment = node.result(f"{x} / {root} * {trailing_operand(node, 1, dims, axis)}", view, before=before)
    return fragment + node.result(f"1 / {root}", View(view.rows, 1), 1)


def _skipped(node: Expansion, bias: int) -> str:
    """The sum of input, skipped input and bias, which is an output of its own, too."""
    total = node.output(3)
    if node.has(bias):
        biased = node.emit("Add", node.input(0), node.input(bias))
        return node.emit("Add", biased, node.input(1), to=total)
    return node.emit("Add", node.input(0), node.input(1), to=total)


@expander("SkipLayerNormalization", domain=CONTRIB)
def skip_layer_normalization(node: Expansion) -> None:
    """LayerNormalization of a sum; without a beta nothing is added."""
    total = _skipped(node, 4)
    outputs = [node.output(0) or node.fresh("normalized"), node.output(1), node.output(2)]
    node.emit_several(
        "LayerNormalization", outputs, total, node.input(2), node.input(3), axis=-1, epsilon=node.attribute("epsilon")
    )


@expander("SkipSimplifiedLayerNormalization", domain=CONTRIB)
def skip_simplified_layer_normalization(node: Expansion) -> None:
    """SimplifiedLayerNormalization of a sum. The mean is not part of it, but an output."""
    total = _skipped(node, 3)
    if node.output(1):
        node.emit("ReduceMean", total, node.known([-1]), to=node.output(1), keepdims=1)
    outputs = [node.output(0) or node.fresh("normalized"), node.output(2)]
    node.emit_several(
        "SimplifiedLayerNormalization", outputs, total, node.input(2), axis=-1, epsilon=node.attribute("epsilon")
    )


@expander("EmbedLayerNormalization", domain=CONTRIB)
def embed_layer_normalization(node: Expansion) -> None:
    """LayerNormalization of the sum of the embeddings of words, positions and segments.

    The second output counts the ones of each row of the mask; it is zeros without a mask.
    """
    total = node.emit("Gather", node.input(2), node.input(0), axis=0)
    shape = node.emit("Shape", node.input(0))
    if node.has(8):
        positions = node.emit("Gather", node.input(3), node.input(8), axis=0)
    else:
        length = node.emit("Slice", shape, node.known([1]), node.known([2]), node.known([0]))
        positions = node.emit("Slice", node.input(3), node.known([0]), length, node.known([0]))
    has_segments = node.has(1)
    total = node.emit("Add", total, positions, to="" if has_segments else node.output(2))
    if has_segments:
        segments = node.emit("Gather", node.input(4), node.input(1), axis=0)
        total = node.emit("Add", total, segments, to=node.output(2))
    node.emit(
        "LayerNormalization", total, node.input(5), node.input(6), to=node.output() or node.fresh("normalized"),
        axis=-1, epsilon=node.attribute("epsilon"),
    )  # fmt: skip
    if node.output(1) and node.has(7):
        ones = node.cast(node.emit("Equal", node.input(7), node.known(1, "int32")), "int32")
        node.emit("ReduceSum", ones, node.known([1]), to=node.output(1), keepdims=0)
    elif node.output(1):
        batch = node.emit("Slice", shape, node.known([0]), node.known([1]), node.known([0]))
        node.emit("Expand", node.known(0, "int32"), batch, to=node.output(1))
