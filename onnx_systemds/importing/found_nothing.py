"""Nodes whose results have no elements where nothing was found: NonZero, Compress, NonMaxSuppression and their like.

Much of the engine fails on matrices without rows or columns, or gives some that have: a row beside a matrix without
rows is the result of their sum, ``X + s * Y`` is refused. So the statements of such a node run only where its results
have elements (docs/decisions/0033). What the engine does right there needs no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.scopes import assigns_variable
from onnx_systemds.inference.dims import RUN_SIZE, Dim, is_of_run, product, symbol, symbols
from onnx_systemds.inference.run_sizes import RunSizes
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.support.movement import where_elements

Parse = Callable[[Sequence[str], NodeView], tree.Block]

_ELEMENTWISE = frozenset((
    "abs", "ceil", "col_range", "cos", "cosh", "exp", "floor", "is.infinite", "is.nan", "log", "matrix", "round",
    "row_range", "sigmoid", "sign", "sin", "sinh", "sqrt", "t", "tan", "tanh",
))
"""Functions that give a matrix without elements for one, of the size that it should have."""


class FoundNothing:
    """Which sizes of a graph may be 0 because a node found nothing."""

    def __init__(self, graph: TypedGraph) -> None:
        """Sizes that nodes of the graph or of one around it decide, and those computed of them or of what was found."""
        found = {name for names in graph.sizes.values() for name in names}
        given = [value for name, value in graph.values.items() if name in graph.inputs or name not in graph.own]
        found |= set(symbols([size for value in given for size in value.dims or ()]))
        self._sizes = {name for name in found if name.startswith(RUN_SIZE)} - graph.run_sizes.names
        self._sizes |= _sliced_by_content(graph.run_sizes)
        if not self._sizes:
            return
        values = self._values_of(graph)
        self._sizes |= {name for name, (value, _) in graph.run_sizes.elements.items() if value in values}
        for name, call in graph.run_sizes.calls.items():
            if self._sizes.intersection(symbols(call.arguments)):
                self._sizes.add(name)

    def _values_of(self, graph: TypedGraph) -> set[str]:
        """The values that are computed of what was found."""
        values = {name for name, value in graph.values.items() if self._sizes.intersection(symbols(value.dims or ()))}
        for node in graph.nodes:
            if values.intersection(node.inputs):
                values.update(node.outputs)
        return values

    def guarded(self, node: NodeView, fragment: Fragment, parse: Parse) -> Fragment:
        """A node's fragment, run only where its results have elements. parse: statements from their texts."""
        values = [node.values[name] for output, name in enumerate(node.node.outputs) if name and node.wants(output)]
        sizes = self._common_sizes(values)
        if not sizes or any(value.is_list for value in values) or node.own_sizes() or node.bodies:
            return fragment
        is_plain = all(map(_is_plain, parse(fragment.statements, node)))
        return fragment if is_plain else where_elements(node, fragment, product(sizes))

    def _common_sizes(self, values: Sequence[Value]) -> list[Dim]:
        """The dims that may be 0 in each of the values, none where there is no value."""
        first = values[0].dims or () if self._sizes and values else ()
        return [size for size in first if self._sizes.intersection(symbols(size))
                and all(size in (value.dims or ()) for value in values)]


def _sliced_by_content(run_sizes: RunSizes) -> set[str]:
    """The lengths of slices whose bounds are elements of tensors: of an input, or of the count of trips, 0 at first."""
    places, lengths = set[str](), set[str]()
    for name, call in run_sizes.calls.items():
        given = {each for each in symbols(call.arguments) if each not in run_sizes.calls and is_of_run(symbol(each))}
        if not given and places.isdisjoint(symbols(call.arguments)):
            continue
        if call.function == "slice_start":
            places.add(name)
        elif call.function == "slice_count":
            lengths.add(name)
    return lengths


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


def _is_name_and_number(one: tree.Expression, other: tree.Expression) -> bool:
    return isinstance(one, tree.Name) and number_of(other) is not None
