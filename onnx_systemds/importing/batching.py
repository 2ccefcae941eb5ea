"""Finds the batch axis of a model: an axis whose parts can be scored separately and joined again.

A size that only the run knows is a symbol in the dims, so the dims say where the axis is in every value. A model is
computed part by part if each value that the axis reaches has it in exactly one dim, and if no node mixes elements
along it. A node that sums or selects along it loses it; of the others, only operators with a batch rule are trusted.
Text is no exception: its codes are given again at each call, but operators compare and move them only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.text_uses import distinguishing_node
from onnx_systemds.inference.assumptions import Relation, node_words
from onnx_systemds.inference.dims import Dim, divide_exactly, lone_symbol, product, substitute, symbol, symbols
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.registry import BatchRule, batch_rules, find
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import MapType, Node
from onnx_systemds.model.walk import names_read
from onnx_systemds.operators.support.batch_rules import unlimited

MOST_SYMBOLS = 4  # that are tried; batches come first in the inputs
MANY = -1  # for an axis: it is none of its own


@dataclass(frozen=True, slots=True)
class Batch:
    """The position of the axis ``symbol`` in each input and output; None for one that all samples share."""

    symbol: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]


class Batching:
    """The batch axis of a graph. It is searched on demand: a script needs it only if samples are divided.

    text: the node that distinguishes unknown strings (`distinguishing_node`), for a message; "" for none.
    """

    def __init__(self, typed: TypedGraph) -> None:
        self._typed: TypedGraph | None = typed
        self._batch: Batch | None = None
        self._mixing = ""
        self.text = "" if (node := distinguishing_node(typed)) is None else node_words(node)
        self._products: frozenset[Dim] = frozenset()

    @property
    def batch(self) -> Batch | None:
        """The batch axis; None if there is none."""
        typed = self._typed
        if typed is not None:
            self._batch, mixing = find_batch(typed)
            self._mixing = "" if mixing is None else node_words(mixing)
            self._products = frozenset(
                product(value.dims) for value in typed.own.values() if value.dims is not None and value.content is None
            )
            self._typed = None
        return self._batch

    @property
    def mixing(self) -> str:
        """The first node that may mix samples, for messages; "" if there is none."""
        return "" if self.batch is not None else self._mixing

    def cells_of_sample(self, sizes: Mapping[str, int]) -> int:
        """The number of elements of the largest value for one sample. sizes: of the other symbols."""
        known = dict(sizes) if self.batch is None else {**sizes, self.batch.symbol: 1}
        counts = [substitute(product, known) for product in self._products]
        return max((count for count in counts if isinstance(count, int)), default=1)


def with_single_samples(typed: TypedGraph, batched: TypedGraph | None = None) -> TypedGraph:
    """The graph that takes a single sample, too, where a Squeeze without axes has samples; the same object without one.

    Of a single one, ONNX takes the axis of samples away. It stays here: a block of samples, as of a file, may have one.
    batched: the graph that has the batch axis, by default this one.
    """
    assumed = {assumption.left for assumptions in typed.assumptions.values() for assumption in assumptions
               if assumption.relation is Relation.OTHER}
    batch = find_batch(typed if batched is None else batched)[0] if assumed else None
    if batch is None or symbol(batch.symbol) not in assumed:
        return typed
    left = {position: [each for each in assumptions
                       if each.relation is not Relation.OTHER or each.left != symbol(batch.symbol)]
            for position, assumptions in typed.assumptions.items()}
    return replace(typed, assumptions=left)


def find_batch(typed: TypedGraph) -> tuple[Batch | None, Node | None]:
    """The batch axis of a graph of tensors and of maps per row; None if there is none.

    Then also the first node that ends the axis that comes first of those that have such a node.
    """
    ports = [typed.values[name] for name in (*typed.inputs, *typed.outputs)]
    if any(port.is_list or isinstance(port.type, MapType) for port in ports):
        return None, None
    found: dict[str, None] = {}
    for name in typed.inputs:
        for dim in typed.values[name].dims or ():
            if (lone := lone_symbol(dim)) is not None:
                found.setdefault(lone)
    mixing: Node | None = None
    for candidate in [*list(found)[:MOST_SYMBOLS], *_of_outputs(typed, list(found)[MOST_SYMBOLS:])]:
        batch, node = _batch_of(typed, candidate)
        if batch is not None:
            return batch, None
        mixing = mixing or node
    return None, mixing


def _of_outputs(typed: TypedGraph, names: Sequence[str]) -> list[str]:
    """The first symbols that an output has: in front may be those of columns that nothing reads."""
    having = {name for given in typed.outputs for name in symbols(typed.values[given].dims or ())}
    return [name for name in names if name in having][:MOST_SYMBOLS]


def _batch_of(typed: TypedGraph, name: str) -> tuple[Batch | None, Node | None]:
    search = _Search(typed, name)
    inputs = [search.axis(given) for given in typed.inputs]
    outputs = [search.axis(given) for given in typed.outputs]
    whole = symbol(name)
    for given, axis in zip(typed.inputs, inputs):
        dims = typed.values[given].dims
        if axis == MANY or (axis is not None and dims is not None and dims[axis] != whole):
            return None, None
    mixing = _first_mixing(search)
    if MANY in outputs or all(axis is None for axis in outputs) or any(map(search.holds_batch_size, typed.outputs)):
        return None, mixing
    return (Batch(name, tuple(inputs), tuple(outputs)) if mixing is None else None), mixing


def _first_mixing(search: _Search) -> Node | None:
    """The first computed node that cannot process parts of the axis separately."""
    typed, found = search.typed, None
    needed = {*typed.outputs, *typed.run_sizes.sources}
    for node in reversed(typed.nodes):
        wanted = [output for output in node.outputs if output in needed and not typed.values[output].is_known]
        if wanted:
            if not search.is_separable(node, wanted):
                found = node
            needed |= names_read(node)
    return found


class _Search:
    """The axes of all values of a graph that have the size of one symbol."""

    def __init__(self, typed: TypedGraph, name: str) -> None:
        self.typed, self.values, self.symbol = typed, typed.values, symbol(name)
        self.names = {name}  # and all sizes that are computed from it
        self._axes: dict[str, int | None] = {}
        for computed, call in typed.run_sizes.calls.items():
            if self._counts(call.arguments):
                self.names.add(computed)

    def _counts(self, sizes: Dim | Iterable[Dim]) -> bool:
        return not self.names.isdisjoint(symbols(sizes))

    def axis(self, value: str) -> int | None:
        """The axis of a value whose size depends on the symbol; None if there is none, `MANY` for several."""
        if value not in self._axes:
            self._axes[value] = self._axis(value)
        return self._axes[value]

    def _axis(self, value: str) -> int | None:
        dims = self.values[value].dims
        if dims is None:
            return MANY
        having = [axis for axis, size in enumerate(dims) if not isinstance(size, int) and self._counts(size)]
        return None if not having else having[0] if len(having) == 1 else MANY

    def holds_batch_size(self, value: str) -> bool:
        """Whether the elements of a value depend on the number of samples."""
        elements = self.values[value].elements
        return elements is not None and self._counts(elements.ravel().tolist())

    def size(self, value: str) -> Dim | None:
        """The size of the axis of a value."""
        axis, dims = self.axis(value), self.values[value].dims
        return None if axis is None or axis == MANY or dims is None else unlimited(dims[axis])

    def is_separable(self, node: Node, outputs: Sequence[str]) -> bool:
        """Whether a node can process parts of the axis separately."""
        facts, rule = NodeFacts(node, self.values, self.typed.name), find(batch_rules, node.identity, node.version)
        facts.run_sizes = self.typed.run_sizes
        batched: list[str] = []
        for read in names_read(node):
            axis = self.axis(read)
            if self.values[read].constant is not None:
                continue
            positions = [position for position, given in enumerate(node.inputs) if given == read]
            if self.holds_batch_size(read):
                if rule is None or not positions or any(position not in rule.sizes for position in positions):
                    return False
            elif axis is not None:
                if rule is None or axis == MANY or not positions:
                    return False
                try:
                    if any(rule.mixes(facts, position, axis) for position in positions):
                        return False
                except TranspileError:  # what decides it is known when the model runs only
                    return False
                batched.append(read)
        if rule is not None and rule.draws:
            return False
        return all(self._keeps_axis(node, rule, batched, output) for output in outputs)

    def _keeps_axis(self, node: Node, rule: BatchRule | None, batched: Sequence[str], output: str) -> bool:
        """Whether an output has the axis if the inputs have it, with the parts in the same order."""
        axis, size = self.axis(output), self.size(output)
        if not batched:
            return axis is None or (size == self.symbol and rule is not None and rule.fills)
        if axis is None or axis == MANY:
            return False
        if rule is not None and rule.grows and size is not None:
            sizes = [self.size(given) for given in batched]
            return all(own is not None and divide_exactly(size, own) is not None for own in sizes)
        if rule is None or not rule.reshapes:
            return all(self.size(given) == size for given in batched)
        before, after = self.values[node.inputs[0]].dims, self.values[output].dims
        old = self.axis(node.inputs[0])
        assert before is not None and after is not None and old is not None and size is not None
        in_front = product(before[:old]) == product(after[:axis])  # they are free of the symbol
        return in_front and divide_exactly(size, self.symbol) is not None
