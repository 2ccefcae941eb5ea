"""Texts of a model as comments in the script."""

from __future__ import annotations

import re

_LONGEST = 5  # lines of a node's text
# PyTorch writes the Python stack of an operator into its node, the innermost call first: FILE(LINE): FUNCTION
_CALL = re.compile(r"(?P<folder>.*?)(?P<file>[^/\\]+)\((?P<line>\d+)\): (?P<function>\S+)")
_PYTORCH = re.compile(r"[/\\](site|dist)-packages[/\\]torch[/\\]")


def comment_lines(text: str) -> list[str]:
    """The lines of a text, none of which can end a comment."""
    lines = ["".join(c if c.isprintable() else " " for c in line).rstrip() for line in text.splitlines()]
    return [line for line in lines if line]


def node_comments(text: str) -> list[str]:
    """The first lines of a node's doc string; of a Python stack, only the innermost call outside PyTorch."""
    if not text:
        return []
    lines = comment_lines(text)
    calls = [call for call in map(_CALL.fullmatch, lines) if call is not None]
    if len(calls) < len(lines):
        return lines[:_LONGEST]
    own = [call for call in calls if not _PYTORCH.search(call["folder"])]
    return [f"{call['file']}:{call['line']}, {call['function']}" for call in own[:1]]
