"""A Gather or GatherND that takes each element from its own place becomes an Unsqueeze.

So exporters write ``mask[batch, position]`` with the numbers of all samples and all positions as indices. Condition:
the indices are made of Range from 0 to the size of an axis, put into their axes, scaled by sizes and added, and name
the elements in their order; two open sizes are assumed to be equal. Reason: it is no work, and samples of such a model
no longer depend on each other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_systemds.inference.assumptions import certainly_differ
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.ramps import ramp_of
from onnx_systemds.model.ir import Node

NEEDS = ("Gather", "GatherND")


def replace_identity_gather(facts: InferenceFacts) -> Rewriting:
    """The nodes that give the axes of size 1; None where elements are chosen."""
    node = facts.node
    if not all(facts.has(place) for place in (0, 1)):
        return None
    if facts.value(0).dims is None or facts.value(1).dims is None or facts.rank(1) < 2 or facts.constant(1) is not None:
        return None
    found = _Places(facts)
    rows = found.of_tuples() if node.op_type == "GatherND" else found.of_rows()
    source = found.source(node.inputs[0])
    rest = facts.dims(0)[1 if node.op_type == "Gather" else len(found.named) :]
    new = None if rows is None else _new_axes(facts.dims_of(source), (*rows, *rest))
    if new is None:
        return "the indices count, but not all places in their order" if found.counts else None
    for axis, size in found.assumed:
        words = f"the number of indices into {facts.axis_words(0, axis)}"
        facts.assume_equal(facts.dims(0)[axis], size, facts.axis_words(0, axis), words)
    axes = f"{node.outputs[0]}/axes"
    return (
        replace(node, op_type="Constant", inputs=(), outputs=(axes,), attributes={"value": np.array(new, np.int64)}),
        replace(node, op_type="Unsqueeze", inputs=(source, axes), attributes={}, version=13),
    ), "each element is taken from its own place"


def joined_indices(facts: InferenceFacts) -> Node | None:
    """The Concat of the indices of a GatherND that has no batches, with an input for each axis of the data."""
    made, dims = facts.made_by(facts.node.inputs[1], "Concat"), facts.dims(1)
    if made is None or facts.attribute("batch_dims") or NodeFacts(made, facts.values).axis() != len(dims) - 1:
        return None
    return made if dims[-1] == len(made.inputs) else None


def _new_axes(before: Dims, after: Dims) -> list[int] | None:
    """The axes of size 1 that are new, None where others differ."""
    new, place = [], 0
    for axis, size in enumerate(after):
        if place < len(before) and before[place] == size:
            place += 1
        elif size == 1:
            new.append(axis)
        else:
            return None
    return new if place == len(before) else None


class _Places:
    """How indices count along the axes that they have."""

    def __init__(self, facts: InferenceFacts) -> None:
        self.facts = facts
        self.named: Dims = ()
        self.counts = False  # whether indices follow from their places
        self.assumed: list[tuple[int, Dim]] = []  # axes whose size has another name than the number of indices

    def of_rows(self) -> Dims | None:
        """Dims of the indices of a Gather, if they are the numbers of all rows in their order."""
        facts = self.facts
        if facts.axis() != 0:
            return None
        dims = facts.dims(1)
        factors = self.factors(facts.node.inputs[1])
        if factors is None or product(dims) != facts.dims(0)[0]:
            return None
        wanted: Dim = 1
        for factor, size in zip(reversed(factors), reversed(dims)):
            if size != 1 and factor != wanted:
                return None
            wanted *= size
        return dims

    def of_tuples(self) -> Dims | None:
        """Dims of what a GatherND gives, up to its last indices, if each names its own place along the first axes."""
        facts = self.facts
        made, dims = joined_indices(facts), facts.dims(1)
        if made is None:
            return None
        axes = [axis for axis, size in enumerate(dims[:-1]) if size != 1]
        self.named = facts.dims(0)[: len(made.inputs)]
        counted = [(part, size) for part, size in zip(made.inputs, self.named)]
        if len(axes) != len(counted):
            return None
        found = list(dims[:-1])
        for place, (axis, (part, size)) in enumerate(zip(axes, counted)):
            factors, number = self.factors(part), dims[axis]
            if factors is None or facts.dims_of(part)[:-1] != dims[:-1]:
                return None
            if any(factors[other] != (1 if other == axis else 0) for other in axes):
                return None
            if size != number:
                if isinstance(size, int) or isinstance(number, int) or certainly_differ(size, number):
                    return None
                self.assumed.append((place, number))
            found[axis] = size
        return tuple(found)

    def source(self, name: str) -> str:
        """A value whose elements in their order are those of this one."""
        while (made := self.facts.made_by(name, "Flatten", "Reshape")) is not None:
            if self.facts.values[made.inputs[0]].dims is None:
                break
            name = made.inputs[0]
        return name

    def factors(self, name: str) -> Dims | None:
        """What an index grows by along each of its axes, from 0 on; None where that is not known."""
        ramp = ramp_of(self.facts.values[name])
        if ramp is None:
            return None
        self.counts = self.counts or not ramp.is_even
        return ramp.steps if ramp.start == 0 else None
