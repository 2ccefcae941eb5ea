"""What a script offers, as lines of text for ``--list``."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.printer import parameter_text, print_expression
from onnx_systemds.errors import TranspileError, quoted


def list_script(script: tree.Script, function: str | None = None) -> list[str]:
    """Return a line for each function, or for one, and for each argument of the command line that the script reads.

    Raises TranspileError where there is no such function.
    """
    functions = [item for item in script.items if isinstance(item, tree.Function)]
    lines = map(function_line, functions if function is None else [function_named(script, function)])
    return [*lines, *(argument_line(name, default) for name, default in script_arguments(script).items())]


def function_named(script: tree.Script, name: str) -> tree.Function:
    """Return a function of a script. Raises TranspileError where there is none of this name."""
    if name not in script.functions:
        known = ", ".join(script.functions) or "none"
        raise TranspileError(f"there is no function {quoted(name)}", script.file, f"its functions: {known}")
    return script.functions[name]


def function_line(function: tree.Function) -> str:
    """Return ``name(type x, type y = default) -> (type z)``."""
    parameters = ", ".join(map(parameter_text, function.parameters))
    results = ", ".join(map(parameter_text, function.results))
    return f"{function.name}({parameters}) -> ({results})"


def argument_line(name: str, default: tree.Expression | None) -> str:
    """Return ``$name = default``, or ``$name`` alone when it must be given."""
    return f"${name}" if default is None else f"${name} = {print_expression(default)}"


def script_arguments(script: tree.Script) -> dict[str, tree.Expression | None]:
    """Return the arguments of the command line with their defaults, in the order of the text.

    None stands for an argument that is read somewhere outside of ``ifdef``, and must be given.
    """
    found: dict[str, tree.Expression | None] = {}
    guarded: set[int] = set()
    for node in tree.walk(script):
        if isinstance(node, tree.IfDefined):
            found.setdefault(node.argument.name, node.default)
            guarded.add(id(node.argument))
        elif isinstance(node, tree.Argument) and id(node) not in guarded:
            found[node.name] = None
    return found
