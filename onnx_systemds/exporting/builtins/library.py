"""Functions of scripts that are one operator of ONNX, or a few: those of SystemDS, and those of converted models.

A function may return None for arguments that it does not serve; then the script itself is evaluated, as it is wherever
a user has a copy or a variant of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from onnx_systemds.correspondence import name_without_number
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script
from onnx_systemds.dml.templates import library_text
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.api import Context, Value
from onnx_systemds.exporting.builtins.registry import Builtin, Function
from onnx_systemds.exporting.poison_values import Poisoned
from onnx_systemds.importing.passes.block_cuts import NEVER, cut, is_never

LIBRARY: dict[tuple[str, str], Builtin] = {}
"""By the path of the script inside of SystemDS.jar and the name of the function."""
TEMPLATES: dict[str, tuple[Builtin, Callable[[tree.Function], bool]]] = {}
"""By the name of the function, with whether one of this name, of which copies have a number too, is what is meant."""


def library_function(script: str, name: str) -> Callable[[Function], Function]:
    """Register a function as what exports the function `name` of a script of SystemDS."""

    def register(function: Function) -> Function:
        LIBRARY[(f"scripts/{script}", name)] = _builtin(name, function)
        return function

    return register


def template_function(*names: str, meaning: str = "") -> Callable[[Function], Function]:
    """Register a function as the exporter of functions of ``templates/library``, which converted models contain.

    meaning: what the model computes; by default the docstring.
    """

    def register(function: Function) -> Function:
        function.__doc__ = meaning or function.__doc__
        for name in names:
            layer_function(name, _is_template)(function)
        return function

    return register


def layer_function(name: str, is_layer: Callable[[tree.Function], bool]) -> Callable[[Function], Function]:
    """Register a function as what exports those of this name for which `is_layer` holds."""

    def register(function: Function) -> Function:
        TEMPLATES[name] = _builtin(name, function), is_layer
        return function

    return register


def library_results(
    context: Context, script: str, function: tree.Function, given: Mapping[str, Value]
) -> tuple[Value, ...] | None:
    """Return the results of a function that is known, None where the script itself has to say.

    script: its path inside of SystemDS.jar, empty for others.
    """
    found = LIBRARY.get((script, function.name)) if script else None
    name = name_without_number(function.name)
    if not script and name in TEMPLATES:
        template, is_meant = TEMPLATES[name]
        found = template if is_meant(replace(function, name=name)) else None
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


def _is_template(function: tree.Function) -> bool:
    """Whether a function is that of ``templates/library`` of its name."""
    return plain(function) == _template(function.name)


def plain(function: tree.Function) -> tree.Function:
    """Return a function without its statements that only keep the engine's compiler from something."""
    body = tuple(statement for statement in function.body if not is_never(statement) and statement != cut(NEVER))
    return replace(function, body=body)


@cache
def _template(name: str) -> tree.Function:
    """Return a function of ``templates/library``."""
    return plain(parse_script(library_text(name)).functions[name])
