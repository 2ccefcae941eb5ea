"""`Movement`: what Transposes and Reshapes in a row make of a value, as one new order of parts of its axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onnx_systemds.inference.dims import Dim, Dims, divide_exactly, product
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.model.ir import Node


class Part(NamedTuple):
    """A part of an axis. place: the axis in the source, then which part of it, and of that, from the slowest on."""

    place: tuple[int, ...]
    size: Dim


Axes = tuple[tuple[Part, ...], ...]
"""Of each axis the parts that it consists of, the slowest first; none for an axis of size 1."""


@dataclass(frozen=True, slots=True)
class Movement:
    """A value with the elements of another one, its source, which has these dims, in another order."""

    source: str
    dims: Dims
    axes: Axes

    @property
    def sizes(self) -> Dims:
        """The dims of the value."""
        return _sizes(self.axes)

    @property
    def keeps_first(self) -> bool:
        """Whether what varies slowest in the source does so in the value."""
        parts = parts_of(self.axes)
        return not parts or parts[0] == min(parts)

    @property
    def mixes(self) -> bool:
        """Whether an axis of the value consists of parts that are not one after the other in the source."""
        return any(len(units) > 1 for units in self.units)

    @property
    def units(self) -> tuple[Axes, ...]:
        """The parts of each axis, those together that are one after the other in the source, too."""
        order = {part: number for number, part in enumerate(sorted(parts_of(self.axes)))}
        found: list[Axes] = []
        for axis in self.axes:
            units: list[tuple[Part, ...]] = []
            for part in axis:
                if units and order[units[-1][-1]] + 1 == order[part]:
                    units[-1] += (part,)
                else:
                    units.append((part,))
            found.append(tuple(units))
        return tuple(found)

    def transposed(self, order: Sequence[int]) -> Movement:
        """The value with its axes in this order."""
        return Movement(self.source, self.dims, tuple(self.axes[axis] for axis in order))

    def reshaped(self, dims: Dims) -> Movement | None:
        """The value with these dims; None where its parts are not known to divide so."""
        waiting, axes = parts_of(self.axes)[::-1], []  # type: list[Part], list[tuple[Part, ...]]
        for size in dims:
            axis: list[Part] = []
            while size != 1:
                if not waiting or size == 0:
                    return None
                part = waiting.pop()
                if (left := divide_exactly(size, part.size)) is None:
                    if (inner := divide_exactly(part.size, size)) is None:
                        return None
                    part, rest = Part((*part.place, 0), size), Part((*part.place, 1), inner)
                    waiting.append(rest)
                    left = 1
                axis.append(part)
                size = left
            axes.append(tuple(axis))
        return None if waiting else Movement(self.source, self.dims, tuple(axes))

    def write(self, writer: NodeWriter, to: str) -> bool:
        """Write the nodes that make the value of its source, under this name; False where no node knows its dims.

        They are a Reshape, a Transpose and a Reshape at most, and what gives the dims of these.
        """
        units = [unit for axis in self.units for unit in axis]
        ordered = sorted(units)
        split = _sizes(ordered)
        perm = tuple(map(ordered.index, units))
        moved = tuple(split[place] for place in perm)
        is_moved, is_joined = perm != tuple(range(len(perm))), moved != self.sizes
        name = self.source
        if split != self.dims:
            first = self._shape(writer, self.dims, ordered)
            if not first:
                return False
            name = writer.emit("Reshape", name, first, to="" if is_moved or is_joined else to)
        if is_moved:
            name = writer.emit("Transpose", name, to="" if is_joined else to, perm=perm)
        if is_joined:
            last = self._shape(writer, moved, self.axes)
            if not last:
                return False
            name = writer.emit("Reshape", name, last, to=to)
        if name != to:
            writer.emit("Identity", name, to=to)
        return True

    def _shape(self, writer: NodeWriter, before: Dims, axes: Sequence[tuple[Part, ...]]) -> str:
        """Write what a Reshape of these dims to these axes reads: a constant, where one says it; "" where none can."""
        after = _sizes(axes)
        found = [0 if axis < len(before) and before[axis] == size else -1 for axis, size in enumerate(after)]
        found = [size if isinstance(size, int) else place for size, place in zip(after, found)]
        if found.count(-1) <= 1:
            return writer.known(found)
        whole = writer.emit("Shape", self.source)
        sizes = [self._size(writer, whole, parts) for parts in axes]
        return writer.emit("Concat", *sizes, axis=0) if all(sizes) else ""

    def _size(self, writer: NodeWriter, shape: str, parts: Sequence[Part]) -> str:
        """Write the size of an axis of these parts, given the shape of the source; "" where it is not known."""
        name = writer.known([product(part.size for part in parts if isinstance(part.size, int))])
        for axis, size in ((part.place[0], part.size) for part in parts if not isinstance(part.size, int)):
            others = divide_exactly(self.dims[axis], size)
            if not isinstance(others, int):
                return ""
            whole = writer.emit("Gather", shape, writer.known([axis]))
            name = writer.emit("Mul", name, writer.emit("Div", whole, writer.known([others])))
        return name


def unmoved(name: str, dims: Dims) -> Movement:
    """A value as it is."""
    return Movement(name, dims, tuple(() if size == 1 else (Part((axis,), size),) for axis, size in enumerate(dims)))


def order_of(transpose: Node, rank: int) -> tuple[int, ...]:
    """The axes of its input in the order in which a Transpose gives them, which is the reverse one by default."""
    order = transpose.integers("perm")
    return tuple(range(rank))[::-1] if order is None else order


def parts_of(axes: Iterable[tuple[Part, ...]]) -> list[Part]:
    """All parts, in the order of the axes."""
    return [part for axis in axes for part in axis]


def _sizes(axes: Iterable[tuple[Part, ...]]) -> Dims:
    return tuple(product(part.size for part in axis) for axis in axes)
