"""Tree ensembles as tables that are walked, in which every branch is one comparison ``x > cut`` (`node_tables`):

* a comparison with a threshold is a cut, at the threshold or at the largest number below it; where ONNX compares in
  single precision, at the largest number that is rounded to that: x takes the branch that x takes once it is rounded;
* ==, != and membership are several cuts, which become branches of their own (by bisection);
* the two children of a branch stand one after the other, that of ``x <= cut`` first, so that the next node is
  ``left + (x > cut)``; children that several branches share are written for each of them;
* a leaf has the cut infinity and is its own left child: who is there stays there.

A missing value takes a side of its own at each branch. It is walked as an infinity: `Tables.low` and `Tables.high`
say whether there are branches at which NaN goes to the lower and to the higher side; the features of the latter
are numbered after all others (as column ``feature + features``) when there are both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.model.ir import Array
from onnx_systemds.model.single_precision import largest_rounded
from onnx_systemds.operators.support.ensembles import EQ, GTE, LEAF, LEQ, LT, MEMBER, NEQ, Ensemble
from onnx_systemds.operators.support.selection_products import sparse_padding

LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Tables:
    """Columns with a row per node (feature from 1, left child from 1); the roots come first.

    node: the ensemble's node of each row, -1 where there is none. infinite: whether infinities in the data must be
    cut to the largest finite number, because a threshold is infinite.
    """

    feature: Array
    cut: Array
    left: Array
    node: Array
    trees: int
    depth: int
    low: bool
    high: bool
    infinite: bool


# --- cuts ------------------------------------------------------------------------------------------------------


@dataclass
class _Branches:
    """Branches of one cut each. low, high: children; nan_high: the side of NaN; all by node."""

    feature: Array
    cut: Array
    low: Array
    high: Array
    nan_high: Array
    inner: Array


def _below(numbers: Array) -> Array:
    """The largest number below each."""
    with np.errstate(over="ignore"):
        return np.nextafter(numbers, -np.inf)


def _cuts(limits: Array, strict: Array | bool, *, single: bool) -> Array:
    """The largest numbers that are at most, or where ``strict`` below, limits; single: once rounded to FP32."""
    finite = np.clip(limits, -LARGEST, LARGEST)
    plain = np.where(strict, _below(finite), finite)
    return np.where(np.isinf(limits), plain, largest_rounded(finite, strict)) if single else plain


def _branches(ensemble: Ensemble, *, single: bool) -> _Branches:
    """The ensemble with one cut per branch; branches with several cuts get further nodes after the others."""
    mode, yes, no = ensemble.mode, ensemble.yes, ensemble.no
    lower = (mode == LEQ) | (mode == LT)  # the condition holds on the lower side
    cut = _cuts(ensemble.threshold, (mode == LT) | (mode == GTE), single=single)
    nan_yes = ensemble.missing | (mode == NEQ)  # NaN differs from every number
    plain = _Branches(
        ensemble.feature.copy(), cut, np.where(lower, yes, no), np.where(lower, no, yes), nan_yes != lower,
        mode != LEAF,
    )
    several = np.flatnonzero((mode >= EQ) & (mode <= MEMBER))
    if not len(several):
        return plain
    rows = list(zip(*(column.tolist() for column in vars(plain).values())))
    for node in several.tolist():
        values = ensemble.members[node] if mode[node] == MEMBER else ensemble.threshold[node : node + 1]
        values = np.unique(values)
        inside, outside = int(yes[node]), int(no[node])
        if mode[node] == NEQ:
            inside, outside = outside, inside
        cuts = np.stack([_cuts(values, strict, single=single) for strict in (True, False)], axis=1).ravel().tolist()
        nan_goal = int(yes[node]) if nan_yes[node] else int(no[node])
        _bisect(rows, node, cuts, [outside, *[inside, outside] * len(values)], nan_goal)
    columns = [np.array(column) for column in zip(*rows)]
    return _Branches(*columns)


def _bisect(rows: list[tuple[Any, ...]], node: int, cuts: list[float], goals: list[int], nan_goal: int) -> None:
    """Write the node ``node`` and further ones so that a number with i cuts below it comes to ``goals[i]``."""
    feature = rows[node][0]
    waiting = [(node, 0, len(goals))]
    while waiting:
        place, first, last = waiting.pop()
        if last - first == 1:  # a set without members: all go the same way
            rows[place] = (feature, 0.0, goals[first], goals[first], False, True)
            continue
        middle = (first + last) // 2
        sides = []
        for start, end in ((first, middle), (middle, last)):
            if end - start == 1:
                sides.append(goals[start])
            else:
                sides.append(len(rows))
                rows.append(rows[node])
                waiting.append((sides[-1], start, end))
        nan_high = nan_goal not in goals[first:middle]
        rows[place] = (feature, cuts[middle - 1], *sides, nan_high, True)


# --- layout ----------------------------------------------------------------------------------------------------


def node_tables(ensemble: Ensemble, features: int | None, *, missing: bool, single: bool) -> Tables:
    """The tables of an ensemble over data with so many features (None: unknown), which may hold NaN (``missing``).

    single: ONNX compares in FP32; the data need not be rounded to that. Raises UnsupportedCase.
    """
    branches = _branches(ensemble, single=single)
    inner = np.flatnonzero(branches.inner)
    numbers = branches.feature[inner]
    if features is not None and len(numbers) and numbers.max() >= features:
        raise UnsupportedCase(f"a node tests feature {numbers.max()} of {features}")
    roots, total = ensemble.roots, len(branches.inner)
    pair = np.zeros(total, dtype=np.int64)  # row of the lower child
    pair[inner] = len(roots) + 2 * np.arange(len(inner))
    children = np.stack([branches.low[inner], branches.high[inner]], axis=1).ravel()
    node = np.concatenate([roots, children])
    is_inner = branches.inner[node]
    left = np.where(is_inner, pair[node], np.arange(len(node)))
    nan_high = branches.nan_high[node]
    low, high = (missing and bool((side & is_inner).any()) for side in (~nan_high, nan_high))
    column = np.where(is_inner, branches.feature[node], 0)
    if low and high:
        if features is None:
            raise UnsupportedCase("missing values that take either side need a known number of features")
        column = column + features * (nan_high & is_inner)
    cut = np.where(is_inner, branches.cut[node], np.inf)
    compared = (ensemble.mode != LEAF) & (ensemble.mode != MEMBER)
    thresholds = [ensemble.threshold[compared], *ensemble.members.values()]
    padding = sparse_padding(len(node))  # of gathered rows, which infinities are in
    known = np.where(node < len(ensemble.mode), node, -1)
    return Tables(
        np.pad(column, (0, padding)) + 1.0, np.pad(cut, (0, padding)), np.pad(left, (0, padding)) + 1.0,
        np.pad(known, (0, padding), constant_values=-1), len(roots), _depth(branches, roots),
        low, high, any(bool(np.isinf(part).any()) for part in thresholds),
    )


def _depth(branches: _Branches, roots: Array) -> int:
    """Length of the longest way. Raises UnsupportedCase for a circle."""
    depth, front = 0, np.unique(roots)
    while len(front := front[branches.inner[front]]):
        depth += 1
        if depth > len(branches.inner):
            raise UnsupportedCase("a tree leads back to one of its own nodes")
        front = np.unique(np.concatenate([branches.low[front], branches.high[front]]))
    return depth


@dataclass(frozen=True)
class Ways:
    """All ways from a root to a leaf that rows can take. branches: rows of the tables, one for each different test.
    steps: triples of a way (from 1), a branch (from 2) and 1 to the right or -1 to the left; tests that follow from
    others of the way are left out. As branch 1, which is always taken, each way has 1 less its steps to the right.
    leaves: the row of the tables in which each way ends. tree: that of each way, one after the other."""

    branches: Array
    steps: Array
    leaves: Array
    tree: Array


_Box = dict[tuple[float, int], float]
"""The numbers that come to a node: by feature the limit above which (side 1) and up to which (side 0) they lie."""
MOST_WAYS = 64  # per tree: testing all branches takes longer than walking when trees are larger


def all_ways(tables: Tables) -> Ways | None:
    """The ways of trees that are small, else None."""
    left = tables.left.astype(np.int64) - 1
    feature, cut = tables.feature.tolist(), tables.cut.tolist()
    number: dict[tuple[float, float], int] = {}
    branches: list[int] = []
    steps: list[tuple[int, int, int]] = []
    leaves: list[int] = []
    tree: list[int] = []
    met = 0
    for root in range(tables.trees):
        waiting: list[tuple[int, _Box]] = [(root, {})]
        while waiting:
            row, box = waiting.pop()
            if left[row] != row:
                test = feature[row], cut[row]
                if test not in number:
                    branches.append(row)
                    number[test] = len(branches) + 1
                waiting += [(int(left[row]) + side, _within(box, *test, side)) for side in (0, 1)]
                continue
            met += 1
            if met > MOST_WAYS * tables.trees:
                return None
            if _is_empty(box):
                continue
            leaves.append(row)
            tree.append(root)
            steps.append((len(leaves), 1, 1 - sum(side for _, side in box)))
            steps += [(len(leaves), number[column, limit], 2 * side - 1) for (column, side), limit in box.items()]
    return Ways(*map(np.array, (branches, steps, leaves, tree))) if branches else None


def _within(box: _Box, feature: float, cut: float, side: int) -> _Box:
    """What of a box goes to one side of a branch."""
    tighter = max if side else min
    return box | {(feature, side): tighter(cut, box.get((feature, side), cut))}


def _is_empty(box: _Box) -> bool:
    return any(side == 1 and limit >= box.get((feature, 0), np.inf) for (feature, side), limit in box.items())


def leaf_weights(ensemble: Ensemble, tables: Tables, blank: float = 0.0, combine: Any = np.add) -> Array:
    """A row per row of the tables and a column per target; ``blank`` where a node has no weight."""
    sums = np.full((len(ensemble.mode) + 1, ensemble.targets), blank)
    combine.at(sums, (ensemble.weight_nodes, ensemble.weight_targets), ensemble.weight_values)
    sums[:-1][ensemble.mode != LEAF] = blank
    sums[-1] = blank
    return sums[tables.node]


def leaf_presence(ensemble: Ensemble, tables: Tables) -> Array:
    """As `leaf_weights`, with 1 for each weight and 0 elsewhere."""
    ones = np.ones_like(ensemble.weight_values)
    return leaf_weights(replace(ensemble, weight_values=ones), tables, combine=np.maximum)
