"""CDist of onnxruntime: the distance of each row to each of other rows."""

from __future__ import annotations

from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.support.batch_rules import output_size


@shape_rule("CDist", domain=CONTRIB)
def distances_rule(node: NodeFacts) -> tuple[Value, ...]:
    """[n, m] of [n, features] and [m, features]."""
    node.assume_same_size((0, 1), (1, 1))
    return (node.tensor((node.dims("A")[0], node.dims("B")[0])),)


@batch_rule("CDist", domain=CONTRIB)
def mixes_in_distances(node: NodeFacts, position: int, axis: int) -> bool:
    """Rows of the first matrix are rows of the result, those of the second its columns."""
    return axis != 0 or output_size(node, 2 - position) != node.dims(position)[0]


@generator("CDist", since=1, domain=CONTRIB)
def distances(node: NodeView) -> Fragment:
    """Differences squared and added feature by feature: products would cancel where rows are near to each other."""
    rows, others, features = node.dims("A")[0], node.dims("B")[0], node.dims("A")[1]
    text = node.call("squared_distances", node.view("A", View(rows, features)), node.view("B", View(others, features)))
    return node.result(text if node.attribute("metric") == "sqeuclidean" else f"sqrt({text})", View(rows, others))
