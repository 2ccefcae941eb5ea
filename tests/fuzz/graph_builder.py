"""Random nodes on values whose dims are numbers and symbols: what each step of a random graph may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.fuzz.drawing import Draw

Dims = tuple[int | str, ...]
_MOST_ELEMENTS = 4000
TYPES = {"float": TensorProto.FLOAT, "double": TensorProto.DOUBLE, "int64": TensorProto.INT64, "bool": TensorProto.BOOL,
          "int32": TensorProto.INT32, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
          "uint32": TensorProto.UINT32}


class Parts:
    """Nodes and constants of a graph in the making, numbered in their order."""

    nodes: list[NodeProto]
    constants: list[TensorProto]

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name


@dataclass(frozen=True)
class Known:
    """A value of the graph: its element type and its dims, of which some are symbols."""

    name: str
    dtype: str
    dims: Dims

    @property
    def rank(self) -> int:
        """The number of dims."""
        return len(self.dims)


@dataclass
class Builder:
    """A graph in the making. sizes: of the symbols, in each of the calls. values: what a node may take."""

    draw: Draw
    sizes: Sequence[dict[str, int]]
    values: list[Known] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    counter: list[int] = field(default_factory=lambda: [0])
    depth: int = 0
    has_trips: bool = False

    # --- names, constants and choices --------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        """A new name."""
        self.counter[0] += 1
        return f"{stem}{self.counter[0]}"

    def inside(self, values: Sequence[Known]) -> Builder:
        """The builder of a body, which sees these values."""
        return Builder(self.draw, self.sizes, list(values), [], [], self.counter, self.depth + 1)

    def constant(self, array: Any, dtype: Any = np.int64) -> str:
        """A constant: an initializer or a node."""
        value = np.asarray(array, dtype)
        name = self.name("c")
        if self.draw.chance(0.7):
            self.initializers.append(numpy_helper.from_array(value, name))
        else:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value)))
        return name

    def weights(self, *dims: int, dtype: str = "float") -> str:
        """Ordinary numbers as a constant."""
        kind = np.float64 if dtype == "double" else np.float32
        return self.constant(self.draw.rng.standard_normal(dims) * self.draw.one(0.3, 1.0), kind)

    def add(self, op_type: str, inputs: Sequence[str], dtype: str, dims: Sequence[int | str], **attributes: Any) -> Known:
        """A node with one output."""
        known = Known(self.name("v"), dtype, tuple(dims))
        self.nodes.append(helper.make_node(op_type, list(inputs), [known.name], **attributes))
        return known

    def keep(self, known: Known) -> None:
        """Let later nodes take a value, if it is not too large."""
        if all(self.count(known.dims, sizes) <= _MOST_ELEMENTS for sizes in self.sizes):
            self.values.append(known)

    def count(self, dims: Dims, sizes: dict[str, int]) -> int:
        """The number of elements."""
        return int(np.prod([sizes[size] if isinstance(size, str) else size for size in dims], dtype=np.int64))

    def pick(self, wanted: Callable[[Known], bool]) -> Known | None:
        """A value of a kind, mostly one of the last; None where there is none."""
        found = [known for known in self.values if wanted(known)]
        if not found:
            return None
        return self.draw.one(*found[-4:]) if self.draw.chance(0.6) else self.draw.one(*found)

    def real(self, low: int = 0, high: int = 5) -> Known | None:
        """A value of floats of a rank within bounds."""
        return self.pick(lambda known: known.dtype in ("float", "double") and low <= known.rank <= high)

    def info(self, known: Known, *, open_dims: bool = False) -> ValueInfoProto:
        """The declaration of a value."""
        dims = [None] * known.rank if open_dims else known.dims
        return helper.make_tensor_value_info(known.name, TYPES[known.dtype], dims)

    def body(self, name: str, inputs: Sequence[Known], outputs: Sequence[Known]) -> GraphProto:
        """The finished graph."""
        infos = [self.info(known) for known in inputs]
        given = [self.info(known, open_dims=True) for known in outputs]
        return helper.make_graph(self.nodes, name, infos, given, self.initializers)

    def grow(self, count: int) -> None:
        """Add ``count`` random steps, most of them a node each."""
        for _ in range(count):
            step = self.draw.one(*_STEPS)
            found = step(self)
            for known in found if isinstance(found, list) else [found]:
                if known is not None:
                    self.keep(known)


Step = Callable[[Builder], Known | list[Known] | None]
_STEPS: list[Step] = []


def step(weight: int = 1) -> Callable[[Step], Step]:
    """Register a step; weight: how often it is drawn."""

    def decorate(function: Step) -> Step:
        _STEPS.extend([function] * weight)
        return function

    return decorate


def broadcast(left: Dims, right: Dims) -> Dims | None:
    """The dims of two values that broadcast whatever the symbols are; None where they may not."""
    length = max(len(left), len(right))
    found: list[int | str] = []
    for one, other in zip((1,) * (length - len(left)) + left, (1,) * (length - len(right)) + right):
        if one != other and 1 not in (one, other):
            return None
        found.append(other if one == 1 else one)
    return tuple(found)
