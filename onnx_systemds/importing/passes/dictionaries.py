"""The dictionary of strings: a name of its own for each of its states.

Generators write `OLD_TEXTS` for the dictionary before a statement and `NEW_TEXTS` for the one after it, since the
order of all statements is known at the end only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import renamed
from onnx_systemds.dml.scopes import assigned, read_first
from onnx_systemds.operators.api.reserved_names import NEW_TEXTS, OLD_TEXTS, TEXTS


def with_numbered_texts(
    statements: Sequence[tree.Statement], fresh: Callable[[str], str]
) -> tuple[list[tree.Statement], str]:
    """The statements with a name for each state of the dictionary, and the name of the last one.

    fresh: gives an identifier that resembles a hint.
    """
    name, numbered = TEXTS, []
    for statement in statements:
        before = name
        if NEW_TEXTS in assigned((statement,)) and NEW_TEXTS not in read_first((statement,)):
            name = fresh(TEXTS)  # a loop that reads it first goes on with the one that was made for it
        numbered.append(renamed(statement, {OLD_TEXTS: before, NEW_TEXTS: name}))
    return numbered, name
