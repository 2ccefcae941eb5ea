"""Calls: evaluates functions of scripts in place, and builtins by their exporters or their own DML source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.call_forms import IN_DML, check_form
from onnx_systemds.exporting.builtins.files import file_name, put, written_as
from onnx_systemds.exporting.builtins.library import library_results
from onnx_systemds.exporting.builtins.registry import BUILTINS, refusal
from onnx_systemds.exporting.evaluating.arguments import bound, check_names
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.evaluating.inlining import inline
from onnx_systemds.exporting.evaluating.modules import Module
from onnx_systemds.exporting.evaluating.outlined_calls import outlined
from onnx_systemds.exporting.graph.nodes import first_found
from onnx_systemds.exporting.poison_values import intact
from onnx_systemds.exporting.sources import JAR_PREFIX
from onnx_systemds.exporting.values import BOOLEAN, DOUBLE, INTEGER, ListValue, Matrix, Scalar, Value, known_of


def call_for_one(evaluator: Evaluator, node: tree.Call) -> Value:
    """Return the result of a call inside an expression: the first one of several. Raises UnsupportedCase."""
    results = call(evaluator, node)
    with evaluator.at(node):
        if not results:
            raise UnsupportedCase(f"{node.function} gives no value")
        return intact(results[0], f"the result of {node.function}")


def call(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...]:
    """Return the results of a call. Raises UnsupportedCase."""
    found = evaluator.modules.find(node, evaluator.frame.module)
    if found is None and not node.namespace and node.function in SPECIAL:
        special = SPECIAL[node.function](evaluator, node)
        if special is not None:
            return special
    own = found is not None or node.function not in BUILTINS
    evaluated = evaluator.argument if own else evaluator.value
    names = _names(node, found)
    positional = [evaluated(a.value) for a, name in zip(node.arguments, names) if name is None]
    named = {name: evaluated(a.value) for a, name in zip(node.arguments, names) if name is not None}
    evaluator.enter_line(node)
    with evaluator.at(node):
        if any(name is not None for name in names[: len(positional)]):
            raise UnsupportedCase(f"an argument of {node.function} without a name stands after one that has a name",
                                  hint="name all of them, or none")
        if twice := [name for place, name in enumerate(names) if name is not None and name in names[:place]]:
            raise UnsupportedCase(f"{node.function} gets the argument {twice[0]} twice")
        if found is not None or node.function in IN_DML or (own and refusal(node.function) is None):
            check_names(node, None if found is None else found[0])
        elif not own and not node.namespace and BUILTINS[node.function].is_ours:
            check_form(node.function, len(positional), list(named))
        return _dispatched(evaluator, node, found, positional, named)


def _names(node: tree.Call, found: tuple[tree.Function, Module] | None) -> list[str | None]:
    """Return the names of arguments; those of a function of the script also where a named one stands before them."""
    names = [argument.name for argument in node.arguments]
    parameters = [parameter.name for parameter in found[0].parameters] if found is not None else []
    if len(names) > len(parameters):
        return names
    first = next((place for place, name in enumerate(names) if name is not None), len(names))
    return [*names[:first], *(name or parameters[place] for place, name in enumerate(names[first:], first))]


def _dispatched(
    evaluator: Evaluator,
    node: tree.Call,
    found: tuple[tree.Function, Module] | None,
    positional: Sequence[Value],
    named: Mapping[str, Value],
    *,
    of_list: bool = False,
) -> tuple[Value, ...]:
    if found is None and node.namespace:
        known = evaluator.modules.functions(node.namespace, evaluator.frame.module)
        hint = f"its functions: {', '.join(known)}" if known else "a source statement must give it"
        raise UnsupportedCase(f"there is no function {node.function}", hint=hint)
    if found is None and node.function in BUILTINS:
        if node.function == "read":
            named = {**named, "target": Scalar("string", evaluator.target)}
        result = BUILTINS[node.function](evaluator.context, positional, named)
        return result if isinstance(result, tuple) else () if result is None else (result,)
    if found is None:
        reason = refusal(node.function)
        if reason is not None:
            raise reason
        found = evaluator.modules.builtin(node.function)
    if found is None:
        near = get_close_matches(node.function, [*evaluator.frame.module.functions, *BUILTINS], 1, 0.8)
        raise UnsupportedCase(f"{node.function} is no function of the script, and no builtin that can be exported",
                              hint=f"is {near[0]} meant?" if near else "--plugin registers builtins of your own")
    given = bound(evaluator, *found, positional, named, of_list=of_list)
    if evaluator.outline:
        return outlined(evaluator, node, *found, given)
    file = found[1].script.file
    script = file.removeprefix(JAR_PREFIX) if file.startswith(JAR_PREFIX) else ""
    results = library_results(evaluator.context, script, found[0], given)
    return inline(evaluator, node, *found, given) if results is None else results


# Calls whose arguments are not simply evaluated


def _ifelse(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...] | None:
    """Take the chosen side of an ``ifelse`` whose condition is known."""
    if len(node.arguments) != 3 or any(argument.name for argument in node.arguments):
        return None
    condition = evaluator.value(node.arguments[0].value)
    known = known_of(condition)
    if known is None or isinstance(known, str):  # a text is no boolean, which the builtin says
        return None
    sides = [argument.value for argument in node.arguments[1:]]
    chosen, other = sides if known else reversed(sides)
    return (_as_large_as(evaluator, evaluator.value(chosen), other),)


def _as_large_as(evaluator: Evaluator, chosen: Value, other: tree.Expression) -> Value:
    """Return what an ``ifelse`` gives: a scalar fills the matrix, and an integer is the double, that the other is."""
    if not isinstance(chosen, Scalar):
        return chosen
    whole = evaluator.possible(other)
    if isinstance(whole, Scalar) and (chosen.type, whole.type) == (INTEGER, DOUBLE):
        return Scalar(DOUBLE, float(chosen.content) if isinstance(chosen.content, int) else chosen.content)
    if not isinstance(whole, Matrix):
        return chosen
    context = evaluator.context
    return context.matrix(context.g.expand(context.floats(chosen), whole.dims))


def _eval(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...]:
    """The result of the function whose name is a known string; its arguments may be in a list."""
    return _called_by_text(evaluator, node)[0]


def _eval_list(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...]:
    """All results of the function whose name is a known string, as a list with their names."""
    results, function = _called_by_text(evaluator, node)
    names = () if function is None else tuple(result.name for result in function.results)
    return (ListValue(results, names if len(names) == len(results) else ()),)


def _called_by_text(evaluator: Evaluator, node: tree.Call) -> tuple[tuple[Value, ...], tree.Function | None]:
    """Call a function of the module, of the exported script, or a builtin; its results, and what it is in DML."""
    values = [evaluator.value(argument.value) for argument in node.arguments if argument.name is None]
    named = {a.name: evaluator.value(a.value) for a in node.arguments if a.name is not None}
    evaluator.enter_line(node)
    with evaluator.at(node):
        name = values[0].known if values and isinstance(values[0], Scalar) else None
        if not isinstance(name, str):
            raise UnsupportedCase("eval of a function whose name is not known")
        rest = values[1:]
        packed = rest[0] if len(rest) == 1 and not named else None
        of_list = isinstance(packed, ListValue)
        if isinstance(packed, ListValue):
            rest = [] if packed.names else list(packed.items)
            named = dict(zip(packed.names, packed.items))
        inner = tree.Call(name, position=node.position)
        own = (evaluator.frame.module, evaluator.main)
        found = first_found(evaluator.modules.find(inner, module) for module in own)
        results = _dispatched(evaluator, inner, found, rest, named, of_list=of_list)
        known = found or (None if name in BUILTINS else evaluator.modules.builtin(name))
        return results, None if known is None else known[0]


def _list(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...]:
    """``list(a, b)`` or ``list(x=a, y=b)``."""
    items = tuple(evaluator.argument(argument.value) for argument in node.arguments)
    names = tuple(argument.name or "" for argument in node.arguments)
    return (ListValue(items, names if any(names) else ()),)


def _exists(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...] | None:
    """``exists(X)`` or ``exists("X")``."""
    argument = node.arguments[0].value if len(node.arguments) == 1 else None
    if isinstance(argument, tree.StringLiteral):
        return (Scalar(BOOLEAN, argument.value in evaluator.frame.variables),)
    if isinstance(argument, tree.Name):
        return (Scalar(BOOLEAN, argument.name in evaluator.frame.variables),)
    return None


def _stop(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...] | None:
    """Omit a ``stop`` that the run may not reach; its message need not be known."""
    if evaluator.context.g.certain:
        return None
    evaluator.enter_line(node)
    evaluator.context.drop("stop is left out of a branch that the model may take")
    return ()


def _assert(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...] | None:
    """Omit an ``assert`` whose condition cannot be evaluated: no result depends on it."""
    if _is_exported(evaluator, node.arguments):
        return None
    evaluator.enter_line(node)
    evaluator.context.drop("assert is left out: its condition cannot be exported")
    return ()


def _is_exported(evaluator: Evaluator, arguments: Sequence[tree.CallArgument]) -> bool:
    """Evaluate arguments; return whether all of them can be exported."""
    return all(evaluator.possible(argument.value) is not None for argument in arguments)


def _message(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...]:
    """Not part of the model; its arguments are not evaluated."""
    evaluator.enter_line(node)
    evaluator.context.drop(f"{node.function} is left out")
    return ()


def _write(evaluator: Evaluator, node: tree.Call) -> tuple[Value, ...] | None:
    """Omit an unwanted write that cannot be exported; name an output by its variable if its file name is unknown."""
    context = evaluator.context
    if len(node.arguments) < 2 or any(argument.name for argument in node.arguments[:2]):
        return None
    target = node.arguments[0].value
    named = evaluator.possible(node.arguments[1].value)
    path = None if named is None else file_name(named)
    if path is not None:
        name = written_as(context, path)
    elif isinstance(target, tree.Name):
        is_input = any(tensor.hint == target.name for tensor in evaluator.graph.inputs)
        name = f"{target.name}_out" if is_input else target.name
    else:
        return None if context.interface.wanted is None else ()
    if not context.interface.may_want(name) and (path is None or not _is_exported(evaluator, node.arguments[:1])):
        context.interface.wants(name)
        return ()
    if path is not None:
        return None
    evaluator.enter_line(node)
    context.drop(f"the name of a file is known only when the script runs: its output is called {name}")
    value = evaluator.value(target)
    with evaluator.at(node):
        put(context, name, value)
    return ()


SPECIAL = {
    "ifelse": _ifelse,
    "eval": _eval,
    "evalList": _eval_list,
    "list": _list,
    "exists": _exists,
    "assert": _assert,
    "print": _message,
    "stop": _stop,
    "write": _write,
}
