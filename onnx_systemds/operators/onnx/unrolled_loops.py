"""Loops that carry sequences or optionals whose items are known by name: they are written out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnx_systemds.inference.definitions import inline_body
from onnx_systemds.inference.list_node import ListNode
from onnx_systemds.inference.registry import list_rule
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node
from onnx_systemds.model.walk import handed_on

_MOST_TRIPS = 256  # of a loop that is written out
_TRIPS_UNKNOWN = f"its trips are not known, or more than {_MOST_TRIPS}, or it may end before"


@list_rule("Loop")
def written_out(node: ListNode) -> tuple[Node, ...] | str | None:
    """A loop that carries lists with known items for a known number of iterations is written out."""
    carried = range(2, node.input_count)
    if not any(node.value(position).items is not None for position in carried):
        return None
    trips = node.number(0)
    start = node.constant(1)
    body = node.graph_attribute("body")
    if trips is None or trips > _MOST_TRIPS or (node.has(1) and (start is None or not np.all(start))):
        return _TRIPS_UNKNOWN
    if not _goes_on(body, node.values):
        return _TRIPS_UNKNOWN
    if trips < 1 and any(node.node.outputs[node.input_count - 2 :]):
        return "without trips it collects nothing that has dims"
    names = list(node.node.inputs[2:])
    collected: list[list[str]] = [[] for _ in node.node.outputs[len(names) :]]
    for trip in range(trips):
        given = [node.known(trip), node.known(True, "bool"), *names]
        outputs = [node.fresh(f"trip{trip}") for _ in range(1 + len(names) + len(collected))]
        node.nodes += inline_body(node.node, body, node.fresh(f"body{trip}"), given, outputs)
        names = outputs[1 : 1 + len(names)]
        for rows, output in zip(collected, outputs[1 + len(names) :]):
            rows.append(output)
    for output, name in zip(node.node.outputs, names):
        if output:
            node.emit("Identity", name, to=output)
    for output, rows in zip(node.node.outputs[len(names) :], collected):
        if output:
            node.emit("Concat", *node.on_axis("Unsqueeze", rows, 0, "row"), to=output, axis=0)
    return tuple(node.nodes)


def _goes_on(body: Graph, outer: Mapping[str, Value]) -> bool:
    """Whether the loop's condition stays as it comes in. outer: the values around the loop."""
    name = handed_on(body.nodes, body.outputs[0].name)
    if any(given.name == name for given in body.inputs):
        return name == body.inputs[1].name
    content = body.initializers.get(name)
    made = next((node for node in body.nodes if name in node.outputs), None)
    if made is not None and made.op_type == "Constant":
        content = np.asarray(made.attributes.get("value", False))
    elif made is None and content is None and name in outer:
        content = outer[name].constant
    return content is not None and bool(np.all(content))
