"""Scan: a sub-graph called for each slice along an axis."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product, symbols
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.registry import generator, gives_boundary_form, shape_rule, takes_text
from onnx_systemds.model.texts import EMPTY
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.api.layout import AlongAxis, along_axis, boundary_form
from onnx_systemds.operators.onnx.carried_values import (
    UNCHANGED,
    as_row,
    carried_value,
    changes_of,
    check_counts,
    grown,
    iteration,
    outer_dims,
    output_values,
    start_text,
    started,
    type_body,
)

takes_text("Scan")
gives_boundary_form("Scan")


def options(node: NodeFacts, name: str, count: int) -> tuple[int, ...]:
    """A list attribute with one integer for each scan input or output; zeros where it is left out."""
    return tuple(node.attribute(name) or (0,) * count)


def input_axes(node: NodeFacts) -> tuple[int, ...]:
    """The axis of each scan input."""
    count = int(node.attribute("num_scan_inputs"))
    first = node.input_count - count
    axes = options(node, "scan_input_axes", count)
    return tuple(node.normalize_axis(axis, node.rank(first + i)) for i, axis in enumerate(axes))


def _without(dims: Dims, axis: int) -> Dims:
    return (*dims[:axis], *dims[axis + 1 :])


@shape_rule("Scan", since=9)
def scan_rule_9(node: NodeFacts) -> tuple[Value, ...]:
    """The state variables, and the collected values with the number of slices at their axis."""
    facts = cast(InferenceFacts, node)
    axes = input_axes(facts)
    first = facts.input_count - len(axes)
    check_counts(facts, "body", facts.input_count, max(first, len(node.node.outputs)))
    states = [facts.value(position) for position in range(first)]
    slices = [Value(facts.dtype(first + i), _without(facts.dims(first + i), axis)) for i, axis in enumerate(axes)]
    typed = type_body(facts, [], states, slices, 0)
    outputs = [
        carried_value(facts, position, value, typed, typed.inputs[position]) for position, value in enumerate(states)
    ]
    results = output_values(typed)[first:]
    for position, (axis, value) in enumerate(zip(options(facts, "scan_output_axes", len(results)), results), first):
        inner = value.dims or ()
        at = facts.normalize_axis(axis, len(inner) + 1)
        others = [other for other in range(len(inner) + 1) if other != at]
        dims = outer_dims(facts, position, inner, others, typed)
        outputs.append(Value(value.dtype, (*dims[:at], _count(facts), *dims[at:])))
    return tuple(outputs)


def _count(node: NodeFacts) -> Dim:
    """Number of slices."""
    axes = input_axes(node)
    return node.dims(node.input_count - len(axes))[axes[0]]


@generator("Scan", since=9)
def scan_9(node: NodeView) -> Fragment:
    """A for loop over rows or blocks of columns; what is collected goes into a matrix of its final size."""
    axes = input_axes(node)
    first = node.input_count - len(axes)
    typed = node.bodies["body"]
    results = output_values(typed)
    wanted = [position for position in range(first, len(results)) if node.wants(position)]
    count, step = _count(node), node.temporary("step")
    states = [node.target(position) for position in range(first)]
    blocks = _Blocks(node, count, step)
    given = [
        blocks.read(first + i, axis, bool(backward), typed.values[typed.inputs[first + i]])
        for i, (axis, backward) in enumerate(
            zip(axes, options(node, "scan_input_directions", len(axes)))
        )
    ]
    output_axes = options(node, "scan_output_axes", len(results) - first)
    output_directions = options(node, "scan_output_directions", len(results) - first)
    writes: list[str] = []
    slices: list[str] = []
    for position in wanted:
        axis = node.normalize_axis(output_axes[position - first], len(node.output_dims(position)))
        piece, write = blocks.write(position, axis, bool(output_directions[position - first]), results[position])
        slices.append(piece)
        writes += write
    function = node.body("body", [*range(first), *wanted])
    inner = [node.value(position) for position in range(first)], [typed.values[name] for name in typed.inputs]
    carried = {target: changes_of(*values) for target, *values in zip(states, *inner)}
    starts = [line for position, target in enumerate(states)
              for line in started(target, start_text(node, position), carried[target])]
    called = iteration(node, function, [*states, *given], [*states, *slices], carried)
    body = [*blocks.bounds, called.call, *writes, *called.after]
    loop = [*called.before, f"for ({step} in seq(1, {node.dim(count)}, 1)) {{", *(f"  {line}" for line in body), "}"]
    fragment = node.results(dict(enumerate(states)), [*starts, *blocks.before, "\n".join(loop), *blocks.after])
    return sum((node.result(*result) for result in blocks.results), start=fragment)


class _Blocks:
    """Where the slice of a step lies: a row for axis 0, else a block of columns.

    before, after: statements before and after the loop. bounds: statements at the start of each step. results: the
    matrices that collect slices, with their views and the positions of the outputs.
    """

    def __init__(self, node: NodeView, count: Dim, step: str) -> None:
        self.node = node
        self.count = count
        self.step = step
        self.before: list[str] = []
        self.after: list[str] = []
        self.bounds: list[str] = []
        self.results: list[tuple[str, View, int]] = []
        self._backward = ""

    def read(self, position: int, axis: int, backward: bool, value: Value) -> str:
        """The slice of an input in boundary form."""
        along = self._along(self.node.dims(position), axis)
        text = along.part(self.node.view(position, along.view(self.count)), self._span(along, backward))
        return self.node.converted(text, along.view(1), boundary_form(value.dims or ()))

    def write(self, position: int, axis: int, backward: bool, value: Value) -> tuple[str, list[str]]:
        """The identifier of one slice, and the statements that put it into the matrix that collects them."""
        node = self.node
        along = self._along(node.output_dims(position), axis)
        view, piece = along.view(self.count), along.view(1)
        whole = node.temporary(f"all{position}")
        one = node.temporary(f"slice{position}")
        self.results.append((whole, view, position))
        if set(symbols(piece)).intersection(node.own_sizes()):
            return one, self._append(whole, one, value, first=axis == 0 and not backward)
        self.before.append(f"{whole} = {node.filled(0, view)}")
        form = boundary_form(value.dims or ())
        text = one if form is SCALAR else node.converted(one, form, piece)
        return one, [f"{along.part(whole, self._span(along, backward))} = {text}"]

    def _append(self, whole: str, one: str, value: Value, *, first: bool) -> list[str]:
        """The statements that put in a slice whose size only the run decides; all slices have the same."""
        node = self.node
        if not first:
            raise UnsupportedCase("slices of a size that only the run decides are collected forwards along axis 0 only")
        room = node.temporary("rows")
        self.before.append(f"{room} = matrix(0, rows=0, cols=1)")
        self.after.append(f"{whole} = {node.call('first_rows', room, node.dim(self.count))}")
        return grown(node, room, node.call("append_row", room, self.step, as_row(one, value, node, known=False)))

    def _along(self, dims: Dims, axis: int) -> AlongAxis:
        return replace(along_axis(dims, axis), by_rows=axis == 0)

    def _span(self, along: AlongAxis, backward: bool) -> str:
        """The rows or columns of the step's slice."""
        at = self._at(backward)
        if along.step == 1:
            return at
        width = self.node.factor(along.step)
        low, high = self.node.temporary("from"), self.node.temporary("to")
        self.bounds += [f"{low} = ({at} - 1) * {width} + 1", f"{high} = {at} * {width}"]
        return f"{low}:{high}"

    def _at(self, backward: bool) -> str:
        if not backward:
            return self.step
        if not self._backward:
            self._backward = self.node.temporary("back")
            self.bounds.insert(0, f"{self._backward} = {self.node.dim(self.count + 1)} - {self.step}")
        return self._backward


