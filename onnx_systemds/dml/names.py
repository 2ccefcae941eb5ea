"""Maps ONNX names to legal, unique, stable and readable DML identifiers.

Model names are hostile: any character, any length, DML words, clashes after cleaning. An identifier made here
matches ``[A-Za-z][A-Za-z0-9_]*`` (the lexer silently drops what it does not know, so nothing else may
pass), has at most `LONGEST_IDENTIFIER` characters, and is neither a DML word nor the name of a builtin
function. DML identifiers are case sensitive, so names that differ only in case stay apart by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from onnx_systemds.dml.module_paths import shortened
from onnx_systemds.dml.words import AVOIDED_WORDS

LONGEST_IDENTIFIER = 60
FUNCTION_PREFIX = "gen_"

_ILLEGAL = re.compile(r"[^A-Za-z0-9]+")
# Cleaning looks at this much of either end: a name of many megabytes must not cost more than a short one.
_ENDS_READ = 4096


def legal_identifier(name: str, default: str = "v") -> str:
    """Return a legal DML identifier resembling `name`: "/layer1/conv.1/Conv_0" -> "layer1_conv_1_Conv_0".

    Not unique: two names may give one identifier (see `Names`). `default` stands for a name without any
    usable character, and before a leading digit; it must itself be a legal identifier.
    """
    if len(name) > 2 * _ENDS_READ:
        name = name[:_ENDS_READ] + " " + name[-_ENDS_READ:]
    cleaned = _shortened(_cleaned(name), LONGEST_IDENTIFIER)
    if not cleaned:
        cleaned = default
    elif not cleaned[0].isalpha():
        cleaned = _shortened(f"{default}_{cleaned}", LONGEST_IDENTIFIER)
    return f"{cleaned}_" if cleaned in AVOIDED_WORDS else cleaned


def generate_function_name(graph_name: str) -> str:
    """Return the name of the DML function for a graph; the prefix keeps it from replacing a builtin."""
    cleaned = _shortened(_cleaned(graph_name), LONGEST_IDENTIFIER - len(FUNCTION_PREFIX))
    return FUNCTION_PREFIX + (cleaned or "graph")


class Names:
    """The identifiers of one scope, each given out once."""

    def __init__(self, reserved: Iterable[str] = (), short: Mapping[str, str] = MappingProxyType({})) -> None:
        """Start a scope in which `reserved` identifiers are taken; `short`: as `module_paths.short_names` gives it."""
        self._short = short
        self._identifiers: dict[str, str] = {}
        self._taken: set[str] = set(reserved)
        self._next_number: dict[str, int] = {}

    def of(self, onnx_name: str) -> str:
        """Return the identifier of `onnx_name`: always the same one, and never that of another name."""
        known = self._identifiers.get(onnx_name)
        if known is None:
            known = self._identifiers[onnx_name] = self.fresh(onnx_name)
        return known

    def fresh(self, hint: str) -> str:
        """Return an identifier that was not given out before and resembles `hint`."""
        base = legal_identifier(shortened(hint, self._short))
        identifier = base
        # The number to try next is kept per base, so many clashing names stay linear in time.
        number = self._next_number.get(base, 1)
        while identifier in self._taken or identifier in AVOIDED_WORDS:
            number += 1
            suffix = f"_{number}"
            identifier = _shortened(base, LONGEST_IDENTIFIER - len(suffix)).rstrip("_") + suffix
        self._next_number[base] = number
        self._taken.add(identifier)
        return identifier


def _cleaned(name: str) -> str:
    """Return `name` with every run of illegal characters as one underscore, none at the ends."""
    if name.isascii() and name.replace("_", "a").isalnum():
        return name.strip("_")  # a name that is legal already keeps its double underscores
    return _ILLEGAL.sub("_", name).strip("_")


def _shortened(text: str, longest: int) -> str:
    """Return `text`, or its head and tail joined by two underscores when it is longer than `longest`."""
    if len(text) <= longest:
        return text
    head = (longest - 2) // 2
    tail = longest - 2 - head
    return f"{text[:head].rstrip('_')}__{text[-tail:].lstrip('_')}"
