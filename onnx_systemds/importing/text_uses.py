"""Finds nodes that distinguish strings which are not constants of the model."""

from __future__ import annotations

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.integer_spans import Moves
from onnx_systemds.inference.registry import find, integer_rules, text_lookups
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import Node
from onnx_systemds.model.walk import names_read


def distinguishing_node(typed: TypedGraph) -> Node | None:
    """The first node that may distinguish two strings which are not constants of the model, or that returns one."""
    open_texts = {name for name in typed.inputs if typed.values[name].is_text}
    makers: dict[str, Node] = {}
    for node in typed.nodes:
        read = [name for name in names_read(node) if name in open_texts]
        if not read or node.identity in text_lookups:
            continue
        if (node.identity == ("", "Equal") and len(read) == 1) or _moves(typed, node):
            given = [name for name in node.outputs if name and typed.values[name].is_text]
            open_texts.update(given)
            makers.update(dict.fromkeys(given, node))
        else:
            return node
    return next((makers[name] for name in typed.outputs if name in makers), None)


def _moves(typed: TypedGraph, node: Node) -> bool:
    """Whether a node only moves elements and does not compare them."""
    rule = find(integer_rules, node.identity, node.version)
    use = None if rule is None else rule(NodeFacts(node, typed.values, typed.name))
    return isinstance(use, Moves) and not use.is_compared
