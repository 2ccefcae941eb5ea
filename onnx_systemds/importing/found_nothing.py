"""Nodes whose results have no elements where nothing was found: NonZero, Compress, NonMaxSuppression and their like.

Much of the engine fails on matrices without rows or columns, or gives some that have: a row beside a matrix without
rows is the result of their sum, ``X + s * Y`` is refused. So the statements of such a node run only where its results
have elements (docs/decisions/0033), which sizes that are computed of those of inputs are checked to have. What the
engine does right there needs no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.scopes import assigns_variable
from onnx_systemds.inference.dims import RUN_SIZE, Dim, not_negative, product, substitute, symbol, symbols
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.limits import OverBudget
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.support.movement import where_elements

Parse = Callable[[Sequence[str], NodeView], tree.Block]

_ELEMENTWISE = frozenset((
    "abs", "ceil", "col_range", "cos", "cosh", "exp", "floor", "is.infinite", "is.nan", "log", "matrix", "round",
    "row_range", "sigmoid", "sign", "sin", "sinh", "sqrt", "t", "tan", "tanh",
))
"""Functions that give a matrix without elements for one, of the size that it should have."""
_LOUD = _ELEMENTWISE | {"cbind", "ifelse", "max", "min", "rbind", "rev", "rowMaxs", "rowMins", "rowSums", "table"}
"""Functions that give what is right, or end in an error."""


class FoundNothing:
    """Which sizes of a graph may be 0 because a node found nothing, or because the content of a tensor says so."""

    def __init__(self, graph: TypedGraph) -> None:
        """Sizes that nodes of the graph or of one around it decide, and those computed of them or of what was found."""
        found = {name for names in graph.sizes.values() for name in names}
        given = [value for name, value in graph.values.items() if name in graph.inputs or name not in graph.own]
        found |= set(symbols([size for value in given for size in value.dims or ()]))
        self._vanishing: dict[Dim, bool] = {}
        self._sizes = {name for name in found if name.startswith(RUN_SIZE)} - graph.run_sizes.names
        of_shapes = _of_shapes(graph)
        values = self._values_of(graph) if self._sizes else set()
        for name, (value, _) in graph.run_sizes.elements.items():
            if value in values or value not in of_shapes:
                self._sizes.add(name)
        for name, call in graph.run_sizes.calls.items():
            if self._sizes.intersection(symbols(call.arguments)):
                self._sizes.add(name)
        # parts of a number of elements that is not 0
        self._filled = {name: symbol(name) + 1 for name, call in graph.run_sizes.calls.items()
                        if call.function == "open_size" and name not in self._sizes}

    def _values_of(self, graph: TypedGraph) -> set[str]:
        """The values that are computed of what was found."""
        values = {name for name, value in graph.values.items() if self._sizes.intersection(symbols(value.dims or ()))}
        for node in graph.nodes:
            if values.intersection(node.inputs):
                values.update(node.outputs)
        return values

    def guarded(self, node: NodeView, fragment: Fragment, parse: Parse) -> Fragment:
        """A node's fragment, run only where its results have elements. parse: statements from their texts."""
        outputs = [output for output, name in enumerate(node.node.outputs) if name and node.wants(output)]
        values = [node.values[node.node.outputs[output]] for output in outputs]
        if any(value.is_list for value in values) or node.own_sizes() or node.bodies:
            return fragment
        results = dict.fromkeys(size for value in values for size in value.dims or () if self._may_vanish(size))
        common = [size for size in results if all(size in (value.dims or ()) for value in values)]
        if self._sizes.intersection(symbols(common)):
            is_plain = all(map(_is_plain, parse(fragment.statements, node)))
            return fragment if is_plain else where_elements(node, fragment, product(common))
        given = [node.values[name].dims or () for name in node.node.inputs if name]
        told = [size for size in dict.fromkeys((*results, *chain(*given)))
                if self._may_vanish(size) and self._sizes.isdisjoint(symbols(size))]
        if told and not all(map(_is_loud, parse(fragment.statements, node))):
            for size in told:
                node.check_filled(size)
        return fragment

    def _may_vanish(self, size: Dim) -> bool:
        """Whether a size may be 0, so far as it is not too long to tell."""
        if isinstance(size, int):
            return False
        if size not in self._vanishing:
            try:
                self._vanishing[size] = not not_negative(substitute(size, self._filled) - 1)
            except OverBudget:
                self._vanishing[size] = True
        return self._vanishing[size]


def _of_shapes(graph: TypedGraph) -> set[str]:
    """The values that are computed of sizes and of constants alone."""
    values = {name for name, value in graph.values.items() if value.constant is not None}
    with_bodies = {position for position, _ in graph.bodies}
    for position, node in enumerate(graph.nodes):
        is_told = values.issuperset(filter(None, node.inputs)) and position not in with_bodies
        if is_told or node.op_type in ("Shape", "Size"):
            values.update(node.outputs)
    return values


def _is_plain(statement: tree.Statement) -> bool:
    """Whether the engine does right what a statement computes, of matrices without elements, too."""
    if not assigns_variable(statement):
        return False
    value = statement.value
    if isinstance(value, tree.Binary):
        return _is_name_and_number(value.left, value.right) or _is_name_and_number(value.right, value.left)
    if isinstance(value, tree.Call):
        given = [argument.value for argument in value.arguments]
        if value.function in ("max", "min"):
            return len(given) == 2 and _is_name_and_number(*given)
        return value.function in _ELEMENTWISE and isinstance(given[0], tree.Name)
    return isinstance(value, tree.Name)


def _is_loud(node: tree.Node) -> bool:
    """Whether of matrices without elements the engine makes what is right, or an error."""
    if isinstance(node, (tree.For, tree.While)):
        return False
    if isinstance(node, tree.Indexed):
        return True
    if isinstance(node, tree.Binary) and node.operator in ("+", "-"):
        others = [side for side in (node.left, node.right) if number_of(side) is None]
        return len(others) < 2 and all(map(_is_loud, others))
    parts = tree.children(node)
    if isinstance(node, tree.Call):
        if node.function not in _LOUD:
            return False
        parts = (argument.value for argument in node.arguments if argument.name not in ("rows", "cols"))
    return all(map(_is_loud, parts))


def _is_name_and_number(one: tree.Expression, other: tree.Expression) -> bool:
    return isinstance(one, tree.Name) and number_of(other) is not None
