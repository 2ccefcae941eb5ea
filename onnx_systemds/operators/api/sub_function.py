"""A sub-graph that is rendered as a DML function of its own, and the calls of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_systemds.dml import syntax as tree
from onnx_systemds.operators.api.reserved_names import NEW_TEXTS, OLD_TEXTS


@dataclass(frozen=True, slots=True)
class SubFunction:
    """A rendered sub-graph: its DML function, after those that it calls, and what a call must pass.

    extends_texts: whether its last result is the dictionary with new strings (see `Texts`). is_inlined: whether the
    engine may put its statements in the place of a call.
    """

    name: str
    arguments: tuple[str, ...]
    functions: tuple[tree.Function, ...]
    extends_texts: bool
    is_inlined: bool

    def call(
        self, given: Sequence[str], targets: Sequence[str], texts: tuple[str, str] = (OLD_TEXTS, NEW_TEXTS)
    ) -> str:
        """A statement that calls the function with its inputs and gives its results.

        texts: the dictionary of strings that it is given and the one that it gives, if it makes new strings.
        """
        old, new = texts
        arguments = [old if argument == OLD_TEXTS else argument for argument in self.arguments]
        called = f"{self.name}({', '.join([*given, *arguments])})"
        results = [*targets, new] if self.extends_texts else targets
        return f"{results[0]} = {called}" if len(results) == 1 else f"[{', '.join(results)}] = {called}"
