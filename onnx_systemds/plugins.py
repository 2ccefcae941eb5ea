"""Plugins: Python files, and modules of installed packages, that register operators, builtins and rewrites."""

from __future__ import annotations

import runpy
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from onnx_systemds.errors import PluginError, escaped
from onnx_systemds.registration import lines_of

GROUP = "onnx_systemds.plugins"
"""The entry points by which installed packages name modules that are plugins."""


def load_plugins(paths: Iterable[str | Path] = (), *, installed: bool = True) -> None:
    """Load plugins: those of installed packages first, then files.

    installed: whether to load those of installed packages. Raises PluginError, which names the plugin that fails.
    """
    for entry_point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)) if installed else ():
        _load_installed(entry_point)
    for path in map(Path, paths):
        _load_file(path)


def _load_installed(entry_point: EntryPoint) -> None:
    try:
        entry_point.load()
    except (Exception, SystemExit) as error:
        package = f" of {entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist is not None else ""
        name = f"the plugin {entry_point.name}{package}, {entry_point.value}"
        raise PluginError(f"{escaped(name)}, fails: {_words(error)}",
                          hint="--no-plugins leaves out the plugins of installed packages") from error


def _load_file(path: Path) -> None:
    if not path.is_file():
        raise PluginError("there is no such plugin", escaped(str(path)))
    try:
        runpy.run_path(str(path), run_name=path.stem)
    except (Exception, SystemExit) as error:
        raise PluginError(f"the plugin fails{_line(error, path)}: {_words(error)}", escaped(str(path))) from error


def _line(error: BaseException, path: Path) -> str:
    """The line of the file on which an error came up."""
    lines = lines_of(error, {str(path)})
    return f" on line {lines[-1].line}" if lines else ""


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {escaped(str(error), 1000)}"
