"""A call of a model's own function becomes the function's nodes.

Condition: the function has few nodes, or handles lists whose items are known, or all is to be written out. Reason: that
reads better than a call, and operators on known lists leave nothing in the script. Others become functions of DML (see
`local_functions`).
"""

from __future__ import annotations

from onnx_systemds.inference.definitions import inline
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.local_functions import is_called


def inline_function(facts: InferenceFacts) -> Rewriting:
    """The nodes of the function that a node calls, None where it stays a call."""
    node, context = facts.node, facts.context
    function = context.function_of(node)
    if function is None:
        return None
    if context.keeps_functions and is_called(facts, function):
        return f"of {len(function.nodes)} nodes: it is a function of the script"
    nodes = inline(node, function, f"{node.op_type}{context.next_expansion()}")
    return nodes, f"of {len(function.nodes)} nodes"
