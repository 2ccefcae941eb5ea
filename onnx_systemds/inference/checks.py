"""`Checks`: the assumptions that one function of a script checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, product

from onnx_systemds.inference.assumptions import Assumption, Relation
from onnx_systemds.inference.dim_equations import last_equal
from onnx_systemds.inference.dims import Dim, Dims, lone_symbol, substitute, symbol, symbols
from onnx_systemds.inference.dims import product as number_of_elements
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.limits import OverBudget
from onnx_systemds.model.walk import needed_positions

_MOST_CANDIDATES = 64  # dims by equal sizes that are tried


class Checks:
    """The assumptions to check: ``at_start``, and before each node those about sizes that other nodes decide."""

    def __init__(self, graph: TypedGraph, outer: Checks | None) -> None:
        """Collect those of the nodes that the outputs need, except those that the outer function checks."""
        self.at_start: list[Assumption] = []
        self._at_node: dict[int, list[Assumption]] = {}
        self._same: dict[Dim, Dim] = {} if outer is None else dict(outer._same)
        self._others: set[tuple[Relation, Dim, Dim]] = set() if outer is None else set(outer._others)
        self._own = graph.own_sizes
        for position in sorted(needed_positions(graph.nodes, graph.outputs)) if graph.assumptions else ():
            for assumption in graph.assumptions.get(position, ()):
                self._note(position, assumption)
        self.at_start = _strongest(self.at_start)

    def add(self, position: int, assumption: Assumption) -> None:
        """Add an assumption of a node."""
        if self._note(position, assumption):
            self.at_start = _strongest(self.at_start)

    def _note(self, position: int, assumption: Assumption) -> bool:
        """Note an assumption; return whether it is a new one at the start."""
        if not self._own.isdisjoint(assumption.symbols):
            self._at_node.setdefault(position, []).append(assumption)
            return False
        is_new = self.is_new(assumption)
        if is_new:
            self.at_start.append(assumption)
        return is_new

    def of_node(self, position: int) -> Sequence[Assumption]:
        """The assumptions of a node about sizes that other nodes decide."""
        return _strongest(self._at_node.get(position, ()))

    def is_new(self, assumption: Assumption) -> bool:
        """Whether an assumption does not follow from those that were noted before."""
        if not assumption.relation.is_equality:
            key = assumption.relation, assumption.left, assumption.right
            is_new = key not in self._others
            self._others.add(key)
            return is_new
        left, right = self._root(assumption.left), self._root(assumption.right)
        if left == right:
            return False
        equal = {name: self._root(symbol(name)) for name in symbols((left, right)) if symbol(name) in self._same}
        try:
            if substitute(left, equal) == substitute(right, equal):
                return False
        except OverBudget:  # the sizes as they are written may be checked all the same
            pass
        self._same[left] = right
        return True

    def replacements(self, is_available: Callable[[str], bool]) -> dict[str, Dim]:
        """For symbols that are unavailable, equal sizes that are available."""
        sizes = [size for assumption in self.at_start if assumption.relation.is_equality
                 for size in (assumption.left, assumption.right)]
        known = {self._root(size): size for size in sizes if all(map(is_available, symbols(size)))}
        names = {name: size for size in sizes if (name := lone_symbol(size)) is not None and not is_available(name)}
        return {name: known[root] for name, size in names.items() if (root := self._root(size)) in known}

    def is_filled(self, dims: Dims, elements: Dim) -> bool:
        """Whether dims have so many elements by the equal sizes that were noted before."""
        equal = [[dim, *(size for size in self._same if self._root(size) == self._root(dim)), self._root(dim)]
                 for dim in dims]
        candidates = islice(product(*map(dict.fromkeys, equal)), _MOST_CANDIDATES)
        return any(number_of_elements(candidate) == elements for candidate in candidates)

    def _root(self, size: Dim) -> Dim:
        return last_equal(self._same, size)


def _strongest(assumptions: Sequence[Assumption]) -> list[Assumption]:
    """The assumptions that do not follow from the bound of another one: nested windows bound one size repeatedly."""
    bounds = [assumption.bound for assumption in assumptions]
    most: dict[Dim, int] = {}
    for size, least in filter(None, bounds):
        most[size] = max(least, most.get(size, least))
    chosen = {bounds.index(bound) for bound in most.items()}
    return [found for place, found in enumerate(assumptions) if bounds[place] is None or place in chosen]
