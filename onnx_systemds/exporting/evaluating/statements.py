"""Statements: assignments, calls, and where to go for branches and loops. What is refused does not stop the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import InternalError, ScriptError, TranspileError, UnsupportedCase
from onnx_systemds.exporting.evaluating import calls, indexing
from onnx_systemds.exporting.evaluating.poison_values import Poisoned
from onnx_systemds.exporting.evaluating.values import ListValue, Lost, Scalar, Value
from onnx_systemds.exporting.limits import BudgetExceeded

if TYPE_CHECKING:
    from onnx_systemds.exporting.evaluating.evaluate import Evaluator

Live = Callable[[], scopes.Names]
_MOST_REASONS = 200


def execute(evaluator: Evaluator, block: tree.Block, live_after: Live) -> None:
    """Run the statements of a block; `live_after` tells which variables are read behind it."""
    behind = cache(lambda: scopes.live_behind(block, live_after()))
    for index, statement in enumerate(block):

        def live(index: int = index) -> scopes.Names:
            return behind()[index]

        _execute_one(evaluator, statement, live)


def _execute_one(evaluator: Evaluator, statement: tree.Statement, live: Live) -> None:
    evaluator.enter_line(statement)
    evaluator.step(statement)
    try:
        _dispatch(evaluator, statement, live)
    except Poisoned as poisoned:
        read = (evaluator.frame.variables.get(name) for name in sorted(scopes.read_in(statement)))
        errors = unique((*poisoned.errors, *(e for v in read if isinstance(v, Lost) for e in v.errors)))
    except (InternalError, BudgetExceeded):
        raise
    except ScriptError as error:
        errors = (error,)
    except TranspileError as error:
        errors = (evaluator.placed(error, statement.position),)
    except Exception as error:
        internal = InternalError(f"{type(error).__name__}: {error}", statement.position)
        internal.excerpt = evaluator.excerpt(statement.position)
        raise internal from error
    else:
        return
    lost = scopes.assigned((statement,))
    for name in lost:
        evaluator.frame.variables[name] = Lost(errors=errors)
    if not lost:
        evaluator.reasons.errors[:] = unique((*evaluator.reasons.errors, *errors))


def unique(errors: Iterable[TranspileError]) -> tuple[TranspileError, ...]:
    """Return reasons, each one once."""
    found = {(str(error.place), error.message): error for error in errors}
    return tuple(found.values())[:_MOST_REASONS]


def _dispatch(evaluator: Evaluator, statement: tree.Statement, live: Live) -> None:
    from onnx_systemds.exporting.evaluating import control_flow

    if isinstance(statement, tree.Assign):
        _assign(evaluator, statement)
    elif isinstance(statement, tree.MultiAssign):
        _assign_several(evaluator, statement)
    elif isinstance(statement, tree.CallStatement):
        calls.call(evaluator, statement.call)
    elif isinstance(statement, tree.If):
        control_flow.run_if(evaluator, statement, live)
    elif isinstance(statement, tree.For):
        control_flow.run_for(evaluator, statement, live)
    elif isinstance(statement, tree.While):
        control_flow.run_while(evaluator, statement, live)


def _assign(evaluator: Evaluator, statement: tree.Assign) -> None:
    target = statement.target
    evaluator.target = target.name if isinstance(target, tree.Name) else ""
    value = evaluator.value(statement.value)
    evaluator.enter_line(statement)
    with evaluator.at(statement):
        if statement.accumulate:
            value = _accumulated(evaluator, target, value)
        _store(evaluator, target, value)


def _accumulated(evaluator: Evaluator, target: tree.Target, value: Value) -> Value:
    from onnx_systemds.exporting.builtins.operators import binary

    before = evaluator.value(target)
    return binary(evaluator.context, "+", before, value)


def _store(evaluator: Evaluator, target: tree.Target, value: Value) -> None:
    if isinstance(target, tree.Indexed):
        indexing.write(evaluator, target, value)
    else:
        evaluator.assign(target.name, value)


def _assign_several(evaluator: Evaluator, statement: tree.MultiAssign) -> None:
    results = calls.call(evaluator, statement.call)
    evaluator.enter_line(statement)
    with evaluator.at(statement):
        if len(results) < len(statement.targets):
            message = f"{statement.call.function} gives {len(results)} values, not {len(statement.targets)}"
            raise UnsupportedCase(message)
        for target, value in zip(statement.targets, results):
            if isinstance(target, tree.Name) and isinstance(value, Lost):
                evaluator.frame.variables[target.name] = value
            else:
                _store(evaluator, target, value)


def known_truth(value: Value) -> bool | None:
    """Return whether a condition holds, None if only the run can tell."""
    if isinstance(value, ListValue) and len(value.items) == 1:
        value = value.items[0]
    known = value.known if isinstance(value, Scalar) else None
    return None if known is None or isinstance(known, str) else bool(known)
