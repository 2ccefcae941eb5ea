"""Random graphs on sequences, optionals and texts: made, changed, read and carried through If, Loop, Scan and functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.drawing import Draw
from tests.fuzz.judging import ModelCase
from tests.fuzz.list_builder import COUNT, FLAG, STEPS, WITH_BODIES, WORDS, Body, Kind, Thing, array_of, info

_KINDS = tuple(Kind(*pair) for pair in (
    ("float", ()), ("float", (3,)), ("float", (None,)), ("float", (None, 3)), ("float", (2, 3)), ("float", (2, 2, 2)),
    ("int64", ()), ("int64", (None,)), ("string", ()), ("string", (None,)), ("string", (3,)), ("string", (2, 2)),
    ("bool", (3,)), ("float", (1,)),
))

# --- tensors ---------------------------------------------------------------------------------------------------------


def tensor(b: Body) -> None:
    """A node on tensors of the same kind."""
    x = b.pick(lambda thing: thing.kind.form == "tensor" and thing.kind in b.kinds)
    if x is None:
        return
    y = b.like(x.kind)
    pair = [x.name, y.name]
    if x.kind.dims[:1] == (None,) and b.draw.chance(0.5):
        b.add("Concat", pair, x.kind, axis=0)
    elif x.kind.is_fixed and b.draw.chance(0.6):
        op_type = {"string": "StringConcat", "bool": "Xor"}.get(x.kind.dtype, b.draw.one("Add", "Sub", "Max"))
        b.add(op_type, pair, x.kind)
    elif x.kind.is_fixed and b.draw.chance(0.5):
        condition = b.add("Equal", pair, replace(x.kind, dtype="bool"))
        b.add("Where", [condition.name, *pair], x.kind)
    elif x.kind.dtype == "string":
        b.add("StringConcat", [x.name, b.constant(b.draw.one(*WORDS), x.kind)], x.kind)
    elif x.kind.dtype in ("float", "int64"):
        b.add(b.draw.one("Neg", "Abs", "Identity"), [x.name], x.kind)
    else:
        b.add("Identity", [x.name], x.kind)


def size(b: Body) -> None:
    """How many elements a tensor has."""
    x = b.pick(lambda thing: thing.kind.form == "tensor")
    if x is not None:
        b.add("Size", [x.name], COUNT)


# --- lists -----------------------------------------------------------------------------------------------------------


def made(b: Body) -> None:
    """A sequence, an optional, or an optional sequence."""
    b.like(replace(b.draw.one(*b.kinds), form=b.draw.one("sequence", "sequence", "sequence", "optional", "optional sequence")))


def _sequence(b: Body, least: int = 0) -> Thing:
    found = b.pick(lambda thing: thing.kind.form == "sequence" and thing.least >= least)
    if found is not None:
        return found
    items = [b.like(b.draw.one(*b.kinds))]
    return b.add("SequenceConstruct", [items[0].name], replace(items[0].kind, form="sequence"), 1)


def _place(b: Body, s: Thing, *, after: int = 0) -> str:
    """A position in a sequence; ``after``: 1 where it may lie behind the last item."""
    if b.draw.chance(0.6):
        return b.constant(b.draw.int(-s.least, s.least - 1 + after))
    counted = b.draw.one("size", "const")
    number = b.pick(lambda thing: thing.kind == COUNT) if counted == "size" else None
    given = number.name if number is not None else b.constant(b.draw.int(-4, 4))
    length = b.add("SequenceLength", [s.name], COUNT).name
    if after:
        length = b.add("Add", [length, b.constant(1)], COUNT).name
    return b.add("Mod", [given, length], COUNT).name


def insert(b: Body) -> None:
    """One item more."""
    s = _sequence(b)
    item = b.like(s.kind.item)
    place = [_place(b, s, after=1)] if b.draw.chance(0.5) else []
    b.add("SequenceInsert", [s.name, item.name, *place], s.kind, s.least + 1)


def erase(b: Body) -> None:
    """One item less."""
    s = _sequence(b, 1)
    place = [_place(b, s)] if b.draw.chance(0.6) else []
    b.add("SequenceErase", [s.name, *place], s.kind, s.least - 1)


def item(b: Body) -> None:
    """One item."""
    s = _sequence(b, 1)
    b.add("SequenceAt", [s.name, _place(b, s)], s.kind.item)


def first_or_other(b: Body) -> None:
    """The last item where there is one."""
    s = _sequence(b)
    length = b.add("SequenceLength", [s.name], COUNT)
    has = b.add("Greater", [length.name, b.constant(0)], FLAG)
    then, other = b.inside([]), b.inside(b.things)
    found = then.add("SequenceAt", [s.name, then.constant(-1)], s.kind.item)
    graphs = then.graph([], [found]), other.graph([], [other.like(s.kind.item)])
    b.add("If", [has.name], s.kind.item, then_branch=graphs[0], else_branch=graphs[1])


def length(b: Body) -> None:
    """How many items there are."""
    b.add("SequenceLength", [_sequence(b).name], COUNT)


def joined(b: Body) -> None:
    """All items in one tensor."""
    s = _sequence(b, 1)
    dims = s.kind.dims
    if s.kind.is_fixed and b.draw.chance(0.6):
        axis = b.draw.int(0, len(dims))
        kind = Kind(s.kind.dtype, (*dims[:axis], None, *dims[axis:]))
        b.add("ConcatFromSequence", [s.name], kind, axis=axis - (len(dims) + 1) * b.draw.flag(), new_axis=1)
    elif dims:
        axis = b.draw.int(0, len(dims) - 1) if s.kind.is_fixed else dims.index(None)
        if dims.count(None) > 1:
            return
        kind = Kind(s.kind.dtype, (*dims[:axis], None, *dims[axis + 1 :]))
        b.add("ConcatFromSequence", [s.name], kind, axis=axis - len(dims) * b.draw.flag())


def split(b: Body) -> None:
    """A tensor cut into items."""
    x = b.pick(lambda thing: thing.kind.form == "tensor" and len(thing.kind.dims) > 0)
    if x is None:
        return
    dims = x.kind.dims
    axis = b.draw.int(0, len(dims) - 1)
    size = dims[axis]
    least = 1 if size else 0
    counted = axis - len(dims) * b.draw.flag()
    if b.draw.chance(0.5):
        keeps = b.draw.flag()
        rest = (*dims[:axis], *([1] if keeps else []), *dims[axis + 1 :])
        least = size or 0
        b.add("SplitToSequence", [x.name], Kind(x.kind.dtype, rest, "sequence"), least, axis=counted, keepdims=keeps)
        return
    parts = b.constant(b.draw.int(1, 2))
    if size and b.draw.chance(0.4):
        parts, least = b.constant([1, size - 1]), 2
    kind = Kind(x.kind.dtype, (*dims[:axis], None, *dims[axis + 1 :]), "sequence")
    b.add("SplitToSequence", [x.name, parts], kind, least, axis=counted)


def mapped(b: Body) -> None:
    """A body for each item."""
    s = _sequence(b)
    if s.kind.item not in b.kinds:
        return
    inner = b.inside(b.things if b.draw.chance(0.3) else [])
    given = Thing(inner.name("i"), s.kind.item)
    inner.things.append(given)
    inner.depth = 2
    for _ in range(b.draw.int(1, 2)):
        tensor(inner)
    result = inner.like(s.kind.item)
    b.add("SequenceMap", [s.name], s.kind, s.least, body=inner.graph([given], [result]))


# --- optionals -------------------------------------------------------------------------------------------------------


def _optional(b: Body, least: int = 0) -> Thing | None:
    return b.pick(lambda thing: "optional" in thing.kind.form and thing.least >= least)


def has(b: Body) -> None:
    """Whether there is an element."""
    o = _optional(b)
    if o is not None:
        b.add("OptionalHasElement", [o.name], FLAG)


def element(b: Body) -> None:
    """The element, or another one where there is none."""
    o = _optional(b)
    if o is None:
        return
    if o.least:
        b.add("OptionalGetElement", [o.name], o.kind.item)
        return
    condition = b.add("OptionalHasElement", [o.name], FLAG)
    then, other = b.inside([]), b.inside(b.things)
    found = then.add("OptionalGetElement", [o.name], o.kind.item)
    graphs = then.graph([], [found]), other.graph([], [other.like(o.kind.item)])
    b.add("If", [condition.name], o.kind.item, then_branch=graphs[0], else_branch=graphs[1])


# --- control flow ----------------------------------------------------------------------------------------------------


def _some(b: Body, *, lists: bool = True) -> list[Kind]:
    """One to three kinds of values."""
    forms = ("tensor", "tensor", "sequence", "sequence", "optional", "optional sequence") if lists else ("tensor",)
    return [replace(b.draw.one(*b.kinds), form=b.draw.one(*forms)) for _ in range(b.draw.int(1, 3))]


def _flag(b: Body) -> Thing:
    found = b.pick(lambda thing: thing.kind == FLAG)
    return found or b.add("Greater", [b.like(COUNT).name, b.constant(0)], FLAG)


def branch(b: Body) -> None:
    """An If that gives tensors and lists."""
    kinds, condition = _some(b), _flag(b)
    graphs = []
    for _ in range(2):
        inner = b.inside(b.things)
        inner.grow(b.draw.int(0, 3))
        graphs.append(inner.graph([], [inner.like(kind) for kind in kinds]))
    _results(b, "If", [condition.name], kinds, then_branch=graphs[0], else_branch=graphs[1])


def loop(b: Body) -> None:
    """A Loop that carries tensors and lists, and collects tensors."""
    starts = [b.like(kind) for kind in _some(b)]
    inner = b.inside(b.things if b.draw.chance(0.7) else [])
    count, before = Thing(b.name("i"), COUNT), Thing(b.name("k"), FLAG)
    states = [Thing(b.name("s"), start.kind) for start in starts]
    inner.things += [count, *states]
    inner.grow(b.draw.int(1, 4))
    after = [inner.like(state.kind) for state in states]
    rows = [thing for thing in (inner.pick(lambda thing: thing.kind.form == "tensor" and thing.kind.is_fixed)
                                for _ in range(b.draw.int(0, 2))) if thing is not None]
    keeps = before if b.draw.chance(0.6) else inner.add("Less", [count.name, inner.constant(b.draw.int(0, 2))], FLAG)
    trips = b.like(COUNT).name if b.draw.chance(0.4) else b.constant(b.draw.int(0, 3))
    if keeps is before:
        trips = b.add("Min", [trips, b.constant(3)], COUNT).name
    go = "" if b.draw.chance(0.6) else _flag(b).name
    graph = inner.graph([count, before, *states], [keeps, *after, *rows])
    kinds = [start.kind for start in starts] + [replace(row.kind, dims=(None, *row.kind.dims)) for row in rows]
    _results(b, "Loop", [trips, go, *(start.name for start in starts)], kinds, body=graph)


def scan(b: Body) -> None:
    """A Scan over a tensor, whose body sees lists around it."""
    fixed = [kind for kind in b.kinds if kind.is_fixed]
    over = b.pick(lambda thing: thing.kind.form == "tensor" and len(thing.kind.dims) > 0
                  and None not in thing.kind.dims[1:])
    if not fixed or over is None:
        return
    starts = [b.like(b.draw.one(*fixed)) for _ in range(b.draw.int(0, 2))]
    inner = b.inside(b.things if b.draw.chance(0.7) else [])
    states = [Thing(b.name("s"), start.kind) for start in starts]
    piece = Thing(b.name("p"), replace(over.kind, dims=over.kind.dims[1:]))
    inner.things += [*states, piece]
    inner.grow(b.draw.int(1, 4))
    after = [inner.like(state.kind) for state in states]
    rows = [thing for thing in (inner.pick(lambda thing: thing.kind.form == "tensor" and thing.kind.is_fixed)
                                for _ in range(b.draw.int(0 if starts else 1, 2))) if thing is not None]
    if not [*after, *rows]:
        return
    kinds = [start.kind for start in starts] + [replace(row.kind, dims=(None, *row.kind.dims)) for row in rows]
    graph = inner.graph([*states, piece], [*after, *rows])
    attributes: dict[str, Any] = {"scan_input_directions": [b.draw.flag()]}
    if rows:
        attributes["scan_output_directions"] = [b.draw.flag() for _ in rows]
    _results(b, "Scan", [*(start.name for start in starts), over.name], kinds, body=graph, num_scan_inputs=1, **attributes)


def call(b: Body) -> None:
    """A call of a function of the model."""
    if b.functions and b.draw.chance(0.3):
        function, kinds, results = b.draw.one(*b.functions)
    else:
        kinds, results = _some(b), _some(b)[:2]
        inner = b.inside([])
        given = [Thing(b.name("a"), kind) for kind in kinds]
        inner.things += given
        inner.grow(b.draw.int(1, 4))
        outputs = [inner.add("Identity", [inner.like(kind).name], kind) for kind in results]
        function = helper.make_function("my", b.name("F"), [each.name for each in given], [each.name for each in outputs],
                                        inner.nodes, [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)])
        b.functions.append((function, kinds, results))
    _results(b, function.name, [b.like(kind).name for kind in kinds], results, domain="my")


def _results(b: Body, op_type: str, inputs: Sequence[str], kinds: Sequence[Kind], **attributes: Any) -> None:
    found = [Thing(b.name("r"), kind) for kind in kinds]
    b.nodes.append(helper.make_node(op_type, list(inputs), [each.name for each in found], **attributes))
    b.things += found


WITH_BODIES.update((branch, loop, scan, call))
STEPS += [
    *[tensor] * 4, size, *[made] * 2, *[insert] * 3, erase, *[item] * 2, first_or_other, length, *[joined] * 2, *[split] * 2,
    mapped, has, *[element] * 2, *[branch] * 3, *[loop] * 3, scan, call,
]


# --- cases -----------------------------------------------------------------------------------------------------------


def _given(kind: Kind, draw: Draw) -> Any:
    if kind.form == "sequence":
        return [array_of(kind.item, draw) for _ in range(draw.int(1, 3))]
    return array_of(kind, draw)


def case(seed: int) -> ModelCase:
    """The graph of a seed, and two calls of it."""
    draw = Draw(seed)
    kinds = [draw.one(*_KINDS) for _ in range(draw.int(1, 3))]
    b = Body(draw, kinds)
    given = [Thing(f"x{place}", replace(draw.one(*kinds), form=draw.one("tensor", "tensor", "sequence")))
             for place in range(draw.int(1, 3))]
    given += [Thing(name, kind) for name, kind in (("n", COUNT), ("go", FLAG)) if draw.chance(0.6)]
    given = [replace(thing, least=1) if thing.kind.form == "sequence" else thing for thing in given]
    b.things += given
    b.grow(draw.one(2, 4, 8, 12))
    own = b.things[len(given) :] or [b.add("Identity", [given[0].name], given[0].kind)]
    chosen = {thing.name: thing for thing in (own[-1], *(draw.one(*own) for _ in range(draw.int(0, 3))))}
    names = {name for node in b.nodes for name in node.output}
    outputs = [thing for thing in chosen.values() if thing.name in names]
    infos = [helper.make_value_info(thing.name, thing.kind.proto(
        [f"{thing.name}_{axis}" if size is None else size for axis, size in enumerate(thing.kind.dims)]
        if thing.kind.form == "tensor" else None)) for thing in given]
    graph = helper.make_graph(b.nodes, "lists", infos, [info(thing) for thing in outputs])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=[each[0] for each in b.functions])
    calls = [{thing.name: _given(thing.kind, draw) for thing in given} for _ in range(2)]
    for call_ in calls:
        if "n" in call_:
            call_["n"] = np.asarray(draw.int(0, 3), np.int64)
    functions = draw.one(None, "flat", "keep", "blocks") if b.functions else None
    return ModelCase(seed, model, (calls[0], calls[1], calls[0]), draw.one(1, 20), functions=functions)
