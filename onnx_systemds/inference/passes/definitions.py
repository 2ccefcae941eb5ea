"""An operator without a generator becomes other operators: by our expansion of it, else by ONNX's definition.

Reason: that is exact, and many operators need no more. Where an operator has both, its generator is that of text.
"""

from __future__ import annotations

from onnx_systemds.inference.definitions import expand
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.registry import expanders, find, operator_generators, serving


def expand_definition(facts: InferenceFacts) -> Rewriting:
    """The nodes that define a node, None where it has a generator, or nothing defines it."""
    node = facts.node
    if find(operator_generators, node.identity, node.version) is not None:
        since = serving(operator_generators, node.identity, node.version)
        both = serving(expanders, node.identity, node.version) >= since  # not one for versions before
        if not both or any(facts.has(i) and facts.value(i).dtype == "string" for i in range(facts.input_count)):
            return None
    nodes = expand(facts, f"{node.op_type}{facts.context.next_expansion()}")
    return None if nodes is None else (nodes, f"{len(nodes)} nodes")
