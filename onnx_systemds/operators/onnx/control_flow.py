"""If and Loop: sub-graphs become functions, called in DML's own control flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from onnx_systemds.dml.literals import message_literal
from onnx_systemds.errors import UnsupportedCase, quoted_list
from onnx_systemds.inference.dims import Dim, depends_on_run, maximum, product
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.lists import joined, outer_list
from onnx_systemds.inference.local_functions import BODY
from onnx_systemds.inference.passes.continuations import BRANCHES, CONTINUED, impossible, possible_branches
from onnx_systemds.inference.registry import generator, gives_boundary_form, shape_rule, takes_text
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import FAILED, is_parameter
from onnx_systemds.model.ir import Graph
from onnx_systemds.model.walk import handed_on, names_used
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, unknown_size
from onnx_systemds.operators.api.layout import boundary_form
from onnx_systemds.operators.api.reserved_names import NEW_TEXTS, OLD_TEXTS
from onnx_systemds.operators.onnx.carried_values import (
    Changes,
    as_row,
    assigned,
    carried_value,
    changes_of,
    check_counts,
    grown,
    has_other_rank,
    iteration,
    joined_dims,
    outer_dims,
    output_values,
    start_text,
    started,
    type_body,
)

_Branch = tuple[list[str], bool]
"""Its statements, and whether they extend the dictionary of strings."""

takes_text("If", "Loop")  # they hand it on
gives_boundary_form("If", "Loop")

# --- If --------------------------------------------------------------------------------------------------------


@shape_rule("If")
def if_rule(node: NodeFacts) -> tuple[Value, ...]:
    """What both branches give; a size in which they differ is known to the run only."""
    facts = cast(InferenceFacts, node)
    for name in BRANCHES:
        check_counts(facts, name, 0, len(node.node.outputs))
    bodies = possible_branches(facts) if CONTINUED in node.node.attributes else [facts.body(name) for name in BRANCHES]
    branches = [output_values(body) for body in bodies]
    if len(branches) == 1:
        branches *= 2
    local = set().union(*(body.own_sizes for body in bodies))
    return tuple(
        _either(facts, position, then, other, local)
        for position, (then, other) in enumerate(zip(branches[0], branches[1]))
    )


def _either(facts: InferenceFacts, position: int, then: Value, other: Value, local: set[str]) -> Value:
    if then is FAILED or other is FAILED:  # in a first look at a loop's body: see `type_body`
        then = other = other if then is FAILED else then
    if then.is_list and other.is_list:
        return outer_list(then, joined([then.element, other.element]), local)
    if then.type is not None or other.type is not None:
        raise UnsupportedCase(f"the branches give output {position} as values of different types")
    dtype = then.dtype or other.dtype
    if then.dims is None or other.dims is None or len(then.dims) != len(other.dims):
        return Value(dtype, None)  # the model may declare it
    return Value(dtype, joined_dims(facts, position, then.dims, other.dims))


@generator("If", since=1)
def if_1(node: NodeView) -> Fragment:
    """A call of either branch."""
    targets = _targets(node)
    branches = [_branch(node, name, targets) if name in node.bodies else ([f"stop({impossible(node, name)})"], False)
                for name in BRANCHES]
    then, otherwise = ([f"  {line}" for line in branch] for branch in _with_texts(branches))
    lines = [f"if ({node.scalar('cond')} != 0) {{", *then, "} else {", *otherwise, "}"]
    return node.results(targets, ["\n".join(lines)])


def _targets(node: NodeView) -> dict[int, str]:
    """The variables for the outputs that are used, by position."""
    return {position: node.target(position) for position in range(len(node.node.outputs)) if node.wants(position)}


def _branch(node: NodeView, name: str, targets: Mapping[int, str]) -> _Branch:
    """The branch of that name, whose statements give the targets."""
    values = output_values(node.bodies[name])
    returned = node.returned_sizes()
    if any(len(values[output].dims or ()) != len(node.output_dims(output)) for _, output, _ in returned):
        raise UnsupportedCase("the branches give sizes of different ranks that the result does not tell")
    sizes = [(values[output].dims or ())[axis] for _, output, axis in returned]
    function = node.body(name, list(targets), returned=sizes)
    lines = [function.call([], [*targets.values(), *(identifier for identifier, _, _ in returned)])]
    for position, target in targets.items():
        lines += _as_joined(node, position, target, values[position])
    return lines, function.extends_texts


def _with_texts(branches: Sequence[_Branch]) -> list[list[str]]:
    """The branches; where one makes strings, all give the dictionary: as it is where a branch makes none."""
    is_extended = any(extends for _, extends in branches)
    return [[*lines, f"{NEW_TEXTS} = {OLD_TEXTS}"] if is_extended and not extends else lines
            for lines, extends in branches]


def _as_joined(node: NodeView, position: int, target: str, value: Value) -> list[str]:
    """A branch whose result has another rank than the whole: its matrix in the form of the whole."""
    if value.dims is None:
        return []
    form, wanted = boundary_form(value.dims), node.boundary(position)
    if len(value.dims) == len(node.output_dims(position)):
        return []
    if SCALAR not in (form, wanted):
        return [f"{target} = {node.converted(target, form, wanted)}"]
    raise UnsupportedCase(f"the branches give output {position} as a scalar and as a tensor")


# --- calls of a model's own functions ---------------------------------------------------------------------------------


def call_function(node: NodeView) -> Fragment:
    """A call of the DML function that stands for a model's own function."""
    body, targets = node.bodies[BODY], _targets(node)
    function = node.body(BODY, list(targets), hint=node.node.op_type)
    positions = [position for position in range(node.input_count) if node.has(position)]
    given = [
        start_text(node, position) for name, position in zip(body.inputs, positions) if is_parameter(body.values[name])
    ]
    return node.results(targets, [function.call(given, list(targets.values()))])


