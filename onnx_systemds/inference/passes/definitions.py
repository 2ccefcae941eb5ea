"""An operator without a generator becomes other operators: by our expansion of it, else by ONNX's definition.

Reason: that is exact, and many operators need no more. Where an operator has both, its generator is that of text.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.inference.definitions import expand
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.registry import expanders, find, operator_generators, serving
from onnx_systemds.model.ir import Node

RULE = "definitions"


def expand_definition(facts: InferenceFacts, before: Sequence[Node]) -> tuple[Node, ...] | None:
    """The nodes that define a node, None where it has a generator, or nothing defines it."""
    node, context = facts.node, facts.context
    if find(operator_generators, node.identity, node.version) is not None:
        since = serving(operator_generators, node.identity, node.version)
        both = serving(expanders, node.identity, node.version) >= since  # not one for versions before
        if not both or any(facts.has(i) and facts.value(i).dtype == "string" for i in range(facts.input_count)):
            return None
    nodes = expand(facts, f"{node.op_type}{context.next_expansion()}")
    if nodes is not None:
        context.notes.fired(RULE, node, f"{len(nodes)} nodes")
    return nodes
