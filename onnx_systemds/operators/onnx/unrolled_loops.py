"""Loops that carry sequences or optionals whose items are known by name: they are written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    facts = node.facts
    carried = range(2, facts.input_count)
    if not any(facts.value(position).items is not None for position in carried):
        return None
    trips = node.number(0)
    start = facts.constant(1)
    body = facts.graph_attribute("body")
    if trips is None or trips > _MOST_TRIPS or (facts.has(1) and (start is None or not np.all(start))):
        return _TRIPS_UNKNOWN
    if not _goes_on(body, facts.values):
        return _TRIPS_UNKNOWN
    if trips < 1 and any(facts.node.outputs[facts.input_count - 2 :]):
        return "without trips it collects nothing that has dims"
    names = list(facts.node.inputs[2:])
    collected: list[list[str]] = [[] for _ in facts.node.outputs[len(names) :]]
    written: list[Node] = []
    for trip in range(trips):
        counter = ListNode(facts, node.fresh)
        given = [counter.constant(np.array(trip, dtype=np.int64)), counter.constant(np.array(True))]
        written += counter.written
        outputs = [node.fresh(f"trip{trip}") for _ in range(1 + len(names) + len(collected))]
        written += inline_body(facts.node, body, node.fresh(f"body{trip}"), [*given, *names], outputs)
        names = outputs[1 : 1 + len(names)]
        for rows, output in zip(collected, outputs[1 + len(names) :]):
            rows.append(output)
    for output, name in zip(facts.node.outputs, names):
        if output:
            written += ListNode(facts, node.fresh).write("Identity", (name,), (output,))
    for output, rows in zip(facts.node.outputs[len(names) :], collected):
        if output:
            written += _stacked(ListNode(facts, node.fresh), rows, output)
    return tuple(written)


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


def _stacked(node: ListNode, rows: Sequence[str], output: str) -> tuple[Node, ...]:
    wider = [node.fresh("row") for _ in rows]
    for row, name in zip(rows, wider):
        node.on_axis("Unsqueeze", row, name, 0)
    return node.write("Concat", wider, (output,), axis=0)
