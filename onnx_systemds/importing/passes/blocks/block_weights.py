"""Weights that the function of a repeated block takes out of a list: each call gives it the list of its own weights.

So the engine compiles again, at each call, only the block that takes them (docs/decisions/0028-repeated-blocks.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned, assignment_counts, reads
from onnx_systemds.importing.passes.blocks.repeats import Repeat
from onnx_systemds.operators.rendering.weight_loads import key_of, sizes_of

Given: TypeAlias = tuple[str, ...]
"""The variables that a parameter stands for, one for each call."""


def weight_parameters(body: tree.Block, repeats: Sequence[Repeat]) -> list[tuple[Given, ...]]:
    """The parameters of each repeat that go into its list of weights; none if there are fewer than two.

    They are weights that have the same size in all calls and that only their call reads.
    """
    loads = _loads(body)
    readers: dict[str, list[int]] = {name: [] for name in loads}
    for place, statement in enumerate(body):
        for name in reads(statement) & loads.keys():
            readers[name].append(place)
    return [_parameters(repeat, loads, readers) for repeat in repeats]


def _loads(body: tree.Block) -> dict[str, tree.Statement]:
    """The statements that load a weight which is loaded once, by the variables that they assign."""
    counts, keys = assignment_counts(body), Counter(map(key_of, body))
    found: dict[str, tree.Statement] = {}
    for statement in body:
        key = key_of(statement)
        if key is not None and keys[key] == 1 and counts[name := assigned((statement,))[0]] == 1:
            found[name] = statement
    return found


def _parameters(
    repeat: Repeat, loads: Mapping[str, tree.Statement], readers: Mapping[str, Sequence[int]]
) -> tuple[Given, ...]:
    instances = [set(instance) for instance in repeat.instances]
    found: list[Given] = []
    for names in repeat.parameters:
        if not all(name in loads and instance.issuperset(readers[name]) for name, instance in zip(names, instances)):
            continue
        if len({sizes_of(loads[name]) for name in names}) == 1:
            found.append(tuple(names))
    return tuple(found) if len(found) > 1 else ()
