"""Binds the arguments of calls of DML functions to parameters, by the rules of the engine's compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.exporting.builtins.call_forms import IN_DML
from onnx_systemds.exporting.builtins.registry import BUILTINS
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.evaluating.modules import Module
from onnx_systemds.exporting.sources import JAR_PREFIX
from onnx_systemds.exporting.values import Value

_LITERALS = (tree.IntLiteral, tree.DoubleLiteral, tree.StringLiteral, tree.BooleanLiteral)


def check_names(call: tree.Call, function: tree.Function | None) -> None:
    """Raise UnsupportedCase for a call of a function in DML with and without names.

    function: None for one of SystemDS. The engine takes the latter for functions that it inlines, which have no blocks.
    """
    names = [argument.name for argument in call.arguments if argument.name is not None]
    is_called = function is None or any(map(scopes.blocks_in, function.body))
    if names and len(names) < len(call.arguments) and is_called:
        raise UnsupportedCase(f"{call.function} has arguments with and without names", hint="name all of them, or none")


def bound(
    evaluator: Evaluator, function: tree.Function, module: Module, positional: Sequence[Value],
    named: Mapping[str, Value], *, of_list: bool,
) -> dict[str, Value]:
    """Return the arguments of a call by parameter, without omitted ones whose default reads no variable.

    of_list: they are the items of a list, beside which the engine puts defaults that are literals.
    """
    names = [parameter.name for parameter in function.parameters]
    if len(positional) > len(names):
        raise UnsupportedCase(f"{function.name} takes {len(names)} arguments, not {len(positional)}")
    given = dict(zip(names, positional))
    for name, value in named.items():
        if name not in names:
            raise UnsupportedCase(f"{function.name} has no parameter {quoted(name)}",
                                  hint=f"its parameters are {', '.join(names)}")
        if name in given:
            raise UnsupportedCase(f"{function.name} gets the argument {name} twice")
        given[name] = value
    left_out = [parameter for parameter in function.parameters if parameter.name not in given]
    if left_out:
        _check_left_out(function, module, left_out, by_place=bool(positional), of_list=of_list)
    for parameter in left_out:
        # the compiler puts the default into the call, where names are those of the caller
        if parameter.default is not None and scopes.read_in(parameter.default):
            given[parameter.name] = evaluator.value(parameter.default)
    return given


def _check_left_out(
    function: tree.Function, module: Module, left_out: Sequence[tree.Parameter], *, by_place: bool, of_list: bool
) -> None:
    """Raise UnsupportedCase if the engine does not fill in the arguments that a call omits."""
    missing = left_out[0].name
    for parameter in left_out:
        if parameter.default is None:
            raise UnsupportedCase(f"{function.name} needs the argument {parameter.name}")
        if of_list and not isinstance(parameter.default, _LITERALS):
            raise UnsupportedCase(f"the list for {function.name} lacks {parameter.name}, whose default is no literal",
                                  hint="the engine fills in literals alone")
    if of_list:
        return
    if by_place:
        raise UnsupportedCase(f"{function.name} gets its arguments by position, but not {missing}",
                              hint="the engine fills in defaults only where all arguments have names")
    if not module.script.file.startswith(JAR_PREFIX) and _is_inlined(function, module):
        hint = "the engine fills in no default of a function that it inlines, as those of assignments alone"
        raise UnsupportedCase(f"{function.name} does not get {missing}", hint=hint)


def _is_inlined(function: tree.Function, module: Module) -> bool:
    """Whether the engine's parser certainly inlines a function, which only assigns results of builtins."""
    if not all(isinstance(statement, tree.Assign) for statement in function.body):
        return False
    called = {name for statement in function.body for name in scopes.called_in(statement)}
    return all(name in BUILTINS and name not in module.functions and name not in IN_DML and name != "read"
               for name in called)
