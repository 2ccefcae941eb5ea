"""Tree ensembles of ai.onnx.ml: regressors, classifiers, and the operator that replaces both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import plus
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.inference.values import FINITE_DTYPES
from onnx_systemds.model.ir import ML, Array
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View, bind
from onnx_systemds.operators.ml.feature_scaling import data_view
from onnx_systemds.operators.ml.post_transforms import TRANSFORMS, transformed_scores
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.ensembles import Ensemble, base_values, listed_ensemble, split_ensemble
from onnx_systemds.operators.support.leaf_scores import leaf_scores
from onnx_systemds.operators.support.products import may_have_few_rows
from onnx_systemds.operators.support.tree_tables import LARGEST, Tables, all_ways, leaf_weights, node_tables

batch_rule("TreeEnsemble", "TreeEnsembleRegressor", domain=ML)(mixes_all_but_first)
_DENSE = 0.4  # of the elements, from which on the engine stores a matrix dense
FUNCTIONS = ("AVERAGE", "SUM", "MIN", "MAX")
"""In the order in which TreeEnsemble numbers them."""


# --- shapes ----------------------------------------------------------------------------------------------------


def count_rows(node: NodeFacts) -> Dim:
    """Rows of the data, which have the features that nodes test."""
    view = data_view(node)
    if not isinstance(view.cols, int):
        features: Any = node.attribute("nodes_featureids") or ()
        modes: Any = node.attribute("nodes_modes")
        if node.node.op_type == "TreeEnsemble" or modes is None:  # whose nodes are no leaves
            modes = [""] * len(features)
        tested = [int(feature) for feature, mode in zip(features, modes) if mode != "LEAF"]
        node.assume(view.cols, Relation.AT_LEAST, max(tested, default=0) + 1, "the number of features")
    return view.rows


@shape_rule("TreeEnsembleRegressor", domain=ML)
def regressor_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A row per row, a column per target."""
    return (node.tensor((count_rows(node), int(node.attribute("n_targets") or 0)), "float"),)


@shape_rule("TreeEnsemble", domain=ML)
def ensemble_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A row per row, a column per target; the dtype is that of the data."""
    return (node.tensor((count_rows(node), int(node.attribute("n_targets") or 0))),)


# --- the walk --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """What a walk down the trees of a node needs: the identifier of the data, and the tables."""

    data: str
    tables: Tables


def walk(node: NodeView, ensemble: Ensemble) -> Walk:
    """Prepare the data and the tables of the nodes."""
    view = data_view(node)
    features = view.cols if isinstance(view.cols, int) else None
    dtype = node.dtype(0)
    # integers are compared as floats, as onnxruntime does
    tables = node_tables(ensemble, features, missing=dtype not in FINITE_DTYPES, single=dtype != "double")
    text = node.view(0, view)
    if tables.infinite:
        text = f"max(min({text}, {literal(LARGEST)}), {literal(-LARGEST)})"
    if tables.low or tables.high:
        if tables.infinite:
            text = node.named("clipped", text)
        sides = [side for side, used in (("-Inf", tables.low), ("Inf", tables.high)) if used]
        text = bind("cbind", [f"replace(target={text}, pattern=NaN, replacement={side})" for side in sides])
    return Walk(node.named("data", text), tables)


def walked(node: NodeView, walk: Walk, weights: Array, how: str) -> str:
    """The text of a walk: the sum, min or max of the weights of the leaves of each row."""
    tables = walk.tables
    ways = all_ways(tables) if how == "sum" and np.isfinite(weights).all() else None
    if ways is not None:
        columns = {"feature": tables.feature[ways.branches], "cut": tables.cut[ways.branches]}
        leaves = weights[ways.leaves]
        found = leaf_scores(ways, leaves, columns["feature"])
        if found is not None:
            columns |= {"scores": found.scores, "targets": found.targets}
            numbers = found.parts, weights.shape[1]
            return node.call("pick_leaves", walk.data, *_columns(node, columns), *numbers)
        products = leaves.shape[1], len(leaves), data_view(node).rows
        # fewer of the leaves that a row comes to are stored sparse
        if not may_have_few_rows(products) or tables.trees < _DENSE * len(leaves):
            columns |= {"steps": ways.steps, "weights": leaves}
            return node.call("test_all_branches", walk.data, *_columns(node, columns))
    columns = {"feature": tables.feature, "cut": tables.cut, "left": tables.left, "weights": weights}
    return node.call("walk_trees", walk.data, *_columns(node, columns), tables.trees, tables.depth, f'"{how}"')


def _columns(node: NodeView, columns: Mapping[str, Array]) -> list[str]:
    return [node.constant_matrix(column.reshape(len(column), -1), hint) for hint, column in columns.items()]


def with_base(node: NodeView, text: str, base: Array) -> str:
    """Sums with the base values added, which are a row with a column for each of them, a single one, or none."""
    if not base.any():
        return text
    added = literal(float(base.item())) if base.size == 1 else node.constant_matrix(base.reshape(1, -1), "base")
    return plus(text, added)


# --- regression ------------------------------------------------------------------------------------------------


@generator("TreeEnsembleRegressor", since=(1, 3), domain=ML)
def tree_ensemble_regressor(node: NodeView) -> Fragment:
    """Weights of the leaves, aggregated by target; version 3 added thresholds and weights of type double."""
    attributes = node.node.attributes
    targets = int(node.attribute("n_targets") or 0)
    ensemble = listed_ensemble(attributes, "target", targets)
    return _regression(
        node, ensemble, node.attribute("aggregate_function"), base_values(attributes), node.attribute("post_transform")
    )


@generator("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(node: NodeView) -> Fragment:
    """As the regressor, with leaves listed apart and membership in sets; names are numbers."""
    function, transform = int(node.attribute("aggregate_function")), int(node.attribute("post_transform"))
    if not 0 <= function < len(FUNCTIONS) or not 0 <= transform < len(TRANSFORMS):
        raise UnsupportedCase("aggregate_function or post_transform is no known number")
    return _regression(
        node, split_ensemble(node.node.attributes), FUNCTIONS[function], np.zeros(0), TRANSFORMS[transform]
    )


def _regression(node: NodeView, ensemble: Ensemble, function: str, base: Array, transform: str) -> Fragment:
    targets = ensemble.targets
    if targets < 1:
        raise UnsupportedCase("there is no target")
    if function not in FUNCTIONS:
        raise UnsupportedCase(f"the aggregate_function {quoted(function)} is unknown")
    if base.size not in (0, targets):
        raise UnsupportedCase(f"there are {base.size} base values for {targets} targets")
    found = walk(node, ensemble)
    scores, view = node.temporary("scores"), View(data_view(node).rows, targets)
    if function in ("SUM", "AVERAGE"):
        text = walked(node, found, leaf_weights(ensemble, found.tables), "sum")
        if function == "AVERAGE":
            text += f" / {len(ensemble.roots)}"
    else:
        blank, combine = (np.inf, np.minimum) if function == "MIN" else (-np.inf, np.maximum)
        text = walked(node, found, leaf_weights(ensemble, found.tables, blank, combine), function.lower())
        # a target to which no leaf of a row gives a weight has the score 0; ifelse is wrong for rows of unknown number
        text = f"replace(target={text}, pattern={'Inf' if function == 'MIN' else '-Inf'}, replacement=0)"
    # onnxruntime leaves the base value out where no leaf gives a weight to one of several targets; ONNX does not
    node.write(f"{scores} = {with_base(node, text, base)}")
    return node.result(transformed_scores(node, scores, targets, transform), view)
