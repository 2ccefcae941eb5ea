"""Where entries of registries were made, by us and by plugins, and when one may take the place of another.

A plugin is any code outside of this package that registers something.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from pathlib import Path

from onnx_systemds.errors import InternalError, PluginError, TranspileError, escaped

_PACKAGE = Path(__file__).resolve().parent
_plugin_files: set[str] = set()


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a Python file."""

    file: str
    line: int

    @property
    def is_own(self) -> bool:
        """Whether it is part of this package, and so of no plugin."""
        return self.file.startswith(f"{_PACKAGE}/")

    def is_same(self, other: Place) -> bool:
        """Whether it is the same line, by whatever path the file was loaded."""
        return self.line == other.line and Path(self.file).resolve() == Path(other.file).resolve()

    def __str__(self) -> str:
        file = str(Path(self.file).relative_to(_PACKAGE.parent)) if self.is_own else self.file
        return f"{escaped(file)}:{self.line}"


class Places:
    """Where the entries of a registry were made, by their keys. file: of the registry."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.made: dict[Hashable, Place] = {}

    def caller(self) -> Place:
        """The line that calls the registry."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in (__file__, self.file):
            frame = frame.f_back
        place = Place(frame.f_code.co_filename, frame.f_lineno)
        if not place.is_own:
            _plugin_files.add(place.file)
        return place

    def check(self, key: Hashable, what: str, override: bool) -> None:
        """Raise ValueError where the caller may not make what was made before.

        A plugin may be loaded again, and take our place where it says so; two plugins cannot take the same one, as it
        would matter which is loaded first.
        """
        made, place = self.made[key], self.caller()
        if not place.is_own and (place.is_same(made) or (override and made.is_own)):
            return
        advice = "to take its place say override=True" if made.is_own else "one of the two has to go"
        raise ValueError(f"{what} is registered at {made} already, and again at {place}: {advice}")


def failure(error: Exception, place: object | None) -> TranspileError:
    """What to raise for a plain Python exception: a fault of the plugin whose line it went through, else ours."""
    words = f"{type(error).__name__}: {escaped(str(error))}"
    line = plugin_line(error)
    return InternalError(words, place) if line is None else PluginError(f"the plugin fails at {line}: {words}", place)


def plugin_line(error: BaseException) -> Place | None:
    """The innermost line of a plugin that an error went through."""
    lines = lines_of(error, _plugin_files)
    return lines[-1] if lines else None


def lines_of(error: BaseException, files: Collection[str]) -> list[Place]:
    """The lines of files that an error went through, the innermost last."""
    return [Place(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename in files]
