"""Statements without blocks: assignments, calls that stand alone, declarations."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.operators import binary
from onnx_systemds.exporting.evaluating import indexing
from onnx_systemds.exporting.evaluating.calls import call
from onnx_systemds.exporting.evaluating.evaluator import Evaluator, Live
from onnx_systemds.exporting.values import Poison, Value


def assign(evaluator: Evaluator, statement: tree.Assign, _: Live) -> None:
    """Run ``X = value``, ``X[i, j] = value`` or ``X += value``."""
    target = statement.target
    evaluator.target = target.name if isinstance(target, tree.Name) else ""
    value = evaluator.value(statement.value)
    evaluator.enter_line(statement)
    with evaluator.at(statement):
        if statement.accumulate:
            value = _accumulated(evaluator, target, value)
        _store(evaluator, target, value)


def _accumulated(evaluator: Evaluator, target: tree.Target, value: Value) -> Value:
    before = evaluator.value(target)
    return binary(evaluator.context, "+", before, value)


def _store(evaluator: Evaluator, target: tree.Target, value: Value) -> None:
    if isinstance(target, tree.Indexed):
        indexing.write(evaluator, target, value)
    else:
        evaluator.assign(target.name, value)


def assign_several(evaluator: Evaluator, statement: tree.MultiAssign, _: Live) -> None:
    """Run ``[X, Y] = f(...)``. Raises UnsupportedCase."""
    results = call(evaluator, statement.call)
    evaluator.enter_line(statement)
    with evaluator.at(statement):
        if len(results) < len(statement.targets):
            message = f"{statement.call.function} gives {len(results)} values, not {len(statement.targets)}"
            raise UnsupportedCase(message)
        for target, value in zip(statement.targets, results):
            if isinstance(target, tree.Name) and isinstance(value, Poison):
                evaluator.frame.variables[target.name] = value
            else:
                _store(evaluator, target, value)


def call_alone(evaluator: Evaluator, statement: tree.CallStatement, _: Live) -> None:
    """Run a call whose results are not used."""
    call(evaluator, statement.call)


def declare(_: Evaluator, __: tree.Source | tree.SetWorkingFolder, ___: Live) -> None:
    """Ignore ``source`` and ``setwd``, which matter when a function of the sourced script is looked up."""
