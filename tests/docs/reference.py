"""The reference pages of the command line and of Python, generated from the code."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import click

import onnx_systemds
from onnx_systemds.cli.commands import main
from onnx_systemds.engine import PreparedScript, Session
from onnx_systemds.exporting import api
from onnx_systemds.plugins import load_plugins
from onnx_systemds.verifying import Report, verify_model
from onnx_systemds.verifying.operation_nodes import verify_nodes
from onnx_systemds.verifying.scripts import verify_script

WIDTH = 120
MADE_BY_USERS = (onnx_systemds.InputSpec, onnx_systemds.ScoringFunction, Session)
REGISTERING = ("add_templates", "batch_rule", "expander", "fold", "generator", "gradient", "integer_rule", "list_rule", "nn_layer", "rewrite", "shape_rule", "size_rule", "takes_text")
HEAD = """\
* `ScoringFunction` and `Session` are context managers: `with ScoringFunction(script) as score: ...` releases the script at the end. Without
  a session of its own a `ScoringFunction` takes the one that is shared in the process.
* **Memory.** The heap of the engine is 60 % of the machine's memory, at most 8 GB, unless `Session(max_heap="16g")` says otherwise:
  `ScoringFunction(script, session)`.
* **Errors** of conversions are `TranspileError` and its subclasses, `from onnx_systemds.errors import TranspileError`; `InvalidInput`, of a call
  whose inputs do not fit, is one of them (`onnx_systemds.model.given_inputs`). Those of the engine are `EngineError` and its subclasses,
  `from onnx_systemds.engine import EngineError`.

