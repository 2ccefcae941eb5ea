"""Runs blocks of statements. A refused statement does not stop the others: it poisons the variables that it sets."""

from __future__ import annotations

from functools import cache

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import is_call
from onnx_systemds.errors import InternalError, ScriptError, TranspileError
from onnx_systemds.exporting.builtins.files import file_name, written_as
from onnx_systemds.exporting.evaluating.evaluator import Evaluator, Live
from onnx_systemds.exporting.limits import BudgetExceeded
from onnx_systemds.exporting.poison_values import Poisoned, unique
from onnx_systemds.exporting.values import Poison
from onnx_systemds.registration import failure

_MESSAGES = ("print", "stop", "assert")
"""What no result depends on."""


def execute(evaluator: Evaluator, block: tree.Block, live_after: Live) -> None:
    """Run the statements of a block; `live_after`: returns the variables that are read after it."""
    live_after_each = cache(lambda: scopes.live_after_each(block, live_after()))
    for index, statement in enumerate(block):

        def live(index: int = index) -> scopes.Names:
            return live_after_each()[index]

        _execute_one(evaluator, statement, live)


def _execute_one(evaluator: Evaluator, statement: tree.Statement, live: Live) -> None:
    evaluator.enter_line(statement)
    evaluator.step(statement)
    try:
        evaluator.run(statement, live)
    except Poisoned as poisoned:
        read = (evaluator.frame.variables.get(name) for name in sorted(scopes.read_in(statement)))
        errors = unique((*poisoned.errors, *(e for v in read if isinstance(v, Poison) for e in v.errors)))
    except (InternalError, BudgetExceeded):
        raise
    except ScriptError as error:
        errors = (error,)
    except TranspileError as error:
        errors = (evaluator.placed(error, statement.position),)
    except Exception as error:
        internal = failure(error, statement.position)
        internal.excerpt = evaluator.excerpt(statement.position)
        raise internal from error
    else:
        return
    if _says(statement):
        evaluator.context.drop("messages are left out: whether there are any cannot be exported")
        return
    assigned = scopes.assigned((statement,))
    for name in assigned:
        evaluator.frame.variables[name] = Poison(errors=errors)
    if not assigned or writes(statement):
        evaluator.refuse(errors, _output_of(evaluator, statement))


def _output_of(evaluator: Evaluator, statement: tree.Statement) -> str:
    """The name of the output that a statement writes; "" if it does more, or if the name is unknown."""
    if not isinstance(statement, tree.CallStatement) or statement.call.function != "write":
        return ""
    try:
        path = evaluator.value(statement.call.arguments[1].value)
    except (TranspileError, IndexError):
        return ""
    file = file_name(path)
    return "" if file is None else written_as(evaluator.context, file)


def _says(statement: tree.Statement) -> bool:
    """Whether a branch or a loop only prints messages, or stops with one."""
    return bool(scopes.blocks_in(statement)) and all(
        scopes.blocks_in(each) or is_message(each) for each in scopes.statements_in((statement,)))


def is_message(statement: tree.Statement) -> bool:
    """Whether a statement only prints a message, or stops with one."""
    return isinstance(statement, tree.CallStatement) and is_call(statement.call, *_MESSAGES)


def writes(statement: tree.Statement) -> bool:
    """Whether a statement contains one that writes an output."""
    return any(is_call(node, "write") for node in tree.walk(statement))
