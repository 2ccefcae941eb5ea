"""Graphs of 5 to 60 nodes: skips, shared values, control flow with captures, mixed types, two symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz import graph_layers  # noqa: F401 - its steps are registered
from tests.fuzz.drawing import UNSIGNED, Array, Draw
from tests.fuzz.graph_builder import TYPES, Builder, Known, step
from tests.fuzz.graph_functions import outline
from tests.fuzz.graph_steps import array_of, scalar_of
from tests.fuzz.judging import ModelCase
from tests.fuzz.repeated_nodes import repeat

Case = ModelCase

_OPSETS = (18, 19, 20, 21, 22)
_SPECIALISE_AFTER = 2
_NARROW = ("uint8", "int8", "uint32")


def case(seed: int) -> Case:
    """The graph of a seed, called with sizes A, B, A and C, each three times."""
    draw = Draw(seed)
    a, b, c = ({"N": draw.int(1, 5), "S": draw.int(1, 5)} for _ in range(3))
    builder = Builder(draw, (a, b, c))
    inputs = [_input(builder, place) for place in range(draw.int(1, 3))]
    if draw.chance(0.3):
        inputs.append(Known("flag", "bool", ()))
    if draw.chance(0.3):
        inputs.append(Known("trips", "int64", ()))
        builder.has_trips = True
    builder.values += [known for known in inputs if known.name != "trips"]
    builder.grow(draw.one(4, 8, 15, 30, 50))
    functions, layers = None, []
    if draw.chance(0.35):
        layers = repeat(builder)
        functions = draw.one(None, "blocks", "blocks")
    made = [known for known in builder.values if known not in inputs]
    if not made:  # there are no nodes, or what they give is too large to go on with
        made = [builder.add("Identity", [inputs[0].name], inputs[0].dtype, inputs[0].dims)]
    chosen = {known.name: known for known in [made[-1], *layers[-1:], *(draw.one(*made) for _ in range(draw.int(0, 3)))]}
    graph = builder.body("graph", inputs, list(chosen.values()))
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", draw.one(*_OPSETS))])
    if draw.chance(0.2):
        outline(model, draw)
        functions = draw.one("flat", "keep", "blocks", None)
    dims: dict[str, int] = {}
    if draw.chance(0.15):  # one call's sizes, or one of them
        dims = {name: size for name, size in a.items() if draw.chance(0.7) and any(name in known.dims for known in inputs)}
    style = "nn" if draw.chance(0.1) else "plain"
    calls = [{known.name: _given(known, sizes, draw) for known in inputs} for sizes in (a, b, c)]
    if dims:
        calls = [call for call, sizes in zip(calls, (a, b, c)) if dims.items() <= sizes.items()]
    order = [calls[place] for place in (0, 1, 0, 2) if place < len(calls)]
    return ModelCase(seed, model, tuple(call for call in order for _ in range(3)), _SPECIALISE_AFTER, functions=functions,
                     style=style, dims=dims)


def _input(builder: Builder, place: int) -> Known:
    draw = builder.draw
    dims = [draw.one(1, 2, 3, 4, 6) for _ in range(draw.int(1, 4))]
    if draw.is_sparse:  # wide enough to be stored so
        dims[-1] = draw.one(dims[-1], 8, 20, 40)
    symbolic: list[int | str] = list(dims)
    if draw.chance(0.8):
        symbolic[0] = "N"
    if len(dims) > 1 and draw.chance(0.4):
        symbolic[draw.int(1, len(dims) - 1)] = "S"
    return Known(f"x{place}", draw.one("float", "float", "float", "double", "int64", *_NARROW), tuple(symbolic))


def _given(known: Known, sizes: dict[str, int], draw: Draw) -> Array:
    if known.name == "trips":
        return np.asarray(draw.int(1, 4), np.int64)
    if known.name == "flag":
        return np.asarray(draw.flag() == 1)
    return array_of(known, sizes, draw)


# --- control flow: steps of their own --------------------------------------------------------------------------------


@step(2)
def branch(b: Builder) -> list[Known] | None:
    """If with captures; both branches give values of the same types and dims, each in its own way."""
    condition = b.pick(lambda known: known.dtype == "bool" and known.rank == 0) or scalar_of(b)
    wanted = [b.real() for _ in range(b.draw.int(1, 2))]
    if condition is None or b.depth >= 2 or any(known is None for known in wanted):
        return None
    likes = [known for known in wanted if known is not None]
    graphs = []
    for name in ("then", "else"):
        inner = b.inside(b.values)
        inner.grow(b.draw.int(0, 3))
        results = [_like(inner, known) for known in likes]
        graphs.append(inner.body(f"{name}_{b.counter[0]}", [], results))
    outputs = [Known(b.name("v"), known.dtype, known.dims) for known in likes]
    b.nodes.append(helper.make_node("If", [condition.name], [known.name for known in outputs],
                                    then_branch=graphs[0], else_branch=graphs[1]))
    return outputs


def _like(b: Builder, wanted: Known, state: Known | None = None) -> Known:
    """A new value of the type and dims of another, by a node or two; of a state, mostly one that it takes part in."""
    source = state or wanted
    other = b.pick(lambda known: known.dtype == wanted.dtype and known.dims == wanted.dims) or source
    if wanted.dtype == "bool":
        return b.add("Not", [source.name], "bool", wanted.dims)
    choice = b.draw.one("Identity", "Identity", "Add", "Sub", "constant", "Max")
    if choice == "Identity":
        return b.add("Identity", [other.name], wanted.dtype, wanted.dims)
    if choice == "constant":
        number = b.constant(b.draw.int(0 if wanted.dtype in UNSIGNED else -2, 2), numpy_dtype(wanted.dtype))
        return b.add(b.draw.one("Add", "Sub"), [source.name, number], wanted.dtype, wanted.dims)
    return b.add(choice, [source.name, other.name], wanted.dtype, wanted.dims)


@step(2)
def loop(b: Builder) -> list[Known] | None:
    """Loop with one to three carried states, captures, scan outputs; trips and condition known or of the run."""
    starts = [known for known in (b.real(0, 3) for _ in range(b.draw.int(1, 3))) if known is not None]
    if not starts or b.depth >= 1:
        return None
    if b.draw.chance(0.3) and starts[0].dims:  # two states of one kind can be swapped
        starts.append(starts[0])
    counter, going = Known(b.name("i"), "int64", ()), Known(b.name("go"), "bool", ())
    states = [Known(b.name("s"), known.dtype, known.dims) for known in starts]
    inner = b.inside([*b.values, *states])
    inner.values = [*b.values[-6:], *states]
    inner.grow(b.draw.int(0, 4))
    updates = [_update(inner, state, states) for state in states]
    again = inner.add("Identity", [going.name], "bool", ())
    if b.draw.chance(0.3):
        limit = inner.constant(b.draw.int(1, 3))
        again = inner.add("Less", [counter.name, limit], "bool", ())
    scanned = [b.draw.one(*updates, *states)] if b.draw.chance(0.5) else []
    scanned = [inner.add("Identity", [known.name], known.dtype, known.dims) for known in scanned]
    body = inner.body(f"body_{b.counter[0]}", [counter, going, *states], [again, *updates, *scanned])
    # of rows that are none onnxruntime forgets the other dims
    trips = "trips" if b.draw.chance(0.3) and b.depth == 0 and b.has_trips else b.constant(b.draw.int(len(scanned), 4))
    condition = b.pick(lambda known: known.dtype == "bool" and known.rank == 0)
    start = condition.name if condition is not None and not scanned and b.draw.chance(0.4) else b.draw.one("", b.constant(True, np.bool_))
    outputs = [Known(b.name("v"), state.dtype, state.dims) for state in states]
    rows = [b.name("v") for _ in scanned]
    b.nodes.append(helper.make_node("Loop", [trips, start, *(known.name for known in starts)],
                                    [*(known.name for known in outputs), *rows], body=body))
    return [*outputs, *(_summed(b, row, known) for row, known in zip(rows, scanned))]


def _update(b: Builder, state: Known, states: list[Known]) -> Known:
    """The new state: of the old one and another, or another state passed on."""
    others = [known for known in states if known is not state and (known.dtype, known.dims) == (state.dtype, state.dims)]
    if others and b.draw.chance(0.4):
        return b.add("Identity", [b.draw.one(*others).name], state.dtype, state.dims)
    return _like(b, state, state)


def _summed(b: Builder, rows: str, row: Known) -> Known:
    """Rows of an unknown number, added up, so that their dims are known."""
    axes = b.constant([0])
    return b.add("ReduceSum", [rows, axes], row.dtype, row.dims, keepdims=0)


@step(1)
def halves(b: Builder) -> Known | None:
    """Scan without states, whose rows are of another type than what it goes over; they get that type after it."""
    x = b.pick(lambda known: known.dtype in ("int32", "int64") and known.rank >= 1)
    if x is None or b.depth >= 1:
        return None
    item = Known(b.name("e"), x.dtype, x.dims[1:])
    inner = b.inside([item])
    real = inner.add("Cast", [item.name], "float", item.dims, to=TYPES["float"])
    half = inner.add("Mul", [real.name, inner.constant(0.5, np.float32)], "float", item.dims)
    rows = Known(b.name("v"), "float", x.dims)
    body = inner.body(f"body_{b.counter[0]}", [item], [half])
    b.nodes.append(helper.make_node("Scan", [x.name], [rows.name], body=body, num_scan_inputs=1))
    return b.add("Cast", [rows.name], x.dtype, x.dims, to=TYPES[x.dtype])


@step(1)
def scan(b: Builder) -> list[Known] | None:
    """Scan over the first axis of a value, with one or two states."""
    x = b.real(1, 4)
    starts = [known for known in (b.real(0, 2) for _ in range(b.draw.int(1, 2))) if known is not None]
    if x is None or not starts or b.depth >= 1:
        return None
    states = [Known(b.name("s"), known.dtype, known.dims) for known in starts]
    item = Known(b.name("e"), x.dtype, x.dims[1:])
    inner = b.inside([*b.values[-6:], *states, item])
    inner.grow(b.draw.int(0, 3))
    updates = [_update(inner, state, states) for state in states]
    out = _like(inner, item)
    body = inner.body(f"body_{b.counter[0]}", [*states, item], [*updates, out])
    outputs = [Known(b.name("v"), state.dtype, state.dims) for state in states]
    rows = Known(b.name("v"), x.dtype, x.dims)
    directions: dict[str, Any] = {"scan_input_directions": [1]} if b.draw.chance(0.05) else {}
    b.nodes.append(helper.make_node("Scan", [*(known.name for known in starts), x.name],
                                    [*(known.name for known in outputs), rows.name], body=body, num_scan_inputs=1,
                                    **directions))
    return [*outputs, rows]
