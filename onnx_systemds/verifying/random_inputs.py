"""Seeded random inputs that a model accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from onnx_systemds.errors import TranspileError, escaped, quoted
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.context import Context
from onnx_systemds.inference.dims import Dim
from onnx_systemds.model.ir import Graph, Node, OptionalType, SequenceType, TensorType, Type, ValueInfo
from onnx_systemds.model.protos import numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

_BATCH, _LENGTH, _SIDE = 2, 4, 32  # sizes of open dims: the first one, others, those of images
_LARGER = ((64, 128), (512, 256))  # lengths and sides that are tried where the model does not take those
_MOST_DIGITS = 10  # integers of which nothing is known are less
_PASSING = frozenset(["Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Transpose", "Concat", "Slice"])
_ITEMS = 2  # of a sequence


def _one_axis(axis: Any) -> slice:
    return slice(axis, axis + 1 or None) if isinstance(axis, int) else slice(1)


# operator -> which axes of its first input the second one is an index into, by the attribute axis
_INDEXED: dict[str, Callable[[Any], slice]] = {
    **dict.fromkeys(("Gather", "GatherElements", "ScatterElements", "Scatter"), _one_axis),
    **dict.fromkeys(("GatherND", "ScatterND"), lambda _: slice(None)),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), lambda _: slice(1, 2)),
}


class RandomInputs:
    """Contents for the inputs of a graph. sizes: those of the symbols, given or chosen."""

    def __init__(
        self, graph: Graph, sizes: Mapping[str, int], seed: int, length: int = _LENGTH, side: int = _SIDE
    ) -> None:
        """Draw everything. Raises TranspileError for an input of which the type says too little.

        length, side: sizes to choose for axes, but for first ones; side is that of images.
        """
        self.sizes = dict(sizes)
        self._graph = graph
        self._seed = seed
        self._context = Context(sizes)
        self._random = np.random.default_rng(seed)
        self._length, self._side = length, side
        self._batch = self._given_batch()
        self.contents = {given.name: self._content(given, given.type) for given in graph.inputs}

    def check_sizes(self) -> None:
        """Raise InvalidModel for a given size of a symbol that no input has: it is probably misspelt."""
        self._context.check_fixed_dims()

    def _given_batch(self) -> int:
        """The size given of a first axis: each column of a table has as many rows, under a name of its own."""
        types = ((given.name, given.type) for given in self._graph.inputs)
        dims = (Context().dims(type_.dims, name) for name, type_ in types if isinstance(type_, TensorType))
        names = (dim.lone_symbol(axes[0]) for axes in dims if axes)
        return next((self.sizes[name] for name in names if name in self.sizes), _BATCH)

    def of_other_sizes(self, given: Mapping[str, int]) -> Iterator[RandomInputs]:
        """Others with the sizes given, which models may need.

        Such that all integers are less, as the edges of a graph are indices of its nodes; ones, as many a model was
        traced with a batch of one; then larger ones.
        """
        alike = (({**dict.fromkeys(self.sizes, size), **given}, size, size) for size in (_MOST_DIGITS, 1))
        tried = [self.sizes]
        for sizes, length, side in (*alike, *((given, *larger) for larger in _LARGER)):
            other = RandomInputs(self._graph, sizes, self._seed, length, side)
            if other.sizes not in tried:
                tried.append(other.sizes)
                yield other

    def _content(self, given: ValueInfo, type_: Type | None) -> Any:
        if isinstance(type_, SequenceType):
            return [self._content(given, type_.element) for _ in range(_ITEMS)]
        if isinstance(type_, OptionalType):
            return self._content(given, type_.element)
        dims = self._context.dims(type_.dims, given.name) if isinstance(type_, TensorType) else None
        if dims is None or not isinstance(type_, TensorType):
            raise TranspileError(f"no random content for input {quoted(given.name)}: its type leaves too much open",
                                 hint="give its type by --type, or contents by --inputs")
        shape = [self._size(size, axis, len(dims)) for axis, size in enumerate(dims)]
        return self._tensor(given.name, type_.dtype, shape)

    def _size(self, size: Dim, axis: int, rank: int) -> int:
        if isinstance(size, int):
            return size
        chosen = self._batch if axis == 0 else self._side if rank >= 4 and axis >= 2 else self._length
        (name,) = dim.symbols(size)
        return self.sizes.setdefault(name, chosen)

    def _tensor(self, name: str, dtype: str, shape: list[int]) -> Array:
        kind = numpy_dtype(dtype)
        if dtype == "string":
            return np.array(self._random.choice(sorted(_words(self._graph, name)), shape), dtype=object)
        if dtype == "bool":
            return np.asarray(self._random.random(shape) > 0.5)
        if kind.kind not in "iu":
            return np.asarray(self._random.standard_normal(shape)).astype(kind)
        if "mask" in name.lower():
            mask = self._random.integers(0, 2, shape)
            mask[..., :1] = 1  # nothing that is hidden altogether
            return mask.astype(kind)
        if kind.itemsize == 1:
            limits = np.iinfo(kind)
            return self._random.integers(limits.min, limits.max, shape, kind, endpoint=True)
        return self._random.integers(0, self._index_limit(name) or _MOST_DIGITS, shape).astype(kind)

    def _index_limit(self, name: str) -> int | None:
        """The size of the smallest known axis that an input is an index into, None where there is none."""
        sizes: list[int] = []
        for node, position in _consumers(self._graph, name):
            if position != 1 or node.op_type not in _INDEXED:
                continue
            dims, axes = self._known_dims(node.inputs[0]), _INDEXED[node.op_type](node.attributes.get("axis", 0))
            sizes += [size for size in dims[axes] if size]
        return min(sizes, default=None)

    def _known_dims(self, name: str) -> tuple[int, ...]:
        """Dims of a weight or an input, none of others."""
        if name in self._graph.initializers:
            return tuple(self._graph.initializers[name].shape)
        type_ = next((given.type for given in self._graph.inputs if given.name == name), None)
        dims = self._context.dims(type_.dims, name) if isinstance(type_, TensorType) else None
        return tuple(self._size(size, axis, len(dims)) for axis, size in enumerate(dims)) if dims else ()


def sizes_chosen(drawn: RandomInputs | None, given: Mapping[str, int] | None) -> dict[str, int]:
    """Return the sizes of the symbols that are not given."""
    return {} if drawn is None else {name: size for name, size in drawn.sizes.items() if name not in (given or {})}


def sizes_text(sizes: Mapping[str, int]) -> str:
    """Return sizes of symbols as --dim takes them."""
    return ", ".join(f"{escaped(name)}={size}" for name, size in sizes.items())


def _consumers(graph: Graph, name: str) -> Iterator[tuple[Node, int]]:
    """The nodes that see the elements of a value, perhaps in other dims, and as which input."""
    names = {name}
    for node in graph.nodes:
        for position, given in enumerate(node.inputs):
            if given not in names:
                continue
            yield node, position
            if node.op_type in _PASSING:
                names.update(node.outputs)


def _words(graph: Graph, name: str) -> set[str]:
    """Texts that the model knows what to do with, and one that it does not."""
    found = {"other"}
    for node, _ in _consumers(graph, name):
        for content in node.attributes.values():
            if isinstance(content, tuple):
                found.update(word for word in content if isinstance(word, str))
        if node.op_type == "Equal":
            compared = (graph.initializers[other] for other in node.inputs if other in graph.initializers)
            found.update(word for each in compared for word in np.ravel(each).tolist() if isinstance(word, str))
    return found
