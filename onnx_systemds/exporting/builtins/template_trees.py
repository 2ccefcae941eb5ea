"""The tree ensembles of converted models: what tests all branches, and what walks, becomes an operator again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from onnx_systemds.exporting.builtins.api import Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.builtins.trees import Ensemble
from onnx_systemds.exporting.float_rounding import not_above
from onnx_systemds.exporting.graph.nodes import Array, made_by, source_of
from onnx_systemds.exporting.graph.operators import pieces

_AGGREGATES = {"sum": "SUM", "min": "MIN", "max": "MAX"}


@template_function("test_all_branches")
def tested_branches(
    ctx: Context, X: Matrix, feature: Matrix, cut: Matrix, steps: Matrix, weights: Matrix
) -> Value | None:
    """The sums of the leaves that each row reaches, if the tests form trees."""
    known = _known(ctx, feature, cut, steps, weights)
    if known is None or not np.isfinite(known[0]).all():
        return None
    cuts, columns, tests, leaves = known
    boxes = _boxes(columns, cuts, tests.astype(np.int64), len(leaves), int(columns.max()) + 1)
    return _grown(ctx, X, boxes, _trees(boxes), leaves)


def _known(ctx: Context, feature: Matrix, cut: Matrix, *others: Matrix) -> list[Array] | None:
    """Return the cuts, the columns (from 0) and other tables where ONNX's trees can have them, which are of floats."""
    tables = [table.constant for table in (cut, feature, *others)]
    known = [table for table in tables if table is not None]
    if ctx.g.dtype == "float64" or len(known) < len(tables) or _is_finer(known[0]):
        return None
    return [known[0].ravel(), known[1].ravel().astype(np.int64) - 1, *known[2:]]


def _grown(ctx: Context, x: Matrix, boxes: _Boxes, trees: Iterable[Array], leaves: Array) -> Value | None:
    """An operator for ways, tree by tree, with a row of weights each."""
    data = _data(ctx, x)
    growing = _Growing(Ensemble(), data, leaves)
    for tree, ways in enumerate(trees):
        if not growing.tree(tree, boxes, ways):
            return None
    return ctx.matrix(growing.ensemble.results(ctx, data.source, leaves.shape[1]))


@template_function("pick_leaves")
def picked_leaves(
    ctx: Context, X: Matrix, feature: Matrix, cut: Matrix, scores: Matrix, targets: Matrix, parts: int, outputs: int
) -> Value | None:
    """The sums of the leaves that have the largest scores."""
    known = _known(ctx, feature, cut, scores, targets)
    if known is None or not np.isfinite(known[0]).all():
        return None
    cuts, columns, goals = known[0], known[1], known[3].ravel().astype(np.int64)
    ways = _picked(columns, cuts, known[2], len(goals))
    boxes = _Boxes(*(np.array([way[side] for way in ways]) for side in (1, 2)))
    tree = np.array([way[0] for way in ways])
    leaves = np.zeros((len(ways), outputs))
    leaves[np.arange(len(ways)), goals[tree] - 1] = [way[3] for way in ways]
    return _grown(ctx, X, boxes, [np.flatnonzero(tree == number) for number in range(len(goals))], leaves)


def _picked(columns: Array, cuts: Array, scores: Array, trees: int) -> list[tuple[int, Array, Array, float]]:
    """The ways that parts of trees are made of: the tree, the limits as in `_Boxes`, and the value.

    Where a tree has several parts, tests of the ways to them add or take away the same number, in all trees, which is
    larger than all that tests within a part add.
    """
    apart = np.abs(scores[scores[:, 1] > 1, 2]).max() if scores[:, 0].max() > trees else np.inf
    ways = []
    for part in np.unique(scores[:, 0]):
        if part > trees and (scores[:, 0] == part).sum() == 1:
            continue  # fills a tree up
        value, inside = 0.0, []
        low, high = np.full(int(columns.max()) + 1, -np.inf), np.full(int(columns.max()) + 1, np.inf)
        for test, number in scores[scores[:, 0] == part, 1:]:
            column, cut = columns[int(test) - 2], cuts[int(test) - 2]
            if test == 1:
                value += number
            elif number == apart:
                low[column], value = cut, value + apart
            elif number == -apart:
                high[column] = cut
            else:
                inside.append((cut, column, number))
        for cut, column, number in sorted(inside):
            below = high.copy()
            below[column] = cut
            ways.append((int(part - 1) % trees, low.copy(), below, value))
            low[column], value = cut, value + number
        ways.append((int(part - 1) % trees, low, high, value))
    return ways


@template_function("walk_trees")
def walked_trees(
    ctx: Context, X: Matrix, feature: Matrix, cut: Matrix, left: Matrix, weights: Matrix, trees: int, depth: int,
    how: str,
) -> Value | None:
    """The sum, minimum or maximum of the leaves that each row reaches."""
    known = _known(ctx, feature, cut, left, weights)
    if known is None or how not in _AGGREGATES:
        return None
    cuts, columns, children, leaves = known
    first, data = children.ravel().astype(np.int64) - 1, _data(ctx, X)
    growing = _Growing(Ensemble(), data, leaves)
    for tree in range(trees):
        waiting, count = [(tree, 0, 0)], 1
        while waiting:
            row, node, level = waiting.pop()
            if first[row] == row:
                growing.leaf(tree, node, row)
                continue
            if level == depth:
                return None
            growing.branch(tree, node, int(columns[row]), float(cuts[row]), count)
            waiting += [(int(first[row]) + side, count + side, level + 1) for side in (0, 1)]
            count += 2
    more = {} if how == "sum" else {"aggregate_function": _AGGREGATES[how]}
    return ctx.matrix(growing.ensemble.results(ctx, data.source, leaves.shape[1], **more))


