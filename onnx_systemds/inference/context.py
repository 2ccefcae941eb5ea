"""`Context`: what all graphs of a model share during inference: fixed sizes, functions, symbols, reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np

from onnx_systemds.errors import InvalidModel, Reasons, quoted, quoted_list
from onnx_systemds.inference.dims import Dim, Dims, depends_on_run, symbol
from onnx_systemds.inference.notes import Notes
from onnx_systemds.limits import check_nodes
from onnx_systemds.model.ir import Function, FunctionKey, Node

_UNNAMED = frozenset(["", "?", "None", "none", "-1", "*"])  # what exporters write for a dim without a name


def is_size(declared: int | str | None) -> TypeGuard[int]:
    """Whether a declared dim is a number."""
    return isinstance(declared, int) and declared >= 0


def is_named(declared: int | str | None) -> bool:
    """Whether a declared dim is a symbol that has a name."""
    return isinstance(declared, str) and declared not in _UNNAMED


def given_sizes(dims: Mapping[str, int] | None) -> dict[str, int]:
    """The sizes that the user gives to symbols, as Python's own integers. Raises InvalidModel for what is no size."""
    if not isinstance(dims or {}, Mapping) or not all(isinstance(name, str) for name in dims or {}):
        raise InvalidModel(f"dims are a mapping of symbols to sizes, not {dims!r}")
    for name, size in (dims or {}).items():
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
            raise InvalidModel(f"the size of {quoted(str(name))} is {size!r}, no integer from 0 on")
    return {name: int(size) for name, size in (dims or {}).items()}


@dataclass
class Context:
    """What the inference of one model shares over its graphs.

    fixed_dims: sizes that the user gives to symbols, and equal symbols (`equal_sizes`).
    errors: reasons against the conversion so far. notes: what passes did, and why they did not.
    keeps_functions: whether the model's own functions become functions of the script.
    simplify: whether nodes may become one with those before them; a Gradient has to find them as they are.
    omitted: names of passes to do without. written: nodes of the model as it is written.
    """

    fixed_dims: Mapping[str, Dim] = field(default_factory=dict)
    functions: Mapping[FunctionKey, Function] = field(default_factory=dict)
    errors: Reasons = field(default_factory=Reasons)
    notes: Notes = field(default_factory=Notes)
    keeps_functions: bool = True
    simplify: bool = True
    omitted: frozenset[str] = frozenset()
    written: int = 0  # nodes of the model, for which nodes are typed
    _typed: int = 0
    _taken: set[str] = field(default_factory=set)
    _expansions: int = 0

    def function_of(self, node: Node) -> Function | None:
        """The model's own function that a node calls."""
        return self.functions.get(node.function_key)

    def count_node(self) -> None:
        """Count an inferred node. Raises TooManyNodes."""
        self._typed += 1
        check_nodes(self._typed, self.written)

    def is_new(self, name: str) -> bool:
        """Whether a symbol occurs for the first time."""
        if name in self._taken:
            return False
        self._taken.add(name)
        return True

    def fresh_symbol(self, hint: str) -> str:
        """An unused name for a symbol."""
        name, count = hint, 1
        while not self.is_new(name):
            count += 1
            name = f"{hint}_{count}"
        return name

    def check_fixed_dims(self) -> None:
        """Raise InvalidModel for a fixed dim that the model does not have, which is probably misspelt."""
        unknown = [name for name in self.fixed_dims if name not in self._taken]
        if unknown:
            known = quoted_list(name for name in sorted(self._taken) if not depends_on_run(symbol(name))) or "none"
            raise InvalidModel(f"the model has no symbolic dim {quoted_list(unknown)}; it has {known}")

    def next_expansion(self) -> int:
        """A number that makes the inner names of an expanded definition unique."""
        self._expansions += 1
        return self._expansions

    def dims(self, declared: Sequence[int | str | None] | None, hint: str) -> Dims | None:
        """Convert declared dims: unnamed ones become symbols ``<hint>_dim<axis>``."""
        if declared is None:
            return None
        found: list[Dim] = []
        for axis, dim in enumerate(declared):
            if is_size(dim):
                found.append(dim)
                continue
            name = str(dim) if is_named(dim) else f"{hint}_dim{axis}"
            self._taken.add(name)
            found.append(self.fixed_dims[name] if name in self.fixed_dims else symbol(name))
        return tuple(found)
