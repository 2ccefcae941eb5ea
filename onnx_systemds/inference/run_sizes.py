"""`RunSizes`: sizes that only the run decides: elements of integer tensors, and results of library functions.

A consumer that needs the content of an integer tensor as sizes asks for its elements (`NodeFacts.sizes`). Elements that
inference cannot follow become symbols; the script defines those that it uses: an element after the node that gives
the tensor (or at the start of the function), a computed size before the node that needs it.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from onnx_systemds.inference import shape_values
from onnx_systemds.inference.dims import RUN_SIZE_PREFIX, SIGNED_PREFIX, Dim, symbol
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.registry import find, size_rules
from onnx_systemds.inference.values import INTEGER_DTYPES, Elements, Value
from onnx_systemds.model.ir import Node

LARGEST = 64  # elements of a tensor that become symbols


@dataclass(frozen=True, slots=True)
class Call:
    """A size that a function of ``templates/library`` computes from others; without a function, the argument itself."""

    function: str
    arguments: tuple[Dim, ...]


class RunSizes:
    """The run-time sizes of one graph.

    elements: by symbol the value and the position of the element in it. calls: by symbol what computes it.
    """

    def __init__(self, nodes: Sequence[Node], values: Mapping[str, Value], fresh_symbol: Callable[[str], str]) -> None:
        """Start for a graph whose ``nodes`` are still being found: the list is the one that inference fills."""
        self.elements: dict[str, tuple[str, int]] = {}
        self.calls: dict[str, Call] = {}
        self._nodes = nodes
        self._values = values
        self._fresh_symbol = fresh_symbol
        self._known: dict[tuple[str, bool], Elements | None] = {}
        self._by_call: dict[Call, Dim] = {}
        self._calls_at: dict[int, list[str]] = {}
        self._elements_at: dict[str, list[str]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether a symbol is defined in this graph."""
        return name in self.elements or name in self.calls

    @property
    def names(self) -> set[str]:
        """All symbols."""
        return {*self.elements, *self.calls}

    @property
    def sources(self) -> tuple[str, ...]:
        """The values whose elements are symbols."""
        return tuple(dict.fromkeys(value for value, _ in self.elements.values()))

    def elements_of(self, name: str, *, signed: bool, count: int | None = None) -> Elements | None:
        """The elements of an integer tensor, None where their number is unknown or they are no integers.

        ``signed``: whether they may be negative; else they are sizes. ``count``: of a vector, how many the caller took
        for granted there are.
        """
        value = self._values[name]
        if count is not None:
            value = replace(value, dims=(count,))
        if value.constant is not None and value.dtype in INTEGER_DTYPES:
            return value.constant.astype(object)
        if value.elements is not None:
            return value.elements
        if value.dtype not in INTEGER_DTYPES or not value.is_known_size or not 0 < cast(int, value.size) <= LARGEST:
            return None
        is_size = value.is_count or not signed or (name, False) in self._known  # a consumer takes them for sizes
        key = (name, not is_size)
        if key not in self._known:
            followed = self._followed(name, signed=key[1])
            self._known[key] = self._new_symbols(name, value, signed=key[1]) if followed is None else followed
        return self._known[key]

    def call(self, function: str, arguments: tuple[Dim, ...], hint: str, *, signed: bool = False) -> Dim:
        """The size that a library function computes; equal calls share a symbol."""
        call = Call(function, arguments)
        if call not in self._by_call:
            name = self._fresh_symbol((SIGNED_PREFIX if signed else RUN_SIZE_PREFIX) + hint)
            self._by_call[call] = symbol(name)
            self.calls[name] = call
            self._calls_at.setdefault(len(self._nodes), []).append(name)
        return self._by_call[call]

    def calls_at(self, position: int) -> Sequence[str]:
        """The symbols that are computed before a node, in their order."""
        return self._calls_at.get(position, ())

    def elements_at(self, names: Sequence[str]) -> list[str]:
        """The symbols that are elements of the given values."""
        return [found for name in names for found in self._elements_at.get(name, ())]

    def _followed(self, name: str, *, signed: bool) -> Elements | None:
        """The elements as computed by their node; None if its inputs cannot be followed."""
        producer = next((node for node in self._nodes if name in node.outputs), None)
        if producer is None or producer.outputs[0] != name:
            return None
        # what moves elements keeps their kind; a result of arithmetic says nothing of its operands' signs
        rule = find(size_rules, producer.identity, producer.version)
        moves = rule is not None and rule.moves
        known: dict[str, Value] = {}
        for given in filter(None, producer.inputs):
            value = self._values[given]
            if not value.is_known:
                found = self.elements_of(given, signed=signed or not moves)
                if found is None:
                    return None
                known[given] = replace(value, elements=found)
        if not known:
            return None
        values = ChainMap(known, cast("MutableMapping[str, Value]", self._values))
        results = shape_values.evaluate(NodeFacts(producer, values))
        return results[0] if len(results) == 1 and results[0].shape == self._values[name].dims else None

    def _new_symbols(self, name: str, value: Value, *, signed: bool) -> Elements:
        elements = np.empty(cast("tuple[int, ...]", value.dims), dtype=object)
        for position in range(elements.size):
            hint = f"{name}_{position}" if value.dims else f"{name}_value"
            found = self._fresh_symbol((SIGNED_PREFIX if signed else RUN_SIZE_PREFIX) + hint)
            self.elements[found] = (name, position)
            self._elements_at.setdefault(name, []).append(found)
            elements.flat[position] = symbol(found)
        return elements
