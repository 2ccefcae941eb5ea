"""For and while: vectorised if iterations are independent, else unrolled, else an ONNX ``Loop``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting.builtins.operators import compared_sizes
from onnx_systemds.exporting.evaluating import merging
from onnx_systemds.exporting.evaluating.batched_loops import Collected, of_all_rows, results
from onnx_systemds.exporting.evaluating.blocks import execute
from onnx_systemds.exporting.evaluating.branches import Variables, known_condition
from onnx_systemds.exporting.evaluating.counted_loops import counted
from onnx_systemds.exporting.evaluating.evaluator import Evaluator, Live
from onnx_systemds.exporting.evaluating.loop_ranges import Trips, loop_range
from onnx_systemds.exporting.graph.nodes import BOOL, INT, Node, Scope, SubGraph, Tensor
from onnx_systemds.exporting.limits import BudgetExceeded
from onnx_systemds.exporting.passes.batching import Batching
from onnx_systemds.exporting.passes.batching_rules import RULES
from onnx_systemds.exporting.values import BOOLEAN, INTEGER, ListValue, Matrix, Poison, Scalar, Value, integer
from onnx_systemds.inference.dims import RUN_SIZE_PREFIX, Dim, maximum, may_be_zero

UNROLLED = 1000
"""Loops are unrolled as long as they run at most so many statements."""
UNROLLED_IF_NEEDED = 20000
"""The same for loops that cannot be written as a Loop."""
FEW_TRIPS, MOST_NODES = 8, 64
"""A loop becomes a Loop if it has more iterations and unrolls to more nodes, or if its branches have twice as many."""
_MOST_ATTEMPTS = 12
_BATCHED, _STRICT = "batched", "strict"


def run_for(evaluator: Evaluator, statement: tree.For, live: Live) -> None:
    """Run the body for each value of the loop variable."""
    evaluator.enter_line(statement)
    with evaluator.at(statement.range):
        trips = loop_range(evaluator, statement)
    _run_trips(evaluator, statement, live, trips)


def _run_trips(evaluator: Evaluator, statement: tree.For, live: Live, trips: Trips) -> None:
    if isinstance(trips.times, int) and isinstance(trips.step, int):
        if trips.times <= 1:
            _unroll(evaluator, statement, trips)
        else:
            _run_known(evaluator, statement, live, trips, trips.times)
        return
    failure = _try_loop(evaluator, statement, live, trips)
    if failure is not None:
        raise failure


def _run_known(evaluator: Evaluator, statement: tree.For, live: Live, trips: Trips, times: int) -> None:
    """Run a loop with a known number of iterations: vectorised, else unrolled if short, else as a Loop."""
    if evaluator.may_batch(statement):
        if _try_loop(evaluator, statement, live, trips, _BATCHED) is None:
            return
        evaluator.unbatched(statement)
    if times * _size(statement.body) > UNROLLED:
        failure = _try_loop(evaluator, statement, live, trips, _STRICT)
        if failure is None:
            return
        if times * _size(statement.body) > UNROLLED_IF_NEEDED:
            raise failure
    before, made = dict(evaluator.frame.variables), len(evaluator.graph.scope.nodes)
    _unroll(evaluator, statement, trips)
    if _is_long(evaluator.graph.scope.nodes[made:], times) and not _loses_known_values(evaluator, statement, live):
        _roll_up(evaluator, before, lambda: _try_loop(evaluator, statement, live, trips, _STRICT))


def _is_long(nodes: Sequence[Node], times: int) -> bool:
    """Whether an unrolled loop of so many iterations has too many nodes, so that a Loop is better."""
    count = sum(map(_node_count, nodes))
    return count > MOST_NODES and (times > FEW_TRIPS or (count > 2 * MOST_NODES and count > len(nodes)))


def _node_count(node: Node) -> int:
    """Return the number of nodes in a node, including its branches and bodies."""
    return 1 + sum(_node_count(inner) for body in node.subgraphs() for inner in body.scope.nodes)


def _loses_known_values(evaluator: Evaluator, statement: tree.For, live: Live) -> bool:
    """Whether a Loop would lose known numbers that an unrolled loop has set and that are read later."""
    read = live()
    found = (evaluator.frame.variables.get(name) for name in scopes.assigned(statement.body) if name in read)
    return any(isinstance(value, (Poison, ListValue)) or (isinstance(value, Scalar) and value.known is not None)
               for value in found)


def _roll_up(evaluator: Evaluator, before: Variables, write_loop: Callable[[], TranspileError | None]) -> None:
    """Replace an unrolled loop by a Loop, if possible."""
    unrolled = evaluator.snapshot()
    evaluator.frame.variables = before
    if write_loop() is not None:
        evaluator.go_back(unrolled)


def _unroll(evaluator: Evaluator, statement: tree.For, trips: Trips) -> None:
    assert isinstance(trips.times, int)
    for trip in range(trips.times):
        evaluator.step(statement)
        evaluator.frame.variables[statement.variable] = integer(trips.start + trip * trips.step)
        execute(evaluator, statement.body, lambda: scopes.Names(scopes.assigned(statement.body)))


def _size(block: tree.Block) -> int:
    """Return the number of statements in a block, at least 1."""
    return max(1, sum(isinstance(node, tree.StatementNode) for statement in block for node in tree.walk(statement)))


def run_while(evaluator: Evaluator, statement: tree.While, live: Live) -> None:
    """Run the body while the condition holds: unrolled as long as that is known, else as a Loop."""
    before = evaluator.snapshot()
    if _run_counted(evaluator, statement, live):
        return
    evaluator.go_back(before)
    done, size = 0, _size(statement.body)
    endless = scopes.read_in(statement.condition).isdisjoint(scopes.assigned(statement.body))
    while True:
        known = known_condition(evaluator.value(statement.condition))
        if known is False:
            return
        if known and endless:
            with evaluator.at(statement.condition):
                raise UnsupportedCase("this loop never ends: its body sets nothing that the condition reads")
        if known is None or done * size > UNROLLED_IF_NEEDED:
            break
        execute(evaluator, statement.body, lambda: scopes.live_in_loop(statement, live()))
        done += 1
    evaluator.go_back(before)
    failure = _try_loop(evaluator, statement, live, Trips())
    if failure is not None:
        raise failure


def _run_counted(evaluator: Evaluator, statement: tree.While, live: Live) -> bool:
    """Run a loop that counts as a for loop; return whether that is possible."""
    found = counted(statement)
    if found is None:
        return False
    try:
        start, stop = evaluator.frame.variables.get(found.variable), evaluator.value(found.stop)
        if not isinstance(start, Scalar) or start.type != INTEGER or not isinstance(stop, Scalar):
            return False
        if start.dim is None or stop.dim is None or stop.type == BOOLEAN:
            return False
        evaluator.enter_line(statement)
        trips = loop_range(evaluator, found.loop)
        _run_trips(evaluator, found.loop, lambda: live() - {found.variable}, trips)
    except BudgetExceeded:
        raise
    except TranspileError:
        return False
    assert trips.times is not None
    count = trips.times if compared_sizes(">=", trips.times, 0) is True else maximum(trips.times, 0)
    evaluator.frame.variables[found.variable] = integer(start.dim + found.step * count)
    return True


def _try_loop(
    evaluator: Evaluator, statement: tree.For | tree.While, live: Live, trips: Trips, form: str = ""
) -> TranspileError | None:
    """Write a Loop, or vectorise the loop. If that is impossible, restore the state and return the reason.

    form: `_BATCHED`: no Loop. `_STRICT`: nothing that is refused in it may be left for later.
    """
    before = evaluator.snapshot()
    try:
        with evaluator.at(statement):
            _Loop(evaluator, statement, live(), trips, form).run()
    except BudgetExceeded:
        raise
    except TranspileError as error:
        evaluator.go_back(before)
        return error
    return None


def _is_size(number: Dim, variables: Variables) -> bool:
    """Whether a number is the rows or columns of a matrix, so that it is not negative."""
    return any(isinstance(value, Matrix) and number in value.dims for value in variables.values())


class _Loop:
    """Writes one Loop. The forms of its carried values are found by fixpoint iteration, from those before the loop."""

    def __init__(
        self, evaluator: Evaluator, statement: tree.For | tree.While, live: scopes.Names, trips: Trips, form: str
    ) -> None:
        self.evaluator = evaluator
        self.graph = evaluator.graph
        self.statement = statement
        self.start, self.step, self.trips, self.surely = trips
        self.live = scopes.live_in_loop(statement, live)
        self.variables = evaluator.frame.variables
        self.poisons: dict[str, Poison] = {}
        self.form = form
        self.names = list(scopes.carried(statement, live))
        if isinstance(statement, tree.For) and self._may_stay(statement, live):
            self.names.append(statement.variable)

    def _may_stay(self, loop: tree.For, live: scopes.Names) -> bool:
        """Whether the loop variable keeps its earlier value if the loop never runs."""
        if loop.range.step is None or self.trips is None:
            return False
        name = loop.variable
        return (name in live and name in self.variables and name not in self.names
                and compared_sizes(">=", self.trips, 1) is not True)

    def run(self) -> None:
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
        if self.poisons and self.form:
            raise next(error for poison in self.poisons.values() for error in poison.errors)
        if self.form and len(self.evaluator.reasons.errors) > len(reasons):
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
            kept = {name: value for name, value in before.items()
                    if name not in self.names or isinstance(value, Poison)}
            variables = kept | self.poisons
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
                    place = self.start + self.step * trip
                    variables[self.statement.variable] = integer(place)
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
        if self.trips is None or not isinstance(self.step, int) or self.form == _STRICT:
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
                made = results(graph, batching, states, ends)
            except UnsupportedCase:
                made = of_all_rows(graph, batching, states, ends)
            values = merging.values_of(forms, context, made)
        except UnsupportedCase:
            if self.form == _BATCHED:
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
        carried = [place for place in range(len(tensors)) if collected is None or place not in collected.blocks]
        with graph.subgraph(attempt.scope):
            parts = [] if collected is None else collected.parts()
            outputs = graph.own([attempt.condition, *(tensors[place] for place in carried), *parts])
        trips = None
        if self.trips is not None:
            count = maximum(self.trips, 0) if may_be_zero(self.trips) else self.trips
            trips = graph.reshape(graph.size_tensor(count), ())
        going = graph.constant(True)
        if isinstance(self.statement, tree.While):
            going = graph.reshape(context.truth(evaluator.value(self.statement.condition)), ())
        states = [attempt.states[place] for place in carried]
        body = SubGraph(attempt.scope, (attempt.counter, attempt.going, *states), tuple(outputs))
        every = [kind for form in forms.values() for kind in form.outside(graph).outputs(graph)]
        kinds = [every[place] for place in carried] + ([] if collected is None else collected.kinds())
        taken = [trips, going, *(initial[place] for place in carried)]
        made = graph.nodes("Loop", taken, kinds, body=body) if kinds else ()
        for tensor in made[: len(carried)]:
            graph.bind_dims(tensor)
        ends = dict(zip(carried, made))
        if collected is not None:
            ends |= collected.matrices(made[len(carried) :], initial)
        self._assign(forms, merging.values_of(forms, context, [ends[place] for place in sorted(ends)]))

    def _collected(self, attempt: _Attempt, ends: list[Tensor]) -> Collected | None:
        """Return which states of a for loop are written block by block."""
        if self.trips is None or not isinstance(self.step, int):
            return None
        batching = Batching(self.graph, attempt.scope, self.trips, attempt.counter, RULES)
        return Collected(self.graph, batching, attempt.states, ends, attempt.condition)

    def _assign(self, forms: Mapping[str, merging.Template], values: Variables) -> None:
        for name, value in values.items():
            self.evaluator.assign(name, value)
        if isinstance(self.statement, tree.For) and self.trips is not None and self.statement.variable not in forms:
            last = self.start + self.step * (self.trips - 1)
            self.variables[self.statement.variable] = Scalar("int", last)


class _Attempt(NamedTuple):
    """An evaluated body: its scope, its inputs, and the variables at its end."""

    scope: Scope
    counter: Tensor
    going: Tensor
    states: list[Tensor]
    condition: Tensor
    ends: Variables
