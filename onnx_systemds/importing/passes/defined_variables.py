"""The check that a script reads no variable that it hasn't defined: the engine would say so, when it is called."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import read_first, results, surely_assigned
from onnx_systemds.errors import InternalError, NodePlace
from onnx_systemds.importing.origins import Origin, SharedOrigin
from onnx_systemds.importing.script import Script


def check_defined(script: Script) -> None:
    """Raise InternalError where a function may read, or give, what it has not defined on each way."""
    for function in script.functions:
        if names := undefined(function):
            message = f"function {function.name} of the script does not always define {', '.join(names)}"
            raise InternalError(message, _place(function, names[0]))


def _place(function: tree.Function, name: str) -> NodePlace | None:
    """The node of the first statement that may read a variable undefined."""
    for statement in function.body:
        if name in read_first((statement,)):
            shared = statement.origin
            origin = next(iter(shared.all()), None) if isinstance(shared, SharedOrigin) else shared
            return origin.place if isinstance(origin, Origin) else None
    return None


def undefined(function: tree.Function) -> list[str]:
    """The variables that a function may read or give before it has defined them."""
    given = {parameter.name for parameter in function.parameters}
    unassigned = results(function) - surely_assigned(function.body)
    return sorted((read_first(function.body) | unassigned) - given)
