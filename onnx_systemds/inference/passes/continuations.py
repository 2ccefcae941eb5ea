"""An If whose branches give values of different ranks takes the nodes after it into its branches.

Exporters write such an If where a program drops an axis only if its size is 1. After it no rank is known, but
inside each branch every one is: the rest of the graph is written twice, once for each branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnx_systemds.dml.literals import message_literal
from onnx_systemds.errors import ConstantNeeded, InvalidModel, Reasons, ShapeUnknown, UnsupportedCase, quoted
from onnx_systemds.inference.definitions import inline_body
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node
from onnx_systemds.model.walk import names_read
from onnx_systemds.model.wiring import place_of

CONTINUED = "/continued"
"""The attribute of an If that holds the rest of its graph; no attribute of a model has such a name."""

BRANCHES = ("then_branch", "else_branch")


def continue_in_branches(
    facts: InferenceFacts, outputs: Sequence[Value], rest: Sequence[Node], graph: Graph
) -> Rewriting:
    """The nodes that stand for an If and the nodes after it, None where it stays as it is.

    facts: with the typed branches. rest: what is not yet typed.
    """
    node, context = facts.node, facts.context
    if node.identity != ("", "If") or CONTINUED in node.attributes:
        return None
    if not _ranks_differ(node, outputs, facts.bodies, graph):
        return None
    dependent, others = _dependent(node, rest)
    given = {name for inner in (node, *dependent) for name in inner.outputs if name}
    results = tuple(output for output in graph.outputs if output.name in given)
    if not dependent or not results:
        return None
    branches = {}
    for name in BRANCHES:
        branch = node.attributes[name]
        assert isinstance(branch, Graph)
        nodes = (*inline_body(node, branch, f"If{context.next_expansion()}", (), node.outputs), *dependent)
        branches[name] = Graph(branch.name, branch.doc_string, (), results, {}, nodes, graph.value_info)
    names = tuple(output.name for output in results)
    whole = replace(node, outputs=names, attributes={**node.attributes, **branches, CONTINUED: 1})
    return (*others, whole), f"its branches differ in rank: {len(dependent)} nodes after it are also in both"


def _ranks_differ(node: Node, outputs: Sequence[Value], bodies: Mapping[str, TypedGraph], graph: Graph) -> bool:
    """Whether the branches give an output of different ranks, and the model declares none."""
    for position, (name, value) in enumerate(zip(node.outputs, outputs)):
        declared = getattr(getattr(graph.value_info.get(name), "type", None), "dims", None)
        ranks = [_rank(bodies[branch], position) for branch in BRANCHES]
        if name and value.dims is None and value.type is None and declared is None and None not in ranks:
            return True
    return False


def _rank(body: TypedGraph, position: int) -> int | None:
    dims = body.values[body.outputs[position]].dims
    return None if dims is None else len(dims)


def _dependent(node: Node, rest: Sequence[Node]) -> tuple[list[Node], list[Node]]:
    """Of the nodes after an If those that its results reach, and the others."""
    reached = {name for name in node.outputs if name}
    dependent, others = [], []
    for inner in rest:
        if names_read(inner) & reached:
            reached.update(name for name in inner.outputs if name)
            dependent.append(inner)
        else:
            others.append(inner)
    return dependent, others


def possible_branches(facts: InferenceFacts) -> list[TypedGraph]:
    """Type both branches of an If that holds the rest of its graph; at most one may be impossible, and is left out.

    The rest of a graph is often written for one rank only. Where no branch is possible the reasons are collected.
    """
    context, every = facts.context, facts.context.errors
    found: list[TypedGraph] = []
    refused: list[Reasons] = []
    for name in BRANCHES:
        context.errors = Reasons()
        body = facts.body(name)
        if all(_is_about_shapes(error) for error in context.errors.errors) and context.errors:
            del facts.bodies[name]
            refused.append(context.errors)
        else:
            every.errors += context.errors.errors
            found.append(body)
    context.errors = every
    if not found:
        every.errors += [error for reasons in refused for error in reasons.errors]
        found.append(body)
    return found


def _is_about_shapes(error: Exception) -> bool:
    return isinstance(error, (ShapeUnknown, UnsupportedCase, InvalidModel)) and not isinstance(error, ConstantNeeded)


def check_one_rank(typed: TypedGraph, output: str) -> None:
    """Raise ShapeUnknown where an If gives an output of the model, and its branches do in different ranks.

    What follows such an If goes into its branches; the script gives back one matrix, or one number, of one rank.
    """
    node = next((node for node in typed.nodes if output in node.outputs and node.identity == ("", "If")), None)
    if node is None or typed.values[output].dims is not None or typed.values[output].is_list:
        return
    bodies = [typed.bodies[node.index, name] for name in BRANCHES if (node.index, name) in typed.bodies]
    ranks = [_rank(body, node.outputs.index(output)) for body in bodies]
    if None in ranks or len(set(ranks)) < 2:  # of a body that is refused there is none
        return
    given = f"its branches give the output {quoted(output)} of the model in rank {' or '.join(map(str, ranks))}"
    raise ShapeUnknown(
        f"{given}; a script gives it in one", place_of(node, typed.name), "reshape it to one rank in both branches"
    )


def impossible(node: NodeFacts, branch: str) -> str:
    """The message of a script that gets to the branch that is left out, as a DML string."""
    chosen = "true" if branch == BRANCHES[0] else "false"
    text = f"{node.place}: where the condition is {chosen} the nodes after it get a rank that they do not take"
    return message_literal(text)
