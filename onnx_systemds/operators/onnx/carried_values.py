"""Values that a loop carries from one iteration to the next, and what leaves a sub-graph; for If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from onnx_systemds.correspondence import ELEMENTWISE
from onnx_systemds.errors import InvalidModel, Reasons, ShapeUnknown, quoted
from onnx_systemds.inference.dims import RUN_SIZE_PREFIX, Dim, Dims, may_be_zero, product, symbol, symbols
from onnx_systemds.inference.inference_facts import InferenceFacts
from onnx_systemds.inference.lists import joined, list_value, local_dims, outer_list, same_element
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import Graph, OptionalType
from onnx_systemds.model.walk import names_read, sub_graphs
from onnx_systemds.operators.api import SCALAR, NodeView, Value, View, unknown_size
from onnx_systemds.operators.api.layout import LIST, boundary_form
from onnx_systemds.operators.api.reserved_names import NEW_TEXTS, OLD_TEXTS, TEXTS
from onnx_systemds.operators.api.sub_function import SubFunction

# Where an old value is passed on after a new one in a block, the engine passes on the new one.
_COPIES_CUT = 'if (never) { print("never") }  # cuts the block: what is handed on would be overwritten before'


def check_counts(facts: InferenceFacts, name: str, taken: int, given: int) -> None:
    """Raise InvalidModel where a sub-graph has not ``taken`` inputs, or fewer outputs than the ``given`` ones."""
    graph = facts.graph_attribute(name)
    if len(graph.inputs) != taken:
        raise InvalidModel(f"{name} takes {len(graph.inputs)} values, the node hands {taken} to it")
    if len(graph.outputs) < given:
        raise InvalidModel(f"{name} gives {len(graph.outputs)} values, the node takes {given} of it")


def output_values(graph: TypedGraph) -> list[Value]:
    """The outputs of a typed sub-graph."""
    return [graph.values[name] for name in graph.outputs]


def joined_dims(facts: InferenceFacts, position: int, one: Dims, other: Dims) -> Dims:
    """The dims of an output that has either of two dims of the same rank."""
    return tuple(
        mine if mine == theirs else unknown_size(facts, position, axis, or_none=may_be_zero((mine, theirs)))
        for axis, (mine, theirs) in enumerate(zip(one, other))
    )


def type_body(
    facts: InferenceFacts, first: Sequence[Value], carried: Sequence[Value], last: Sequence[Value], conditions: int,
    unread: Collection[int] = (),
) -> TypedGraph:
    """Type a loop's body with the inputs ``first``, ``carried`` and ``last``; ``conditions`` outputs come first.

    A dim of a carried value that changes from one iteration to the next becomes a symbol of the body. A list that is
    empty at the start may get its items in one branch of the body and be read in another one: what fails before
    they are known counts for nothing. Raises ShapeUnknown when a rank changes, but for carried values at the places
    ``unread``, which the body does not read.
    """
    context, every = facts.context, facts.context.errors
    try:
        return _settled_body(facts, first, carried, last, conditions, unread)
    finally:
        every.errors += context.errors.errors
        context.errors = every


def _settled_body(
    facts: InferenceFacts, first: Sequence[Value], carried: Sequence[Value], last: Sequence[Value], conditions: int,
    unread: Collection[int],
) -> TypedGraph:
    """Type the body again until what is known of the carried values holds in every iteration."""
    current = [_start(value) for value in carried]
    for _ in range(1 + sum(len(value.dims or (1,) * 8) for value in carried)):
        facts.context.errors = Reasons()
        typed = facts.body("body", [*first, *current, *last])
        results = output_values(typed)[conditions : conditions + len(carried)]
        changed = False
        for position, (before, after) in enumerate(zip(current, results)):
            name = typed.inputs[len(first) + position]
            if before.is_list and after.is_list:
                local = typed.own_sizes | free_sizes(facts)
                element = joined([before.element, local_dims(after.element, local)])
                changed = changed or not same_element(element, before.element)
                current[position] = replace(before, element=element)
                continue
            if has_other_rank(before, after):
                if position in unread:
                    continue
                if product(before.dims or ()) == product(after.dims or ()) == 1 and _is_rank_free(facts, name):
                    changed, current[position] = True, Value(before.dtype, after.dims)
                    continue
            if before.dims is None or after.dims is None or len(before.dims) != len(after.dims):
                raise ShapeUnknown(f"the rank of the carried value {quoted(name)} changes or is unknown")
            free = [axis for axis, (old, new) in enumerate(zip(before.dims, after.dims))
                    if old != new and not _is_free(old, facts)]
            if free:
                changed = True
                dims = list(before.dims)
                for axis in free:
                    ends = (before.dims[axis], after.dims[axis])
                    prefix = RUN_SIZE_PREFIX if 0 in ends or may_be_zero(ends) else ""
                    dims[axis] = _free_size(facts, f"{prefix}{name}_dim{axis}")
                current[position] = replace(before, dims=tuple(dims))
        if not changed:
            return typed
    raise ShapeUnknown("the dims of the carried values do not settle")


def _is_rank_free(facts: InferenceFacts, name: str) -> bool:
    """Whether the body gives the same numbers whatever the rank of a carried value of one element is.

    Where only functions of single elements read it, and what they give, and the branches of an If with such functions.
    """
    reading = {name}

    def follows(graph: Graph) -> bool:
        for node in graph.nodes:
            if reading.isdisjoint(names_read(node)):
                continue
            is_branching = node.identity == ("", "If") and all(map(follows, sub_graphs(node)))
            if not is_branching and (node.domain or node.op_type not in ELEMENTWISE):
                return False
            reading.update(node.outputs)
        return True

    return follows(facts.graph_attribute("body"))


def has_other_rank(start: Value, result: Value) -> bool:
    """Whether a carried value is a tensor of another rank at the start than after an iteration."""
    return start.dims is not None and result.dims is not None and len(start.dims) != len(result.dims)


def _start(value: Value) -> Value:
    """The facts about a carried value that hold in every iteration, from its start value."""
    if value.is_list:
        return list_value(value.element, optional=isinstance(value.type, OptionalType))
    return Value(value.dtype, value.dims)


def _free_size(facts: InferenceFacts, hint: str) -> Dim:
    created: set[str] = facts.__dict__.setdefault("free_sizes", set())
    fresh = facts.context.fresh_symbol(hint)
    created.add(fresh)
    return symbol(fresh)


def free_sizes(facts: InferenceFacts) -> set[str]:
    """The symbols of a body that stand for changing dims of carried values."""
    return set(facts.__dict__.get("free_sizes", ()))


def _is_free(size: Dim, facts: InferenceFacts) -> bool:
    found = symbols(size)
    return len(found) == 1 and found[0] in free_sizes(facts) and size == symbol(found[0])


def carried_value(facts: InferenceFacts, position: int, given: Value, typed: TypedGraph, name: str) -> Value:
    """A carried value after the loop: dims that change are known to the run only."""
    if given.is_list:
        return outer_list(given, typed.values[name].element, free_sizes(facts) | typed.own_sizes)
    inner = typed.values[name].dims or ()
    return Value(given.dtype, joined_dims(facts, position, given.dims or (), inner))


def outer_dims(facts: InferenceFacts, position: int, dims: Dims, axes: Sequence[int], typed: TypedGraph) -> Dims:
    """Dims of a body's result as the graph around sees them; ``axes``: where they stand in output ``position``."""
    local = free_sizes(facts) | typed.own_sizes
    return tuple(
        unknown_size(facts, position, axis, or_none=may_be_zero(size)) if local.intersection(symbols(size)) else size
        for size, axis in zip(dims, axes)
    )


