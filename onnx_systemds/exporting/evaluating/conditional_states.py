"""Vectorises states that a branch of an if sets in some iterations of a loop: `ConditionalStates`.

``if (x > m) { m = x; k = i }``, or ``m = ifelse(x > m, x, m)``, searches an extreme and its position.
``if (c) { m = x }`` keeps the value of the last iteration that takes the branch. The index of the deciding iteration is
computed (0 for none), and the value that it sets is gathered.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.correspondence import MIRRORED_ORDERS
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.nodes import FLOAT, INT, SubGraph, Tensor, made_by
from onnx_systemds.exporting.passes.batching import Batching


@dataclass(frozen=True)
class _ConditionalState:
    """A state that holds `value` after an iteration that takes all `branches`, each inside the one before it.

    They stand beside their conditions; None where both ways are calculated and one is chosen.
    """

    branches: tuple[tuple[Tensor, SubGraph | None], ...]
    value: Tensor

    @property
    def conditions(self) -> tuple[Tensor, ...]:
        """Under which it takes them."""
        return tuple(condition for condition, _ in self.branches)


@dataclass(frozen=True)
class _Search:
    """A condition ``value op state`` under which the state becomes the value."""

    state: Tensor
    op: str
    value: Tensor


class ConditionalStates:
    """The states of a loop that are set by branches alone."""

    def __init__(self, batching: Batching, initial: Mapping[Tensor, Tensor], ends: Sequence[Tensor]) -> None:
        """`initial`: what the states hold before the loop. `ends`: what an iteration leaves of each."""
        self.graph, self.batching, self.initial = batching.graph, batching, initial
        self.trips = batching.trips
        self._own = {state: found for state, end in zip(initial, ends) if (found := _conditional_state(end, state))}
        self._places: dict[tuple[Tensor, ...], Tensor] = {}
        self._extremes: dict[Tensor, Tensor] = {}

    def of(self, state: Tensor) -> Tensor | None:
        """Return the value of a state after the loop; None for one that iterations set in another way.

        Raises UnsupportedCase where an iteration needs what another one has left.
        """
        own = self._own.get(state)
        if own is None:
            return None
        if own.conditions not in self._places:
            outer = self.batching.scope
            for condition, branch in own.branches:
                if branch is not None:
                    self.batching.enter(outer, branch.scope, condition)
                    outer = branch.scope
            self._places[own.conditions] = self._place(own)
        if state in self._extremes:
            return self._extremes[state]
        graph, initial = self.graph, self.initial[state]
        every = self.batching.repeated(self.batching.of(own.value), own.value.dims)
        every = graph.reshape(every, (self.trips, *state.dims))
        every = graph.concat([graph.reshape(initial, (1, *state.dims)), every], 0)
        return graph.reshape(graph.gather(every, self._places[own.conditions], 0), state.dims)

    def _place(self, own: _ConditionalState) -> Tensor:
        """Return the iteration (from 1 on) that sets the states with these conditions last (int, 1 element)."""
        graph, search, conditions = self.graph, None, []
        for part in _parts(own.conditions):
            found = self._search(part, own)
            if found is None or search is not None:
                conditions.append(self._column(part))
            else:
                search = found
        if search is None:
            return self._last(functools.reduce(functools.partial(graph.binary, "And"), conditions))
        start, value = graph.reshape(self.initial[search.state], (1,)), self._column(search.value)
        conditions.append(graph.binary(search.op, value, start))
        return self._extreme(search, value, functools.reduce(functools.partial(graph.binary, "And"), conditions))

    def _extreme(self, search: _Search, value: Tensor, taken: Tensor) -> Tensor:
        """Return the iteration of the extreme among those that are `taken`, and note the extreme.

        They are better than what was there before, so none has NaN; of equal ones the first stays, or the last one.
        """
        graph, largest = self.graph, search.op.startswith("Greater")
        none = graph.number(-np.inf if largest else np.inf)
        kept = graph.where(taken, value, none)
        padded = graph.concat([graph.reshape(none, (1,)), kept], 0)
        best = graph.reduce("ReduceMax" if largest else "ReduceMin", padded, (0,))
        initial = self.initial[search.state]
        best_of_all = graph.binary("Max" if largest else "Min", graph.reshape(initial, (1,)), best)
        self._extremes[search.state] = graph.reshape(best_of_all, search.state.dims)
        if search.op.endswith("OrEqual"):
            return self._last(taken & kept.equals(best))
        return graph.node("ArgMax" if largest else "ArgMin", [padded], (1,), INT, axis=0, keepdims=1)

    def _last(self, taken: Tensor) -> Tensor:
        """Return the last iteration for which a mask holds, 0 for none."""
        graph = self.graph
        padded = graph.concat([graph.constant([1]), graph.cast(taken, INT)], 0)
        return graph.node("ArgMax", [padded], (1,), INT, axis=0, keepdims=1, select_last_index=1)

    def _column(self, tensor: Tensor) -> Tensor:
        """Return a number of the body in all iterations, as a tensor of rank 1."""
        found = self.batching.repeated(self.batching.of(tensor), tensor.dims)
        return self.graph.reshape(found, (self.trips,))

    def _search(self, part: Tensor, own: _ConditionalState) -> _Search | None:
        """Return what a condition compares with the state that it has set, None where it does something else."""
        node = made_by(part, *MIRRORED_ORDERS)
        if node is None:
            return None
        one, other = map(underlying, node.given())
        for op, value, state in ((node.op, one, other), (MIRRORED_ORDERS[node.op], other, one)):
            exchange = self._own.get(state)
            if exchange is not None and exchange.conditions == own.conditions and state.kind == FLOAT:
                if underlying(exchange.value) is not value or not state.is_single:
                    raise UnsupportedCase("an iteration of this loop compares with the result of the one before")
                return _Search(state, op, value)
        return None


def _conditional_state(end: Tensor, state: Tensor) -> _ConditionalState | None:
    """Return the conditions under which an iteration sets a state; None if it depends on none."""
    branches: list[tuple[Tensor, SubGraph | None]] = []
    end = underlying(end)
    while (ways := _ways(end)) is not None and underlying(ways[2]) is state:
        condition, then, _, branch = ways
        branches.append((condition, branch))
        end = underlying(then)
    alike = end.kind == state.kind and (end.dims == state.dims or (end.is_single and state.is_single))
    return _ConditionalState(tuple(branches), end) if branches and alike else None


def _ways(end: Tensor) -> tuple[Tensor, Tensor, Tensor, SubGraph | None] | None:
    """Return the condition of a choice, what is chosen where it holds and where not, and the branch of the former."""
    node = made_by(end, "If", "Where")
    if node is None:
        return None
    condition, *chosen = node.given()
    if node.op == "Where":
        then, otherwise = chosen
        return (condition, then, otherwise, None) if condition.is_single and end.is_single else None
    place, (branch, other) = list(node.outputs).index(end), node.subgraphs()
    return condition, branch.outputs[place], other.outputs[place], branch


def _parts(conditions: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield the operands of a conjunction."""
    for condition in map(underlying, conditions):
        node = made_by(condition, "And")
        if node is not None:
            yield from _parts(node.given())
        else:
            yield condition


def underlying(tensor: Tensor) -> Tensor:
    """Return what a tensor is another name of, or the same number with other dims."""
    while (node := tensor.node) is not None and node.inputs and (source := node.inputs[0]) is not None:
        if node.op != "Identity" and not (node.op == "Reshape" and source.is_single and tensor.is_single):
            break
        tensor = source
    return tensor
