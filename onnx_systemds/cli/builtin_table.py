"""The table of builtins that are exported, from the registry: for the command line and docs/builtins.md."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from onnx_systemds.exporting.builtins import load_builtins
from onnx_systemds.exporting.builtins.library import LIBRARY, TEMPLATES
from onnx_systemds.exporting.builtins.registry import BUILTINS, REFUSED, Builtin, dml_name
from onnx_systemds.exporting.evaluating.calls import SPECIAL


def builtin_lines() -> Iterator[str]:
    """The tables as Markdown, after the counts."""
    exported = _exported()
    names = sum(len(_names(builtin)) for builtin in _distinct()) + len(SPECIAL.keys() - BUILTINS.keys())
    yield f"{names} names of builtins are exported, {len(REFUSED)} are refused. Builtins that SystemDS defines in DML"
    yield "(`scale`, `lmPredict` and the others in its `scripts/builtin`) are exported through their source."
    yield ""
    yield "| builtin | what the model computes |"
    yield "|---|---|"
    for signature, meaning in exported:
        yield f"| `{signature}` | {meaning} |"
    yield ""
    yield "## Functions of scripts"
    yield ""
    yield "These functions become the operators below if their arguments allow it; otherwise their source is exported."
    yield ""
    yield "| function | of | what the model computes |"
    yield "|---|---|---|"
    for name, script, meaning in _functions():
        yield f"| `{name}` | {script} | {meaning} |"
    yield ""
    yield "## Refused"
    yield ""
    yield "| builtin | reason | instead |"
    yield "|---|---|---|"
    for (reason, hint), refused in _refused():
        yield f"| {', '.join(f'`{name}`' for name in refused)} | {reason} | {hint} |"


def builtin_summary() -> dict[str, list[dict[str, Any]]]:
    """The tables as data."""
    exported = [{"signature": signature, "computes": meaning} for signature, meaning in _exported()]
    refused = [{"names": names, "reason": reason, "instead": hint} for (reason, hint), names in _refused()]
    functions = [{"function": name, "of": script, "computes": meaning} for name, script, meaning in _functions()]
    return {"exported": exported, "functions": functions, "refused": refused}


def _exported() -> list[tuple[str, str]]:
    """Signatures and what they compute, by name."""
    load_builtins()
    return sorted({**_registered(), **_special()}.items(), key=lambda item: item[0].lower())


def _functions() -> list[tuple[str, str, str]]:
    """Functions of scripts, the scripts that they are of, and what they become."""
    found = [(name.removeprefix("m_"), script.removeprefix("scripts/"), builtin)  # a builtin, where it begins so
             for (script, name), builtin in LIBRARY.items()]
    found += [(name, "converted models", builtin) for name, (builtin, _) in TEMPLATES.items()]
    return sorted((name, script, _first_line(builtin.function)) for name, script, builtin in found)


def _registered() -> dict[str, str]:
    """The descriptions of the functions in the registry, by signature."""
    return {_signature(builtin): _first_line(builtin.function) for builtin in _distinct()}


def _distinct() -> list[Builtin]:
    """The builtins without their aliases and without the operators."""
    functions = {id(builtin.function): builtin for builtin in reversed(BUILTINS.values()) if builtin.name[0].isalpha()}
    return list(functions.values())


def _names(builtin: Builtin) -> list[str]:
    return [name for name, other in BUILTINS.items() if other.function is builtin.function]


def _special() -> dict[str, str]:
    """The descriptions of calls whose arguments are not simply evaluated."""
    return {f"{name}(...)": _first_line(function) for name, function in SPECIAL.items() if name not in BUILTINS}


def _refused() -> list[tuple[tuple[str, str], list[str]]]:
    """The refused builtins by their reason and what to do instead."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(REFUSED, key=str.lower):
        groups.setdefault(REFUSED[name], []).append(name)
    return list(groups.items())


def _signature(builtin: Builtin) -> str:
    names = _names(builtin)
    parts = [_parameter(parameter) for parameter in builtin.parameters]
    return f"{' or '.join(names)}({', '.join(parts)})"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "..."
    name = dml_name(parameter)
    return name if parameter.default is parameter.empty else f"{name}="


def _first_line(function: object) -> str:
    text = inspect.getdoc(function) or ""
    return text.splitlines()[0] if text else ""


def document() -> str:
    """The text of docs/builtins.md."""
    head = "# Builtins of DML that are exported\n\n"
    head += "Generated from the registry (`onnx-systemds builtins`); do not edit.\n\n"
    return head + "\n".join(builtin_lines()) + "\n"
