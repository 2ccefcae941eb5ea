"""If conversion: Ifs whose branches are a few operators that cannot fail become Where, which costs less."""

from __future__ import annotations

import math

from onnx_systemds.correspondence import ELEMENTWISE
from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, TEXT, Node, Scope, Tensor, cut_of, made_by
from onnx_systemds.exporting.passes.dataflow import all_nodes
from onnx_systemds.exporting.passes.hoisting import may_divide_by_zero
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.known_dims import as_ints

_SMALL, _MOST_NODES = 64, 12
"""So many nodes of both branches, of so many elements each, are made in any case."""
_MOST_LARGE = 1
"""The same for larger ones."""
_MOVES = ("Concat", "Expand", "Transpose")


def convert_ifs(builder: GraphBuilder) -> None:
    """Convert Ifs in the whole graph, inner ones first."""
    for node in all_nodes(builder):
        if node.op == "If":
            _convert(node)


def _convert(node: Node) -> None:
    """Make both branches of an If before it, and then a Where of each of its results, where that serves."""
    scope = node.scope
    assert scope is not None
    ends = [[_bare(end, body.scope) for end in body.outputs] for body in node.subgraphs()]
    inner = [each for body, own in zip(node.subgraphs(), ends) for each in needed_nodes(body.scope, own)]
    choices = list(zip(node.outputs, *ends))
    if node.operand().dims or not all(_is_choice(*choice) for choice in choices) or not _is_cheap(inner, choices):
        return
    place = scope.nodes.index(node)
    for each in inner:
        each.scope = scope
    chosen = []
    for output, one, other in choices:
        output.node = Node("Where", (node.operand(), one, other), (output,), {}, node.place, scope)
        chosen.append(output.node)
    scope.nodes[place : place + 1] = [*inner, *chosen]


def _bare(tensor: Tensor, scope: Scope) -> Tensor:
    """Return what a result of a branch is a copy of."""
    while (node := made_by(tensor, "Identity")) is not None and node.scope is scope:
        tensor = node.operand()
    return tensor


def _is_choice(output: Tensor, one: Tensor, other: Tensor) -> bool:
    return one.kind == other.kind == output.kind in (FLOAT, INT, BOOL) and one.dims == other.dims == output.dims


def _is_cheap(nodes: list[Node], choices: list[tuple[Tensor, ...]]) -> bool:
    results = [*(output for output, *_ in choices), *(tensor for node in nodes for tensor in node.outputs)]
    most = _MOST_NODES if all(_is_small(tensor.dims) for tensor in results) else _MOST_LARGE
    return len(nodes) <= most and all(map(_moves_out, nodes))


def _is_small(dims: Dims) -> bool:
    sizes = as_ints(dims)
    return sizes is not None and math.prod(sizes) <= _SMALL


def _moves_out(node: Node) -> bool:
    """Whether an operator gives its result also where its branch is not taken, and belongs to no other pattern."""
    if may_divide_by_zero(node):
        return False
    if node.op == "Reshape":
        return node.operand(1).constant is not None
    if node.op == "Cast":
        return node.operand().kind != TEXT
    if node.op == "Slice":
        cut = cut_of(node)
        size = None if cut is None else node.operand().dims[cut[2]]
        return cut is not None and isinstance(size, int) and 0 <= cut[0] < cut[1] <= size
    if node.op == "Where" and made_by(node.operand(), "IsNaN") is not None:
        return False  # `idioms` makes such an If one operator
    return node.op in ELEMENTWISE or node.op in _MOVES
