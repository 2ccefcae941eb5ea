"""LinearRegressor and LinearClassifier of ai.onnx.ml, as onnxruntime computes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.model.ir import ML
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.ml.class_labels import class_labels, label_result, labels_dtype
from onnx_systemds.operators.ml.feature_scaling import data_view, row_operand, sample_count
from onnx_systemds.operators.ml.post_transforms import COMPLEMENT, NO_SECOND_CLASS, transformed_scores
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.products import single_product

batch_rule("LinearClassifier", "LinearRegressor", domain=ML)(mixes_all_but_first)


def sample_rows(node: NodeView, features: int) -> str:
    """Identifier of the input with a row per sample. Raises UnsupportedCase for another number of features."""
    rows, cols = data_view(node)
    if isinstance(cols, int) and cols != features:
        raise UnsupportedCase(f"a model of {features} features, the input has {cols}")
    return node.view(0, View(rows, features))


def expect_features(node: NodeFacts, columns: int) -> None:
    """Note that the samples have a feature for each coefficient of a column of scores; the script checks it."""
    count = len(node.attribute("coefficients") or ())
    is_open = bool(node.dims("X")) and not isinstance(node.dims("X")[-1], int)
    if is_open and columns > 0 and count and count % columns == 0:
        words = node.axis_words("X", node.rank("X") - 1)
        node.assume_equal(node.dims("X")[-1], count // columns, words, "the number of coefficients")


def linear_scores(node: NodeView, columns: int, intercepts: tuple[float, ...]) -> str:
    """Text of the samples' products with the rows of coefficients, plus the intercepts where there are any."""
    coefficients = np.asarray(node.attribute("coefficients") or (), np.float64)
    if columns < 1 or not coefficients.size or coefficients.size % columns:
        raise UnsupportedCase(f"{coefficients.size} coefficients for {columns} columns of scores")
    weights = coefficients.reshape(columns, -1).T
    x = sample_rows(node, weights.shape[0])
    sizes = (sample_count(node.dims("X")), *weights.shape)
    text = single_product(node, x, node.constant_matrix(np.ascontiguousarray(weights), "weights"), sizes)
    if any(value != 0 for value in intercepts):
        return f"{text} + {row_operand(node, intercepts, 'intercepts')}"
    return text


# --- LinearRegressor -------------------------------------------------------------------------------------------


@shape_rule("LinearRegressor", domain=ML)
def linear_regressor_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A column per target."""
    expect_features(node, int(node.attribute("targets")))
    return (node.tensor((sample_count(node.dims("X")), int(node.attribute("targets"))), "float"),)


@generator("LinearRegressor", since=1, domain=ML)
def linear_regressor(node: NodeView) -> Fragment:
    """Linear functions; intercepts count only where there is one for each target."""
    targets = int(node.attribute("targets"))
    intercepts = tuple(node.attribute("intercepts") or ())
    text = linear_scores(node, targets, intercepts if len(intercepts) == targets else ())
    if node.attribute("post_transform") != "NONE":
        text = transformed_scores(node, node.named("raw", text), targets, node.attribute("post_transform"))
    return node.matrix_result(text, 1)


# --- LinearClassifier ------------------------------------------------------------------------------------------


def _score_columns(node: NodeFacts) -> int:
    """Rows of coefficients: as many as intercepts, or where there are none as fit the features."""
    intercepts = node.attribute("intercepts") or ()
    if intercepts:
        return len(intercepts)
    features = node.dims("X")[-1] if node.dims("X") else 0
    if not isinstance(features, int) or features < 1:
        raise UnsupportedCase("a classifier without intercepts for an unknown number of features")
    return len(node.attribute("coefficients") or ()) // features


@shape_rule("LinearClassifier", domain=ML)
def linear_classifier_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A label per sample, and its scores."""
    labels, columns = class_labels(node), _score_columns(node)
    expect_features(node, columns)
    rows = sample_count(node.dims("X"))
    return (node.tensor((rows,), labels_dtype(labels)), node.tensor((rows, max(columns, 2)), "float"))


@generator("LinearClassifier", since=1, domain=ML)
def linear_classifier(node: NodeView) -> Fragment:
    """The label of the first largest score; of a single score the second label where it is positive.

    A single column gets a second one, which is no mirror image but 1 - score. The attribute multi_class means nothing
    to onnxruntime.
    """
    labels, columns = class_labels(node), _score_columns(node)
    raw = node.named("raw", linear_scores(node, columns, tuple(node.attribute("intercepts") or ())))
    if len(labels) < columns or (columns == 1 and len(labels) != 2):
        raise UnsupportedCase(f"{len(labels)} labels for {columns} columns of scores")
    index = f"{raw} > 0" if columns == 1 else node.call("top_class", raw)
    result = label_result(node, index, labels[:max(columns, 2)], sample_count(node.dims("X")))
    if not node.wants(1):
        return result
    second_class = COMPLEMENT if columns == 1 else NO_SECOND_CLASS
    text = transformed_scores(node, raw, columns, node.attribute("post_transform"), second_class)
    return result + node.matrix_result(text, 1, 1)


# --- derivatives -----------------------------------------------------------------------------------------------


@gradient("LinearRegressor", domain=ML)
def _linear_regressor_gradient(n: Backward) -> Sequence[str]:
    if n.attribute("post_transform") != "NONE" or n.rank(0) != 2:
        raise UnsupportedCase("the derivative of a LinearRegressor with a transformation, or of a vector")
    return [_by_samples(n, n.grad, int(n.attribute("targets")))]


@gradient("LinearClassifier", domain=ML)
def _linear_classifier_gradient(n: Backward) -> Sequence[str]:
    """By the scores, which are the second output: the label has none."""
    columns, kind, grad = _score_columns(n), n.attribute("post_transform"), n.given[1]
    if n.rank(0) != 2 or kind not in ("NONE", "LOGISTIC", "SOFTMAX") or (columns == 1 and kind != "LOGISTIC"):
        raise UnsupportedCase(f"the derivative of a LinearClassifier with {kind} of {columns} columns of scores")
    scores = n.node.outputs[1]
    last = n.known([1])
    if columns == 1:  # 1 - score and score
        grad = n.emit("Sub", *(n.emit("Gather", grad, n.known([place]), axis=1) for place in (1, 0)))
        scores = n.emit("Gather", scores, last, axis=1)
    if kind == "LOGISTIC":
        grad = n.emit("Mul", grad, n.emit("Sub", scores, n.emit("Mul", scores, scores)))
    elif kind == "SOFTMAX":
        weighted = n.total(n.emit("Mul", grad, scores), [1])
        grad = n.emit("Mul", n.emit("Sub", grad, weighted), scores)
    return [_by_samples(n, grad, columns)]


def _by_samples(n: Backward, grad: str, columns: int) -> str:
    """The derivative by the samples from that by sums of their features."""
    coefficients = np.asarray(n.attribute("coefficients"), np.float32).reshape(columns, -1)
    return n.emit("CastLike", n.emit("MatMul", grad, n.known(coefficients, "float")), n.x)
