"""For and while: which of them are vectorised, unrolled, or an ONNX ``Loop``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting.evaluating.batched_loops import iterations
from onnx_systemds.exporting.evaluating.blocks import execute
from onnx_systemds.exporting.evaluating.branches import Variables, known_condition
from onnx_systemds.exporting.evaluating.counted_loops import counted
from onnx_systemds.exporting.evaluating.evaluator import Evaluator, Live
from onnx_systemds.exporting.evaluating.loop_ranges import Trips, loop_range
from onnx_systemds.exporting.evaluating.loop_writer import LoopMode, LoopWriter
from onnx_systemds.exporting.graph.nodes import Node
from onnx_systemds.exporting.limits import BudgetExceeded
from onnx_systemds.exporting.values import BOOLEAN, INTEGER, ListValue, Poison, Scalar, integer

UNROLLED = 1000
"""Loops are unrolled as long as they run at most so many statements."""
UNROLLED_IF_NEEDED = 20000
"""The same for loops that cannot be written as a Loop."""
FEW_TRIPS, MOST_NODES = 8, 64
"""A loop becomes a Loop if it has more iterations and unrolls to more nodes, or if its branches have twice as many."""


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
        if _try_loop(evaluator, statement, live, trips, LoopMode.BATCHED) is None:
            return
        evaluator.unbatched(statement)
    if times * _size(statement.body) > UNROLLED:
        failure = _try_loop(evaluator, statement, live, trips, LoopMode.STRICT)
        if failure is None:
            return
        if times * _size(statement.body) > UNROLLED_IF_NEEDED:
            raise failure
    before, made = dict(evaluator.frame.variables), len(evaluator.graph.scope.nodes)
    _unroll(evaluator, statement, trips)
    if _is_long(evaluator.graph.scope.nodes[made:], times) and not _loses_known_values(evaluator, statement, live):
        _roll_up(evaluator, before, lambda: _try_loop(evaluator, statement, live, trips, LoopMode.STRICT))


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
    evaluator.frame.variables[found.variable] = integer(start.dim + found.step * iterations(trips.times))
    return True


def _try_loop(
    evaluator: Evaluator, statement: tree.For | tree.While, live: Live, trips: Trips, mode: LoopMode = LoopMode.ANY
) -> TranspileError | None:
    """Write a Loop, or vectorise the loop. If that is impossible, restore the state and return the reason."""
    before = evaluator.snapshot()
    try:
        with evaluator.at(statement):
            LoopWriter(evaluator, statement, live(), trips, mode).run()
    except BudgetExceeded:
        raise
    except TranspileError as error:
        evaluator.go_back(before)
        return error
    return None
