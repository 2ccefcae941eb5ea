"""The Jinja environment over the templates folder, and over those of plugins.

The folder lies at the top of the project and is installed as ``onnx_systemds/templates``; the first one that exists
is taken, so that a wheel, an editable install and a plain checkout all work. A plugin's folder holds, as ours does,
``operators/<name>.dml.jinja`` and ``library/<function>.dml``.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import jinja2

from onnx_systemds.dml.words import BUILTIN_FUNCTIONS
from onnx_systemds.errors import TranspileError, quoted

_PACKAGE = Path(__file__).resolve().parent.parent
_FOLDERS: list[Path] = []
"""Of plugins, the last one first."""
_OPERATORS, _LIBRARY = "operators/*.dml.jinja", "library/*.dml"
_NEEDS = "# needs:"


@lru_cache(maxsize=1)
def templates_folder() -> Path:
    """The folder of the templates. Raises FileNotFoundError when the installation is broken."""
    for folder in (_PACKAGE / "templates", _PACKAGE.parent / "templates"):
        if (folder / "script.dml.jinja").is_file():
            return folder
    raise FileNotFoundError("the templates of onnx-systemds are not installed: install the package again")


def add_templates(folder: str | Path, override: bool = False) -> None:
    """Add the templates and library functions in a plugin's folder.

    override: whether they may replace ours. Raises ValueError for names that exist, and for a folder without templates
    or library functions.
    """
    folder, own = Path(folder).resolve(), templates_folder()
    found = [path for pattern in (_OPERATORS, _LIBRARY) for path in sorted(folder.glob(pattern))]
    if not found:
        raise ValueError(f"the folder {quoted(str(folder))} holds no {_OPERATORS} and no {_LIBRARY}")
    for path in found:
        if path.match(_LIBRARY) and path.stem in BUILTIN_FUNCTIONS:
            raise ValueError(f"the library function of {quoted(str(path))} is called like a builtin of DML")
        others = [other / path.relative_to(folder) for other in (*_FOLDERS, own) if other != folder]
        taken = next(filter(Path.is_file, others), None)
        if taken is not None and not (override and taken.is_relative_to(own)):
            advice = "to take its place say override=True" if taken.is_relative_to(own) else "one of the two has to go"
            raise ValueError(f"{quoted(str(path))} has the name of {quoted(str(taken))}: {advice}")
    _FOLDERS[:] = [folder, *(other for other in _FOLDERS if other != folder)]
    for cached in (environment, template, page, library_text, _library_lines, library_imports):
        cached.cache_clear()


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The environment: an unknown variable in a template is an error, blocks leave no blank lines."""
    own = jinja2.FileSystemLoader(templates_folder())
    plugins = jinja2.FileSystemLoader([folder / "operators" for folder in _FOLDERS])
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PrefixLoader({"operators": plugins}), own]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # DML, not HTML
    )


@cache
def template(name: str) -> jinja2.Template:
    """A compiled template by its path below the folder."""
    return environment().get_template(name)


@cache
def page(name: str) -> jinja2.Template:
    """A compiled template of an HTML page, in which what a model says is escaped."""
    return environment().overlay(autoescape=True).get_template(name)


def render_operator(name: str, /, **names: object) -> str:
    """Render ``operators/<name>.dml.jinja``; the text has no line end after it."""
    return template(f"operators/{name}.dml.jinja").render(**names).rstrip("\n")


def is_library_function(name: str) -> bool:
    """Whether a function of the library has this name."""
    return _library_file(name) is not None


def _library_file(name: str) -> Path | None:
    paths = [folder / "library" / f"{name}.dml" for folder in (*_FOLDERS, templates_folder())]
    return next(filter(Path.is_file, paths), None)


@cache
def library_text(name: str) -> str:
    """The text of the DML function ``library/<name>.dml`` without the lines of its needs. Raises TranspileError."""
    return "\n".join(line for line in _library_lines(name) if not line.startswith(_NEEDS))


@cache
def _library_lines(name: str) -> list[str]:
    found = _library_file(name)
    if found is None:
        hint = f"add_templates(folder) adds it, from library/{name}.dml of the folder"
        raise TranspileError(f"there is no library function {quoted(name)}", None, hint)
    return found.read_text(encoding="utf-8").strip("\n").split("\n")


@cache
def library_imports(name: str) -> tuple[str, ...]:
    """The other library functions that a library function calls: named in its lines ``# needs: a b``."""
    needed: list[str] = []
    for line in _library_lines(name):
        if line.startswith(_NEEDS):
            needed += line.removeprefix(_NEEDS).split()
    return tuple(needed)
