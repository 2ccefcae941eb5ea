"""Removes results of Ifs and Loops that nothing reads, such as a count that is only printed."""

from __future__ import annotations

from collections.abc import Container, Iterable

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.liveness import captured, needed_nodes, needed_tensors
from onnx_systemds.exporting.graph.nodes import Node, Scope, SubGraph, Tensor

_BEFORE_STATES = 2
"""Inputs of a Loop, and of its body, before what it passes on from iteration to iteration."""


def drop_dead_results(builder: GraphBuilder) -> None:
    """Leave in each If and Loop what is read of its results, in outer ones first."""
    _drop_in(builder.main, [tensor for _, tensor in builder.outputs])


def _drop_in(scope: Scope, outputs: Iterable[Tensor]) -> bool:
    """Return whether anything was dropped."""
    read = needed_tensors(scope, outputs)
    dropped = False
    for node in needed_nodes(scope, outputs):
        while _drop(node, read):  # what a body has no longer may have been all that reads a state
            dropped = True
    return dropped


def _drop(node: Node, read: Container[Tensor]) -> bool:
    count = len(node.outputs)
    if node.op == "If":
        _keep_results(node, [place for place, output in enumerate(node.outputs) if output in read])
    elif node.op == "Loop":
        _keep_states(node, read)
    inner = [_drop_in(body.scope, body.outputs) for body in node.subgraphs()]
    return len(node.outputs) < count or any(inner)


def _keep_results(node: Node, kept: list[int]) -> None:
    node.outputs = tuple(node.outputs[place] for place in kept)
    for body in node.subgraphs():
        body.outputs = tuple(body.outputs[place] for place in kept)


def _keep_states(node: Node, read: Container[Tensor]) -> None:
    """Drop the states that only the Loop itself reads; collected outputs come after the states."""
    body = node.subgraphs()[0]
    states = body.inputs[_BEFORE_STATES:]
    kept = {place for place, output in enumerate(node.outputs) if output in read}
    count = 0
    while count < len(kept):
        count = len(kept)
        ends = (body.outputs[0], *(body.outputs[1 + place] for place in sorted(kept)))
        used = captured(SubGraph(body.scope, (), ends))
        kept |= {place for place, state in enumerate(states) if state in used}
    own = [place for place in sorted(kept) if place < len(states)]
    node.inputs = (*node.inputs[:_BEFORE_STATES], *(node.inputs[_BEFORE_STATES + place] for place in own))
    body.inputs = (*body.inputs[:_BEFORE_STATES], *(states[place] for place in own))
    body.outputs = (body.outputs[0], *(body.outputs[1 + place] for place in sorted(kept)))
    node.outputs = tuple(node.outputs[place] for place in sorted(kept))