@shape_rule("Scan", since=8)
def scan_rule_8(node: NodeFacts) -> tuple[Value, ...]:
    """Opset 8: all values have a batch axis in front, and the slices are taken along the axis after it."""
    facts = cast(InferenceFacts, node)
    count = int(facts.attribute("num_scan_inputs"))
    first = facts.input_count - count
    check_counts(facts, "body", facts.input_count - 1, max(first - 1, len(node.node.outputs)))
    states = [Value(facts.dtype(i), facts.dims(i)[1:]) for i in range(1, first)]
    slices = [Value(facts.dtype(i), facts.dims(i)[2:]) for i in range(first, facts.input_count)]
    typed = type_body(facts, [], states, slices, 0)
    batch, steps = facts.dims(first)[:2]
    results = output_values(typed)
    outputs = [Value(value.dtype, (batch, *(value.dims or ()))) for value in results[: len(states)]]
    return (*outputs, *(Value(value.dtype, (batch, steps, *(value.dims or ()))) for value in results[len(states) :]))


@generator("Scan", since=8)
def scan_8(node: NodeView) -> Fragment:
    """A loop over the batch around one over the steps; what lies after a sequence's length stays zero."""
    count = int(node.attribute("num_scan_inputs"))
    first = node.input_count - count
    results = output_values(node.bodies["body"])
    states = first - 1
    batch, steps = node.dims(first)[:2]
    wanted = [position for position in range(states, len(results)) if node.wants(position)]
    directions = tuple(node.attribute("directions") or (0,) * count)
    entry, step, row = node.temporary("entry"), node.temporary("step"), node.temporary("row")
    length, back = node.temporary("length"), node.temporary("back")
    function = node.body("body", [*range(states), *wanted])
    rows = _EntryRows(node)
    inner_states = [node.temporary(f"state{i}") for i in range(states)]
    start, end = [], []
    for i, state in enumerate(inner_states):
        dims = results[i].dims or ()
        start.append(f"{state} = {rows.read(1 + i, (batch,), dims, entry)}")
        end += rows.write(i, f"last{i}", state, results[i], (batch,), entry) if node.wants(i) else []
    given = [rows.read(first + i, (batch, steps), node.dims(first + i)[2:], back if directions[i] else row)
             for i in range(count)]
    slices, writes = [], []
    for position in wanted:
        slices.append(node.temporary(f"slice{position}"))
        writes += rows.write(position, f"all{position}", slices[-1], results[position], (batch, steps), row)
    lens = f"as.scalar({node.view(0, View(batch, 1))}[{entry}, 1])" if node.has(0) else node.dim(steps)
    if not [*inner_states, *slices]:
        raise UnsupportedCase("the scan has no results")
    carried = dict.fromkeys(inner_states, UNCHANGED)
    called = iteration(node, function, [*inner_states, *given], [*inner_states, *slices], carried)
    offset = f"({entry} - 1) * {node.factor(steps)}"
    lines = [
        *called.before,
        f"for ({entry} in seq(1, {node.dim(batch)}, 1)) {{",
        f"  {length} = {lens}",
        *(f"  {line}" for line in start),
        f"  for ({step} in seq(1, {length}, 1)) {{",
        f"    {row} = {offset} + {step}",
        *([f"    {back} = {offset} + {length} + 1 - {step}"] if any(directions) else []),
        *(f"    {line}" for line in [called.call, *writes, *called.after]),
        "  }",
        *(f"  {line}" for line in end),
        "}",
    ]
    fragment = node.fragment([*rows.before, "\n".join(lines)])
    return sum((node.result(*result) for result in rows.results), start=fragment)


class _EntryRows:
    """What a Scan of version 8 reads and writes as rows of matrices: one for each entry of the batch, or each step.

    before: the statements before the loops. results: the matrices that are outputs, by their positions.
    """

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self.before: list[str] = []
        self.results: list[tuple[str, View, int]] = []

    def read(self, position: int, lead: Dims, dims: Dims, row: str) -> str:
        """A row of an input in boundary form."""
        view = View(product(lead), product(dims))
        source = f"{self.node.view(position, view)}[{row}, ]"
        return self.node.converted(source, View(1, view.cols), boundary_form(dims))

    def write(self, position: int, hint: str, given: str, value: Value, lead: Dims, row: str) -> list[str]:
        """The statement that writes what the body gave, in boundary form, as a row of an output."""
        dims = value.dims or ()
        view, form = View(product(lead), product(dims)), boundary_form(dims)
        whole = self.node.temporary(hint)
        self.before.append(f"{whole} = {self.node.filled(EMPTY if value.dtype == 'string' else 0, view)}")
        self.results.append((whole, view, position))
        text = given if form is SCALAR else self.node.converted(given, form, View(1, view.cols))
        return [f"{whole}[{row}, ] = {text}"]
