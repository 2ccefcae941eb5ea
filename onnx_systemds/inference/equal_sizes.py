"""Sizes of inputs that have different names, and have to be equal for the model to run at all.

Exporters name the first axis of each input for itself where they do not see that all of them count samples. Where a
node needs two of these sizes to be equal, the script takes no others: they are one size. So it checks its inputs, not
nodes, and samples are known not to depend on each other. A size that may be 1, to be repeated, stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.checks import Checks
from onnx_systemds.inference.dim_equations import last_equal
from onnx_systemds.inference.dims import Dim, divide_exactly, lone_symbol, symbol, symbols
from onnx_systemds.inference.typed_graph import TypedGraph


def equal_input_sizes(typed: TypedGraph) -> Mapping[str, Dim]:
    """For symbols of a main graph's inputs, the symbol of an input before that is equal; {} if all may differ."""
    declared = [name for given in typed.inputs for size in typed.values[given].dims or ()
                if (name := lone_symbol(size)) is not None]
    places = {name: place for place, name in reversed(list(enumerate(declared)))}
    found: dict[str, str] = {}
    for assumption in Checks(typed, None).at_start:
        pair = [lone_symbol(size) for size in _without_factor(assumption.left, assumption.right)]
        names = [last_equal(found, name) for name in pair if name in places]
        if assumption.relation is Relation.EQUAL and len(names) == 2 and names[0] != names[1]:
            first, later = sorted(names, key=places.__getitem__)
            found[later] = first
    return {name: symbol(last_equal(found, name)) for name in found}


def _without_factor(left: Dim, right: Dim) -> tuple[Dim, Dim]:
    """Two sizes without the number that both are multiples of: n and m for 2 * n and 2 * m."""
    for name in symbols(left):
        factor = divide_exactly(left, symbol(name))
        other = divide_exactly(right, factor) if isinstance(factor, int) else None
        if other is not None:
            return symbol(name), other
    return left, right
