"""If becomes the nodes of one of its branches.

Condition: which one is known at conversion. Reason: the script neither asks nor holds the other one, and types and
sizes follow from the branch alone.
"""

from __future__ import annotations

from onnx_systemds.inference.definitions import inline_body
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.passes.continuations import CONTINUED

NEEDS = ("If",)


def choose_known_branch(facts: InferenceFacts) -> Rewriting:
    """The nodes of the branch that an If takes, None where only the run knows."""
    node = facts.node
    condition = facts.constant(0)
    if condition is None or condition.size != 1:
        return None if CONTINUED in node.attributes else "its condition is only known when the model runs"
    name = "then_branch" if condition.ravel()[0] else "else_branch"
    prefix = f"If{facts.context.next_expansion()}"
    return inline_body(node, facts.graph_attribute(name), prefix, (), node.outputs), f"its {name}"