def start_text(node: NodeView, position: int) -> str:
    """A carried value before the first iteration, in boundary form."""
    form = LIST if node.value(position).is_list else boundary_form(node.dims(position))
    text = node.view(position, form)
    return f"as.double({text})" if form is SCALAR else text


class Changes(NamedTuple):
    """Whether the rows, the columns or the items of a carried value change from one iteration to the next."""

    rows: bool = False
    cols: bool = False
    items: bool = False


UNCHANGED = Changes()


@dataclass(frozen=True, slots=True)
class Iteration:
    """The call of a loop's body in each iteration.

    before: statements before the loop, in one text with it. call: the call. after: statements at the end of the
    iteration, by which its results become the carried values.
    """

    before: list[str]
    call: str
    after: list[str]


def iteration(
    node: NodeView, function: SubFunction, given: Sequence[str], results: Sequence[str], carried: Mapping[str, Changes]
) -> Iteration:
    """The call of a loop's body, where carried values are both arguments and results.

    given: the arguments. results: the identifiers of all results. carried: those of them that are carried, and what of
    their sizes changes. Three faults of the engine (see `engine.faults`) are kept away by results with names of their
    own, which become the carried values after a cut: ``old-value-after-new-one``, where the call is inlined;
    ``size-of-call-in-loop`` and ``size-known-in-loop``, where sizes change.
    """
    is_mixed = function.is_inlined and len(results) + function.extends_texts > 1
    fresh = {
        name: node.fresh(f"{name}_next") for name, changes in carried.items()
        if is_mixed or any(changes) or not function.is_inlined
    }
    texts = (NEW_TEXTS, node.fresh(f"{TEXTS}_next")) if function.extends_texts else (OLD_TEXTS, NEW_TEXTS)
    call = function.call(given, [fresh.get(name, name) for name in results], texts)
    before: list[str] = []
    after = [line for name in fresh for line in _hidden_size(fresh[name], carried[name])]
    after = after or ([_COPIES_CUT] if is_mixed and fresh else [])
    if function.extends_texts:
        before.append(f"{NEW_TEXTS} = {OLD_TEXTS}")
        fresh[NEW_TEXTS] = texts[1]
    return Iteration(before, call, [*after, *(f"{name} = {new}" for name, new in fresh.items())])


