"""Trained trees as tree ensembles of ai.onnx.ml: SystemDS's decision trees, random forests and boosted trees, and
those of converted models.

Where a model is not known when the script is exported, and in float64, which the operator does not give, the scripts
of SystemDS are evaluated themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_systemds.exporting.builtins.api import BOOL, INT, Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import library_function
from onnx_systemds.exporting.float_rounding import dividing
from onnx_systemds.exporting.graph.nodes import Array
from onnx_systemds.model.ir import ML

_FEWEST_SPARSE = 18
"""Columns from which on the engine stores a table of a 1 in each row as a sparse one; of 5 rows or fewer from 13 on."""


@dataclass
class Ensemble:
    """The lists that the operator takes: a row per node, and one per number in a leaf.

    missing: whether NaN goes to the left, by the place of a node, where that is not so for none.
    """

    nodes: list[tuple[int, int, int, float, str, int, int]] = field(default_factory=list)
    leaves: list[tuple[int, int, int, float]] = field(default_factory=list)
    missing: dict[int, int] = field(default_factory=dict)

    def branch(self, tree: int, node: int, feature: int, mode: str, value: float, left: int, right: int) -> None:
        """Add a node that compares with a number of float32."""
        self.nodes.append((tree, node, feature, value, mode, left, right))

    def leaf(self, tree: int, node: int, target: int, weight: float) -> None:
        """Add a leaf with one number."""
        self.nodes.append((tree, node, 0, 0.0, "LEAF", 0, 0))
        self.leaves.append((tree, node, target, weight))

    def results(self, ctx: Context, x: Tensor, targets: int, **more: Any) -> Tensor:
        """Return the operator that sums up the leaves which a row of `x` comes to."""
        trees, numbers, features, values, modes, left, right = zip(*self.nodes)
        of_trees, of_nodes, ids, weights = zip(*self.leaves)
        attributes: dict[str, Any] = {
            "nodes_treeids": trees, "nodes_nodeids": numbers, "nodes_featureids": features, "nodes_values": values,
            "nodes_modes": modes, "nodes_truenodeids": left, "nodes_falsenodeids": right,
            "target_treeids": of_trees, "target_nodeids": of_nodes, "target_ids": ids, "target_weights": weights,
            "n_targets": targets, **more,
        }
        if any(self.missing.values()):
            flags = tuple(self.missing.get(place, 0) for place in range(len(self.nodes)))
            attributes["nodes_missing_value_tracks_true"] = flags
        return ctx.g.node("TreeEnsembleRegressor", [x], (x.dims[0], targets), _domain=ML, **attributes)


@library_function("builtin/decisionTreePredict.dml", "m_decisionTreePredict")
def decision_tree(
    ctx: Context, X: Matrix, ctypes: Value, M: Matrix, y: Value | None = None, strategy: str = "TT",
    verbose: bool = False,
) -> Value | None:
    """The label of the leaf that each row reaches."""
    ensemble = Ensemble()
    if M.constant is None or ctx.g.dtype == "float64" or strategy != "TT" or X.cols == 0 or M.rows != 1:
        return None
    if not _add_tree(ensemble, 0, M.constant.ravel(), np.arange(M.constant.size), lambda label: (0, label)):
        return None
    return ctx.matrix(ensemble.results(ctx, _with_whole_gaps(ctx, X), 1))


def _with_whole_gaps(ctx: Context, x: Matrix) -> Tensor:
    """Return rows, NaN in all places where one of few numbers is NaN or infinite, but for -infinity itself.

    The scripts multiply a row by 1 in the column that a node asks for, and by 0 elsewhere. The engine takes that for
    sparse where there are many columns, and passes over what is elsewhere. Its sum of NaN and an infinity is infinite.
    """
    g, rows = ctx.g, ctx.flat(x)
    if not isinstance(x.cols, int) or not 1 < x.cols < _FEWEST_SPARSE:
        return rows
    lowest = g.node("IsInf", [rows], rows.dims, BOOL, detect_positive=0)
    return g.where(lowest, rows, rows + g.reduce("ReduceSum", rows * 0.0, (1,)))


def _add_tree(ensemble: Ensemble, tree: int, content: Array, features: Array, target: Any) -> bool:
    """Add a tree of SystemDS, the children of node i being 2i and 2i + 1; return whether all of them are there."""
    pairs = content[: content.size // 2 * 2].reshape(-1, 2)
    numbers = {1: 0}
    waiting = [1]
    while waiting:
        node = waiting.pop()
        if node > len(pairs) or not pairs[node - 1].any():
            return False
        feature, value = pairs[node - 1].tolist()
        if not feature:
            ensemble.leaf(tree, numbers[node], *target(value))
        elif 1 <= feature <= len(features):
            children = [2 * node, 2 * node + 1]
            numbers |= {child: len(numbers) + i for i, child in enumerate(children)}
            place, bound = int(features[int(feature) - 1]), dividing(value, inclusive=True)
            ensemble.branch(tree, numbers[node], place, "BRANCH_LEQ", bound, *(numbers[child] for child in children))
            waiting += children
        else:
            return False
    return True


@library_function("builtin/randomForestPredict.dml", "m_randomForestPredict")
def random_forest(
    ctx: Context, X: Matrix, ctypes: Matrix, M: Matrix, y: Value | None = None, verbose: bool = False
) -> Value | None:
    """The majority label of the trees, the last one in a tie; or the mean of their numbers."""
    kinds, model, width = ctypes.constant, M.constant, X.cols
    if kinds is None or model is None or not isinstance(width, int) or ctx.g.dtype == "float64" or verbose:
        return None
    voting = kinds[0, width] == 2
    ensemble = Ensemble()
    for tree, line in enumerate(model):
        features = np.flatnonzero(line[:width])
        target = (lambda label: (int(label) - 1, 1.0)) if voting else (lambda number: (0, number))
        if not _add_tree(ensemble, tree, line[width:], features, target):
            return None
    labels = [leaf[2] for leaf in ensemble.leaves]
    rows = _with_whole_gaps(ctx, X) if model[:, :width].all() else ctx.flat(X)
    if not voting:
        return ctx.matrix(ensemble.results(ctx, rows, 1, aggregate_function="AVERAGE"))
    if min(labels) < 0 or any(weight % 1 for *_, weight in ensemble.leaves):
        return None
    g, votes = ctx.g, ensemble.results(ctx, rows, max(labels) + 1)
    best = g.node("ArgMax", [votes], (X.rows, 1), INT, axis=1, keepdims=1, select_last_index=1)
    return ctx.matrix(g.floating(best + 1))


@library_function("builtin/xgboostPredictRegression.dml", "m_xgboostPredictRegression")
def boosted_trees(ctx: Context, X: Matrix, M: Matrix, learning_rate: float = 0.3) -> Value | None:
    """The base score plus the scaled results of all trees."""
    if M.constant is None or ctx.g.dtype == "float64" or M.rows != 6:
        return None
    model, ensemble = M.constant, Ensemble()
    for column in range(1, model.shape[1]):
        _, tree, offset, feature, kind, value = model[:, column].tolist()
        if kind == 0:
            ensemble.leaf(int(tree), column - 1, 0, learning_rate * value)
            continue
        left = column - 1 + int(offset)
        if kind not in (1, 2) or left + 2 >= model.shape[1]:
            return None
        mode, bound = ("BRANCH_LT", dividing(value, inclusive=False)) if kind == 1 else ("BRANCH_EQ", 1.0)
        ensemble.branch(int(tree), column - 1, int(feature) - 1, mode, bound, left, left + 1)
    return ctx.matrix(ensemble.results(ctx, ctx.flat(X), 1, base_values=(float(model[5, 0]),)))
