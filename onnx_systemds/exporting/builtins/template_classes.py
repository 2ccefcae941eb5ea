"""The classes that scores of converted models give: classifiers, and positions from the end."""

from __future__ import annotations

from onnx_systemds.exporting.builtins.api import INT, Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.graph.nodes import Array, Node, made_by, pairs
from onnx_systemds.model.ir import ML

_FEWEST_CLASSES = 2


@template_function("top_class")
def top_class(ctx: Context, X: Matrix) -> Value | None:
    """The index (from 0) of the largest score; a LinearClassifier gives it if the weights are known."""
    scores = X.tensor
    found = _linear(scores)
    if found is None or ctx.g.dtype == "float64" or scores.node is None or scores.node.scope is not ctx.g.scope:
        return None
    data, weights, offsets = found
    classes = weights.shape[1]
    if classes < _FEWEST_CLASSES or scores.dims != X.dims:
        return None
    label = _classifying(scores.node, data, weights, offsets)
    return ctx.matrix(ctx.g.floating(ctx.g.reshape(label, (X.rows, 1))))


def _linear(scores: Tensor) -> tuple[Tensor, Array, Array] | None:
    """Return what scores are made of: data, known weights and offsets; None for others."""
    for product, row in pairs(made_by(scores, "Add")):
        made = made_by(product, "MatMul")
        if made is None or row.constant is None:
            continue
        data, weights = made.operand(0), made.operand(1)
        if weights.constant is None or weights.constant.ndim != data.rank:
            continue
        if data.rank == 2 and row.constant.shape == (1, weights.constant.shape[1]):
            return data, weights.constant, row.constant.ravel()
    return None


def _classifying(node: Node, data: Tensor, weights: Array, offsets: Array) -> Tensor:
    """Let the node that makes scores be a classifier, which gives them and, what is returned, the labels."""
    label = Tensor(INT, (data.dims[0],))
    label.node = node
    node.op, node.inputs, node.outputs = "LinearClassifier", (data,), (label, *node.outputs)
    node.attributes = {
        "coefficients": tuple(weights.T.ravel().tolist()), "intercepts": tuple(offsets.tolist()),
        "classlabels_ints": tuple(range(weights.shape[1])), "post_transform": "NONE", "_domain": ML,
    }
    return label


@template_function("gather_index")
def gather_index(ctx: Context, I: Matrix, size: int) -> Value:  # noqa: E741 - its name
    """Positions from 1; negative ones count from the end. Positions outside are refused where they are used."""
    g, places = ctx.g, ctx.floats(I)
    turned = g.where(places < 0.0, places + float(size), places)
    return Matrix(turned + 1.0, I.rows, I.cols)
