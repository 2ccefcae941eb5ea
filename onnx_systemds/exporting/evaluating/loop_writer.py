"""Writes one loop: vectorised where its iterations are independent, else as an ONNX ``Loop``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.scalar_operators import compared_sizes
from onnx_systemds.exporting.evaluating import merging
from onnx_systemds.exporting.evaluating.batched_loops import Collected, iterations, may_not_run, of_all_rows, results
from onnx_systemds.exporting.evaluating.blocks import execute
from onnx_systemds.exporting.evaluating.branches import Variables
from onnx_systemds.exporting.evaluating.counted_loops import counters
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.evaluating.loop_ranges import Trips
from onnx_systemds.exporting.graph.nodes import BOOL, INT, Scope, SubGraph, Tensor
from onnx_systemds.exporting.passes.batching import Batching
from onnx_systemds.exporting.passes.batching_rules import RULES
from onnx_systemds.exporting.values import INTEGER, Matrix, Poison, Scalar, Value, integer
from onnx_systemds.inference.dims import RUN_SIZE_PREFIX, Dim, maximum, may_be_zero

_MOST_ATTEMPTS = 12


class LoopMode(Enum):
    """What a loop may become. STRICT: nothing that is refused in it may be left for later."""

    ANY = auto()
    BATCHED = auto()
    STRICT = auto()


def _is_size(number: Dim, variables: Variables) -> bool:
    """Whether a number is the rows or columns of a matrix, so that it is not negative."""
    return any(isinstance(value, Matrix) and number in value.dims for value in variables.values())


class LoopWriter:
    """Writes one Loop. The forms of its carried values are found by fixpoint iteration, from those before the loop."""

    def __init__(
        self, evaluator: Evaluator, statement: tree.For | tree.While, live: scopes.Names, trips: Trips, mode: LoopMode
    ) -> None:
        self.evaluator = evaluator
        self.graph = evaluator.graph
        self.statement = statement
        self.start, self.step, self.trips, self.surely = trips
        self.live = scopes.live_in_loop(statement, live)
        self.variables = evaluator.frame.variables
        self.poisons: dict[str, Poison] = {}
        self.mode = mode
        self.counters = self._counters()
        self.names = [name for name in scopes.carried(statement, live) if name not in self.counters]
        if isinstance(statement, tree.For) and self._may_stay(statement, live):
            self.names.append(statement.variable)

    def _counters(self) -> dict[str, tuple[Dim, int]]:
        """Return start and step of integers that follow from the number of the iteration."""
        if not isinstance(self.statement, tree.For) or self.trips is None:
            return {}
        found: dict[str, tuple[Dim, int]] = {}
        for name, step in counters(self.statement).items():
            value = self.variables.get(name)
            if isinstance(value, Scalar) and value.type == INTEGER and value.dim is not None:
                found[name] = value.dim, step
        return found

    def _may_stay(self, loop: tree.For, live: scopes.Names) -> bool:
        """Whether the loop variable keeps its earlier value if the loop never runs."""
        if loop.range.step is None or self.trips is None:
            return False
        name = loop.variable
        return name in live and name in self.variables and name not in self.names and may_not_run(self.trips)

    def run(self) -> None:
        """Write the loop and set the variables after it. Raises UnsupportedCase."""
        forms: dict[str, merging.Template] = {}
        before = dict(self.variables)
        for name in self.names:
            value = before.get(name)
            if isinstance(value, Poison):
                value = None
            if value is not None:
                forms[name] = merging.template(name, value, value)
        reasons = list(self.evaluator.reasons.errors)
        for _ in range(_MOST_ATTEMPTS):
            self.evaluator.reasons.errors[:] = reasons
            attempt = self._attempt(forms, before)
            if not self._generalized(forms, attempt.ends):
                break
        else:
            raise UnsupportedCase("the carried values of this loop have no fixed size or type")
        if self.poisons and self.mode is not LoopMode.ANY:
            raise next(error for poison in self.poisons.values() for error in poison.errors)
        if self.mode is not LoopMode.ANY and len(self.evaluator.reasons.errors) > len(reasons):
            raise self.evaluator.reasons.errors[-1]
        if not self._batched(forms, attempt, before):
            self._write(forms, attempt, before)
        self.variables.update(self.poisons)

    def _attempt(self, forms: dict[str, merging.Template], before: Variables) -> _Attempt:
        """Evaluate the body once with carried values of these `forms`."""
        evaluator, graph = self.evaluator, self.graph
        with graph.subgraph() as scope:
            counter = graph.state(INT, (), "trip")
            going = graph.state(BOOL, (), "going")
            outer = {name: value for name, value in before.items()
                    if name not in self.names or isinstance(value, Poison)}
            variables = outer | self.poisons
            states: list[Tensor] = []
            for name, form in forms.items():
                own = [graph.state(kind, dims, name) for kind, dims in form.outputs(graph)]
                states += own
                variables[name] = form.value(evaluator.context, iter(own))
            evaluator.frame.variables = variables
            evaluator.context.written.append(None)
            try:
                if isinstance(self.statement, tree.For):
                    trip = graph.integer_symbol(counter, self.statement.variable, RUN_SIZE_PREFIX)
                    value = self.start + self.step * trip
                    variables[self.statement.variable] = integer(value)
                    variables |= {name: integer(first + step * trip) for name, (first, step) in self.counters.items()}
                live = self.live
                execute(evaluator, self.statement.body, lambda: live)
                ends = evaluator.frame.variables
                condition: Tensor = going
                if isinstance(self.statement, tree.While):
                    with evaluator.at(self.statement.condition):
                        truth = evaluator.value(self.statement.condition)
                        condition = graph.reshape(evaluator.context.truth(truth), ())
            finally:
                evaluator.context.written.pop()
                evaluator.frame.variables = self.variables
        return _Attempt(scope, counter, going, states, condition, ends)

    def _generalized(self, forms: dict[str, merging.Template], ends: Variables) -> bool:
        """Widen the forms by the results of the body; return whether one has changed."""
        changed = False
        for name in self.names:
            end = ends.get(name)
            if isinstance(end, Poison) and end.errors:
                changed |= self._poison(forms, name, end)
            elif end is not None and not isinstance(end, Poison) and name not in self.poisons:
                try:
                    changed |= self._widened(forms, name, end)
                except UnsupportedCase as error:
                    changed |= self._poison(forms, name, self.evaluator.poisoned(error, self.statement))
        return changed

    def _poison(self, forms: dict[str, merging.Template], name: str, poison: Poison) -> bool:
        """Mark a variable that cannot be carried; return whether it is new."""
        forms.pop(name, None)
        is_new = name not in self.poisons
        self.poisons[name] = poison
        return is_new

    def _widened(self, forms: dict[str, merging.Template], name: str, end: Value) -> bool:
        """Widen or make the form of one result; return whether it has changed."""
        if name in forms:
            return forms[name].widen(end)
        forms[name] = merging.template(name, end, None).outside(self.graph)
        return True

    def _batched(self, forms: dict[str, merging.Template], attempt: _Attempt, before: Variables) -> bool:
        """Vectorise the loop; return whether that is possible."""
        if self.trips is None or not isinstance(self.step, int) or self.mode is LoopMode.STRICT:
            return False
        is_number = self.surely or _is_size(self.trips, before) or compared_sizes(">=", self.trips, 0) is True
        if not is_number:
            return False  # a range of none: operators over a negative number of iterations are none
        graph, context = self.graph, self.evaluator.context
        try:
            with graph.subgraph(attempt.scope):
                ends = merging.tensors_of(forms, context, attempt.ends)
            initial = merging.tensors_of(forms, context, before)
            batching = Batching(graph, attempt.scope, self.trips, attempt.counter, RULES)
            states = dict(zip(attempt.states, initial))
            try:
                made = results(batching, states, ends)
            except UnsupportedCase:
                made = of_all_rows(batching, states, ends)
            values = merging.values_of(forms, context, made)
        except UnsupportedCase:
            if self.mode is LoopMode.BATCHED:
                raise
            return False
        self._assign(forms, values)
        return True

    def _write(self, forms: dict[str, merging.Template], attempt: _Attempt, before: Variables) -> None:
        evaluator, graph, context = self.evaluator, self.graph, self.evaluator.context
        with graph.subgraph(attempt.scope):
            tensors = merging.tensors_of(forms, context, attempt.ends)
        initial = merging.tensors_of(forms, context, before)
        collected = self._collected(attempt, tensors)
        blocks = {} if collected is None else collected.blocks
        carried = [position for position in range(len(tensors)) if position not in blocks]
        with graph.subgraph(attempt.scope):
            parts = [] if collected is None else collected.parts()
            outputs = graph.own([attempt.condition, *(tensors[position] for position in carried), *parts])
        trips = None
        if self.trips is not None:
            trips = graph.size_number(maximum(self.trips, 0) if may_be_zero(self.trips) else self.trips)
        going = graph.constant(True)
        if isinstance(self.statement, tree.While):
            going = graph.reshape(context.truth(evaluator.value(self.statement.condition)), ())
        states = [attempt.states[position] for position in carried]
        body = SubGraph(attempt.scope, (attempt.counter, attempt.going, *states), tuple(outputs))
        every = [kind for form in forms.values() for kind in form.outside(graph).outputs(graph)]
        kinds = [every[position] for position in carried] + ([] if collected is None else collected.kinds())
        taken = [trips, going, *(initial[position] for position in carried)]
        made = graph.nodes("Loop", taken, kinds, body=body) if kinds else ()
        for tensor in made[: len(carried)]:
            graph.bind_dims(tensor)
        ends = dict(zip(carried, made))
        if collected is not None:
            ends |= collected.matrices(made[len(carried) :], initial)
        self._assign(forms, merging.values_of(forms, context, [ends[position] for position in sorted(ends)]))

    def _collected(self, attempt: _Attempt, ends: list[Tensor]) -> Collected | None:
        """Return which states of a for loop are written block by block."""
        if self.trips is None or not isinstance(self.step, int):
            return None
        batching = Batching(self.graph, attempt.scope, self.trips, attempt.counter, RULES)
        return Collected(batching, attempt.states, ends, attempt.condition)

    def _assign(self, forms: Mapping[str, merging.Template], values: Variables) -> None:
        for name, value in values.items():
            self.evaluator.assign(name, value)
        for name, (first, step) in self.counters.items():
            assert self.trips is not None
            self.evaluator.assign(name, integer(first + step * iterations(self.trips)))
        if isinstance(self.statement, tree.For) and self.trips is not None and self.statement.variable not in forms:
            last = self.start + self.step * (self.trips - 1)
            self.variables[self.statement.variable] = integer(last)


class _Attempt(NamedTuple):
    """An evaluated body: its scope, its inputs, and the variables at its end."""

    scope: Scope
    counter: Tensor
    going: Tensor
    states: list[Tensor]
    condition: Tensor
    ends: Variables
