"""Operators on sequences and optionals become plain operators on the items, by the list rules of the operators.

Condition: the items are known at conversion; a loop that carries such lists makes a known number of iterations, not too
many. Reason: what exporters write (a sequence made of known tensors, taken apart again) leaves nothing in the script.
"""

from __future__ import annotations

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.list_node import ListNode
from onnx_systemds.inference.registry import find, list_rules


def resolve_known_lists(facts: InferenceFacts) -> Rewriting:
    """The nodes that stand for a node on known lists, None where it stays as it is."""
    node, context = facts.node, facts.context
    rule = find(list_rules, node.identity, node.version)
    if rule is None:
        return None
    found = rule(ListNode(facts, lambda hint: f"{node.outputs[0]}/{hint}{context.next_expansion()}"))
    if isinstance(found, tuple):
        return found, "on items that are known by name"
    return found or _obstacle(facts)


def _obstacle(facts: NodeFacts) -> str | None:
    """Why a node that handles lists stays, None for one that handles none."""
    given = [facts.value(position) for position in range(facts.input_count) if facts.has(position)]
    if any(value.is_list and value.items is None for value in given):
        return "the items are only known when the model runs"
    return "the position is only known when the model runs" if any(value.is_list for value in given) else None