| option of the command line | in Python |
|---|---|
| `--dim batch=32` | `import_model(model, dims={"batch": 32})` |
| `--constant axes=[1]` | `constants={"axes": np.array([1])}` |
| `--type X=float[batch,3]` | `types={"X": TensorType("float", ("batch", 3))}`, by `from onnx_systemds.model.ir import TensorType`; None is a size without a name |
| `--from NAME`, `--to NAME` | `import_model(part_of(load_model("model.onnx"), starts=["NAME"], ends=["NAME"]))`, by `from onnx_systemds.importing.part import part_of` and `from onnx_systemds.model.load import load_model`; `verify_model` takes `starts` and `ends` |
| `--no-simplify`, `--no-pass NAME`, `--no-specialise` | `simplified=False`, `omitted=["NAME"]`, `specialised=False` |
| `--gradient weights` | `gradients=["weights"]` |
| `--plugin FILE.py` | an import of the module |
| `--weight W=w.npy`, `--result out` of exports | `export_script(..., bindings={"W": array}, outputs=["out"])` |
"""
PLUGINS_OF_EXPORT = ("builtin", "join", "own_domain", "refuse", "template_function")


def command_line() -> str:
    """The text of docs/command_line.md."""
    names = ["convert", "export", *(name for name in main.commands if name not in ("convert", "export"))]
    parts = ["# Command line: every option\n\nGenerated from the commands (`onnx-systemds COMMAND --help`); do not edit.\n", _usage(), *map(_command, names), _commands_of_options(names)]
    return "\n".join(parts)


def _commands_of_options(names: list[str]) -> str:
    """A table of the commands that take each option."""
    found: dict[str, list[str]] = {}
    for name in names:
        for parameter in main.commands[name].params:
            if isinstance(parameter, click.Option):
                found.setdefault(", ".join(sorted(parameter.opts, key=len)), []).append(name)
    rows = [f"| `{option}` | {', '.join(commands)} |" for option, commands in sorted(found.items(), key=lambda row: row[0].split(", ")[-1])]
    return "\n".join(["## Which option is in which command", "", "| option | commands |", "|---|---|", *rows]) + "\n"


def _usage() -> str:
    lines = ["```", "onnx-systemds MODEL.onnx [-o SCRIPT.dml] [OPTIONS]      the same as convert", "onnx-systemds SCRIPT.dml [-o MODEL.onnx] [OPTIONS]      the same as export",
             "onnx-systemds COMMAND [ARGS]...", "```"]
    return "\n".join([*lines, "", *_paragraphs(main.help or "")])


def _command(name: str) -> str:
    command = main.commands[name]
    context = click.Context(command, info_name=name, parent=click.Context(main, info_name="onnx-systemds"))
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [f"## {name}", "", "```", usage, "```", "", *_paragraphs(command.help or "")]
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    lines += ["| option | meaning |", "|---|---|"]
    for option in options:
        shown, meaning = option.get_help_record(context) or ("", "")
        lines.append(f"| `{_cell(shown)}` | {_cell(_as_code(meaning))} |")
    lines.append("| `-h, --help` | Show this message and exit. |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", ", ")  # a pipe ends a cell, and is no better with a backslash in code


def _as_code(text: str) -> str:
    """What has a part in <> is no HTML."""
    return re.sub(r"(\w*<[^>]*>(?:[\w/()]|\.\w)*/?)", r"`\1`", text)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those that click is not to wrap are code."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ["```", textwrap.dedent(paragraph.removeprefix("\b\n")), "```", ""]
        else:
            yield from [_as_code(" ".join(paragraph.split())), ""]


def python() -> str:
    """The text of docs/python.md."""
    own = [getattr(onnx_systemds, name) for name in onnx_systemds.__all__ if not name.startswith("__")]
    operators = [getattr(onnx_systemds.operators, name) for name in REGISTERING]
    export = [getattr(api, name) for name in PLUGINS_OF_EXPORT]
    lines = ["# Python: functions and classes", "", "Generated from the code; do not edit. `onnx_systemds.backend` is a standard `onnx.backend.base.Backend` beside it.", "", *HEAD.splitlines(), ""]
    sections = [
        ("from onnx_systemds import ...", own), ("from onnx_systemds.verifying import verify_model", [verify_model, Report]),
        ("from onnx_systemds.verifying.scripts import verify_script", [verify_script]),
        ("from onnx_systemds.verifying.operation_nodes import verify_nodes", [verify_nodes]),
        ("from onnx_systemds.engine import Session", [Session, PreparedScript]),
        ("from onnx_systemds.plugins import load_plugins", [load_plugins]),
        ("from onnx_systemds.operators import ...", operators), ("from onnx_systemds.exporting.api import ...", export),
    ]
    for title, members in sections:
        lines += [f"## `{title}`", ""]
        for member in members:
            lines += [f"### {member.__name__}", "", "```python", *_stub(member), "```", ""]
    return "\n".join(lines)


def _stub(member: Any) -> Iterator[str]:
    if not inspect.isclass(member):
        yield from _function(member.__name__, member)
        return
    yield f"class {member.__name__}:"
    yield from _docstring(member)
    if member in MADE_BY_USERS:
        yield from ("", *_indented(_function("__init__", member.__init__, documented=False)))
    for name, content in vars(member).items():
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(content, property):
            yield from ("", "    @property", *_indented(_function(name, content.fget)))
        elif isinstance(content, classmethod):
            yield from ("", "    @classmethod", *_indented(_function(name, content.__func__)))
        elif inspect.isfunction(content):
            yield from ("", *_indented(_function(name, content)))


def _function(name: str, function: Any, documented: bool = True) -> Iterator[str]:
    signature = inspect.signature(function)
    parameters = [*_parameters(signature.parameters.values())]
    returned = "" if signature.return_annotation is signature.empty else f" -> {_type(signature.return_annotation)}"
    end = f"{returned}:" if documented else f"{returned}: ..."
    line = f"def {name}({', '.join(parameters)}){end}"
    if len(line) <= WIDTH - 4:
        yield line
    else:
        yield from (f"def {name}(", *(f"    {each}," for each in parameters), f"){end}")
    if documented:
        yield from _docstring(function)


def _parameters(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    named = False
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL:
            named = True
        elif each.kind is each.KEYWORD_ONLY and not named:
            named = True
            yield "*"
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        type_ = "" if each.annotation is each.empty else f": {_type(each.annotation)}"
        given = "" if each.default is each.empty else f" = {each.default!r}" if type_ else f"={each.default!r}"
        yield f"{star}{each.name}{type_}{given}"


def _type(annotation: Any) -> str:
    return annotation.strip("\"'") if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _docstring(member: Any) -> Iterator[str]:
    text = inspect.cleandoc(member.__doc__ or "")
    yield from _indented(f'"""{text}{chr(10) if chr(10) in text else ""}"""'.splitlines())


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"    {line}".rstrip() for line in lines)
