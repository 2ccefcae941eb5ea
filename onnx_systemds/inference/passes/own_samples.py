"""A GatherND whose first index is the number of the sample takes from each sample by the other indices.

So exporters write ``x[arange(batch), last]``, the last token of each sequence. Condition: the first indices are a Range
from 0 to the size of the first axis, along the first axis of the indices. Reason: with ``batch_dims`` samples do not
depend on each other.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.passes.identity_gathers import joined_indices
from onnx_systemds.inference.ramps import ramp_of
from onnx_systemds.model.ir import Node

NEEDS = ("GatherND",)
_SINCE = 12  # batch_dims


def take_from_own_samples(facts: InferenceFacts) -> Rewriting:
    """The GatherND of the other indices, None where the first one is not made so."""
    node = facts.node
    if node.version < _SINCE or any(facts.value(at).dims is None for at in (0, 1)):
        return None
    made = joined_indices(facts)
    if made is None or facts.rank(1) < 2 or len(made.inputs) < 2:
        return None
    if not _counts_samples(facts, made):
        return "its first indices are not known to be the numbers of the samples"
    writer = NodeWriter(node, node.outputs[0], node.version)
    rest = made.inputs[1] if len(made.inputs) == 2 else writer.emit("Concat", *made.inputs[1:], axis=-1)
    attributes = {**node.attributes, "batch_dims": 1}
    return (*writer.nodes, replace(node, inputs=(node.inputs[0], rest), attributes=attributes)), "of each sample"


def _counts_samples(facts: InferenceFacts, made: Node) -> bool:
    """Whether the first part of the indices has the number of the sample, along their first axis."""
    first = facts.values[made.inputs[0]]
    ramp, samples = ramp_of(first), facts.dims(0)[0]
    if ramp is None or ramp.start != 0 or first.dims is None or first.dims[0] != samples or samples == 1:
        return False
    others = zip(ramp.steps[1:], first.dims[1:])
    return ramp.steps[0] == 1 and all(step == 0 or size == 1 for step, size in others)
