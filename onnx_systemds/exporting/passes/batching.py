"""Vectorises the body of a loop: what differs between iterations gets an axis of the iterations.

A rule per operator (`batching_rules`) says how it takes such operands; a body with any other operator stays a loop. If
possible the axis replaces one of size 1, so that rows of a matrix become the matrix; otherwise it is the first axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import INT, Node, Scope, Tensor, cut_of
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.limits import LARGEST_BATCH, estimated_elements
from onnx_systemds.exporting.passes.hoisting import HARMLESS, may_divide_by_zero
from onnx_systemds.inference.dims import Dim, Dims, is_non_negative_from_one, lone_symbol, substitute, symbol

_HARMLESS = HARMLESS | {"CumSum", "LogSoftmax", "Slice"}
"""Operators that give something whatever their operands hold: what only some iterations need may be made for all."""


@dataclass(frozen=True)
class Block:
    """The positions that each iteration reads or writes along an axis: `size` many from ``first + trip * step`` on."""

    axis: int
    first: Dim
    step: int
    size: int

    def is_inside(self, trips: Dim, size: Dim) -> bool:
        """Whether no iteration leaves an axis of `size`."""
        lowest, highest = self.ends(trips) if self.step >= 0 else self.ends(trips)[::-1]
        return is_non_negative_from_one(lowest) and is_non_negative_from_one(size - highest - self.size)

    def ends(self, trips: Dim) -> tuple[Dim, Dim]:
        """Return where the first and the last iteration begin."""
        return self.first, self.first + self.step * (trips - 1)

    def check_inside(self, trips: Dim, size: Dim) -> None:
        """Raise UnsupportedCase where the first or last iteration leaves an axis of `size`: alone, it says where."""
        for start in self.ends(trips):
            beyond = start + self.size - size
            if (isinstance(start, int) and start < 0) or (isinstance(beyond, int) and beyond > 0):
                raise UnsupportedCase("an iteration of this loop reads or writes outside of a matrix")


@dataclass(frozen=True, eq=False)
class Batched:
    """A tensor of the body for all iterations: with their axis in place of `axis`, of size 1, or (None) in front.

    is_invariant: it is the same in all iterations, and has no such axis.
    """

    tensor: Tensor
    is_invariant: bool = False
    axis: int | None = None


class Batching:
    """Makes the nodes of a loop's body again, outside of it, each for all iterations."""

    def __init__(self, graph: Operators, scope: Scope, trips: Dim, counter: Tensor, rules: Mapping[str, Rule]) -> None:
        """`scope` is the body; `counter` counts its iterations from 0 on."""
        self.graph, self.scope, self.trips, self.rules = graph, scope, trips, rules
        known = graph.constant(np.arange(trips)) if isinstance(trips, int) else graph.count(0, trips)
        self.found: dict[Tensor, Batched] = {counter: Batched(known)}
        trip = lone_symbol(graph.integer_symbol(counter))
        assert trip is not None
        self.trip = trip
        self.block_states: dict[Tensor, tuple[Tensor, Block]] = {}
        self.largest = LARGEST_BATCH
        self.conditions: dict[Scope, tuple[tuple[Tensor, bool], ...]] = {}  # of branches: which iterations take them

    def add_block_state(self, state: Tensor, initial: Tensor, block: Block) -> None:
        """Let the body read of `state`, which holds `initial` before the loop, the block that the iteration writes."""
        self.block_states[state] = initial, block
        self.largest = max(self.largest, estimated_elements(initial.dims))

    def of(self, tensor: Tensor) -> Batched:
        """Return a tensor of the body, or of branches in it, for all iterations.

        Raises UnsupportedCase where that is not possible.
        """
        for node in needed_nodes(self.scope, [tensor], self._around(tensor)):
            if any(output not in self.found for output in node.outputs):
                self._make(node)
        return self._of(tensor)

    def _around(self, tensor: Tensor) -> list[Node]:
        """Return the nodes of the branches that a tensor of the body is in."""
        scopes = [] if tensor.node is None or tensor.node.scope is None else list(tensor.node.scope.with_parents())
        inner = scopes[: scopes.index(self.scope)] if self.scope in scopes else []
        return [node for scope in reversed(inner) for node in scope.nodes]

    def enter(self, outer: Scope, branch: Scope, condition: Tensor, wanted: bool = True) -> None:
        """Note that a branch inside of another one, or of the body, is taken where a condition is as `wanted`."""
        self.conditions[branch] = (*self.conditions.get(outer, ()), (condition, wanted))

    def _of(self, tensor: Tensor) -> Batched:
        if tensor in self.found:
            return self.found[tensor]
        scope = None if tensor.node is None else tensor.node.scope
        if scope is not None and self.scope in scope.with_parents():
            raise UnsupportedCase("an iteration of this loop reads the result of the one before")
        return Batched(tensor, is_invariant=True)

    def _make(self, node: Node) -> None:
        graph, before = self.graph, self.graph.place
        graph.place = node.place or before
        for tensor in node.outputs:
            if not all(graph.computable(dim) for dim in tensor.dims):
                raise UnsupportedCase("the iterations of this loop make matrices of different sizes")
        make = {"If": self._make_branches, "Identity": self._pass_on, "Loop": self._make_loop}.get(node.op)
        if make is not None:
            make(node)
            graph.place = before
            return
        may_fail = self.may_fail(node)
        of_block = self._initial_of_block(node)
        inputs = [None if tensor is None else of_block or self._of(tensor) if position == 0 else self._of(tensor)
                  for position, tensor in enumerate(node.inputs)]
        if all(found is None or found.is_invariant for found in inputs) and not may_fail:
            self._make_once(node, inputs)
        else:
            self._make_by_rule(node, inputs)
        graph.place = before

    def _make_by_rule(self, node: Node, inputs: Sequence[Batched | None]) -> None:
        rule = self.rules.get(node.op)
        if rule is None:
            raise UnsupportedCase(f"{node.op} cannot be computed for several iterations at once")
        made = rule(self, node, inputs)
        for output, found in zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True):
            self.found[output] = found
            self._check_size(found.tensor.dims, *(own.tensor for own in inputs if own is not None))

    def _pass_on(self, node: Node) -> None:
        self.found[node.outputs[0]] = self._of(node.operand())

    def _make_branches(self, node: Node) -> None:
        """Make both branches of an If for all iterations, and choose for each iteration what its branch gives."""
        bodies = node.subgraphs()
        condition, scope = node.operand(), node.scope
        assert scope is not None
        chosen = [self._of(condition)]
        for body, wanted in zip(bodies, (True, False)):
            self.enter(scope, body.scope, condition, wanted)
            for inner in needed_nodes(body.scope, body.outputs):
                if any(output not in self.found for output in inner.outputs):
                    self._make(inner)
        for output, *ends in zip(node.outputs, *(body.outputs for body in bodies)):
            if any(end.dims != output.dims for end in ends):
                raise UnsupportedCase("the branches of this loop make matrices of different sizes")
            inputs = [*chosen, *map(self._of, ends)]
            choice = Node("Where", (condition, *ends), (output,), {}, node.place, node.scope)
            if all(found.is_invariant for found in inputs):
                self._make_once(choice, inputs)
            else:
                self._make_by_rule(choice, inputs)

    def _make_loop(self, node: Node) -> None:
        """Make a Loop that runs as long as the longest; states of an iteration that has ended do not change."""
        graph, scope, (body,), (limit, going, *initial) = self.graph, node.scope, node.subgraphs(), node.inputs
        (counter, is_on, *states), (condition, *ends) = body.inputs, body.outputs
        assert scope is not None
        most = Batched(graph.constant(np.iinfo(np.int64).max), is_invariant=True) if limit is None else self._of(limit)
        if len(ends) > len(states) or not most.is_invariant:
            raise UnsupportedCase("an inner loop of this loop has a varying number of iterations, or joins its results")
        starts = [start for start in initial if start is not None]
        if not [start.dims for start in starts] == [end.dims for end in ends] == [end.dims for end in node.outputs]:
            raise UnsupportedCase("an inner loop of this loop makes matrices of different sizes")
        self.enter(scope, body.scope, is_on)
        outside = dict(self.found)

        def run(number: Tensor, _: Tensor, on: Tensor, *values: Tensor) -> list[Tensor]:
            self.found.update({counter: Batched(number, is_invariant=True), is_on: Batched(on)})
            self.found.update(zip(states, map(Batched, values)))
            for inner in needed_nodes(body.scope, body.outputs):
                self._make(inner)
            after = [self.repeated(self._of(end), end.dims) for end in ends]
            after = [graph.where(graph.reshape(on, (self.trips, *[1] * (new.rank - 1))), new, value)
                     for new, value in zip(after, values)]
            on = graph.binary("And", on, self.repeated(self._of(condition), ()))
            return [graph.reduce("ReduceSum", graph.cast(on, INT), (0,), keepdims=False) > 0, on, *after]

        on = self.repeated(self._of(graph.constant(True) if going is None else going), ())
        for outer, wanted in self.conditions.get(scope, ()):
            on = graph.binary("And", on, graph.reshape(self.holds(outer, wanted), (self.trips,)))
        try:
            made = graph.loop(most.tensor, [on, *(self.repeated(self._of(start), start.dims) for start in starts)], run)
        finally:
            self.found = outside  # what stands in the body is not seen outside of it
        self.found.update(zip(node.outputs, map(Batched, made[1:])))

    def may_fail(self, node: Node) -> bool:
        """Whether a node of a branch reads positions that may be outside of a matrix in iterations that do not take it.

        Rules read other positions for those (`safe_places`). Raises UnsupportedCase for what else could fail there.
        """
        if node.scope is self.scope:
            return False
        computed = node.op == "Reshape" and node.operand(1).constant is None
        if node.op not in _HARMLESS or computed or may_divide_by_zero(node):
            raise UnsupportedCase(f"{node.op} in a branch of this loop may fail if that branch is not taken")
        return node.op == "Slice" and not self._is_inside(node)

    def _is_inside(self, node: Node) -> bool:
        """Whether a Slice reads positions in all iterations that are surely there."""
        source, block = node.operand(), self.block(node)
        if block is not None:
            return block.is_inside(self.trips, source.dims[block.axis])
        cut = cut_of(node)
        if cut is None:
            return False
        start, stop, axis = cut
        size = source.dims[axis]
        stop = min(stop, size) if isinstance(size, int) else stop
        return 0 <= start < stop and is_non_negative_from_one(size - stop)

    def safe_places(self, node: Node, places: Tensor, room: Dim) -> Tensor:
        """Return the first positions that a node reads, as a column; 0 in iterations that do not take its branch.

        room: the number of positions after those that it reads then. Raises UnsupportedCase.
        """
        if not is_non_negative_from_one(room):
            raise UnsupportedCase("a branch of this loop reads more than there may be")
        assert node.scope is not None
        taken = [self.holds(condition, wanted) for condition, wanted in self.conditions[node.scope]]
        every = functools.reduce(functools.partial(self.graph.binary, "And"), taken)
        return self.graph.where(every, places, self.graph.constant(0))

    def holds(self, condition: Tensor, wanted: bool) -> Tensor:
        """Return in which iterations a condition is as wanted, as a column."""
        found = self.graph.reshape(self.repeated(self.of(condition), condition.dims), (self.trips, 1))
        return found if wanted else ~found

    def _check_size(self, dims: Dims, *operands: Tensor) -> None:
        """Raise UnsupportedCase for a matrix that is large, and larger than its operands and what the loop writes."""
        size = estimated_elements(dims)
        if size > max(self.largest, *(estimated_elements(operand.dims) for operand in operands)):
            raise UnsupportedCase(f"the iterations of this loop make about {size} elements together")

    def _initial_of_block(self, node: Node) -> Batched | None:
        """Return what a state holds before the loop, for a node that reads of it just what its iteration writes."""
        state = node.inputs[0] if node.op == "Slice" else None
        if state is None or state not in self.block_states:
            return None
        initial, block = self.block_states[state]
        if self.block(node) != block:
            raise UnsupportedCase("an iteration of this loop reads what another one writes")
        return Batched(initial, is_invariant=True)

    def _make_once(self, node: Node, inputs: Sequence[Batched | None]) -> None:
        if node.subgraphs():
            raise UnsupportedCase(f"{node.op} is not moved out of a loop")
        made = self.graph.nodes(node.op, [None if found is None else found.tensor for found in inputs],
                                [(tensor.kind, tensor.dims) for tensor in node.outputs], **node.attributes)
        for old, new in zip(node.outputs, made):
            self.found[old] = Batched(new, is_invariant=True)

    # What rules ask

    def stacked(self, found: Batched, dims: Dims, rank: int | None = None) -> Tensor:
        """Return a tensor for all iterations with their axis in front, and axes of size 1 after it up to a rank."""
        more = 0 if rank is None else rank - len(dims)
        if found.is_invariant:
            return found.tensor
        moved = found.tensor if found.axis is None else moved_to_front(self.graph, found.tensor, found.axis)
        return self.graph.reshape(moved, (self.trips, *[1] * more, *dims))

    def in_place(self, found: Batched, dims: Dims, axis: int) -> Tensor:
        """Return a tensor for all iterations with their axis in place of one of size 1."""
        if found.axis == axis:
            return found.tensor
        rest = tuple(dim for i, dim in enumerate(dims) if i != axis)
        front = self.graph.reshape(self.stacked(found, dims), (self.trips, *rest))
        return self.graph.transpose(front, (*range(1, axis + 1), 0, *range(axis + 1, len(dims))))

    def repeated(self, found: Batched, dims: Dims) -> Tensor:
        """Return a tensor for all iterations with their axis in front also where it is the same in all of them."""
        if not found.is_invariant:
            return self.stacked(found, dims)
        self._check_size((self.trips, *dims), found.tensor)
        return self.graph.expand(self.graph.reshape(found.tensor, (1, *dims)), (self.trips, *dims))

    def block(self, node: Node) -> Block | None:
        """Return what a Slice reads in each iteration, None where its positions are no such block."""
        starts, axis = node.operand(1), node.operand(3).only_element
        if axis is None or len(node.inputs) > 4:
            return None
        return self.block_of(axis, self.graph.size_of(starts), node.outputs[0].dims[axis])

    def block_of(self, axis: int, start: Dim | None, size: Dim) -> Block | None:
        """Return the block of `size` positions from `start` on, None where that is no multiple of the iteration."""
        if start is None or not isinstance(size, int):
            return None
        step = substitute(start, {self.trip: symbol(self.trip) + 1}) - start
        first = substitute(start, {self.trip: 0})
        return Block(axis, first, step, size) if isinstance(step, int) and self.graph.computable(first) else None


Rule = Callable[[Batching, Node, Sequence["Batched | None"]], "Batched | tuple[Batched, ...]"]


def moved_to_front(graph: Operators, x: Tensor, axis: int) -> Tensor:
    """Return a tensor with one of its axes in front."""
    return graph.transpose(x, (axis, *(i for i in range(x.rank) if i != axis)))
