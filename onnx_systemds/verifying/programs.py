"""Copies scripts as programs for the engine that read and write files in one folder."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.printer import print_script
from onnx_systemds.dml.rewrite import call, rewritten
from onnx_systemds.dml.scopes import is_operation
from onnx_systemds.exporting.interface import ScriptFiles
from onnx_systemds.exporting.sources import SourceFiles
from onnx_systemds.exporting.values import scalar_text

_KEPT_OPTIONS = ("data_type", "value_type", "schema")
"""What `read` says of the value; all else is about the file, which is another one."""

_TEXT_OPTIONS = ("naStrings", "fill", "default")
"""What it says of the texts of a frame, where it names those that are missing."""

_CUT = tree.If(tree.BooleanLiteral(False), (tree.CallStatement(call("print", tree.StringLiteral("never"))),))
"""Keeps a function from being inlined."""


class Copies:
    """Copies of scripts, and of those that they import, in a folder; files that they read and write are below it.

    arguments: values of ``$name``. files: what the model of the script reads; other files are read where they are.
    """

    def __init__(self, folder: Path, arguments: Mapping[str, Any], files: ScriptFiles) -> None:
        self.root = folder / "files"
        self.arguments = arguments
        self._folder, self._files = folder, files
        self._sources = SourceFiles()
        self._copies: dict[int, Path] = {}

    def of(self, script: tree.Script) -> Path:
        """Return the copy of a script. Raises ScriptNotFound for one that is imported."""
        if id(script) in self._copies:
            return self._copies[id(script)]
        path = self._copies[id(script)] = self._folder / f"script_{len(self._copies)}.dml"
        changed = rewritten(script, lambda node: self._changed(script, node))
        path.write_text(print_script(changed), encoding="utf-8")
        return path

    def place(self, file: str) -> Path:
        """Return where the file that a script names is instead."""
        return self.root / posixpath.normpath(f"/{file}").lstrip("/")

    def _changed(self, script: tree.Script, node: Any) -> Any:
        if isinstance(node, tree.Source):
            imported = self._sources.namespace(script, node.namespace)
            assert imported is not None
            return tree.Source(str(self.of(imported)), node.namespace)
        if isinstance(node, tree.Function) and self._calls_builtin(node):
            return replace(node, body=(_CUT, *node.body))  # fault builtin-of-inlined-function
        if not isinstance(node, tree.Call) or node.function not in ("read", "write"):
            return node
        if node.function == "read":
            path, *options = node.arguments
            known = _known(path.value, self.arguments)
            if known is not None and known not in {*self._files.read, *self._files.written}:
                return tree.Call("read", (_literal(Path(known).absolute()), *options))
            given = {option.name: option.value for option in options}
            by_texts = "naStrings" in given and given.get("data_type") == tree.StringLiteral("frame")
            kept = (*_KEPT_OPTIONS, *(_TEXT_OPTIONS if by_texts else ()))
            return tree.Call("read", (self._moved(path), *(each for each in options if each.name in kept)))
        value, path, *options = node.arguments
        return tree.Call("write", (value, self._moved(path), *options))

    def _calls_builtin(self, function: tree.Function) -> bool:
        """Whether a function calls one that SystemDS defines in DML."""
        called = {node.function for node in tree.walk(function) if isinstance(node, tree.Call)}
        return any(self._sources.builtin(name) is not None for name in called)

    def _moved(self, path: tree.CallArgument) -> tree.CallArgument:
        known = _known(path.value, self.arguments)
        if known is not None:
            return _literal(self.place(known))
        return tree.CallArgument(None, _after(tree.StringLiteral(f"{self.root}/"), path.value))


def write_call(
    path: Path, script: Path, function: tree.Function, given: Mapping[str, Path], results: Mapping[str, Path]
) -> None:
    """Write a program that calls a function of a script: of the files that are `given`; `results` go to others."""
    items: list[tree.Item] = [tree.Source(str(script), "verified")]
    arguments = []
    for parameter in function.parameters:
        if parameter.name not in given:  # the engine does not find the defaults of texts
            if parameter.default is not None:
                arguments.append(tree.CallArgument(parameter.name, parameter.default))
            continue
        name, kind = tree.Name(f"in_{parameter.name}"), parameter.type
        types = {"data_type": kind.kind, **({"value_type": kind.value} if kind.kind == "scalar" else {})}
        options = (tree.CallArgument(option, tree.StringLiteral(value)) for option, value in types.items())
        items.append(tree.Assign(name, tree.Call("read", (_literal(given[parameter.name]), *options))))
        arguments.append(tree.CallArgument(parameter.name, name))
    called = tree.Call(f"verified::{function.name}", tuple(arguments))
    names = tuple(tree.Name(f"out_{result.name}") for result in function.results)
    items.append(tree.MultiAssign(names, called) if len(names) > 1 else tree.Assign(names[0], called))
    for name, result in zip(names, function.results, strict=True):
        form = {"matrix": "binary", "frame": "csv"}.get(result.type.kind, "text")
        option = tree.CallArgument("format", tree.StringLiteral(form))
        written = (tree.CallArgument(None, name), _literal(results[result.name]), option)
        items.append(tree.CallStatement(tree.Call("write", written)))
    path.write_text(print_script(tree.Script(tuple(items))), encoding="utf-8")


def _literal(path: Path) -> tree.CallArgument:
    return tree.CallArgument(None, tree.StringLiteral(str(path)))


def _after(start: tree.Expression, path: tree.Expression) -> tree.Expression:
    """A text and a path behind it, as a + b + c for b + c: fault path-of-a-sum-behind-a-text. Sums of numbers stay."""
    if is_operation(path, "+"):
        sides = (path.left, path.right)
        is_number = any(isinstance(side, (tree.IntLiteral, tree.DoubleLiteral)) for side in sides)
        if not is_number or any(isinstance(side, tree.StringLiteral) for side in sides):
            return tree.Binary("+", _after(start, path.left), path.right)
    return tree.Binary("+", start, path)


def _known(node: tree.Expression, arguments: Mapping[str, Any]) -> str | None:
    """The name of a file, where it is a text, an argument, or both, as far as that is known."""
    if isinstance(node, tree.StringLiteral):
        return node.value
    if isinstance(node, tree.Argument) and node.name in arguments:
        value = arguments[node.name]
        return value if isinstance(value, str) else scalar_text(value)
    if isinstance(node, tree.Binary) and node.operator == "+":
        parts = _known(node.left, arguments), _known(node.right, arguments)
        return None if None in parts else "".join(map(str, parts))
    return None
