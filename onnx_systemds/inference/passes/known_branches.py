"""If becomes the nodes of one of its branches.

Condition: which one is known at conversion. Reason: the script neither asks nor holds the other one, and types and
sizes follow from the branch alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.inference.definitions import inline_body
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.passes.continuations import CONTINUED
from onnx_systemds.model.ir import Node

RULE = "known-branches"
NEEDS = ("If",)


def choose_known_branch(facts: InferenceFacts, before: Sequence[Node]) -> tuple[Node, ...] | None:
    """The nodes of the branch that an If takes, None where only the run knows."""
    node, context = facts.node, facts.context
    if node.identity != ("", "If"):
        return None
    condition = facts.constant(0)
    if condition is None or condition.size != 1:
        if CONTINUED not in node.attributes:
            context.notes.left(RULE, node, "its condition is only known when the model runs")
        return None
    name = "then_branch" if condition.ravel()[0] else "else_branch"
    context.notes.fired(RULE, node, f"its {name}")
    return inline_body(node, facts.graph_attribute(name), f"If{context.next_expansion()}", (), node.outputs)