def _hidden_size(name: str, changes: Changes) -> list[str]:
    """A statement that never runs, after which the engine's compiler does not know the rows or columns of a matrix."""
    if changes.items:
        return [f"if (never) {{ {name} = list() }}  # the number of items is not to be taken for known"]
    longer = f"{name} = rbind({name}, matrix(0, rows=1, cols=ncol({name})))" if changes.rows else ""
    wider = f"{name} = cbind({name}, matrix(0, rows=nrow({name}), cols=1))" if changes.cols else ""
    both = "; ".join(filter(None, (longer, wider)))
    return [f"if (never) {{ {both} }}  # the size changes, and is not to be taken for known"] if both else []


def grown(node: NodeView, target: str, call: str) -> list[str]:
    """Statements of a loop that give a longer matrix to a name that is an argument of the call: see `iteration`."""
    fresh = node.temporary("next")
    return [f"{fresh} = {call}", f"{target} = {fresh}"]


def changes_of(given: Value, inner: Value) -> Changes:
    """What changes of a carried value, which is ``given`` before a loop and ``inner`` in each iteration."""
    if given.is_list or inner.is_list:
        return Changes(rows=False, cols=False, items=True)
    form, later = boundary_form(given.dims or ()), boundary_form(inner.dims or ())
    if form is SCALAR or later is SCALAR:
        return UNCHANGED
    return Changes(form.rows != later.rows, form.cols != later.cols)


def started(target: str, text: str, changes: Changes) -> list[str]:
    """Statements that give a carried value its start; see `iteration`, and ``size-before-loop`` in `engine.faults`."""
    return [*assigned(target, text), *_hidden_size(target, changes)]


def assigned(target: str, text: str) -> list[str]:
    """An assignment, unless it says nothing."""
    return [] if target == text else [f"{target} = {text}"]


def as_row(text: str, value: Value, node: NodeView, *, known: bool) -> str:
    """One iteration's result in boundary form as a row; ``known``: whether its dims are known outside."""
    dims = value.dims or ()
    form = boundary_form(dims)
    if form is SCALAR:
        return text
    if not known:
        return f"matrix({text}, rows=1, cols=length({text}))"
    return node.converted(text, form, View(1, product(dims)))
