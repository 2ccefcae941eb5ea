"""TreeEnsembleClassifier: scores of classes, and from them the label.

ONNX leaves open what two classes are given by; it is onnxruntime's to say, above all where the leaves hold weights of
one class only. A score *is there* when a leaf that the row reaches has a weight for the class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import plus
from onnx_systemds.engine.safe_forms import counted
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.model.ir import ML, Array
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.ml.class_labels import Labels, class_labels, label_result, labels_dtype
from onnx_systemds.operators.ml.feature_scaling import data_view
from onnx_systemds.operators.ml.post_transforms import COMPLEMENT, MIRRORED, transformed_scores
from onnx_systemds.operators.ml.trees import count_rows, walk, walked, with_base
from onnx_systemds.operators.onnx.casting import single_text
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.ensembles import (
    ALWAYS,
    NEVER,
    SOMETIMES,
    Ensemble,
    base_values,
    listed_ensemble,
    target_presence,
)
from onnx_systemds.operators.support.tree_tables import leaf_presence, leaf_weights

batch_rule("TreeEnsembleClassifier", domain=ML)(mixes_all_but_first)


def _labels(node: NodeFacts) -> Labels:
    """The labels in the order of the classes. Raises UnsupportedCase when there are none."""
    labels = class_labels(node, "classlabels_int64s")
    if not labels:
        raise UnsupportedCase("there are no class labels")
    return labels


@shape_rule("TreeEnsembleClassifier", domain=ML)
def classifier_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A label per row, and a row of scores with a column per class."""
    labels = _labels(node)
    rows = count_rows(node)
    return node.tensor((rows,), labels_dtype(labels)), node.tensor((rows, len(labels)), "float")


@generator("TreeEnsembleClassifier", since=(1, 3), domain=ML)
def tree_ensemble_classifier(node: NodeView) -> Fragment:
    """Sums of the weights by class, and the label; version 3 added thresholds and weights of type double."""
    attributes = node.node.attributes
    labels = _labels(node)
    ensemble = listed_ensemble(attributes, "class", len(labels))
    base = base_values(attributes)
    if base.size not in ((0, len(labels)) if len(labels) > 2 else (0, 1, len(labels))):
        raise UnsupportedCase(f"there are {base.size} base values for {len(labels)} classes")
    sums = _sums(node, ensemble, base)
    transform = node.attribute("post_transform")
    if len(labels) == 1:
        scored = _one_class(node, sums, transform)
    elif len(labels) == 2:
        scored = _two_classes(node, sums, transform, ensemble)
    else:
        scored = _many_classes(node, sums, transform)
    rows = data_view(node).rows
    return _label_output(node, scored) + node.result(scored.scores, View(rows, len(labels)), 1)


@dataclass(frozen=True)
class _Sums:
    """The matrix ``name`` with the sums of weights, a column per class, and whether each score is there.

    presence: by class. there: by class, the 0/1 column that says so, where only the run knows it. base: base values.
    """

    name: str
    presence: list[int]
    there: dict[int, str]
    base: Array


@dataclass(frozen=True)
class _Scored:
    """The texts of the final scores and of the number of each row's class."""

    scores: str
    index: str
    direct: bool = False  # see `_label_output`


def _sums(node: NodeView, ensemble: Ensemble, base: Array) -> _Sums:
    found = walk(node, ensemble)
    presence = target_presence(ensemble)
    open_ones = [target for target, state in enumerate(presence) if state == SOMETIMES]
    weights = leaf_weights(ensemble, found.tables)
    if open_ones:
        weights = np.hstack([weights, leaf_presence(ensemble, found.tables)[:, open_ones]])
    name, classes = node.named("sums", walked(node, found, weights, "sum")), ensemble.targets
    there = {target: node.named(f"has{target}", f"{name}[, {place}] > 0")
             for place, target in enumerate(open_ones, classes + 1)}
    if open_ones:
        node.write(f"{name} = {name}[, 1:{classes}]")
    return _Sums(name, presence, there, base)


def _rounded(node: NodeView, text: str) -> str:
    """Scores as onnxruntime has them, so that ties are ties: floats, unless the data are doubles."""
    return text if node.dtype("X") == "double" else single_text(node, text)


def _label_output(node: NodeView, scored: _Scored) -> Fragment:
    """The labels of classes by their number; ``direct``: the number itself is the label of an integer type."""
    labels = _labels(node)
    rows = data_view(node).rows
    if labels_dtype(labels) == "string":
        return label_result(node, scored.index, labels, rows)
    if scored.direct or labels == tuple(range(len(labels))):
        return node.result(scored.index, View(rows, 1))
    column = np.array(labels, dtype=np.float64).reshape(-1, 1)
    if len(labels) == 2:
        first, second = (float(label) for label in column.ravel())
        return node.result(f"{literal(first)} + {literal(second - first)} * ({scored.index})", View(rows, 1))
    table = node.constant_matrix(column, "labels")
    count = node.dim(rows)
    text = f"table(seq(1, {count}), {scored.index} + 1, {count}, {len(labels)}) %*% {table}"
    return node.result(text, View(rows, 1))


