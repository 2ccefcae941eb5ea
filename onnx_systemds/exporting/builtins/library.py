"""Functions of scripts that are one operator of ONNX, or a few: those of SystemDS, and those of converted models.

A function may return None for arguments that it does not serve; then the script itself is evaluated, as it is wherever
a user has a copy or a variant of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.templates import library_text
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.context import Context
from onnx_systemds.exporting.builtins.registry import Builtin
from onnx_systemds.exporting.poison_values import Poisoned
from onnx_systemds.exporting.values import Value

LIBRARY: dict[tuple[str, str], Builtin] = {}
"""By the path of the script inside of SystemDS.jar and the name of the function."""
TEMPLATES: dict[str, Builtin] = {}
"""By the name of the function; it serves where parameters and statements are the same, too."""


def library_function(script: str, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as what exports the function `name` of a script of SystemDS."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        LIBRARY[(f"scripts/{script}", name)] = _builtin(name, function)
        return function

    return register


def template_function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as what exports a function of ``templates/library``, which converted models hold."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TEMPLATES[name] = _builtin(name, function)
        return function

    return register


def library_results(
    context: Context, script: str, function: tree.Function, given: Mapping[str, Value]
) -> tuple[Value, ...] | None:
    """Return the results of a function that is known, None where the script itself has to say.

    script: its path inside of SystemDS.jar, empty for others.
    """
    found = LIBRARY.get((script, function.name)) if script else None
    if not script and function.name in TEMPLATES and function == _template(function.name):
        found = TEMPLATES[function.name]
    known = set() if found is None else {parameter.name for parameter in found.parameters}
    if found is None or not known >= {key.replace(".", "_") for key in given}:
        return None
    try:
        result = found(context, (), given)
    except (UnsupportedCase, Poisoned):
        return None
    return result if isinstance(result, tuple) or result is None else (result,)


def _builtin(name: str, function: Callable[..., Any]) -> Builtin:
    return Builtin(name, function, tuple(inspect.signature(function, eval_str=True).parameters.values())[1:])


@cache
def _template(name: str) -> tree.Function:
    """Return a function of ``templates/library``."""
    return parse_script(library_text(name)).functions[name]
