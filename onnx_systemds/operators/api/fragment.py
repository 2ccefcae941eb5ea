"""What a generator returns for one node."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_systemds.dml import syntax as tree


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of the script.

    statements: DML lines in the order in which they run.
    imports: names of the functions of ``templates/library`` that they call.
    functions: the DML functions that stand for sub-graphs, in the order in which they were rendered.
    layers: names of the files of ``nn/layers`` whose functions they call.
    """

    statements: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    functions: tuple[tree.Function, ...] = ()
    layers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for statement in self.statements:
            if not isinstance(statement, str):
                raise TypeError(f"a statement is a text, not of type {type(statement).__name__}: {statement!r}")

    def __add__(self, other: Fragment) -> Fragment:
        """This fragment followed by another."""
        return Fragment(
            self.statements + other.statements,
            self.imports + other.imports,
            self.functions + other.functions,
            self.layers + other.layers,
        )
