"""Guards for nodes whose results may be empty: NonZero, Compress, NonMaxSuppression, and all that reads their results.

Many operations of the engine fail on an empty matrix (one without rows or columns) or return one that is not empty: the
sum of an empty matrix and a row is the row, and ``X + s * Y`` is refused. So the statements of such a node run only if
its results have elements (docs/decisions/0033). A size that follows from the inputs alone is checked instead.
Statements that the engine runs correctly on empty matrices need neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.scopes import assigns_variable
from onnx_systemds.inference.dims import (
    RUN_SIZE_PREFIX,
    Dim,
    Dims,
    is_non_negative_from_one,
    product,
    substitute,
    symbol,
    symbols,
)
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.limits import OverBudget
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.node_view import NodeView
from onnx_systemds.operators.support.empty_outputs import where_elements

Parse = Callable[[Sequence[str], NodeView], tree.Block]

_ELEMENTWISE = frozenset((
    "abs", "ceil", "col_range", "cos", "cosh", "exp", "floor", "is.infinite", "is.nan", "log", "matrix", "round",
    "row_range", "sigmoid", "sign", "sin", "sinh", "sqrt", "t", "tan", "tanh",
))
"""Functions that return an empty matrix of the correct size for an empty matrix."""
_RIGHT_OR_FAILS = _ELEMENTWISE | {
    "cbind", "ifelse", "max", "min", "rbind", "rev", "rowMaxs", "rowMins", "rowSums", "table",
}
"""Functions that return the correct result for an empty matrix, or raise an error; never a wrong result."""


class EmptyResults:
    """The sizes of a graph that may be 0 at run time: sizes that a node or the content of a tensor decides."""

    def __init__(self, graph: TypedGraph) -> None:
        """Collect the sizes that nodes of this graph or an outer one decide, and the sizes computed from them."""
        found = {name for names in graph.sizes.values() for name in names}
        given = [value for name, value in graph.values.items() if name in graph.inputs or name not in graph.own]
        found |= set(symbols([size for value in given for size in value.dims or ()]))
        self._possibly_zero: dict[Dims, dict[Dim, None]] = {}  # by dims
        self._sizes = {name for name in found if name.startswith(RUN_SIZE_PREFIX)} - graph.run_sizes.names
        of_shapes = _of_shapes(graph)
        values = self._values_of(graph) if self._sizes else set()
        for name, (value, _) in graph.run_sizes.elements.items():
            if value in values or value not in of_shapes:
                self._sizes.add(name)
        for name, call in graph.run_sizes.calls.items():
            if self._sizes.intersection(symbols(call.arguments)):
                self._sizes.add(name)
        # factors of a number of elements that is not 0
        self._filled = {name: symbol(name) + 1 for name, call in graph.run_sizes.calls.items()
                        if call.function == "open_size" and name not in self._sizes}

    def _values_of(self, graph: TypedGraph) -> set[str]:
        """The values that depend on one of the sizes."""
        values = {name for name, value in graph.values.items() if self._sizes.intersection(symbols(value.dims or ()))}
        for node in graph.nodes:
            if values.intersection(node.inputs):
                values.update(node.outputs)
        return values

    def guarded(self, node: NodeView, fragment: Fragment, parse: Parse) -> Fragment:
        """The fragment of a node, guarded so that it does not run for empty results.

        parse: makes trees of the texts of statements. A fragment that is correct for empty matrices stays as it is.
        """
        values = [node.values[name] for output, name in enumerate(node.node.outputs) if name and node.wants(output)]
        if any(value.is_list for value in values) or node.own_sizes() or node.bodies:
            return fragment
        results = self._possibly_zero_of(values)
        common = [size for size in results if all(size in (value.dims or ()) for value in values)]
        if common and self._sizes.intersection(symbols(common)):
            is_right = all(map(is_right_on_nothing, parse(fragment.statements, node)))
            return fragment if is_right else where_elements(node, fragment, product(common))
        given = self._possibly_zero_of(node.values[name] for name in node.node.inputs if name)
        checkable = [size for size in results | given if self._sizes.isdisjoint(symbols(size))]
        if checkable and not all(map(_is_right_or_fails, parse(fragment.statements, node))):
            for size in checkable:
                node.check_filled(size)
        return fragment

    def _possibly_zero_of(self, values: Iterable[Value]) -> dict[Dim, None]:
        """The sizes of values that may be 0."""
        found: dict[Dim, None] = {}
        for dims in (value.dims or () for value in values):
            if dims not in self._possibly_zero:
                self._possibly_zero[dims] = dict.fromkeys(filter(self._is_possibly_zero, dims))
            found |= self._possibly_zero[dims]
        return found

    def _is_possibly_zero(self, size: Dim) -> bool:
        """Whether a size may be 0. True as well if the expression is too long to decide."""
        if isinstance(size, int):
            return False
        try:
            return not is_non_negative_from_one(substitute(size, self._filled) - 1)
        except OverBudget:
            return True


def _of_shapes(graph: TypedGraph) -> set[str]:
    """The values that are computed from sizes and constants alone."""
    values = {name for name, value in graph.values.items() if value.constant is not None}
    with_bodies = {position for position, _ in graph.bodies}
    for position, node in enumerate(graph.nodes):
        is_static = values.issuperset(filter(None, node.inputs)) and position not in with_bodies
        if is_static or node.op_type in ("Shape", "Size"):
            values.update(node.outputs)
    return values


def is_right_on_nothing(statement: tree.Statement) -> bool:
    """Whether the engine computes a statement correctly for empty matrices."""
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


def _is_right_or_fails(node: tree.Node) -> bool:
    """Whether the engine computes a node correctly for empty matrices, or fails; never with a wrong result."""
    if isinstance(node, (tree.For, tree.While)):
        return False
    if isinstance(node, tree.Indexed):
        return True
    if isinstance(node, tree.Binary) and node.operator in ("+", "-"):
        others = [side for side in (node.left, node.right) if number_of(side) is None]
        return len(others) < 2 and all(map(_is_right_or_fails, others))
    parts = tree.children(node)
    if isinstance(node, tree.Call):
        if node.function not in _RIGHT_OR_FAILS:
            return False
        parts = (argument.value for argument in node.arguments if argument.name not in ("rows", "cols"))
    return all(map(_is_right_or_fails, parts))


def _is_name_and_number(one: tree.Expression, other: tree.Expression) -> bool:
    return isinstance(one, tree.Name) and number_of(other) is not None
