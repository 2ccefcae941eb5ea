"""SVMRegressor and SVMClassifier of ai.onnx.ml, as onnxruntime computes them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.model.ir import ML
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.ml.class_labels import Labels, class_labels, label_result, labels_dtype
from onnx_systemds.operators.ml.feature_scaling import row_operand, sample_count
from onnx_systemds.operators.ml.linear_models import linear_scores, sample_rows
from onnx_systemds.operators.ml.post_transforms import COMPLEMENT, MIRRORED, transformed_scores
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.products import single_product

batch_rule("SVMClassifier", "SVMRegressor", domain=ML)(mixes_all_but_first)

Floats = np.ndarray[Any, np.dtype[np.float64]]


def _numbers(node: NodeFacts, name: str) -> Floats:
    return np.asarray(node.attribute(name) or (), np.float64)


def _kernel(node: NodeView, vectors: Floats) -> str:
    """The kernel of each sample with each support vector (a row of ``vectors``)."""
    gamma, coef0, degree = (node.attribute("kernel_params") or (0.0, 0.0, 0.0))[:3]
    kind = node.attribute("kernel_type")
    x = sample_rows(node, vectors.shape[1])
    if kind == "RBF":  # infinite features are as far as none: of them the three terms below would be NaN
        x = node.named("bounded", f"max(min({x}, 1.0E150), -1.0E150)" if gamma else x)
    named = node.constant_matrix(np.ascontiguousarray(vectors.T), "vectors")
    products = single_product(node, x, named, (sample_count(node.dims("X")), *vectors.T.shape))
    if kind == "LINEAR":
        return products
    if kind == "RBF":
        squares = row_operand(node, [float(square) for square in (vectors**2).sum(axis=1)], "squares")
        distances = node.named("distances", f"max(({products}) * (-2) + rowSums({x}^2) + {squares}, 0)")
        return f"exp({_times(distances, -gamma)})"
    scaled = f"{_times(products, gamma)} + {literal(coef0)}"
    if kind == "POLY":  # of zeros the engine's negative powers are zeros
        return f"({scaled})^{literal(degree)}" if degree >= 0 else f"1 / ({scaled})^{literal(-degree)}"
    if kind == "SIGMOID":
        return f"tanh({scaled})"
    raise UnsupportedCase(f"the kernel {quoted(str(kind))} is unknown")


def _times(text: str, gamma: float) -> str:
    """A matrix times a number: for the engine 0 times NaN or an infinity is 0."""
    return f"({text}) * {literal(gamma)}" if gamma else f"(0 / abs(1 / ({text})))"


# --- SVMRegressor ----------------------------------------------------------------------------------------------


@shape_rule("SVMRegressor", domain=ML)
def svm_regressor_rule(node: NodeFacts) -> tuple[Value, ...]:
    """One column."""
    return (node.tensor((sample_count(node.dims("X")), 1), "float"),)


@generator("SVMRegressor", since=1, domain=ML)
def svm_regressor(node: NodeView) -> Fragment:
    """A weighted sum of kernels, or without support vectors a linear function; its sign for one class.

    The attribute post_transform means nothing to onnxruntime.
    """
    count, rho = int(node.attribute("n_supports")), _numbers(node, "rho")[:1]
    if count > 0:
        kernel = _kernel(node, _vectors(node, count))
        weights = _numbers(node, "coefficients")[:count].reshape(-1, 1)
        text = f"({kernel}) %*% {node.constant_matrix(weights, 'weights')}{_plus(node, rho)}"
    else:
        text = linear_scores(node, 1, tuple(rho))
    if node.attribute("one_class"):
        text = f"2 * ({text} > 0) - 1"
    return node.matrix_result(text, 1)


def _plus(node: NodeView, rho: Floats) -> str:
    return f" + {row_operand(node, rho.tolist(), 'rho')}" if rho.size and rho.any() else ""


def _vectors(node: NodeFacts, count: int) -> Floats:
    vectors = _numbers(node, "support_vectors")
    if not vectors.size or vectors.size % count:
        raise UnsupportedCase(f"{vectors.size} numbers for {count} support vectors")
    return vectors.reshape(count, -1)


# --- SVMClassifier ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Machine:
    """What the attributes say. counts: support vectors by class, () in linear mode; pairs: of classes that compete."""

    labels: Labels
    counts: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    probabilities: bool
    transform: str

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def score_columns(self) -> int:
        """Columns of the second output."""
        if not self.counts or self.probabilities:
            return self.classes
        return 2 if self.classes == 2 else len(self.pairs)


def _machine(node: NodeFacts) -> _Machine:
    labels = class_labels(node)
    counts = tuple(int(count) for count in node.attribute("vectors_per_class") or ())
    if not sum(counts):
        counts = ()
    elif len(counts) != len(labels) or len(labels) < 2:
        raise UnsupportedCase(f"support vectors of {len(counts)} classes for {len(labels)} labels")
    pairs = tuple(combinations(range(len(labels)), 2))
    return _Machine(labels, counts, pairs, bool(node.attribute("prob_a")), str(node.attribute("post_transform")))


@shape_rule("SVMClassifier", domain=ML)
def svm_classifier_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A label per sample, and its scores: by class, or by pair of classes where there are no probabilities."""
    machine, rows = _machine(node), sample_count(node.dims("X"))
    return (node.tensor((rows,), labels_dtype(machine.labels)), node.tensor((rows, machine.score_columns), "float"))


