"""Functions of SystemDS's own scripts that are one operator of ONNX, or a few: `library_function`.

A function may return None for arguments that it does not serve; then the script itself is evaluated, as it is wherever
a user has a copy of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import Builtin
from onnx_systemds.exporting.poison_values import Poisoned
from onnx_systemds.exporting.values import Value

LIBRARY: dict[tuple[str, str], Builtin] = {}
"""By the path of the script inside of SystemDS.jar and the name of the function."""


def library_function(script: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as what exports the function `name` of a script of SystemDS."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        parameters = tuple(inspect.signature(function, eval_str=True).parameters.values())[1:]
        LIBRARY[(f"scripts/{script}", name)] = Builtin(name, function, parameters)
        return function

    return register


def library_results(
    context: Context, script: str, name: str, given: Mapping[str, Value]
) -> tuple[Value, ...] | None:
    """Return the results of a function of SystemDS's scripts, None where the script itself has to say."""
    found = LIBRARY.get((script, name))
    known = set() if found is None else {parameter.name for parameter in found.parameters}
    if found is None or not known >= {key.replace(".", "_") for key in given}:
        return None
    try:
        result = found(context, (), given)
    except (UnsupportedCase, Poisoned):
        return None
    return result if isinstance(result, tuple) or result is None else (result,)
