"""Inlines calls of functions of scripts: evaluates their bodies at the call."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.evaluating.blocks import execute
from onnx_systemds.exporting.evaluating.evaluator import Evaluator, Frame
from onnx_systemds.exporting.evaluating.modules import Module
from onnx_systemds.exporting.limits import DEEPEST_GRAPH
from onnx_systemds.exporting.values import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    STRING,
    FrameValue,
    ListValue,
    Matrix,
    Poison,
    Scalar,
    Value,
)
from onnx_systemds.inference.dims import Expression

DEEPEST = 120
"""Calls of calls; a recursion must end within this depth by what is known."""


def inline(
    evaluator: Evaluator,
    node: tree.Call,
    function: tree.Function,
    module: Module,
    given: Mapping[str, Value],
) -> tuple[Value, ...]:
    """Evaluate the body of a function with its arguments, by parameter, and return its results."""
    caller = evaluator.frame
    deepest = DEEPEST if evaluator.graph.depth < DEEPEST_GRAPH else DEEPEST_GRAPH  # one branch of each call
    if caller.depth >= deepest:
        reason = f"calls are nested deeper than {deepest}: the end of this recursion is not known"
        hint = "with --functions inline its arguments may tell" if evaluator.outline else ""
        raise evaluator.exceeded(node, reason, hint)
    evaluator.step(node if node.position.line else function)
    place, target = evaluator.graph.place, evaluator.target
    evaluator.frame = Frame(module, caller=node.position if node.position.line else caller.caller,
                            depth=caller.depth + 1)
    evaluator.enter_line(function)
    try:
        for parameter in function.parameters:
            value = given.get(parameter.name)
            if value is None:
                assert parameter.default is not None
                value = evaluator.value(parameter.default)
            evaluator.assign(parameter.name, _converted(evaluator.context, value, parameter, function.name))
        results = scopes.results(function)
        execute(evaluator, function.body, lambda: results)
        evaluator.enter_line(function)
        return tuple(_result(evaluator, function, result) for result in function.results)
    finally:
        evaluator.frame = caller
        evaluator.graph.place, evaluator.target = place, target


def _result(evaluator: Evaluator, function: tree.Function, result: tree.Parameter) -> Value:
    value = evaluator.frame.variables.get(result.name)
    if value is None:
        return Poison(f"is the result {result.name} of {function.name}, which the function does not assign")
    if isinstance(value, Scalar) and value.type == DOUBLE and result.type.value == INTEGER:
        return value  # the engine refuses it where it sees that, and else hands it on uncut
    with evaluator.at(result):
        return _converted(evaluator.context, value, result, function.name)


_LEGAL: dict[str, tuple[type[Value], ...]] = {
    "matrix": (Matrix,), "list": (ListValue,), "frame": (FrameValue, Matrix), "scalar": (Scalar,),
}
"""What an argument or a result of a declared kind may be."""


def _converted(context: Context, value: Value, parameter: tree.Parameter, function: str) -> Value:
    """Return an argument or a result in the type that the function declares."""
    kind = parameter.type.kind
    if isinstance(value, Poison):
        return value
    if kind == "scalar" and isinstance(value, Scalar):
        return _converted_scalar(context, value, parameter.type.value)
    if parameter.type.value != "unknown" and not isinstance(value, _LEGAL[kind]):
        raise UnsupportedCase(f"{parameter.name} of {function} is a {parameter.type}, but gets {value}")
    return value


def _converted_scalar(context: Context, value: Scalar, wanted: str) -> Scalar:
    """Return a number in another type; doubles are cut off after the point to make integers."""
    known = value.known
    if wanted == value.type or wanted not in (INTEGER, DOUBLE, BOOLEAN) or STRING in (value.type, wanted):
        return value
    if isinstance(value.content, Expression) and wanted != BOOLEAN:
        return Scalar(wanted, value.content)
    if known is None:
        if wanted == BOOLEAN:
            return context.scalar(context.truth(value))
        if wanted == INTEGER:
            return context.scalar(context.whole(context.tensor(value)))
        return context.scalar(context.floats(value))
    if wanted == DOUBLE:
        return Scalar(DOUBLE, float(known))
    if wanted == BOOLEAN:
        return Scalar(BOOLEAN, bool(known))
    return Scalar(INTEGER, int(known)) if abs(float(known)) < 2**53 else value
