"""Derivatives of If, Scan and Loop: sub-graphs that compute what theirs do, and the chain rule of it.

A branch or body is put into the sub-graph of the derivative, before a Gradient node of it. A Scan goes over the steps
from the last one to the first, for a Loop as well: it carries the derivatives by the states, and sums of those by what
the body captures. It is given the states that each step began with, which a loop of their own collects: the states are
computed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.backward import OPSET
from onnx_systemds.inference.definitions import inline_body
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.passes.continuations import BRANCHES
from onnx_systemds.inference.passes.differentiation import draws, gradient_node
from onnx_systemds.inference.registry import gradient
from onnx_systemds.inference.values import FLOAT_DTYPES
from onnx_systemds.model.ir import Graph, Node, ValueInfo
from onnx_systemds.model.walk import all_nodes, names_used
from onnx_systemds.operators.api import Backward
from onnx_systemds.operators.onnx.scanning import input_axes, options


def _check(n: Backward, bodies: Iterable[Graph]) -> None:
    """Raise UnsupportedCase for what cannot be computed twice, or has no derivative."""
    if any(draws(node) for body in bodies for node in all_nodes(body.nodes)):
        raise UnsupportedCase(f"the derivative of {n.node.op_type} whose sub-graph draws random numbers")
    if any(n.has(position) and n.value(position).is_list for position in range(n.input_count)):
        raise UnsupportedCase(f"the derivative of {n.node.op_type} that carries lists")


def _graph(name: str, inputs: Sequence[str], outputs: Sequence[str], nodes: Sequence[Node]) -> Graph:
    given, found = (tuple(ValueInfo(name, None) for name in names) for names in (inputs, outputs))
    return Graph(name, "", given, found, {}, tuple(nodes), {})


# --- If --------------------------------------------------------------------------------------------------------


@gradient("If")
def _if_gradient(n: Backward) -> Sequence[str]:
    """An If of the derivatives of its branches by what either captures."""
    bodies = {name: n.graph_attribute(name) for name in BRANCHES}
    _check(n, bodies.values())
    seeds = [given and n.emit("Identity", given) for given in n.given]  # by names that stay as they are
    branches: dict[str, Any] = {name: _branch(n, name, body, seeds) for name, body in bodies.items()}
    return ["", *n.emit_several("If", [f"{n.prefix}/by_{name}" for name in n.captured], n.x, **branches)]


def _branch(n: Backward, name: str, body: Graph, given: Sequence[str]) -> Graph:
    prefix = f"{n.prefix}/{name}"
    results = [f"{prefix}/result{place}" if seed else "" for place, seed in enumerate(given)]
    seeds = {result: seed for result, seed in zip(results, given) if seed}
    found = [f"{prefix}/by_{captured}" for captured in n.captured]
    nodes = inline_body(n.node, body, prefix, [], results)
    return _graph(name, [], found, [*nodes, gradient_node(n.captured, found, seeds)])


# --- Scan and Loop ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Slices:
    """A part along an axis for each step; backward: the first step has the last one."""

    name: str
    axis: int = 0
    backward: bool = False


@dataclass(frozen=True)
class _Steps:
    """What a loop does in each step.

    first: the places of the first state among the inputs of the node, and inputs and outputs of the body. states: the
    value that each state has at the start of the steps. slices: other inputs of the body, by place; what is the same
    for all steps is a truth. collected: the derivatives by outputs of the body that are collected, by place.
    """

    body: Graph
    first: tuple[int, int, int]
    states: Sequence[_Slices]
    slices: Mapping[int, _Slices]
    collected: Mapping[int, _Slices]


@gradient("Scan", since=9)
def _scan_gradient(n: Backward) -> Sequence[str]:
    body, count, axes = n.graph_attribute("body"), int(n.attribute("num_scan_inputs")), input_axes(n)
    first, collected = n.input_count - count, len(n.graph_attribute("body").outputs) - (n.input_count - count)
    _check(n, [body])
    ways = options(n, "scan_input_directions", count)
    states: Sequence[str] = []
    if first:
        _check_sizes(n, range(first))
        again = _with_states(n, body, first, 0, 0)
        states = [f"{n.prefix}/state{place}" for place in range(first)]
        n.emit_several("Scan", [*[""] * first, *states], *n.node.inputs, body=again, num_scan_inputs=count,
                       scan_input_axes=axes, scan_input_directions=ways)
    of_results = zip(n.given[first:], options(n, "scan_output_axes", collected),
                     options(n, "scan_output_directions", collected))
    found = _over_steps(n, _Steps(
        body, (0, 0, 0), [*map(_Slices, states)],
        {first + i: _Slices(n.node.inputs[first + i], axes[i], bool(ways[i])) for i in range(count)},
        {first + i: _Slices(given, axis, bool(way)) for i, (given, axis, way) in enumerate(of_results) if given},
    ))
    return [found.get(place, "") for place in range(n.input_count + len(n.captured))]


@gradient("Loop")
def _loop_gradient(n: Backward) -> Sequence[str]:
    body, first = n.graph_attribute("body"), n.input_count - 2
    _check(n, [body])
    _check_sizes(n, range(2, n.input_count))
    is_counted = not first or body.inputs[0].name in names_used(body)
    states = [f"{n.prefix}/state{place}" for place in range(first)]
    numbers = [f"{n.prefix}/number"] if is_counted else []
    again = _with_states(n, body, first, 2, 1, counts=is_counted)
    n.emit_several("Loop", [*[""] * first, *states, *numbers], *n.node.inputs, body=again)
    found = _over_steps(n, _Steps(
        body, (2, 2, 1), [*map(_Slices, states)], dict(enumerate(map(_Slices, numbers))),
        {1 + place: _Slices(given) for place, given in enumerate(n.given) if place >= first and given},
    ))
    return [found.get(place, "") for place in range(n.input_count + len(n.captured))]


def _check_sizes(n: Backward, states: Iterable[int]) -> None:
    """Raise UnsupportedCase where a state changes its size."""
    for place, position in enumerate(states):
        result = n.node.outputs[place] if place < len(n.node.outputs) else ""
        if result and n.values[result].dims != n.dims(position):
            raise UnsupportedCase(f"the derivative of {n.node.op_type} of which states change their sizes")


def _with_states(n: Backward, body: Graph, count: int, taken: int, given: int, *, counts: bool = False) -> Graph:
    """The body that collects the states it starts from, and the number of the step where it counts, but no results.

    count: of the states. taken, given: how many inputs and outputs of the body are before them.
    """
    prefix = f"{n.prefix}/again"
    inputs = [f"{prefix}/{value.name}" for value in body.inputs]
    outputs = [f"{prefix}/result{place}" for place in range(given + count)]
    writer = NodeWriter(n.node, prefix, OPSET)
    started = [*inputs[taken : taken + count], *inputs[: int(counts)]]
    kept = [writer.emit("Identity", name) for name in started]
    nodes = inline_body(n.node, body, f"{prefix}/body", inputs, [*outputs, *[""] * (len(body.outputs) - given - count)])
    return _graph("again", inputs, [*outputs, *kept], [*nodes, *writer.nodes])


def _over_steps(n: Backward, steps: _Steps) -> dict[int, str]:
    """The derivatives by inputs of the node, by their places; those by what is captured come after them."""
    prefix, body = f"{n.prefix}/step", steps.body
    at_node, taken, given = steps.first
    real = [place for place in range(len(steps.states)) if n.dtype(at_node + place) in FLOAT_DTYPES]
    wanted = [place for place in steps.slices if not given and n.needs(place)]  # a Loop takes numbers of steps alone
    inputs = [f"{prefix}/{value.name}" for value in body.inputs]
    results = {given + place: f"{prefix}/carried{place}" for place in real}
    carried = list(results.values())
    collected = {place: f"{prefix}/collected{place}" for place in steps.collected}
    sums = [f"{prefix}/sum_{name}" for name in n.captured]
    seeds = {f"{prefix}/result{place}": name for place, name in {**results, **collected}.items()}
    xs = [*(inputs[taken + place] for place in real), *(inputs[place] for place in wanted), *n.captured]
    found = [f"{prefix}/by{place}" for place in range(len(xs))]
    before, after = NodeWriter(n.node, f"{prefix}/before", OPSET), NodeWriter(n.node, f"{prefix}/after", OPSET)
    if given:
        inputs[1] = before.known(True, "bool")
    outputs = [f"{prefix}/result{place}" for place in range(len(body.outputs))]
    outputs = [name if name in seeds else "" for name in outputs]
    nodes = inline_body(n.node, body, f"{prefix}/body", inputs, outputs)
    end = len(real) + len(wanted)
    added = [after.emit("Add", total, by) for total, by in zip(sums, found[end:])]
    states = [inputs[taken + place] for place in range(len(steps.states))]
    graph = _graph(
        "step", [*carried, *sums, *states, *(inputs[place] for place in steps.slices), *collected.values()],
        [*found[: len(real)], *added, *found[len(real) : end]],
        [*before.nodes, *nodes, gradient_node(xs, found, seeds), *after.nodes],
    )
    slices = [*steps.states, *steps.slices.values(), *steps.collected.values()]
    starts = [n.given[place] or n.filled_like(n.node.inputs[at_node + place], n.dtype(at_node + place), 0.0)
              for place in real]
    zeros = [n.filled_like(name, n.values[name].dtype, 0.0) for name in n.captured]
    attributes: dict[str, Any] = {
        "num_scan_inputs": len(slices), "scan_input_axes": tuple(it.axis for it in slices),
        "scan_input_directions": tuple(int(not it.backward) for it in slices),
        "scan_output_axes": tuple(steps.slices[place].axis for place in wanted),
        "scan_output_directions": tuple(int(not steps.slices[place].backward) for place in wanted),
    }
    places = [*(at_node + place for place in real), *range(n.input_count, n.input_count + len(sums)), *wanted]
    made = [f"{n.prefix}/by{place}" for place in places]
    n.emit_several("Scan", made, *starts, *zeros, *(it.name for it in slices), body=graph, **attributes)
    return dict(zip(places, made))
