"""The builtins of DML that can be exported: every module of this package registers some (`registry.builtin`)."""

from __future__ import annotations

import importlib
import pkgutil


def load_builtins() -> None:
    """Import all modules of this package, so that their builtins are registered."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