# --- one class, and three or more --------------------------------------------------------------------------------


def _one_class(node: NodeView, sums: _Sums, transform: str) -> _Scored:
    """The label is 1 or 0, whatever the class is called."""
    if labels_dtype(_labels(node)) == "string":
        raise UnsupportedCase("a single class with a text for a label")
    scores = node.named("scores", _rounded(node, with_base(node, sums.name, sums.base)))
    return _Scored(transformed_scores(node, scores, 1, transform), f"({scores} > 0)", direct=True)


def _many_classes(node: NodeView, sums: _Sums, transform: str) -> _Scored:
    """The first class with the largest score, of those that are there; base values make all of them be there."""
    classes = len(sums.presence)
    compared = scores = node.named("scores", _rounded(node, with_base(node, sums.name, sums.base)))
    if not sums.base.size and any(state != ALWAYS for state in sums.presence):
        columns = []
        for target, state in enumerate(sums.presence):
            constant = f"matrix({int(state == ALWAYS)}, rows=nrow({scores}), cols=1)"
            columns.append(sums.there.get(target, constant))
        lowest = node.filled("-Inf", View(data_view(node).rows, classes))
        compared = node.named("compared", f"ifelse(cbind({', '.join(columns)}) > 0, {scores}, {lowest})")
    return _Scored(transformed_scores(node, scores, classes, transform), node.call("row_arg_max", compared))


# --- two classes -----------------------------------------------------------------------------------------------


def _two_classes(node: NodeView, sums: _Sums, transform: str, ensemble: Ensemble) -> _Scored:
    """By whether there is a score of the second class; without it the first one's stands for the second class."""
    used = np.unique(ensemble.weight_targets)
    if not len(used):
        raise UnsupportedCase("there are no weights")
    binary = len(used) == 1
    positive = not (ensemble.weight_values < 0).any()
    second = sums.presence[1]
    results, decisive = [], []
    for there in (True, False):
        if second == (NEVER if there else ALWAYS):
            continue
        if there:
            scores = _both_scores(node, sums)
        else:
            if sums.base.size == 1 and not binary:
                raise UnsupportedCase("one base value, and rows without a score of the second class")
            scores = _first_score(node, sums)
        columns = 1 if not there and sums.base.size < 2 else 2
        mode = COMPLEMENT if binary and positive and transform != "LOGISTIC" else MIRRORED
        results.append(transformed_scores(node, scores, columns, transform, mode))
        decisive.append(f"{scores}[, {2 if there else 1}]" if columns == 2 else scores)
    limit = "0.5" if binary and positive else "0"
    if len(results) == 1:
        return _Scored(results[0], f"({decisive[0]} > {limit})", direct=not binary)
    there_column = sums.there[1]
    both = [node.named(hint, text) for hint, text in zip(("two", "one"), results)]
    scores = counted(f"ifelse(cbind({there_column}, {there_column}), {both[0]}, {both[1]})")
    index = f"(ifelse({there_column}, {decisive[0]}, {decisive[1]}) > {limit})"
    return _Scored(scores, index, direct=not binary)


def _masked(sums: _Sums, text: str) -> str:
    """The first score with its base value, 0 where the score is not there."""
    if sums.presence[0] == NEVER:
        return f"0 * {sums.name}[, 1]"
    return f"({text}) * {sums.there[0]}" if 0 in sums.there else text


def _first_score(node: NodeView, sums: _Sums) -> str:
    """Rows without a score of the second class: the first class's score, with two base values a 0 beside it."""
    text = first = f"{sums.name}[, 1]"
    if sums.base.size:
        text = _masked(sums, plus(first, literal(float(sums.base[0]))))
    text = _rounded(node, text)
    if sums.base.size == 2:
        text = f"cbind({text}, matrix(0, rows=nrow({sums.name}), cols=1))"
    return node.named("first", text)


def _both_scores(node: NodeView, sums: _Sums) -> str:
    """Rows with a score of the second class. With two base values the first class's sum replaces it."""
    first, second = f"{sums.name}[, 1]", f"{sums.name}[, 2]"
    if not sums.base.size:
        return node.named("both", _rounded(node, sums.name))
    if sums.base.size == 1:
        text = _masked(sums, plus(first, literal(float(sums.base[0]))))
        return node.named("both", _rounded(node, f"cbind({text}, {second})"))
    shifted = node.named("shifted", _rounded(node, plus(first, literal(float(sums.base[1])))))
    return node.named("both", f"cbind({_masked(sums, f'-{shifted}')}, {shifted})")
