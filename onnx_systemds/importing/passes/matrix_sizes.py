"""Data-flow analysis of known rows and columns of matrices.

An operation without a rule gives no size, and a pass leaves a matrix of unknown size where it is. Sizes are integers,
or expressions over symbols where sizes are open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned, assignment_counts, assigns_variable, blocks_in, matrix_parameters
from onnx_systemds.importing.passes.convolution_sizes import POOLINGS, IntegerOf, images_of
from onnx_systemds.importing.passes.forward_analysis import ForwardAnalysis
from onnx_systemds.inference import dim_text
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim, Expression
from onnx_systemds.limits import OverBudget

Shape: TypeAlias = tuple[int, int]
Known: TypeAlias = int | float | Shape
"""An integer, NaN for any other number, or rows and columns of a matrix."""
Symbolic: TypeAlias = Dim | float | tuple[Dim, Dim]
"""The same with symbols."""
_QUOTIENT = dim.SIGNED_PREFIX + "/"
"""First characters of the symbol of a quotient or remainder of what may be negative; its text is behind them."""
_NUMBER = math.nan

_Rule: TypeAlias = Callable[[Sequence[Symbolic | None]], Symbolic | None]

_BY_ELEMENT = {"abs", "acos", "asin", "atan", "bias_add", "bias_multiply", "ceil", "ceiling", "cos", "cosh", "cumsum",
               "exp", "floor", "log", "replace", "round", "rev", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
               "tanh"}


def parameter_sizes(function: tree.Function, rows: Collection[str] = ()) -> dict[str, Symbolic]:
    """The sizes of the matrices that a function takes, as ``nrow`` and ``ncol`` say them. rows: those that are rows."""
    return {name: (1 if name in rows else dim.symbol(f"nrow({name})"), dim.symbol(f"ncol({name})"))
            for name in matrix_parameters(function)}


def sizes_in(
    block: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Symbolic]
) -> dict[int, Shape]:
    """The known rows and columns of the results of assignments, by the index of the statement."""
    found: dict[int, Shape] = {}
    sizes = SizeAnalysis(functions, dict(given))
    for place, statement in enumerate(block):
        sizes.run((statement,))
        if isinstance(statement, tree.Assign):
            shape = _as_known(sizes.known.get(statement.target.name))
            if isinstance(shape, tuple):
                found[place] = shape
    return found


def statements_with_sizes(
    block: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Known]
) -> Iterator[tuple[tree.Statement, Callable[[tree.Expression], Known | None]]]:
    """The statements of a block, each with a function from expressions to their sizes before it."""
    for statement, size_of in statements_with_symbols(block, functions, given):
        yield statement, lambda node, of=size_of: _as_known(of(node))  # type: ignore[misc]


def statements_with_symbols(
    block: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Symbolic]
) -> Iterator[tuple[tree.Statement, Callable[[tree.Expression], Symbolic | None]]]:
    """As `statements_with_sizes`, of sizes with symbols."""
    sizes = SizeAnalysis(functions, dict(given))
    for statement in block:
        yield statement, sizes.of
        sizes.run((statement,))


def integer_lookup(block: tree.Block) -> IntegerOf:
    """A function that gives integers, wherever they stand in a block: variables that it assigns once are known in it.

    Those that a branch or a loop assigns are not.
    """
    counts, sizes = assignment_counts(block), SizeAnalysis({}, {})
    for statement in block:
        if isinstance(statement, tree.Assign) and counts[statement.target.name] == 1:
            sizes.set(statement.target.name, sizes.integer(statement.value))
    return sizes.integer


def is_dim(size: Symbolic | None) -> TypeGuard[Dim]:
    """Whether it is a number that is known, or an expression over symbols."""
    return isinstance(size, (int, Expression))


def text(size: Dim) -> str:
    """A size as a DML expression. Symbols are called as they stand in the script."""
    return dim_text.text(size, lambda name: f"({name.removeprefix(_QUOTIENT)})" if name.startswith(_QUOTIENT) else name)


def _as_known(size: Symbolic | None) -> Known | None:
    """A size without symbols, None for any other."""
    if isinstance(size, tuple):
        rows, cols = size
        return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else None
    return _NUMBER if isinstance(size, Expression) else size


class SizeAnalysis(ForwardAnalysis[Symbolic]):
    """Rows and columns, and numbers."""

    def of(self, node: tree.Expression) -> Symbolic | None:
        """The size of an expression, or its number."""
        try:
            return super().of(node)
        except OverBudget:
            return None  # an expression of too many symbols

    def integer(self, node: tree.Expression) -> int | None:
        """The integer that an expression is, None where it is not known."""
        value = self.of(node)
        return value if isinstance(value, int) else None

    def run(self, block: tree.Block) -> None:
        """Update what is known by the statements of a block."""
        for statement in block:
            if assigns_variable(statement):
                self.set(statement.target.name, None if statement.accumulate else self.of(statement.value))
            elif isinstance(statement, tree.Assign):
                continue  # a part is written into a matrix, which keeps its size
            else:
                self._run_maybe(statement)

    def _run_maybe(self, statement: tree.Statement) -> None:
        """A branch or a loop: sizes that it may change are unknown after it."""
        blocks = blocks_in(statement)
        names = assigned((statement,))
        if not names:
            return
        changing = {name for name in names if not blocks or not isinstance(self.known.get(name), tuple)}
        while True:  # sizes that an iteration changes are unknown in the next one
            before = self.known = {name: value for name, value in self.known.items() if name not in changing}
            for block in blocks:
                self.known = dict(before)
                self.run(block)
                changing |= {name for name, value in before.items() if self.known.get(name) != value}
            self.known = before
            if changing.isdisjoint(before):
                return

    def of_operand(self, node: tree.Expression) -> Symbolic | None:
        """The size of an expression that is no binary operation."""
        if isinstance(node, tree.IntLiteral):
            return node.value
        if isinstance(node, (tree.DoubleLiteral, tree.Constant)):
            return _NUMBER
        if isinstance(node, tree.Name):
            return self.known.get(node.name)
        if isinstance(node, tree.Unary):
            value = self.of(node.operand)
            if isinstance(value, tuple) or value is None:
                return value
            return dim.multiply(-1, value) if node.operator == "-" and is_dim(value) else _NUMBER
        if isinstance(node, tree.Indexed):
            return self._indexed(node)
        return self._called(node) if isinstance(node, tree.Call) else None

    def of_binary(self, node: tree.Binary, left: Symbolic | None, right: Symbolic | None) -> Symbolic | None:
        """The size of a binary operation, from those of its operands."""
        if is_dim(left) and is_dim(right):
            value = _computed(node.operator, left, right)
            return _NUMBER if value is None else value
        if node.operator == "%*%":
            return (left[0], right[1]) if isinstance(left, tuple) and isinstance(right, tuple) else None
        if isinstance(left, tuple) or isinstance(right, tuple):
            return _elementwise([left, right])
        return None if left is None or right is None else _NUMBER

    def _indexed(self, node: tree.Indexed) -> Symbolic | None:
        whole = self.known.get(node.name)
        if node.columns is None:
            return None
        counts = [self._span(span, whole[axis] if isinstance(whole, tuple) else None)
                  for axis, span in enumerate((node.rows, node.columns))]
        rows, cols = counts
        return None if rows is None or cols is None else (rows, cols)

    def _span(self, span: tree.Span, size: Dim | None) -> Dim | None:
        if span.lower is None:
            return size
        if span.upper is None:
            return 1
        lower, upper = self.of(span.lower), self.of(span.upper)
        count = upper - lower + 1 if is_dim(lower) and is_dim(upper) else None
        return None if isinstance(count, int) and count < 1 else count

    def _called(self, node: tree.Call) -> Symbolic | None:
        if node.function in self.functions:
            return self.of_function(node)
        if node.function == "conv2d" or node.function in POOLINGS:
            found = images_of(node, self.integer)
            count = None if found is None else self.of(found[0])
            return (count, found[1]) if found is not None and is_dim(count) else None
        if node.function == "matrix":  # whatever it gives this size
            given = {argument.name: argument.value for argument in node.arguments}
            rows, cols = (self.of(given[name]) if name in given else None for name in ("rows", "cols"))
            return (rows, cols) if is_dim(rows) and is_dim(cols) else None
        positional = [self.of(argument.value) for argument in node.arguments if argument.name is None]
        named = {argument.name: self.of(argument.value) for argument in node.arguments if argument.name is not None}
        first = positional[0] if positional else named.get("target")
        if node.function in _BY_ELEMENT:
            return first if isinstance(first, tuple) else None
        if named:
            return None
        if node.function == "outer":
            column, row = positional[:2]
            return (column[0], row[1]) if isinstance(column, tuple) and isinstance(row, tuple) else None
        if node.function == "table" and len(positional) in (4, 5):
            rows, cols = positional[-2:]
            return (rows, cols) if is_dim(rows) and is_dim(cols) else None
        rule = _RULES.get(node.function)
        return None if rule is None else rule(positional)


def _computed(operator: str, left: Dim, right: Dim) -> Dim | None:
    """The result of an operation of two sizes, None where it is no size."""
    if operator in ("%/%", "%%"):
        if right == 0:
            return None
        if dim.is_non_negative_from_one(left):
            return dim.floor_divide(left, right) if operator == "%/%" else dim.modulo(left, right)
        # what is negative is cut off towards 0: a number that nothing but the same quotient is equal to
        return None if isinstance(left, int) else dim.symbol(f"{_QUOTIENT}({text(left)}) {operator} ({text(right)})")
    rule = _ARITHMETIC.get(operator)
    return None if rule is None else rule(left, right)


def _elementwise(values: Sequence[Symbolic | None]) -> tuple[Dim, Dim] | None:
    """The size of an operation by element.

    The left operand has the size of the result, unless it is a number: the engine refuses a vector there.
    """
    left = values[0]
    return left if isinstance(left, tuple) and not {0, 1}.intersection(left) else _common(values)


def _common(values: Sequence[Symbolic | None]) -> tuple[Dim, Dim] | None:
    """The size of matrices with numbers and vectors."""
    shapes = [value for value in values if isinstance(value, tuple)]
    if not shapes or any(value is None for value in values) or any(0 in shape for shape in shapes):
        return None
    rows, cols = (_joint(sizes) for sizes in zip(*shapes))
    return None if rows is None or cols is None else (rows, cols)


def _joint(sizes: Sequence[Dim]) -> Dim | None:
    """The one size among them that is not 1; None where several may be."""
    others = {size for size in sizes if size != 1}
    return 1 if not others else others.pop() if len(others) == 1 else None


def _bound(axis: int) -> _Rule:
    def rule(values: Sequence[Symbolic | None]) -> Symbolic | None:
        shapes = [value for value in values if isinstance(value, tuple)]
        if not shapes or len(shapes) < len(values):
            return None
        total: Dim = 0
        for shape in shapes:
            total = dim.add(total, shape[axis])
        return (total, shapes[0][1]) if axis == 0 else (shapes[0][0], total)

    return rule


def _sequence(values: Sequence[Symbolic | None]) -> Symbolic | None:
    numbers = [value for value in values if is_dim(value)]
    if len(numbers) < len(values) or len(numbers) not in (2, 3):
        return None
    span, step = numbers[1] - numbers[0], numbers[2] if len(numbers) == 3 else 1
    is_upwards = isinstance(step, int) and step > 0 and dim.is_non_negative_from_one(span)
    return (dim.floor_divide(span, step) + 1, 1) if is_upwards else None


def _of_first(shape: Callable[[tuple[Dim, Dim]], Symbolic]) -> _Rule:
    return lambda values: shape(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else None


_ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": dim.add,
    "-": lambda left, right: dim.add(left, dim.multiply(-1, right)),
    "*": dim.multiply,
}
_RULES: dict[str, _Rule] = {
    "as.integer": lambda values: values[0] if is_dim(values[0]) else _NUMBER,
    "as.matrix": lambda values: (1, 1) if isinstance(values[0], (int, float, Expression)) else values[0],
    "as.scalar": lambda values: _NUMBER,
    "cbind": _bound(1),
    **dict.fromkeys(("colMaxs", "colMeans", "colMins", "colSums"), _of_first(lambda shape: (1, shape[1]))),
    "ifelse": _common,  # a matrix of one cell is a number there
    **dict.fromkeys(("max", "min"), lambda values: _elementwise(values) if len(values) > 1 else None),
    "ncol": _of_first(lambda shape: shape[1]),
    "nrow": _of_first(lambda shape: shape[0]),
    "rbind": _bound(0),
    **dict.fromkeys(("rowMaxs", "rowMeans", "rowMins", "rowSums"), _of_first(lambda shape: (shape[0], 1))),
    "seq": _sequence,
    "sum": lambda values: _NUMBER,
    "t": _of_first(lambda shape: (shape[1], shape[0])),
}
