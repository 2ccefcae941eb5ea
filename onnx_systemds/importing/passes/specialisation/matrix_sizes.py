"""Data-flow analysis of known rows and columns of matrices.

An operation without a rule gives no size, and a pass leaves a matrix of unknown size where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned, assigns_variable, blocks_in, read_in
from onnx_systemds.importing.passes.forward_analysis import ForwardAnalysis
from onnx_systemds.importing.passes.specialisation.products import POOLINGS, convolution_of
from onnx_systemds.importing.passes.specialisation.trees import whole_number

Shape: TypeAlias = tuple[int, int]
Known: TypeAlias = int | float | Shape
"""An integer, NaN for any other number, or rows and columns of a matrix."""
_NUMBER = math.nan

_BY_ELEMENT = {"abs", "acos", "asin", "atan", "bias_add", "bias_multiply", "ceil", "ceiling", "cos", "cosh", "cumsum",
               "exp", "floor", "log", "replace", "round", "rev", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
               "tanh"}


def sizes_in(block: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Known]) -> dict[int, Shape]:
    """The known rows and columns of the results of assignments, by the index of the statement."""
    found: dict[int, Shape] = {}
    sizes = _Sizes(functions, dict(given))
    for place, statement in enumerate(block):
        sizes.run((statement,))
        if isinstance(statement, tree.Assign) and isinstance(shape := sizes.known.get(statement.target.name), tuple):
            found[place] = shape
    return found


def statements_with_sizes(
    block: tree.Block, functions: Mapping[str, tree.Function], given: Mapping[str, Known]
) -> Iterator[tuple[tree.Statement, Callable[[tree.Expression], Known | None]]]:
    """The statements of a block, each with a function from expressions to their sizes before it."""
    sizes = _Sizes(functions, dict(given))
    for statement in block:
        yield statement, sizes.of
        sizes.run((statement,))


class _Sizes(ForwardAnalysis[Known]):
    """Rows and columns, and numbers."""

    def run(self, block: tree.Block) -> None:
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

    def of_operand(self, node: tree.Expression) -> Known | None:
        if isinstance(node, tree.IntLiteral):
            return node.value
        if isinstance(node, (tree.DoubleLiteral, tree.Constant)):
            return _NUMBER
        if isinstance(node, tree.Name):
            return self.known.get(node.name)
        if isinstance(node, tree.Unary):
            value = self.of(node.operand)
            return value if isinstance(value, tuple) or value is None else -value if node.operator == "-" else _NUMBER
        if isinstance(node, tree.Indexed):
            return self._indexed(node)
        return self._called(node) if isinstance(node, tree.Call) else None

    def of_binary(self, node: tree.Binary, left: Known | None, right: Known | None) -> Known | None:
        if isinstance(left, int) and isinstance(right, int):
            operands = {"left": left, "right": right}
            value = whole_number(tree.Binary(node.operator, tree.Name("left"), tree.Name("right")), operands)
            return _NUMBER if value is None else value
        if node.operator == "%*%":
            return (left[0], right[1]) if isinstance(left, tuple) and isinstance(right, tuple) else None
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return _NUMBER
        return _common([left, right])

    def _indexed(self, node: tree.Indexed) -> Known | None:
        whole = self.known.get(node.name)
        if node.columns is None:
            return None
        counts = [self._span(span, whole[axis] if isinstance(whole, tuple) else None)
                  for axis, span in enumerate((node.rows, node.columns))]
        rows, cols = counts
        return None if rows is None or cols is None else (rows, cols)

    def _span(self, span: tree.Span, size: int | None) -> int | None:
        if span.lower is None:
            return size
        if span.upper is None:
            return 1
        lower, upper = self.of(span.lower), self.of(span.upper)
        return upper - lower + 1 if isinstance(lower, int) and isinstance(upper, int) and upper >= lower else None

    def _called(self, node: tree.Call) -> Known | None:
        if node.function in self.functions:
            return self.of_function(node)
        positional = [self.of(argument.value) for argument in node.arguments if argument.name is None]
        named = {argument.name: self.of(argument.value) for argument in node.arguments if argument.name is not None}
        first = positional[0] if positional else named.get("target")
        if node.function == "conv2d" or node.function in POOLINGS:
            read = {name: self.known.get(name) for name in read_in(node)}
            convolution = convolution_of(node, {name: size for name, size in read.items() if isinstance(size, int)})
            return None if convolution is None else (convolution.images[0], convolution.columns)
        if node.function == "matrix":
            rows, cols = (named.get(name) for name in ("rows", "cols"))
            return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else None
        if node.function in _BY_ELEMENT:
            return first if isinstance(first, tuple) else None
        if named:
            return None
        if node.function == "outer":
            column, row = positional[:2]
            return (column[0], row[1]) if isinstance(column, tuple) and isinstance(row, tuple) else None
        if node.function == "table" and len(positional) in (4, 5):
            rows, cols = positional[-2:]
            return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else None
        rule, values = _RULES.get(node.function), [value for value in positional if value is not None]
        return None if rule is None or len(values) < len(positional) else rule(values)


def _common(values: Sequence[Known | None]) -> Shape | None:
    """The size of an elementwise operation; numbers broadcast."""
    shapes = [value for value in values if isinstance(value, tuple)]
    if not shapes or any(value is None for value in values) or any(0 in shape for shape in shapes):
        return None
    return max(rows for rows, _ in shapes), max(cols for _, cols in shapes)


def _bound(axis: int) -> Callable[[list[Known]], Shape | None]:
    def rule(values: list[Known]) -> Shape | None:
        shapes = [value for value in values if isinstance(value, tuple)]
        if not shapes or len(shapes) < len(values):
            return None
        total = sum(shape[axis] for shape in shapes)
        return (total, shapes[0][1]) if axis == 0 else (shapes[0][0], total)

    return rule


def _sequence(values: list[Known]) -> Shape | None:
    numbers = [value for value in values if isinstance(value, int)]
    if len(numbers) < len(values) or len(numbers) not in (2, 3) or numbers[1] < numbers[0]:
        return None
    step = numbers[2] if len(numbers) == 3 else 1
    return ((numbers[1] - numbers[0]) // step + 1, 1) if step > 0 else None


def _of_first(shape: Callable[[Shape], Known]) -> Callable[[list[Known]], Known | None]:
    return lambda values: shape(values[0]) if len(values) == 1 and isinstance(values[0], tuple) else None


_RULES: dict[str, Callable[[list[Known]], Known | None]] = {
    "as.integer": lambda values: values[0] if isinstance(values[0], int) else _NUMBER,
    "as.matrix": lambda values: values[0] if isinstance(values[0], tuple) else (1, 1),
    "as.scalar": lambda values: _NUMBER,
    "cbind": _bound(1),
    **dict.fromkeys(("colMaxs", "colMeans", "colMins", "colSums"), _of_first(lambda shape: (1, shape[1]))),
    "ifelse": _common,
    **dict.fromkeys(("max", "min"), lambda values: _common(values) if len(values) > 1 else None),
    "ncol": _of_first(lambda shape: shape[1]),
    "nrow": _of_first(lambda shape: shape[0]),
    "rbind": _bound(0),
    **dict.fromkeys(("rowMaxs", "rowMeans", "rowMins", "rowSums"), _of_first(lambda shape: (shape[0], 1))),
    "seq": _sequence,
    "sum": lambda values: _NUMBER,
    "t": _of_first(lambda shape: (shape[1], shape[0])),
}
