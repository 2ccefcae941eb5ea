"""If: runs the branch that is taken if the condition is known, else writes an ONNX ``If``."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.dml import scopes
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import without_threads
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.exporting.builtins.files import put
from onnx_systemds.exporting.evaluating import merging
from onnx_systemds.exporting.evaluating.blocks import execute, is_message, writes
from onnx_systemds.exporting.evaluating.evaluator import Evaluator, Live
from onnx_systemds.exporting.graph.nodes import Scope, Tensor
from onnx_systemds.exporting.poison_values import unique
from onnx_systemds.exporting.values import Poison, Value, known_of, unwrapped

Variables = dict[str, Value]
_WRITTEN = "what is written as "
"""Before the name of an output that stands among the variables of a branch."""


def run_if(evaluator: Evaluator, statement: tree.If, live: Live) -> None:
    """Run the branch that is taken, or both as the branches of an If."""
    condition = evaluator.value(statement.condition)
    known = known_condition(condition)
    if known is not None:
        execute(evaluator, statement.body if known else statement.otherwise, live)
        return
    if _differ_in_threads_alone(statement):
        execute(evaluator, statement.body, live)
        return
    evaluator.enter_line(statement)
    if (block := _beside_messages(statement)) is not None:
        evaluator.context.drop("its results are written in every run: the other branch only says why there are none")
        execute(evaluator, block, live)
        return
    with evaluator.at(statement.condition):
        truth = evaluator.graph.reshape(evaluator.context.truth(condition), ())
    before = evaluator.frame.variables
    ends: list[tuple[Scope, Variables]] = []
    written: list[Variables] = []
    for block in (statement.body, statement.otherwise):
        evaluator.frame.variables = dict(before)
        written.append({})
        evaluator.context.written.append(written[-1])
        try:
            with evaluator.graph.subgraph() as scope:
                execute(evaluator, block, live)
        finally:
            evaluator.context.written.pop()
        ends.append((scope, evaluator.frame.variables))
    evaluator.frame.variables = before
    evaluator.enter_line(statement)
    for (_, variables), results in zip(ends, written):
        variables.update({_WRITTEN + name: value for name, value in results.items()})
    names = [*scopes.assigned((statement,)), *(_WRITTEN + name for name in written[0] if name in written[1])]
    with evaluator.at(statement):
        _merge_branches(evaluator, statement, names, truth, ends, live())
    for name in {**written[0], **written[1]}:
        _write(evaluator, statement, name)


def _differ_in_threads_alone(statement: tree.If) -> bool:
    """Whether both branches do the same, one of them in several threads."""
    blocks = (statement.body, statement.otherwise)
    if not all(any(isinstance(inner, tree.For) for inner in block) for block in blocks):
        return False
    return without_threads(statement.body) == without_threads(statement.otherwise)


def _beside_messages(statement: tree.If) -> tree.Block | None:
    """The branch that writes outputs, if the other one only prints messages and so has no results."""
    for block, other in ((statement.body, statement.otherwise), (statement.otherwise, statement.body)):
        if other and all(map(is_message, other)) and any(map(writes, block)):
            return block
    return None


def _write(evaluator: Evaluator, statement: tree.If, name: str) -> None:
    """Write what both branches write under a name; one of them alone is a reason against the export."""
    value = evaluator.frame.variables.pop(_WRITTEN + name, None)
    try:
        if value is None:
            if name in evaluator.refused_results():
                return
            reason = f"{quoted(name)} is written by one branch alone, and a model has all outputs in every run"
            raise UnsupportedCase(reason, hint="write it after the if, or in both branches")
        if isinstance(value, Poison):
            evaluator.refuse(value.errors, name)
            return
        put(evaluator.context, name, value, wanted=True)
    except UnsupportedCase as error:
        evaluator.refuse([evaluator.placed(error, statement.position)], name)


def _merge_branches(
    evaluator: Evaluator, statement: tree.If, names: Sequence[str], truth: Tensor, ends: list[tuple[Scope, Variables]],
    live: scopes.Names,
) -> None:
    """Set what the branches assign and write: from the outputs of an If where they differ."""
    graph, variables = evaluator.graph, evaluator.frame.variables
    (_, then), (_, otherwise) = ends
    merged: dict[str, merging.Template] = {}
    for name in names:
        one, other = then.get(name), otherwise.get(name)
        unread = name not in live and not name.startswith(_WRITTEN)
        if (one is None and other is None) or unread:
            if name in variables and unread:
                variables[name] = Poison("is not expected to be read after an if")
            continue
        if one is other and one is not None:
            variables[name] = one
        elif errors := unique(e for value in (one, other) if isinstance(value, Poison) for e in value.errors):
            variables[name] = Poison(errors=errors)
        else:
            try:
                merged[name] = merging.template(name, one, other).outside(graph)
            except UnsupportedCase as error:
                variables[name] = evaluator.poisoned(error, statement)
    made: list[tuple[Scope, list[Tensor]]] = []
    for scope, values in ends:
        with graph.subgraph(scope):
            made.append((scope, merging.tensors_of(merged, evaluator.context, values)))
    kinds = [form for name in merged for form in merged[name].outputs(graph)]
    results = graph.branches(truth, made, kinds) if kinds else ()
    for name, value in merging.values_of(merged, evaluator.context, results).items():
        evaluator.assign(name, value)


def known_condition(value: Value) -> bool | None:
    """Return whether a condition holds; None if only the run knows."""
    value = unwrapped(value)
    known = known_of(value)
    return None if known is None or isinstance(known, str) else bool(known)
