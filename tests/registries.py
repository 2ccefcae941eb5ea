"""What plugins register is gone after a test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnx_systemds import operators  # noqa: F401 - ours are registered before those of a test
from onnx_systemds.dml import templates
from onnx_systemds.exporting.builtins import library, load_builtins
from onnx_systemds.exporting.builtins import registry as builtins
from onnx_systemds.exporting.graph import nodes
from onnx_systemds.exporting.passes import plugin_joins
from onnx_systemds.inference import registry

_VERSIONED = [each for each, _ in registry._KINDS]
_PLAIN: list[Any] = [registry.rewrites, registry._PLACES.made, builtins.BUILTINS, builtins.REFUSED, builtins._PLACES.made,
                     library.TEMPLATES, nodes.DOMAINS, plugin_joins.JOINS, plugin_joins._PLACES.made, *(each for each, _ in registry._MARKS)]


@contextmanager
def restored() -> Iterator[None]:
    """Registries, folders of templates and imported modules are as before when it is over."""
    load_builtins()
    versions = [{identity: dict(entries) for identity, entries in each.items()} for each in _VERSIONED]
    plain = [each.copy() for each in _PLAIN]
    modules = set(sys.modules)
    yield
    for each, before in zip([*_VERSIONED, *_PLAIN], [*versions, *plain]):
        each.clear()
        each.update(before)
    templates._FOLDERS.clear()
    for cached in (templates.environment, templates.template, templates.page, templates.library_text, templates.library_imports, library._template):
        cached.cache_clear()
    for name in set(sys.modules) - modules:
        if not name.startswith("onnx_systemds"):
            del sys.modules[name]
