"""A Loop does not carry what stays as it is, nor what nothing reads.

Condition: the body hands a value on as it came in, or neither the body nor the graph reads it. Reason: exporters carry
all variables of a while loop, PaddlePaddle its weights, too; what stays is a constant of the body, or computed once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.ir import Graph, Node
from onnx_systemds.model.walk import handed_on, names_used

NEEDS = ("Loop",)


def drop_loop_states(graph: Graph, notes: PassNotes) -> Graph:
    """The graph with loops that carry less."""
    used = names_used(graph)
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        body = node.attributes.get("body")
        made = _carrying_less(node, body, used) if node.identity == ("", "Loop") and isinstance(body, Graph) else None
        if made is not None:
            changed = True
            notes.fired(node, "it carried what stays as it is, or what nothing reads")
        nodes += made or (node,)
    return replace(graph, nodes=tuple(nodes)) if changed else graph


def _carrying_less(node: Node, body: Graph, used: Collection[str]) -> tuple[Node, ...] | None:
    """The loop without some of its states, after the nodes that give them; None where it needs all."""
    starts = node.inputs[2:]
    if len(body.inputs) != 2 + len(starts) or len(body.outputs) <= len(starts):
        return None  # which the Loop refuses
    results = node.outputs + ("",) * (len(starts) - len(node.outputs))
    own = {given.name for given in body.inputs}.union(body.initializers, *(inner.outputs for inner in body.nodes))
    read = names_used(body)
    kept: list[int] = []
    copies: list[Node] = []
    first: list[Node] = []
    for place, start in enumerate(starts):
        name, result = body.inputs[2 + place].name, results[place]
        stays = handed_on(body.nodes, body.outputs[1 + place].name) == name
        if stays and (start == name or start not in own):
            if start != name:
                first.append(node.inner("Identity", (start,), (name,), {}))
            if result:
                copies.append(node.inner("Identity", (start,), (result,), {}))
        elif name in read or result in used:
            kept.append(place)
    if len(kept) == len(starts):
        return None
    inner = replace(
        body,
        inputs=(*body.inputs[:2], *(body.inputs[2 + place] for place in kept)),
        outputs=(body.outputs[0], *(body.outputs[1 + place] for place in kept), *body.outputs[1 + len(starts) :]),
        nodes=(*first, *body.nodes),
    )
    changed = replace(
        node,
        inputs=(*node.inputs[:2], *(starts[place] for place in kept)),
        outputs=(*(results[place] for place in kept), *node.outputs[len(starts) :]),
        attributes={**node.attributes, "body": inner},
    )
    return (*copies, changed)