# --- Loop ------------------------------------------------------------------------------------------------------

_MOST_TRIPS = 2**53  # a larger trip count means: until the condition says so


@shape_rule("Loop")
def loop_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The carried values, and the collected ones with the number of iterations in front."""
    facts = cast(InferenceFacts, node)
    graph = facts.graph_attribute("body")
    carried = [facts.value(position) for position in range(2, facts.input_count)]
    check_counts(facts, "body", 2 + len(carried), 1 + max(len(carried), len(node.node.outputs)))
    declared = [getattr(given.type, "dims", ()) or () for given in graph.inputs[:2]]
    first = [Value("int64", (1,) * len(declared[0]), is_count=True), Value("bool", (1,) * len(declared[1]))]
    typed = type_body(facts, first, carried, [], 1, _unread(graph))
    results = output_values(typed)
    outputs = [_after(facts, position, value, typed) for position, value in enumerate(carried)]
    limit = None if may_stop(facts, typed) else _trips(facts)
    for position in range(len(carried), min(len(results) - 1, len(node.node.outputs))):
        value = results[1 + position]
        if value.dims is None:
            outputs.append(Value(value.dtype, None))
            continue
        inner = outer_dims(facts, position, value.dims, range(1, len(value.dims) + 1), typed)
        trips = unknown_size(facts, position, 0, or_none=True) if limit is None else limit
        outputs.append(Value(value.dtype, (trips, *inner)))
    return tuple(outputs)


def _unread(body: Graph) -> set[int]:
    """The places of the carried values that the body does not read: it gives others in their place."""
    read = names_used(body)
    return {place for place, given in enumerate(body.inputs[2:]) if given.name not in read}


def _after(facts: InferenceFacts, position: int, start: Value, body: TypedGraph) -> Value:
    """A carried value after the loop; of one that is no more than a place at the start, what the body gives."""
    result = output_values(body)[1 + position]
    if has_other_rank(start, result):
        dims = result.dims or ()
        return Value(result.dtype, outer_dims(facts, position, dims, range(len(dims)), body))
    return carried_value(facts, position, start, body, body.inputs[2 + position])


def _trips(facts: NodeFacts) -> Dim | None:
    """The trip count where it is known at conversion."""
    found = facts.integers("M") if facts.has("M") else None
    if not found or (isinstance(found[0], int) and found[0] >= _MOST_TRIPS):
        return None
    return maximum(found[0], 0)


def may_stop(facts: NodeFacts, body: TypedGraph) -> bool:
    """Whether the condition can end the loop before the trip count is reached."""
    given = facts.constant(1)
    if facts.has(1) and not (given is not None and bool(np.all(given))):
        return True
    after = body.values[body.outputs[0]].constant
    if after is not None:
        return not bool(np.all(after))
    return handed_on(body.nodes, body.outputs[0]) != body.inputs[1]


@generator("Loop", since=1)
def loop_1(node: NodeView) -> Fragment:
    """A for loop, or a while loop where the condition may end it; what is collected goes into preallocated rows."""
    return _LoopText(node).fragment()


class _LoopText:
    """The statements of one Loop."""

    def __init__(self, node: NodeView) -> None:
        self.node = node
        self.body = node.bodies["body"]
        self.results = output_values(self.body)
        self.stops = may_stop(node, self.body)
        self.carried_count = node.input_count - 2
        total = len(self.results) - 1
        self.collected = [position for position in range(self.carried_count, total) if node.wants(position)]
        carried = [self.body.values[name] for name in self.body.inputs[2:]]
        self.places = {position for position, value in enumerate(carried)
                       if has_other_rank(value, self.results[1 + position])}
        self.reshaped = {position for position, value in enumerate(carried)
                         if has_other_rank(node.value(2 + position), value)}
        self.counter = node.temporary("trip")
        self.condition = node.temporary("goes_on")
        is_number = self.results[0].dims == ()
        self.returned_condition = self.condition if is_number else node.temporary("goes_on_matrix")

    def fragment(self) -> Fragment:
        node = self.node
        targets = [node.target(position) for position in range(self.carried_count)]
        lists = {position: node.target(position) for position in self.collected}
        rows = {position: node.temporary(f"row{position}") for position in self.collected}
        positions = [*([0] if self.stops else []), *range(1, 1 + self.carried_count), *(p + 1 for p in self.collected)]
        function = node.body("body", positions)
        limit, trips, starts = self._limit()
        carried = self._carried(targets)
        starts = [line for position, target in enumerate(targets)
                  for line in started(target, self._start(position), carried[target])] + starts
        counter = f"{self.counter} - 1" if not self.stops else self.counter
        given = [self._as_input(0, counter), self._as_input(1, self.condition if self.stops else "1")]
        returned = [*([self.returned_condition] if self.stops else []), *targets, *rows.values()]
        given += [start_text(node, 2 + position) if position in self.places else target
                  for position, target in enumerate(targets)]
        called = iteration(node, function, given, returned, carried)
        inner = [called.call] if returned else []
        if self.stops:
            form = boundary_form(self.results[0].dims or ())
            inner += assigned(self.condition, node.converted(self.returned_condition, form, SCALAR))
            inner.append(f"{self.counter} = {self.counter} + 1")
        before, each, after = self._collecting(lists, rows, limit, trips)
        if self.stops:
            bound = f" & {self.counter} < {limit}" if limit else ""
            head = [f"{self.counter} = 0", f"while ({self.condition} != 0{bound}) {{"]
        else:
            head = [f"for ({self.counter} in seq(1, {limit}, 1)) {{"]
        loop = [*head, *(f"  {line}" for line in [*inner, *each, *called.after]), "}"]
        statements = [*starts, *before, "\n".join([*called.before, *loop]), *self._checks(limit, trips), *after]
        return node.results({**dict(enumerate(targets)), **lists}, statements)

    def _carried(self, targets: list[str]) -> dict[str, Changes]:
        """The carried values, and what of their sizes changes."""
        inner = [self.body.values[name] for name in self.body.inputs[2:]]
        given = [self.node.value(position) for position in range(2, self.node.input_count)]
        found = {target: changes_of(*values) for target, *values in zip(targets, given, inner)}
        return found | {targets[place]: Changes(rows=True, cols=True) for place in self.places
                        if self.results[1 + place].dims}

    def _start(self, position: int) -> str:
        """A carried value before the first iteration."""
        if position in self.places:
            return "matrix(0, rows=1, cols=1)" if self.results[1 + position].dims else "0"
        text = start_text(self.node, 2 + position)
        if position in self.reshaped:
            before, after = self.node.dims(2 + position), self.results[1 + position].dims or ()
            text = self.node.converted(text, boundary_form(before), boundary_form(after))
        return text

    def _checks(self, limit: str, trips: Dim | None) -> list[str]:
        """A statement that stops where there was no iteration, and a value still is what the start has in its place."""
        wanted = [self.node.node.outputs[place] for place in sorted(self.places | self.reshaped)
                  if self.node.wants(place)]
        if not wanted or (not self.stops and isinstance(trips, int) and trips > 0):
            return []
        text = f"{self.node.place}: without an iteration {quoted_list(wanted)} would have the rank of the start"
        message = message_literal(f"{text}; the script takes it to be that of later ones")
        return [f"if ({f'{self.counter} == 0' if self.stops else f'{limit} < 1'}) {{ stop({message}) }}"]

    def _limit(self) -> tuple[str, Dim | None, list[str]]:
        """The trip count as text ("" for none), and as a size that is not negative, if it is known to be one.

        Then the statements before it and the condition can be used.
        """
        node = self.node
        statements = []
        if self.stops:
            given = f"as.double({node.scalar(1)})" if node.has(1) else "1.0"
            statements.append(f"{self.condition} = {given}")
        known = node.constant(0)
        if known is not None and int(known.ravel()[0]) < 0:
            return "0", 0, statements
        if not node.has(0) or (known is not None and int(known.ravel()[0]) >= _MOST_TRIPS):
            if not self.stops:
                raise UnsupportedCase("the loop has neither a trip count nor a condition that can end it")
            return "", None, statements
        found = node.integers(0)
        trips = maximum(found[0], 0) if found else None
        return node.scalar(0) if trips is None else node.dim(trips), trips, statements

    def _as_input(self, position: int, text: str) -> str:
        """Counter and condition in the rank that the body declares."""
        dims = self.body.values[self.body.inputs[position]].dims
        return f"as.matrix({text})" if dims else text

    def _collecting(
        self, lists: dict[int, str], rows: dict[int, str], limit: str, trips: Dim | None
    ) -> tuple[list[str], list[str], list[str]]:
        """Statements before the loop, in each iteration and after it."""
        node = self.node
        before: list[str] = []
        each: list[str] = []
        after: list[str] = []
        for position, target in lists.items():
            value = self.results[1 + position]
            dims = node.output_dims(position)
            known = not depends_on_run(dims[1:])
            block = as_row(rows[position], value, node, known=known)
            cols = node.dim(product(dims[1:])) if known else "1"
            if known and not self.stops:
                count = f"max({limit}, 0)" if trips is None else limit
                before.append(f"{target} = matrix(0, rows={count}, cols={cols})")
                each.append(f"{target}[{self.counter}, ] = {block}")
                continue
            room = node.temporary(f"rows{position}")
            before.append(f"{room} = matrix(0, rows=0, cols={cols})")
            each += grown(node, room, node.call("append_row", room, self.counter, _as_matrix(value, block)))
            count = self.counter if self.stops else limit
            after.append(f"{target} = {node.call('first_rows', room, count)}")
        return before, each, after


def _as_matrix(value: Value, block: str) -> str:
    return f"as.matrix({block})" if value.dims == () else block

