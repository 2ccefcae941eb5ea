"""Places for the boxes of a directed graph without circles, layer by layer (Sugiyama, Tagawa and Toda, 1981)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 6
_GAP = 16.0
_LAYER_GAP = 34.0
_BEND_WIDTH = 6.0
_BEND_WEIGHT = 1e-3  # lines make room for boxes: were they equals, each residual would move what follows to one side


@dataclass(frozen=True, slots=True)
class Layout:
    """Left upper corners of boxes, and the points that lines go through, from the lower edge of one to another.

    width, height: of all; units: those of the sizes given.
    """

    corners: Sequence[tuple[float, float]]
    lines: Mapping[tuple[int, int], Sequence[tuple[float, float]]]
    width: float
    height: float


def layered(widths: Sequence[float], height: float, edges: Sequence[tuple[int, int]]) -> Layout:
    """A layout of boxes of these widths and one height; each edge goes from a box to one of a higher number.

    A box stands below all that it is reached from; a line bends only between the layers.
    """
    count = len(widths)
    layer = _layers(count, edges)
    sizes = list(widths)
    paths: dict[tuple[int, int], list[int]] = {}
    for start, end in dict.fromkeys(edges):
        bends = list(range(len(sizes), len(sizes) + layer[end] - layer[start] - 1))
        sizes += [_BEND_WIDTH] * len(bends)
        layer += range(layer[start] + 1, layer[end])
        paths[start, end] = [start, *bends, end]
    above: list[list[int]] = [[] for _ in sizes]
    below: list[list[int]] = [[] for _ in sizes]
    for path in paths.values():
        for first, second in pairwise(path):
            below[first].append(second)
            above[second].append(first)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box, row in enumerate(layer):
        rows[row].append(box)
    weights = [1.0] * count + [_BEND_WEIGHT] * (len(sizes) - count)
    centers = _centers(rows, sizes, weights, (above, below))
    left = min((centers[box] - sizes[box] / 2 for box in range(len(sizes))), default=0.0)
    step = height + _LAYER_GAP
    corners = [(centers[box] - sizes[box] / 2 - left, layer[box] * step) for box in range(count)]
    lines = {edge: _points(path, centers, layer, left, height, step) for edge, path in paths.items()}
    width = max((centers[box] + sizes[box] / 2 for box in range(len(sizes))), default=0.0) - left
    return Layout(corners, lines, width, max(len(rows) * step - _LAYER_GAP, 0.0))


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest way to each box; one that nothing reaches stands just above what it reaches."""
    layer = [0] * count
    ends: list[list[int]] = [[] for _ in range(count)]
    reached = [False] * count
    for start, end in edges:
        ends[start].append(end)
        reached[end] = True
    for start in range(count):
        for end in ends[start]:
            layer[end] = max(layer[end], layer[start] + 1)
    for start in range(count):
        if not reached[start] and ends[start]:
            layer[start] = min(layer[end] for end in ends[start]) - 1
    return layer


def _centers(
    rows: Sequence[list[int]], sizes: Sequence[float], weights: Sequence[float], joints: Sequence[Sequence[list[int]]]
) -> list[float]:
    """Horizontal centers: boxes are sorted by, and drawn to, the mean of those that they are joined to.

    joints: of each box those above it, and those below it.
    """
    centers = [0.0] * len(sizes)
    for row in rows:
        _spread(row, {}, sizes, weights, centers)
    for sweep in range(_SWEEPS):
        joined, order = joints[sweep % 2], rows if sweep % 2 == 0 else rows[::-1]
        for row in order:
            wanted = {box: _mean(joined[box], weights, centers) for box in row if joined[box]}
            row.sort(key=lambda box: wanted.get(box, centers[box]))
            _spread(row, wanted, sizes, weights, centers)
    return centers


def _spread(
    row: Sequence[int], wanted: Mapping[int, float], sizes: Sequence[float], weights: Sequence[float],
    centers: list[float],
) -> None:
    """Put the boxes of a row where they are wanted, or else are, side by side; groups that touch keep their mean."""
    groups: list[tuple[float, float, float, list[int]]] = []  # left edge, weight, width with a gap, boxes
    for box in row:
        left, weight = wanted.get(box, centers[box]) - sizes[box] / 2, weights[box]
        width, boxes = sizes[box] + _GAP, [box]
        while groups and groups[-1][0] + groups[-1][2] > left:
            place, mass, taken, others = groups.pop()
            left = (place * mass + (left - taken) * weight) / (mass + weight)
            weight, width, boxes = mass + weight, taken + width, others + boxes
        groups.append((left, weight, width, boxes))
    for left, _, _, boxes in groups:
        for box in boxes:
            centers[box] = left + sizes[box] / 2
            left += sizes[box] + _GAP


def _mean(boxes: Sequence[int], weights: Sequence[float], centers: Sequence[float]) -> float:
    return sum(weights[box] * centers[box] for box in boxes) / sum(weights[box] for box in boxes)


def _points(
    path: Sequence[int], centers: Sequence[float], layer: Sequence[int], left: float, height: float, step: float
) -> list[tuple[float, float]]:
    points = [(centers[path[0]] - left, layer[path[0]] * step + height)]
    for bend in path[1:-1]:
        points += [(centers[bend] - left, layer[bend] * step), (centers[bend] - left, layer[bend] * step + height)]
    return [*points, (centers[path[-1]] - left, layer[path[-1]] * step)]
