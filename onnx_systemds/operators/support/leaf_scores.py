"""Leaves of trees that are found by the largest score, where all scores are exact (`leaf_scores`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnx_systemds.model.ir import Array
from onnx_systemds.operators.support.tree_tables import Ways

_PADDING = 1.5
"""How many rows there may be for each part: those of trees with few parts are filled up."""
_Box = dict[tuple[int, int], int]
"""By feature and side (1: above) the number of the test."""


@dataclass(frozen=True)
class LeafScores:
    """What the library function pick_leaves takes, and describes; ``parts``: the most that a tree has."""

    scores: Array
    targets: Array
    parts: int


@dataclass(frozen=True)
class _Part:
    """Leaves side by side, distinguished by ``tests`` of one feature; ``values``: theirs, one more."""

    box: _Box
    tests: tuple[int, ...]
    values: tuple[float, ...]
    feature: int | None = None


def leaf_scores(ways: Ways, weights: Array, features: Array) -> LeafScores | None:
    """How leaves are scored; ``weights``: a row per way, ``features``: by test. None where a tree has weights of
    several targets, where trees differ much in size, and where a score would be rounded."""
    trees = int(ways.tree[-1]) + 1
    present = np.zeros((trees, weights.shape[1]), dtype=bool)
    np.logical_or.at(present, ways.tree, weights != 0)
    if (present.sum(axis=1) > 1).any():
        return None
    values = weights.sum(axis=1)
    lowest, unit = float(values.min()), _unit(values)
    apart = float(2.0 ** np.frexp(max(float(values.max()) - lowest, unit))[1])  # above the largest difference
    found: list[list[_Part]] = [[] for _ in range(trees)]
    for tree, part in zip(ways.tree.tolist(), _leaves(ways, values, features)):
        found[tree].append(part)
    found = [_joined(parts) for parts in found]
    longest = max(len(part.box) + len(part.values) for parts in found for part in parts)
    largest = max(abs(lowest) + apart * 2 * longest, trees * float(np.abs(values).max()))
    rows = max(map(len, found))
    if not largest <= unit * 2.0**53 or rows * trees > _PADDING * sum(map(len, found)):
        return None
    scores = [
        (place * trees + tree + 1.0, test, number)
        for tree, parts in enumerate(found)
        for place, part in enumerate(parts)
        for test, number in _score(part, apart)
    ]
    # a tree with fewer parts has others with a score that is none's but the lowest leaf's
    scores += [(place * trees + tree + 1.0, 1, lowest)
               for tree, parts in enumerate(found) for place in range(len(parts), rows)]
    return LeafScores(np.array(scores), present.argmax(axis=1) + 1.0, rows)


def _leaves(ways: Ways, values: Array, features: Array) -> Iterator[_Part]:
    """A part for each way."""
    boxes: list[_Box] = [{} for _ in values]
    for way, test, side in ways.steps.astype(np.int64).tolist():
        if test > 1:
            boxes[way - 1][int(features[test - 2]), max(side, 0)] = test
    return (_Part(box, (), (value,)) for box, value in zip(boxes, values.tolist()))


def _joined(parts: list[_Part]) -> list[_Part]:
    """Parts of a tree, joined where they lie side by side and differ by tests of one feature only."""
    count = len(parts) + 1
    while len(parts) < count:
        count = len(parts)
        above = {(feature, test, _others(part, feature)): part
                 for part in parts for (feature, side), test in part.box.items() if side}
        merged: set[int] = set()
        joined = []
        for part in parts:
            for (feature, side), test in part.box.items():
                other = None if side else above.get((feature, test, _others(part, feature)))
                if other is None or merged & {id(part), id(other)} or {part.feature, other.feature} - {None, feature}:
                    continue
                merged |= {id(part), id(other)}
                joined.append(_both(part, other, feature, test))
                break
        parts = [part for part in parts if id(part) not in merged] + joined
    return parts


def _others(part: _Part, feature: int) -> frozenset[tuple[tuple[int, int], int]]:
    return frozenset(item for item in part.box.items() if item[0][0] != feature)


def _both(low: _Part, high: _Part, feature: int, test: int) -> _Part:
    box = {place: number for place, number in low.box.items() if place != (feature, 0)}
    if (feature, 0) in high.box:
        box[feature, 0] = high.box[feature, 0]
    return _Part(box, (*low.tests, test, *high.tests), (*low.values, *high.values), feature)


def _score(part: _Part, apart: float) -> Iterator[tuple[int, float]]:
    """The score of a part as numbers of tests: its value less `apart` for each test that came out otherwise."""
    yield 1, part.values[0] - apart * sum(side for _, side in part.box)
    for (_, side), test in part.box.items():
        yield test, apart * (2 * side - 1)
    for test, before, after in zip(part.tests, part.values, part.values[1:]):
        yield test, after - before


def _unit(values: Array) -> float:
    """The largest power of two that all values are multiples of, 1 where all are 0."""
    fractions, exponents = np.frexp(values[values != 0])
    if not len(fractions):
        return 1.0
    whole = (np.abs(fractions) * 2.0**53).astype(np.int64)
    return float((2.0 ** (exponents - 53.0) * (whole & -whole)).min())