def _is_finer(cuts: Array) -> bool:
    """Whether data at a cut would change sides.

    They do not where cuts are numbers of float32, or the largest ones below or that are rounded to these.
    """
    above = np.nextafter(cuts, np.inf)
    with np.errstate(over="ignore"):
        single, next_single = cuts.astype(np.float32), above.astype(np.float32)
    rounds_apart = (single <= cuts) & (next_single > above)
    return bool(((single != cuts) & (next_single != above) & ~rounds_apart).any())


@dataclass(frozen=True)
class _Data:
    """What is tested: for each column that of the source, and whether NaN goes to the left."""

    source: Tensor
    columns: tuple[int, ...]
    left: tuple[bool, ...]


def _data(ctx: Context, x: Matrix) -> _Data:
    """Return a matrix without what replaces its NaN by infinities, perhaps by both, side by side."""
    whole = ctx.flat(x)
    found = [_with_missing(part) for part in pieces(whole, 1)]
    source, width = found[0][0], found[0][0].dims[1]
    if not isinstance(width, int) or any(part is not source for part, _ in found):
        width = whole.dims[1]
        assert isinstance(width, int)
        return _Data(whole, tuple(range(width)), (True,) * width)
    return _Data(source, tuple(range(width)) * len(found), tuple(left for _, left in found for _ in range(width)))


def _with_missing(part: Tensor) -> tuple[Tensor, bool]:
    """Return the matrix in which NaN is replaced by an infinity, and whether by the one on the left; else itself."""
    node = made_by(part, "Where")
    if node is not None:
        gaps, number, x = (node.operand(place) for place in range(3))
        known = number.only_element
        if source_of(gaps, "IsNaN") is x and known is not None and math.isinf(known):
            return x, known < 0
    return part, True


@dataclass(frozen=True)
class _Boxes:
    """The ways to leaves as the numbers that take them: above `low`, up to `high`, a row per way and a column each."""

    low: Array
    high: Array


def _boxes(columns: Array, cuts: Array, steps: Array, ways: int, width: int) -> _Boxes:
    low, high = np.full((ways, width), -np.inf), np.full((ways, width), np.inf)
    for way, branch, side in steps[steps[:, 1] > 1].tolist():
        column, cut = columns[branch - 2], cuts[branch - 2]
        if side > 0:
            low[way - 1, column] = max(cut, low[way - 1, column])
        else:
            high[way - 1, column] = min(cut, high[way - 1, column])
    return _Boxes(low, high)


def _trees(boxes: _Boxes) -> Iterator[Array]:
    """Yield the ways of each tree: those one after the other that no row takes at once."""
    start = 0
    for way in range(1, len(boxes.low)):
        low = np.maximum(boxes.low[start:way], boxes.low[way])
        high = np.minimum(boxes.high[start:way], boxes.high[way])
        if (low < high).all(axis=1).any():
            yield np.arange(start, way)
            start = way
    yield np.arange(start, len(boxes.low))


@dataclass(frozen=True)
class _Growing:
    """An ensemble to which nodes are added. weights: a row per leaf."""

    ensemble: Ensemble
    data: _Data
    weights: Array

    def leaf(self, tree: int, node: int, row: int) -> None:
        """Add a leaf with the numbers of a row, at least that of the first target."""
        targets = np.flatnonzero(self.weights[row])
        self.ensemble.nodes.append((tree, node, 0, 0.0, "LEAF", 0, 0))
        for target in targets.tolist() or [0]:
            self.ensemble.leaves.append((tree, node, target, float(self.weights[row, target])))

    def branch(self, tree: int, node: int, column: int, cut: float, left: int) -> None:
        """Add a branch whose children have the numbers `left` and the next one."""
        self.ensemble.branch(tree, node, self.data.columns[column], "BRANCH_LEQ", not_above(cut), left, left + 1)
        self.ensemble.missing[len(self.ensemble.nodes) - 1] = int(self.data.left[column])

    def tree(self, tree: int, boxes: _Boxes, ways: Array) -> bool:
        """Add a tree that leads each row to the way whose box it lies in; return whether there is one."""
        width = boxes.low.shape[1]
        waiting = [(0, ways, np.full(width, -np.inf), np.full(width, np.inf))]
        count = 1
        while waiting:
            node, group, low, high = waiting.pop()
            if len(group) == 1:
                if (boxes.low[group[0]] > low).any() or (boxes.high[group[0]] < high).any():
                    return False  # some rows that come here take no way
                self.leaf(tree, node, int(group[0]))
                continue
            found = _split(boxes, group)
            if found is None:
                return False
            column, cut = found
            self.branch(tree, node, column, cut, count)
            right = boxes.low[group, column] >= cut
            above, below = low.copy(), high.copy()
            above[column], below[column] = cut, cut
            waiting += [(count, group[~right], low, below), (count + 1, group[right], above, high)]
            count += 2
        return True


def _split(boxes: _Boxes, group: Array) -> tuple[int, float] | None:
    """Return a column and a cut that has each box on one of its sides, None where there is none."""
    low, high = boxes.low[group], boxes.high[group]
    places, columns = np.nonzero(np.isfinite(high))
    cuts = high[places, columns]
    below, above = high[:, columns] <= cuts, low[:, columns] >= cuts
    valid = (below | above).all(axis=0) & above.any(axis=0)
    if not valid.any():
        return None
    best = int(np.argmax(valid))
    return int(columns[best]), float(cuts[best])
