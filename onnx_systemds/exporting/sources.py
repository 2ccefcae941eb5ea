"""Scripts named by ``source("...")``, and those that are part of SystemDS.

The engine looks for a path below the folder it was started in (or that of ``setwd``), then below ``scripts/``
there, then inside SystemDS.jar. `SourceFiles` does the same. Before the jar it looks beside the importing script, and
where that one's own path began: a project whose paths begin in its folder is exported from any other one, too.
"""

from __future__ import annotations

import os
import zipfile
from functools import cache
from pathlib import Path, PurePosixPath

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_file, parse_script
from onnx_systemds.engine.errors import EngineUnavailable
from onnx_systemds.engine.launcher import find_class_path
from onnx_systemds.errors import ScriptNotFound, TranspileError, quoted

JAR_PREFIX = "SystemDS.jar!"
BUILTIN_FOLDER = "scripts/builtin/"


class SourceFiles:
    """Finds and parses scripts, each one once. `folder` stands for the folder the engine would be started in."""

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path.cwd() if folder is None else Path(folder)
        self._parsed: dict[str, tree.Script] = {}
        self._beginning: dict[str, Path] = {}
        """By the file of a script that is imported, the folder in which the path to it begins."""

    def resolve(self, path: str, importer: tree.Script | None = None, working_folder: str = ".") -> tree.Script:
        """Return the script that ``source(path)`` in `importer` means, after ``setwd(working_folder)``.

        Raises ScriptNotFound with the paths that were tried, and ScriptSyntaxError.
        """
        looked: list[str] = []
        for folder, place in self._candidates(path, importer, working_folder):
            key = str(place) if isinstance(place, str) else os.path.normpath(place)
            if key in self._parsed:
                return self._parsed[key]
            found = jar_script(key) if isinstance(place, str) else _file(Path(key))
            if found is not None:
                self._parsed[key] = found
                if folder is not None:
                    self._beginning[found.file] = folder
                return found
            looked.append(key)
        shown = ", ".join(dict.fromkeys(looked))
        raise ScriptNotFound(f"the script {quoted(path)} is not found", hint=f"looked for {shown}")

    def namespace(self, script: tree.Script, name: str) -> tree.Script | None:
        """Return the script that `name` stands for in `script`, None if nothing is imported under it.

        Raises as `resolve`, with the place of the import, and where the name stands for two files.
        """
        found: tree.Script | None = None
        folder = "."
        for node in tree.walk(script):
            if isinstance(node, tree.SetWorkingFolder):
                folder = node.path
            elif isinstance(node, tree.Source) and node.namespace == name:
                try:
                    imported = self.resolve(node.path, script, folder)
                except ScriptNotFound as error:
                    error.place = error.place or node.position
                    raise
                if found is not None and found is not imported:
                    raise TranspileError(f"the namespace {name} stands for {quoted(found.file)} already", node.position)
                found = imported
        return found

    def builtin(self, name: str) -> tree.Script | None:
        """Return the script of SystemDS that defines the builtin function `name` in DML, or None if there is none."""
        key = f"{JAR_PREFIX}{BUILTIN_FOLDER}{name}.dml"
        if key not in self._parsed:
            found = jar_script(key)
            if found is None:
                return None
            self._parsed[key] = found
        return self._parsed[key]

    def _candidates(
        self, path: str, importer: tree.Script | None, working_folder: str
    ) -> list[tuple[Path | None, Path | str]]:
        """Return where a script may be, the first place first: folders in which its path begins, or None, and files."""
        path = _joined(path, working_folder)
        folders: list[Path] = []
        places: list[str] = []
        inside_jar = importer is not None and importer.file.startswith(JAR_PREFIX)
        if not inside_jar:
            folders = [self.folder, self.folder / "scripts"]
            if importer is not None:
                folders.append(Path(importer.file).parent)
                if importer.file in self._beginning:
                    folders.append(self._beginning[importer.file])
        name = _normal(path)
        if name is not None:
            places.append(f"{JAR_PREFIX}{name}")
            if not name.startswith("scripts/"):
                places.append(f"{JAR_PREFIX}scripts/{name}")
        if inside_jar and importer is not None:
            beside = _normal(str(PurePosixPath(importer.file.removeprefix(JAR_PREFIX)).parent / path))
            places += [] if beside is None else [f"{JAR_PREFIX}{beside}"]
        return [*((folder, folder / path) for folder in folders), *((None, place) for place in places)]


def jar_scripts() -> tuple[str, ...]:
    """Return the names of all scripts inside SystemDS.jar, such as ``scripts/builtin/lm.dml``, sorted.

    Raises EngineUnavailable when there is no SystemDS.
    """
    return tuple(sorted(_jar_texts()))


def jar_script(name: str) -> tree.Script | None:
    """Return a script of SystemDS.jar, None if it has no such script or there is no SystemDS; each is parsed once."""
    name = name.removeprefix(JAR_PREFIX)
    try:
        text = _jar_texts().get(name)
    except EngineUnavailable:
        return None
    return None if text is None else _parsed(text, f"{JAR_PREFIX}{name}")


_parsed = cache(parse_script)


def _file(path: Path) -> tree.Script | None:
    return parse_file(path) if path.is_file() else None


@cache
def _jar_texts() -> dict[str, str]:
    """Return the text of every script inside SystemDS.jar."""
    with zipfile.ZipFile(find_class_path()[0]) as jar:
        return {name: jar.read(name).decode("utf-8") for name in jar.namelist() if name.endswith(".dml")}


def _joined(path: str, working_folder: str) -> str:
    """Return `path` below the folder of ``setwd``, by the rule of the engine."""
    prefix = f"{working_folder}/"
    return path if Path(path).is_absolute() or path.startswith(prefix) else prefix + path


def _normal(path: str) -> str | None:
    """Return a path from the top of the jar, without ``.`` and ``..``; None when it leads outside."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
