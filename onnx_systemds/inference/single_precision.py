"""What must be computed as FP32 computes it: the data of decision trees.

A threshold is met or missed by the last bit, and thresholds are often numbers of the data. So every `float` value from
which a tree's data are made is rounded to FP32 where it is computed. FP64 has more than twice the digits, so a sum,
a product, a quotient or a root that is rounded twice is the same as one rounded once.
"""

from __future__ import annotations

from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import Node

_ML = "ai.onnx.ml"
TREES = frozenset((_ML, name) for name in ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"))
# results are elements of the inputs, up to their sign, or constants
MOVES = frozenset([
    *(("", name) for name in (
        "Abs", "CenterCropPad", "Clip", "Compress", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten",
        "Gather", "GatherElements", "GatherND", "Identity", "Max", "Min", "Neg", "OneHot", "Pad", "ReduceMax",
        "ReduceMin", "Relu", "Reshape", "ReverseSequence", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth",
        "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu", "Unique", "Unsqueeze", "Where")),
    *((_ML, name) for name in ("ArrayFeatureExtractor", "FeatureVectorizer", "Imputer")),
])  # fmt: skip
# results are in FP32 whatever the inputs are
_EXACT = frozenset([
    *(("", name) for name in ("Cast", "Ceil", "Constant", "Floor", "Round", "Sign")),
    *((_ML, name) for name in ("Binarizer", "DictVectorizer", "LabelEncoder", "OneHotEncoder")),
])  # fmt: skip
# rounded once from exact operands: these have to be in FP32, too
_ROUNDED_ONCE = frozenset([
    (_ML, "Scaler"), *(("", name) for name in ("Add", "Div", "Mul", "Reciprocal", "Sqrt", "Sub"))
])


def values_in_single_precision(graph: TypedGraph) -> frozenset[str]:
    """The `float` values of a graph that are to be rounded where they are computed."""
    stack = [node.inputs[0] for node in graph.nodes if node.identity in TREES and node.inputs]
    if not stack:
        return frozenset()
    producers: dict[str, Node] = {name: node for node in graph.nodes for name in node.outputs if name}
    found: set[str] = set()
    seen: set[str] = set()
    while stack:
        name = stack.pop()
        node = producers.get(name)
        if node is None or name in seen or graph.values[name].dtype != "float":
            continue
        seen.add(name)
        if node.identity in _EXACT or graph.values[name].constant is not None:
            continue
        if node.identity not in MOVES:
            found.add(name)
        if node.identity in MOVES or node.identity in _ROUNDED_ONCE:
            stack += filter(None, node.inputs)
    return frozenset(found)
