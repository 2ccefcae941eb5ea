"""The fast tier: which tests start a JVM is read from their code, and one that starts a JVM all the same fails.

A test is marked `engine` if what it names leads to the start of a JVM: followed from the test and its fixtures through
the functions and classes of the tests and of the package. Where names do not lead there (a program in a process of its
own, a command of the command line) the test is marked by hand; the guard of the fast tier sees to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from onnx_systemds.engine import launcher

STARTS = (launcher.find_java, launcher.start_jvm)
PACKAGES = ("tests", "onnx_systemds")
ADVICE = ("this test starts a JVM, and the fast tests run without one: "
          "mark it @pytest.mark.engine (CONTRIBUTING.md)")
_NO_JAVA = f"""#!/bin/sh
echo "$*" >> "${{0%/*}}/started"
echo "{ADVICE}" >&2
exit 1
"""


def mark_engine_tests(items: Iterable[pytest.Item]) -> None:
    """Give the marker `engine` to all tests whose code leads to the start of a JVM."""
    functions = {item: [_plain(function) for function in _functions_of(item)] for item in items}
    starting = _leading_to(STARTS, [function for several in functions.values() for function in several])
    for item, several in functions.items():
        if not starting.isdisjoint(several):
            item.add_marker("engine")


def _functions_of(item: Any) -> Iterator[Any]:
    """What runs for a test: itself, its fixtures, functions among its parameters."""
    yield item.function
    for fixtures in item._fixtureinfo.name2fixturedefs.values():
        yield from (fixture.func for fixture in fixtures)
    if hasattr(item, "callspec"):
        yield from (value for value in item.callspec.params.values() if isinstance(value, FunctionType))


def _leading_to(ends: Iterable[Any], starts: Iterable[Any]) -> set[Any]:
    """Of all functions and classes that are found from ``starts`` on, those from which a way leads to ``ends``."""
    namers: dict[Any, list[Any]] = {}
    seen: set[Any] = set()
    todo = list(starts)
    while todo:
        at = todo.pop()
        if at not in seen:
            seen.add(at)
            named = set(_named(at))
            todo += named
            for each in named:
                namers.setdefault(each, []).append(at)
    found: set[Any] = set()
    todo = list(ends)
    while todo:
        at = todo.pop()
        if at not in found:
            found.add(at)
            todo += namers.get(at, ())
    return found


def _named(at: Any) -> Iterator[Any]:
    """Functions and classes of the tests and the package that the code of a function or class names."""
    if isinstance(at, type):
        yield from (value for value in map(_plain, vars(at).values()) if isinstance(value, FunctionType))
        return
    names = set(_names(at.__code__))
    values = [at.__globals__.get(name, sys.modules.get(name)) for name in names]
    values += [cell.cell_contents for cell in at.__closure__ or () if cell != type(cell)()]
    modules = [value for value in values if isinstance(value, ModuleType) and _is_ours(value.__name__)]
    values += [vars(module).get(name) for module in modules for name in names]
    yield from (value for value in map(_plain, values)
                if isinstance(value, (FunctionType, type)) and _is_ours(value.__module__, at.__module__))


def _names(code: CodeType) -> Iterator[str]:
    """All names that a code uses, those of functions inside it, too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_ours(module: str, own: str = "") -> bool:
    return module == own or module.split(".")[0] in PACKAGES


def _plain(value: Any) -> Any:
    """The function of methods, properties, caches, context managers, fixtures and tests of hypothesis."""
    while not isinstance(value, (type, ModuleType)):
        if hasattr(value, "hypothesis"):
            value = value.hypothesis.inner_test
            continue
        inner = [getattr(value, name, None) for name in ("__wrapped__", "__func__", "fget")]
        if not any(inner):
            break
        value = next(filter(None, inner))
    return value


def without_java(folder: Path) -> Callable[[], bool]:
    """Put a program that refuses in the place of Java; returns a function that tells whether it was called since."""
    java = folder / "java"
    java.write_text(_NO_JAVA, encoding="utf-8")
    java.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    os.environ.pop("JAVA_HOME", None)
    started = folder / "started"

    def was_called() -> bool:
        called = started.exists()
        started.unlink(missing_ok=True)
        return called

    return was_called
