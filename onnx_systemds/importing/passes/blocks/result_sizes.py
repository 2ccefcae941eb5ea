"""Data-flow analysis of rows and columns of matrices as expressions over the scalars of a function.

In DML the left operand of an elementwise operation has the size of the result, unless it is a number: a vector must be
the right operand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call
from onnx_systemds.dml.scopes import assigned, assigns_variable, matrix_parameters
from onnx_systemds.importing.passes.forward_analysis import ForwardAnalysis
from onnx_systemds.importing.passes.specialisation.products import POOLINGS, images_of

Shape: TypeAlias = tuple[tree.Expression, tree.Expression]
Sized: TypeAlias = tree.Expression | Shape
"""A number as an expression, or rows and columns of a matrix."""

_ONE = tree.IntLiteral(1)


def shapes_in(function: tree.Function, functions: Mapping[str, tree.Function]) -> dict[str, Shape]:
    """Rows and columns of the variables of a function, if they are expressions over its scalars."""
    return {name: size for name, size in _sizes_in(function, functions).known.items() if isinstance(size, tuple)}


def shape_lookup(
    function: tree.Function, functions: Mapping[str, tree.Function], rows: Collection[str] = ()
) -> Callable[[tree.Expression], Shape | None]:
    """A function from an expression over the variables to its rows and columns, or None.

    rows: parameters that are row vectors.
    """
    sizes = _sizes_in(function, functions, rows)

    def shape_of(expression: tree.Expression) -> Shape | None:
        size = sizes.of(expression)
        return size if isinstance(size, tuple) else None

    return shape_of


def _sizes_in(
    function: tree.Function, functions: Mapping[str, tree.Function], rows: Collection[str] = ()
) -> _Sizes:
    others = [parameter.name for parameter in function.parameters if parameter.type.kind == "scalar"]
    known: dict[str, Sized] = {
        name: (_ONE if name in rows else call("nrow", tree.Name(name)), call("ncol", tree.Name(name)))
        for name in matrix_parameters(function)
    }
    known |= {name: tree.Name(name) for name in others}
    sizes = _Sizes(functions, known)
    sizes.run(function.body)
    return sizes


class _Sizes(ForwardAnalysis[Sized]):
    """Rows and columns, and numbers."""

    deepest = 4

    def run(self, block: tree.Block) -> None:
        for statement in block:
            if not assigns_variable(statement):
                for changed in assigned((statement,)):
                    self.set(changed, None)
                continue
            name, size = statement.target.name, self.of(statement.value)
            if not self.depth and size is not None and not isinstance(size, tuple):
                size = tree.Name(name)  # its name says more
            self.set(name, size)

    def of_binary(self, node: tree.Binary, left: Sized | None, right: Sized | None) -> Sized | None:
        if node.operator == "%*%":
            return (left[0], right[1]) if isinstance(left, tuple) and isinstance(right, tuple) else None
        if isinstance(left, tuple) or (left is None and isinstance(right, tuple) and _ONE not in right):
            return left if isinstance(left, tuple) else right
        if isinstance(right, tuple):
            return None if left is None else right
        return None if left is None or right is None else tree.Binary(node.operator, left, right)

    def of_operand(self, node: tree.Expression) -> Sized | None:
        if isinstance(node, (tree.IntLiteral, tree.DoubleLiteral)):
            return node
        if isinstance(node, tree.Name):
            return self.known.get(node.name)
        if isinstance(node, tree.Unary):
            size = self.of(node.operand)
            return size if isinstance(size, tuple) or size is None else tree.Unary(node.operator, size)
        if isinstance(node, tree.Indexed):
            return self._indexed(node)
        return self._called(node) if isinstance(node, tree.Call) else None

    def _indexed(self, node: tree.Indexed) -> Sized | None:
        whole = self.known.get(node.name)
        if node.columns is None:
            return None
        spans = (node.rows, node.columns)
        found = [_counted(span, whole[axis] if isinstance(whole, tuple) else None) for axis, span in enumerate(spans)]
        rows, cols = found
        return None if rows is None or cols is None else (rows, cols)

    def _called(self, node: tree.Call) -> Sized | None:
        if node.function in self.functions:
            is_plain = all(isinstance(it, tree.Assign) for it in self.functions[node.function].body)
            return self.of_function(node) if is_plain else None
        given = {argument.name: self.of(argument.value) for argument in node.arguments if argument.name is not None}
        if node.function == "matrix":
            rows, cols = given.get("rows"), given.get("cols")
            if rows is None or cols is None or isinstance(rows, tuple) or isinstance(cols, tuple):
                return None
            return rows, cols
        if node.function in ("nrow", "ncol") and len(node.arguments) == 1:
            whole = self.of(node.arguments[0].value)
            return whole[node.function == "ncol"] if isinstance(whole, tuple) else None
        if node.function == "replace":
            return given.get("target")
        if node.function == "conv2d" or node.function in POOLINGS:
            found = images_of(node, {})
            return None if found is None else (found[0], tree.IntLiteral(found[1]))
        operands = [self.of(argument.value) for argument in node.arguments if argument.name is None]
        rule = _RULES.get(node.function)
        return None if rule is None or given else rule(operands)


def _joined(axis: int) -> Callable[[Sequence[Sized | None]], Sized | None]:
    """The rule of matrices one below the other (0), or side by side (1)."""

    def rule(operands: Sequence[Sized | None]) -> Sized | None:
        shapes = [it for it in operands if isinstance(it, tuple)]
        if not shapes or len(shapes) < len(operands):
            return None
        count = reduce(_plus, (shape[axis] for shape in shapes))
        return (shapes[0][0], count) if axis else (count, shapes[0][1])

    return rule


def _plus(one: tree.Expression, other: tree.Expression) -> tree.Expression:
    if isinstance(one, tree.IntLiteral) and isinstance(other, tree.IntLiteral):
        return tree.IntLiteral(one.value + other.value)
    return tree.Binary("+", one, other)


def _tabled(operands: Sequence[Sized | None]) -> Sized | None:
    """Of a table whose rows and columns are given."""
    rows, cols = operands[2:] if len(operands) == 4 else (None, None)
    return None if rows is None or cols is None or isinstance(rows, tuple) or isinstance(cols, tuple) else (rows, cols)


def _counted(span: tree.Span, size: tree.Expression | None) -> tree.Expression | None:
    """The number of rows or columns in a span."""
    if span.lower is None:
        return size
    if span.upper is None or span.lower == span.upper:
        return _ONE
    if span.lower == _ONE:
        return span.upper
    if isinstance(span.lower, tree.IntLiteral) and isinstance(span.upper, tree.IntLiteral):
        return tree.IntLiteral(span.upper.value - span.lower.value + 1)
    return None


def _elementwise(operands: Sequence[Sized | None]) -> Sized | None:
    return operands[0] if operands and isinstance(operands[0], tuple) else None


def _of_one(shape: Callable[[Shape], Shape]) -> Callable[[Sequence[Sized | None]], Sized | None]:
    return lambda operands: shape(operands[0]) if len(operands) == 1 and isinstance(operands[0], tuple) else None


_RULES: dict[str, Callable[[Sequence[Sized | None]], Sized | None]] = {
    **dict.fromkeys(("abs", "bias_add", "bias_multiply", "ceil", "cos", "exp", "floor", "log", "rev", "round",
                     "sigmoid", "sign", "sin", "sqrt", "tan", "tanh"), _elementwise),
    **dict.fromkeys(("max", "min"), lambda operands: _elementwise(operands) if len(operands) > 1 else None),
    **dict.fromkeys(("rowMaxs", "rowMeans", "rowMins", "rowSums"), _of_one(lambda shape: (shape[0], _ONE))),
    **dict.fromkeys(("colMaxs", "colMeans", "colMins", "colSums"), _of_one(lambda shape: (_ONE, shape[1]))),
    "cbind": _joined(1),
    "rbind": _joined(0),
    "table": _tabled,
    "t": _of_one(lambda shape: (shape[1], shape[0])),
}