@generator("SVMClassifier", since=1, domain=ML)
def svm_classifier(node: NodeView) -> Fragment:
    """Votes of the pairs of classes decide on the label; without support vectors linear scores do."""
    machine, rows = _machine(node), sample_count(node.dims("X"))
    return _pairwise(node, machine, rows) if machine.counts else _linear(node, machine, rows)


def _linear(node: NodeView, machine: _Machine, rows: Dim) -> Fragment:
    """Linear scores with the first rho for all of them."""
    raw = node.named("raw", linear_scores(node, machine.classes, tuple(_numbers(node, "rho")[:1])))
    result = label_result(node, _linear_label(node, machine, raw, rows), machine.labels, rows)
    if not node.wants(1):
        return result
    return result + node.matrix_result(transformed_scores(node, raw, machine.classes, machine.transform), 1, 1)


def _linear_label(node: NodeView, machine: _Machine, raw: str, rows: Dim) -> str:
    """The first largest score; of two classes the second one as soon as any score is beyond the threshold."""
    if machine.classes == 1:
        return node.filled(0, View(rows, 1))
    top = node.call("top_class", raw)
    if machine.classes > 2 or machine.probabilities:
        return top
    all_positive = bool((_numbers(node, "coefficients") >= 0).all())
    return f"max({top}, rowMaxs({raw}) {'>= 0.5' if all_positive else '> 0'})"


def _pairwise(node: NodeView, machine: _Machine, rows: Dim) -> Fragment:
    """A score for each pair of classes, from the kernels with the support vectors of these two."""
    kernel = _kernel(node, _vectors(node, sum(machine.counts)))
    weights = _pair_weights(node, machine)
    named = node.constant_matrix(weights, "weights")
    rho = _numbers(node, "rho")[: len(machine.pairs)]
    scores = single_product(node, f"({kernel})", named, (rows, *weights.shape))
    raw = node.named("raw", f"{scores}{_plus(node, rho)}")
    result = label_result(node, _voted(node, machine, raw), machine.labels, rows)
    if not node.wants(1):
        return result
    if machine.probabilities:
        text = _probabilities(node, machine, raw)
    elif machine.classes == 2:
        second_class = MIRRORED if machine.transform == "NONE" else COMPLEMENT
        text = transformed_scores(node, raw, 1, machine.transform, second_class)
    else:
        text = transformed_scores(node, raw, len(machine.pairs), machine.transform)
    return result + node.matrix_result(text, 1, 1)


def _pair_weights(node: NodeFacts, machine: _Machine) -> Floats:
    """A column for each pair: the coefficients of one's support vectors against the other, and 0 for all others."""
    total = sum(machine.counts)
    coefficients = _numbers(node, "coefficients")[: (machine.classes - 1) * total].reshape(machine.classes - 1, total)
    ends = np.cumsum(machine.counts)
    weights = np.zeros((total, len(machine.pairs)))
    for column, (first, second) in enumerate(machine.pairs):
        for own, row in ((first, second - 1), (second, first)):
            vectors = slice(ends[own] - machine.counts[own], ends[own])
            weights[vectors, column] = coefficients[row, vectors]
    return weights


def _voted(node: NodeView, machine: _Machine, raw: str) -> str:
    """A positive score of a pair is a vote for its first class, else for the second; the first of equals wins."""
    if machine.classes == 2:
        return f"1 - ({raw} > 0)"
    change = np.zeros((len(machine.pairs), machine.classes))
    base = np.zeros(machine.classes)
    for row, (first, second) in enumerate(machine.pairs):
        change[row, first], change[row, second] = 1, -1
        base[second] += 1
    votes = f"({raw} > 0) %*% {node.constant_matrix(change, 'votes')} + {row_operand(node, base.tolist(), 'base')}"
    return node.call("top_class", votes)


def _probabilities(node: NodeView, machine: _Machine, raw: str) -> str:
    """Sigmoids of the pairs' scores, coupled to probabilities of the classes (Wu, Lin and Weng, second method)."""
    pairs, classes = len(machine.pairs), machine.classes
    slope, shift = _numbers(node, "prob_a")[:pairs], _numbers(node, "prob_b")[:pairs]
    wins = np.zeros((pairs, classes * classes))  # row-major matrix of the classes: who wins against whom
    offset = np.zeros(classes * classes)
    for row, (first, second) in enumerate(machine.pairs):
        wins[row, first * classes + second], wins[row, second * classes + first] = 1, -1
        offset[second * classes + first] = 1
    scaled = f"{raw} * {row_operand(node, slope.tolist(), 'slope')} + {row_operand(node, shift.tolist(), 'shift')}"
    won = node.named("won", f"min(max(1 / (1 + exp({scaled})), 1.0E-7), 0.9999999)")
    table = f"{won} %*% {node.constant_matrix(wins, 'wins')} + {row_operand(node, offset.tolist(), 'offset')}"
    coupled = node.named("coupled", node.call("coupled_probabilities", table, classes))
    return transformed_scores(node, coupled, classes, machine.transform)
