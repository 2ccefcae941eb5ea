"""The Jinja environment over the templates folder.

The folder lies at the top of the project and is installed as ``onnx_systemds/templates``; the first one that exists
is taken, so that a wheel, an editable install and a plain checkout all work.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import jinja2

_PACKAGE = Path(__file__).resolve().parent.parent


@lru_cache(maxsize=1)
def templates_folder() -> Path:
    """The folder of the templates. Raises FileNotFoundError when the installation is broken."""
    for folder in (_PACKAGE / "templates", _PACKAGE.parent / "templates"):
        if (folder / "script.dml.jinja").is_file():
            return folder
    raise FileNotFoundError("the templates of onnx-systemds are not installed: install the package again")


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The environment: an unknown variable in a template is an error, blocks leave no blank lines."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates_folder()),
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


@cache
def library_text(name: str) -> str:
    """The text of the DML function ``library/<name>.dml``, without its licence lines."""
    return (templates_folder() / "library" / f"{name}.dml").read_text(encoding="utf-8").strip("\n")


@cache
def library_imports(name: str) -> tuple[str, ...]:
    """The other library functions that a library function calls: named in its lines ``# needs: a b``."""
    needed: list[str] = []
    for line in library_text(name).splitlines():
        if line.startswith("# needs:"):
            needed += line.removeprefix("# needs:").split()
    return tuple(needed)
