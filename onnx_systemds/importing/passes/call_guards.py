"""Calls that never run, so that the engine keeps the calls of a function apart.

Where a function is called several times with matrices of the same sizes (or none) and with numbers that are not yet
known, the engine's inter-procedural analysis takes the calls for equal, and once it knows the numbers, as with the
sizes of the matrices it was given, it compiles those of the last call into the function. A further call with literals
keeps it from doing so: see docs/decisions/0011-call-guards.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_HEAD = re.compile(r"^(\w+) = function\((.*?)\)\s*return \((.*?)\)", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(r"#[^\n]*|\"[^\"]*\"|\b([A-Za-z]\w*)\(|[()\[\],]")
_LITERAL = re.compile(r"-?[\d.]+(?:[eE][-+]?\d+)?|TRUE|FALSE|\"[^\"]*\"")
_SCALARS = {"integer": "1", "double": "1", "boolean": "TRUE", "string": '""'}
_OTHERS = {"matrix": "matrix(0, rows=1, cols=1)", "frame": "as.frame(0)", "list": "list()"}
_SIZES = {"matrix": "nrow({})", "frame": "nrow({})", "list": "length({})"}


def guarding_calls(functions: Sequence[str], statements: Sequence[str]) -> list[str]:
    """Statements with a call of each of the functions that is called more than once with numbers known at run time.

    functions: the texts of all functions of a script; statements: those of one more.
    """
    signatures = {head[1]: (_types(head[2]), _types(head[3])) for text in functions for head in _HEAD.finditer(text)}
    met: dict[str, list[list[str]]] = {}
    for place, text in enumerate((*functions, "\n".join(statements))):
        for name, arguments in _calls(_HEAD.sub("", text), signatures):
            # a name means the same in one function only
            met.setdefault(name, []).append([_placed(argument, place) for argument in arguments])
    guards: list[str] = []
    for name, calls in sorted(met.items()):
        types, results = signatures[name]
        columns = [*zip(*calls)]
        numbers = [set(column) for kind, column in zip(types, columns) if kind in _SCALARS]
        if any(len(texts) > 1 and not all(map(_LITERAL.fullmatch, texts)) for texts in numbers):
            guards.append(_guard(name, types, results, columns))
    return guards


def _placed(argument: str, place: int) -> str:
    return argument if _LITERAL.fullmatch(argument) else f"{place}: {argument}"


def _types(parameters: str) -> list[str]:
    """``matrix``, ``integer`` .. of a list of declarations."""
    return [re.split(r"[\[ ]", declared.strip())[0] for declared in parameters.split(",") if declared.strip()]


def _guard(name: str, types: Sequence[str], results: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """The call: literals that all calls share stay as they are."""
    arguments: list[str] = []
    for kind, column in zip(types, columns):
        shared = column[0] if len(set(column)) == 1 and _LITERAL.fullmatch(column[0]) else None
        arguments.append(shared or _SCALARS.get(kind) or _OTHERS[kind])
    call = f"{name}({', '.join(arguments)})"
    kind = results[0]
    if len(results) == 1:
        return f"print({_SIZES.get(kind, '{}').format(call)})"
    unused = [f"unused{number}" for number in range(1, len(results) + 1)]
    return f"[{', '.join(unused)}] = {call}; print({_SIZES.get(kind, '{}').format(unused[0])})"


def _calls(text: str, names: dict[str, tuple[list[str], list[str]]]) -> Iterator[tuple[str, list[str]]]:
    """The calls of known functions in a text, with the texts of their arguments."""
    open_calls: list[tuple[str | None, int, list[str]]] = []  # name, where its argument begins, those before
    for token in _TOKEN.finditer(text):
        found = token[0]
        if found[0] in '#"':
            continue
        if found[-1] in "([":
            open_calls.append((token[1] if token[1] in names else None, token.end(), []))
        elif not open_calls:
            continue
        elif found == ",":
            name, begin, arguments = open_calls[-1]
            arguments.append(text[begin : token.start()].strip())
            open_calls[-1] = (name, token.end(), arguments)
        else:
            name, begin, arguments = open_calls.pop()
            if name is not None:
                last = text[begin : token.start()].strip()
                yield name, [*arguments, last] if last else arguments
