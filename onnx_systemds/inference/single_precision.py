"""What must be computed as FP32 computes it: the data of decision trees, and exponents.

A threshold is met or missed by the last bit, and thresholds are often numbers of the data; negative numbers have powers
only where the exponent is whole, as 30 * 0.1 is in FP32. So every `float` value from which a tree's data or an exponent
are made is rounded to FP32 where it is computed. FP64 has more than twice the digits, so a sum,
a product, a quotient or a root that is rounded twice is the same as one rounded once. Sub-graphs take part: what they
are given, capture and give back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnx_systemds.inference.typed_graph import TypedGraph, carried, given_back
from onnx_systemds.model.ir import ML

TREES = frozenset((ML, name) for name in ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"))
# results are elements of the inputs, up to their sign, or constants
MOVES = frozenset([
    *(("", name) for name in (
        "Abs", "CenterCropPad", "Clip", "Compress", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten",
        "Gather", "GatherElements", "GatherND", "Identity", "Max", "Min", "Neg", "OneHot", "Pad", "ReduceMax",
        "ReduceMin", "Relu", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth",
        "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where")),
    *((ML, name) for name in ("ArrayFeatureExtractor", "FeatureVectorizer", "Imputer")),
])
# results are in FP32 whatever the inputs are
_EXACT = frozenset([
    *(("", name) for name in ("Cast", "Ceil", "Constant", "Floor", "Round", "Sign")),
    *((ML, name) for name in ("Binarizer", "DictVectorizer", "LabelEncoder", "OneHotEncoder")),
])
# rounded once from exact operands: these have to be in FP32, too
_ROUNDED_ONCE = frozenset([
    (ML, "Scaler"), *(("", name) for name in ("Add", "Div", "Mul", "Reciprocal", "Sqrt", "Sub"))
])


def values_in_single_precision(graph: TypedGraph) -> frozenset[tuple[int, str]]:
    """The `float` values of a model's graph, and of those in it, that are to be rounded where they are computed.

    Each is named by the ``id`` of the own values of its graph, and by its name there.
    """
    stack = list(_judged(_Within(graph)))
    found: set[tuple[int, str]] = set()
    seen: set[tuple[int, str]] = set()
    producers: dict[int, dict[str, int]] = {}  # by graph: the position of the node that gives a value
    while stack:
        within, name = stack.pop()
        while name not in within.graph.own and within.around is not None:  # it is captured
            within = within.around
        own, nodes = within.graph.own, within.graph.nodes
        if own[name].dtype != "float" or (id(own), name) in seen:
            continue
        seen.add((id(own), name))
        if id(own) not in producers:
            producers[id(own)] = {given: place for place, node in enumerate(nodes) for given in node.outputs}
        position = producers[id(own)].get(name)
        if position is None:
            stack += within.given(name)
            continue
        node = nodes[position]
        if bodies := within.graph.bodies_at(position):
            stack += [(_Within(body, within, position), inner) for body in bodies
                      for outer, inner in given_back(node, body) if outer == name]
            continue
        if node.identity in _EXACT or own[name].constant is not None:
            continue
        if node.identity not in MOVES:
            found.add((id(own), name))
        if node.identity in MOVES or node.identity in _ROUNDED_ONCE:
            stack += [(within, given) for given in node.inputs if given]
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Within:
    """A graph, and the one around it with the position of the node that it is of."""

    graph: TypedGraph
    around: _Within | None = None
    position: int = -1

    def is_positive(self, name: str) -> bool:
        """Whether a value is known to have no negative elements."""
        value = self.graph.own.get(name)
        return value is not None and value.constant is not None and bool((value.constant >= 0).all())

    def given(self, name: str) -> list[tuple[_Within, str]]:
        """What an input of the graph is: a value outside, and in a loop what the turn before has made of it."""
        if self.around is None:
            return []
        node = self.around.graph.nodes[self.position]
        return [(where, value) for outer, inner, after in carried(node, self.graph) if inner == name
                for where, value in ((self.around, outer), (self, after)) if value]


def _judged(within: _Within) -> Iterator[tuple[_Within, str]]:
    """The data of all trees of a graph and of those in it, and exponents of what may be negative."""
    for node in within.graph.nodes:
        if node.identity in TREES and node.inputs:
            yield within, node.inputs[0]
        elif node.identity == ("", "Pow") and not within.is_positive(node.inputs[0]):
            yield within, node.inputs[1]
    for (position, _), body in within.graph.bodies.items():
        yield from _judged(_Within(body, within, position))
