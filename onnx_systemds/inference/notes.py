"""`Notes`: what the passes over a graph did, and why they left nodes that they might have changed.

`onnx-systemds MODEL.onnx --verbose` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from onnx_systemds.errors import escaped, quoted_list
from onnx_systemds.model.ir import Node


@dataclass(frozen=True, slots=True)
class Note:
    """What a pass did at a node or, if it did not fire, why it left the node as it is.

    rule: the name of the pass. node: the name of the node, its place in the graph where it has none.
    """

    rule: str
    op_type: str
    node: str
    words: str
    fired: bool


@dataclass(frozen=True, slots=True)
class PassNotes:
    """The notes of one pass, put among those of the others. rule: the name of the pass."""

    notes: dict[Note, None]
    rule: str

    def fired(self, node: Node, words: str) -> None:
        """Note what the pass did."""
        self.notes[Note(self.rule, node.op_type, node.label, words, fired=True)] = None

    def left(self, node: Node, reason: str) -> None:
        """Note why the pass did not fire."""
        self.notes[Note(self.rule, node.op_type, node.label, reason, fired=False)] = None


class Notes:
    """The notes of all passes of a conversion, without duplicates: a sub-graph may be inferred several times."""

    def __init__(self) -> None:
        self._notes: dict[Note, None] = {}

    def of(self, rule: str) -> PassNotes:
        """Those of a pass."""
        return PassNotes(self._notes, rule)

    def copy(self) -> Notes:
        """The notes so far, for a further reading of the same graph."""
        found = Notes()
        found._notes |= self._notes
        return found

    def all(self) -> tuple[Note, ...]:
        """The notes in their order."""
        return tuple(self._notes)


def note_lines(notes: Iterable[Note]) -> list[str]:
    """The notes as lines of text; equal notes of several nodes are one line."""
    nodes: dict[tuple[bool, str, str, str], list[str]] = {}
    for note in notes:
        nodes.setdefault((note.fired, note.rule, note.op_type, note.words), []).append(note.node)
    lines: list[str] = []
    for wanted, title in ((True, "passes that fired:"), (False, "passes that did not, and why:")):
        found = [(key, names) for key, names in nodes.items() if key[0] is wanted]
        lines += [title] if found else []
        lines += [f"  {rule}: {escaped(op_type)} {quoted_list(names)}: {words}"
                  for (_, rule, op_type, words), names in found]
    return lines
