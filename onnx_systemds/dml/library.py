"""The functions of ``templates/library`` as trees, and those whose texts generators make, each parsed once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml import templates
from onnx_systemds.dml.snippets import parse_snippet


def library_functions(imports: Iterable[str]) -> list[tree.Function]:
    """The library functions of these names and those that they call, in a fixed order."""
    wanted: dict[str, None] = {}
    stack = list(imports)
    while stack:
        name = stack.pop()
        if name not in wanted:
            wanted[name] = None
            stack += templates.library_imports(name)
    return [function_of(templates.library_text(name)) for name in sorted(wanted)]


@lru_cache(maxsize=1024)
def function_of(text: str) -> tree.Function:
    """The function that a text defines. Raises ScriptSyntaxError."""
    (function,) = parse_snippet(text)
    assert isinstance(function, tree.Function)
    return function
