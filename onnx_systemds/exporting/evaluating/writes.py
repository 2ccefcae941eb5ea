"""The ranges of a matrix that an iteration of a loop replaces, also in branches of an if: `Writes`."""

from __future__ import annotations

from itertools import takewhile

from onnx_systemds.exporting.graph.nodes import Node, Range, Replacement, Tensor
from onnx_systemds.exporting.graph.operators import Operators


def replaced_ranges(end: Tensor, state: Tensor) -> list[Replacement] | None:
    """Return the replaced ranges of a state, in order; None for other updates."""
    found: list[Replacement] = []
    while end is not state:
        if end.replaced is None:
            return None
        found.append(end.replaced)
        end = end.replaced.old
    return found[::-1]


class Writes:
    """Finds the ranges of one state that an iteration replaces.

    What branches replace is the part that an If gives; where only one of them does, the other keeps what was there.
    partial: those ranges, which the iterations that do not replace them read all the same.
    """

    def __init__(self, graph: Operators, state: Tensor) -> None:
        self.graph, self.state = graph, state
        self.partial: list[Replacement] = []
        self._found: dict[Tensor, list[Replacement] | None] = {state: []}

    def of(self, end: Tensor) -> list[Replacement] | None:
        """Return the ranges in order; None for other updates."""
        if end not in self._found:
            self._found[end] = self._of(end)
        return self._found[end]

    def _of(self, end: Tensor) -> list[Replacement] | None:
        node = end.node
        if end.replaced is not None:
            before = self.of(end.replaced.old)
            return None if before is None else [*before, end.replaced]
        if node is not None and node.op == "Identity" and node.inputs[0] is not None:
            return self.of(node.inputs[0])
        return self._of_branches(node, list(node.outputs).index(end)) if node is not None and node.op == "If" else None

    def _of_branches(self, node: Node, place: int) -> list[Replacement] | None:
        bodies = node.subgraphs()
        one, other = (self.of(body.outputs[place]) for body in bodies)
        if one is None or other is None:
            return None
        before = [a for a, _ in takewhile(lambda pair: pair[0] is pair[1], zip(one, other))]
        own = [chain[len(before) :] for chain in (one, other)]
        ranges = [[(write.rows, write.cols) for write in chain] for chain in own if chain]
        if not ranges:
            return before
        if ranges[0] != ranges[-1]:
            return None
        writes = own[0] or own[1]
        ends = []
        for body, chain in zip(bodies, own):
            with self.graph.subgraph(body.scope):
                parts = (write.part for write in chain) if chain else (self._kept(write, before) for write in writes)
                known = [part for part in parts if part is not None]
                if len(known) < len(writes):
                    return None
                ends.append((body.scope, known))
        kinds = [(write.part.kind, (write.rows.size, write.cols.size)) for write in writes]
        with self.graph.subgraph(node.scope):
            made = self.graph.branches(node.operand(), ends, kinds)
        found = [Replacement(self.state, part, write.rows, write.cols) for part, write in zip(made, writes)]
        if not all(own):
            self.partial += found
        return [*before, *found]

    def _kept(self, write: Replacement, before: list[Replacement]) -> Tensor | None:
        """Return the content of a range before it is replaced; None if it is unknown."""
        source, rows, cols = self.state, write.rows, write.cols
        for earlier in reversed(before):
            if _inside(write.rows, earlier.rows) and _inside(write.cols, earlier.cols):
                source = earlier.part
                rows, cols = (Range(own.start - whole.start, own.size)
                              for own, whole in ((rows, earlier.rows), (cols, earlier.cols)))
                break
            if not _apart(write.rows, earlier.rows) and not _apart(write.cols, earlier.cols):
                return None
        band = self.graph.slice(source, 0, rows.start, rows.stop, size=rows.size)
        return self.graph.slice(band, 1, cols.start, cols.stop, size=cols.size)


def _inside(own: Range, whole: Range) -> bool:
    """Whether a range is certainly a part of another one."""
    margins = own.start - whole.start, whole.stop - own.stop
    return all(isinstance(margin, int) and margin >= 0 for margin in margins)


def _apart(one: Range, other: Range) -> bool:
    """Whether two ranges of an axis have no place in common, as far as that is known."""
    return any(isinstance(gap, int) and gap >= 0 for gap in (one.start - other.stop, other.start - one.stop))
