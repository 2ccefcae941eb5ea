"""Random nodes on tensors, sequences and optionals: a graph in the making, and the types of its values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TypeProto, ValueInfoProto, helper, numpy_helper

from onnx_systemds.model.protos import element_type, numpy_dtype
from tests.fuzz.drawing import Draw

WORDS = ("", "a", "b", "Ab", "x y", "É", "1", "a,b")


@dataclass(frozen=True)
class Kind:
    """A type: elements and dims (None: another one each time) of a tensor, or of what a list of such tensors holds."""

    dtype: str
    dims: tuple[int | None, ...]
    form: str = "tensor"

    @property
    def item(self) -> Kind:
        """Of what a list holds; an optional sequence holds a sequence."""
        return replace(self, form="sequence" if self.form == "optional sequence" else "tensor")

    @property
    def is_fixed(self) -> bool:
        """Whether all tensors of the kind have the same dims."""
        return None not in self.dims

    def proto(self, dims: Sequence[int | str | None] | None = None) -> TypeProto:
        """The protobuf of the type."""
        found = helper.make_tensor_type_proto(element_type(self.dtype), self.dims if dims is None else dims)
        if "sequence" in self.form:
            found = helper.make_sequence_type_proto(found)
        return helper.make_optional_type_proto(found) if "optional" in self.form else found


COUNT, FLAG = Kind("int64", ()), Kind("bool", ())


@dataclass(frozen=True)
class Thing:
    """A value of a graph. least: how many items it has at the least."""

    name: str
    kind: Kind
    least: int = 0


@dataclass
class Body:
    """A graph in the making, and what its nodes may take."""

    draw: Draw
    kinds: Sequence[Kind]
    things: list[Thing] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    functions: list[Any] = field(default_factory=list)
    counter: list[int] = field(default_factory=lambda: [0])
    depth: int = 0

    def name(self, stem: str) -> str:
        """A new name."""
        self.counter[0] += 1
        return f"{stem}{self.counter[0]}"

    def inside(self, things: Sequence[Thing]) -> Body:
        """A body that sees these things."""
        return Body(self.draw, self.kinds, list(things), [], self.functions, self.counter, self.depth + 1)

    def add(self, op_type: str, inputs: Sequence[str], kind: Kind, least: int = 0, **attributes: Any) -> Thing:
        """A node with one output, which later ones may take."""
        thing = Thing(self.name("v"), kind, least)
        self.nodes.append(helper.make_node(op_type, list(inputs), [thing.name], **attributes))
        self.things.append(thing)
        return thing

    def constant(self, value: Any, kind: Kind = COUNT) -> str:
        """A known tensor."""
        name = self.name("c")
        array = np.asarray(value, numpy_dtype(kind.dtype))
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        return name

    def pick(self, wanted: Callable[[Thing], bool]) -> Thing | None:
        """A thing, mostly one of the last."""
        found = [thing for thing in self.things if wanted(thing)]
        if not found:
            return None
        return self.draw.one(*found[-4:]) if self.draw.chance(0.6) else self.draw.one(*found)

    def like(self, kind: Kind) -> Thing:
        """A thing of a kind, made where there is none."""
        found = self.pick(lambda thing: thing.kind == kind)
        if found is not None and self.draw.chance(0.85):
            return found
        if kind.form == "tensor":
            name = self.constant(array_of(kind, self.draw), kind)
            self.things.append(Thing(name, kind))
            return self.things[-1]
        if kind.form == "sequence":
            if self.draw.chance(0.3):
                return self.add("SequenceEmpty", [], kind, dtype=element_type(kind.dtype))
            items = [self.like(kind.item).name for _ in range(self.draw.int(1, 3))]
            return self.add("SequenceConstruct", items, kind, len(items))
        if self.draw.chance(0.3):
            return self.add("Optional", [], kind, type=kind.item.proto())
        return self.add("Optional", [self.like(kind.item).name], kind, 1)

    def graph(self, inputs: Sequence[Thing], outputs: Sequence[Thing]) -> GraphProto:
        """The finished graph of a body, whose outputs are made in it and stand once."""
        made = [self.add("Identity", [thing.name], thing.kind) for thing in outputs]
        return helper.make_graph(self.nodes, self.name("g"), [info(each) for each in inputs], [info(each) for each in made])

    def grow(self, count: int) -> None:
        """Add steps."""
        for _ in range(count):
            step = self.draw.one(*STEPS)
            if self.depth < 2 or step not in WITH_BODIES:
                step(self)


def array_of(kind: Kind, draw: Draw) -> Any:
    """A tensor of a kind."""
    dims = tuple((draw.int(0, 4) if draw.chance(0.15) else draw.int(1, 3)) if size is None else size for size in kind.dims)
    if kind.dtype == "string":
        return np.array(draw.rng.choice(np.array(WORDS, object), dims), object).reshape(dims)
    if kind.dtype == "bool":
        return np.asarray(draw.rng.random(dims) < 0.5)
    return np.asarray(draw.rng.integers(-3, 4, dims), numpy_dtype(kind.dtype))


def info(thing: Thing) -> ValueInfoProto:
    """The declaration of a value."""
    return helper.make_value_info(thing.name, thing.kind.proto())


Step = Callable[[Body], None]
STEPS: list[Step] = []
"""What `Body.grow` draws from; a step that is drawn often stands in it several times."""
WITH_BODIES: set[Step] = set()
