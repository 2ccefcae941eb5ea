"""The check that a script reads no variable that it hasn't defined: the engine would say so, without the node."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import read_first, surely_assigned
from onnx_systemds.errors import InternalError
from onnx_systemds.importing.script import Script


def check_defined(script: Script) -> None:
    """Raise InternalError where a function may read, or give, what it has not defined on each way."""
    for function in script.functions:
        if names := undefined(function):
            raise InternalError(f"function {function.name} of the script does not always define {', '.join(names)}")


def undefined(function: tree.Function) -> list[str]:
    """The variables that a function may read or give before it has defined them."""
    given = {parameter.name for parameter in function.parameters}
    results = {result.name for result in function.results} - surely_assigned(function.body)
    return sorted((read_first(function.body) | results) - given)
