"""Finds statements that the engine would fuse into operations which are wrong for infinities and NaN.

The engine rewrites ``m = X * Y; Z = X + m`` as ``X * (1 + Y)``, which is not NaN where it should be. A cut separates
such statements (see `block_cuts`); it cannot help within a single statement.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.scopes import is_call, is_operation, operand_of

COMMON_FACTOR = "X + X * Y is taken for X * (1 + Y), wrong for infinities"
COMMON_LEFT_FACTOR = "A %*% B + A %*% C is taken for A %*% (B + C), wrong for infinities"
NONZEROS_ONLY = "what X != 0 or X == 0 is multiplied by is left out where that is 0, NaN as well"
WEIGHTED_PRODUCT = "W * f(A %*% B) is 0 where W is 0, for NaN as well"
ZEROS_BESIDE_PRODUCT = "cbind(A %*% B, zeros) is taken for A %*% cbind(B, zeros), wrong for infinities"
FACTORS_IN_ANOTHER_ORDER = "(A %*% B) %*% C is calculated in the cheapest order, wrong for infinities"
SLICED_PRODUCT = "(A %*% B)[k, l] is taken for A[k, ][k, ] %*% B[, l][, l], which there are not"
FILLED_ROW = "outer(c, r, ..) has one column where r is full of one number"
ANOTHER_ORDER = "X + (Y + Z) is taken for (X + Y) + Z, which loses digits"
COLUMN_FIRST = "X * (y * z) is taken for y * (z * X), which is refused where X is a column and y a single number"

_OF_PRODUCT = ("abs", "round", "ceil", "ceiling", "floor", "exp", "log", "sqrt", "sin", "cos")
"""Functions of a product that the engine calculates only where the weights differ from 0."""
_FAR_APART = 1e6
"""Beyond this ratio the sum of two numbers lacks digits of the smaller one that matter in single precision."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The definition of a value in this block.

    is_elsewhere: another statement calculates it, so that a cut between the two helps. is_shared: it is read more
    than once.
    """

    value: tree.Expression
    is_elsewhere: bool = False
    is_shared: bool = False

    def after(self, other: _Found) -> _Found:
        """The definition as seen through another value."""
        return _Found(self.value, self.is_elsewhere or other.is_elsewhere, self.is_shared or other.is_shared)


class JoinedOperations:
    """Finds the statements that the engine would fuse with those before them in a block.

    uses: how often a variable is read in the function, by different slices. scalars: the variables that are numbers
    of the run. open_rows: those of the function so far that are rows of an open length, which may be 1.
    """

    def __init__(self, uses: Counter[str], scalars: frozenset[str], open_rows: set[str]) -> None:
        self._values: dict[str, tree.Expression] = {}
        self._uses = uses
        self._scalars = scalars
        self._rows = open_rows

    def add(self, name: str, value: tree.Expression) -> None:
        """Add what the block assigns to a variable."""
        self._values[name] = value
        if self._is_open_row(value):
            self._rows.add(name)
        else:
            self._rows.discard(name)

    def reason(self, nodes: Iterable[tree.Node]) -> str | None:
        """Why a statement that assigns a value needs a cut before it; None if it needs none.

        nodes: all of the value that are operators, calls or slices, if not more.
        """
        for node in nodes:
            reason: str | None = None
            if isinstance(node, tree.Binary):
                if node.operator in ("+", "-"):
                    reason = self._of_sum(node)
                elif node.operator in ("*", "/"):
                    reason = self._of_product(node)
                elif node.operator == "%*%":
                    reason = self._of_matrix_product(node)
            elif isinstance(node, tree.Indexed):
                reason = self._of_slice(node)
            elif is_call(node, "cbind"):
                reason = self._of_columns(node)
            elif is_call(node, "outer"):
                reason = self._of_outer(node)
            if reason is not None:
                return reason
        return None

    # Sums

    def _of_sum(self, node: tree.Binary) -> str | None:
        left, right = self._find(node.left), self._find(node.right)
        if self._has_factor(left, node.right) or self._has_factor(right, node.left):
            return COMMON_FACTOR
        if node.operator == "+" and self._have_one_left_factor(left, right):
            return COMMON_LEFT_FACTOR
        if self._leaves_out_nonzeros(node, right):
            return NONZEROS_ONLY
        if self._brackets_a_sum(node, right) or self._adds_numbers_first(node, left):
            return ANOTHER_ORDER
        return None

    def _has_factor(self, found: _Found, factor: tree.Expression) -> bool:
        """Whether a value is the product of a matrix and another one; ``X * X`` is a power for the engine."""
        product = _binary(found.value, "*")
        if product is None or not found.is_elsewhere or self._is_same(product.left, product.right):
            return False
        if any(number_of(operand) is not None for operand in (product.left, product.right)):
            return False
        return self._is_same(product.left, factor) or self._is_same(product.right, factor)

    def _have_one_left_factor(self, left: _Found, right: _Found) -> bool:
        one, other = _binary(left.value, "%*%"), _binary(right.value, "%*%")
        if one is None or other is None or left.is_shared or right.is_shared:
            return False
        return (left.is_elsewhere or right.is_elsewhere) and self._is_same(one.left, other.left)

    def _leaves_out_nonzeros(self, node: tree.Binary, right: _Found) -> bool:
        """Whether a sum is ``X - s * (X != 0)`` or ``X + (X == 0) * s`` with an ``s`` that may be infinite."""
        product = _binary(right.value, "*")
        if product is None:
            return False
        for factor, other in ((product.left, product.right), (product.right, product.left)):
            compared, number = self._find(factor), number_of(other)
            if number is not None and math.isfinite(number):
                continue
            if self._is_compared(compared.value, "!=" if node.operator == "-" else "==", node.left):
                return right.is_elsewhere or compared.is_elsewhere
        return False

    def _is_compared(self, value: tree.Expression, operator: str, other: tree.Expression) -> bool:
        """Whether a value is the comparison of another one with 0."""
        compared = _binary(value, operator)
        return compared is not None and number_of(compared.right) == 0 and self._is_same(compared.left, other)

    def _brackets_a_sum(self, node: tree.Binary, right: _Found) -> bool:
        """Whether a sum is ``X + (Y + Z)``, all of the same size: rows and columns beside a matrix keep their order.

        After a matrix product it is the row of a bias that is added.
        """
        inner = _binary(right.value, "+")
        if node.operator != "+" or inner is None or not right.is_elsewhere or right.is_shared:
            return False
        return not any(_binary(self._find(operand).value, "%*%") for operand in (inner.left, inner.right))

    def _adds_numbers_first(self, node: tree.Binary, left: _Found) -> bool:
        """Whether a sum is ``(X + a) + b`` with numbers that add up badly; also ``a - X + b``, ``t(X + a) + b``."""
        last = self._number(node.right)
        if not last or left.is_shared:
            return False
        transposed = operand_of(left.value, "t")
        inner = left if transposed is None else self._find(transposed).after(left)
        summands = _binary(inner.value, "+", "-")
        if summands is None or not inner.is_elsewhere:
            return False
        numbers = [number for number in map(self._number, (summands.left, summands.right)) if number is not None]
        return len(numbers) == 1 and numbers[0] != 0 and not abs(numbers[0]) <= _FAR_APART * abs(last)

    def _number(self, value: tree.Expression) -> float | None:
        """A number, NaN where only the run knows it; None for a matrix."""
        return math.nan if isinstance(value, tree.Name) and value.name in self._scalars else number_of(value)

    # Products

    def _of_product(self, node: tree.Binary) -> str | None:
        if number_of(node.left) is not None:
            return None
        left, right = self._find(node.left), self._find(node.right)
        logarithm = operand_of(right.value, "log") if node.operator == "*" else None
        if logarithm is not None and self._is_compared(left.value, "!=", logarithm):
            return NONZEROS_ONLY if left.is_elsewhere or right.is_elsewhere else None
        weighted = self._weighted(right, node.operator)
        if weighted is not None and weighted.is_elsewhere:
            return WEIGHTED_PRODUCT
        is_multiplied = node.operator == "*" and any(
            self._multiplies_open_row(*pair) for pair in ((left, node.right), (right, node.left))
        )
        return COLUMN_FIRST if is_multiplied else None

    def _multiplies_open_row(self, inner: _Found, other: tree.Expression) -> bool:
        """Whether ``X * (y * z)`` or ``(X * y) * z`` has a row of a length that may be 1, and an X of other rows."""
        product = _binary(inner.value, "*")
        if product is None or not inner.is_elsewhere or inner.is_shared:
            return False
        rows = self._open_rows(product.left, product.right, other)
        return any(rows) and not all(rows)

    def _open_rows(self, *values: tree.Expression) -> list[bool]:
        """Whether the values that are no numbers are rows whose length only the run knows, and may be 1."""
        return [self._is_open_row(value) for value in values if self._number(value) is None]

    def _is_open_row(self, value: tree.Expression) -> bool:
        if isinstance(value, tree.Name):
            return value.name in self._rows
        if isinstance(value, tree.Binary | tree.Unary) and not is_operation(value, "%*%"):
            operands = (value.operand,) if isinstance(value, tree.Unary) else (value.left, value.right)
            rows = self._open_rows(*operands)
            return bool(rows) and all(rows)
        if is_call(value, "matrix") and len(value.arguments) == 3 and number_of(value.arguments[1].value) == 1:
            return _may_be_one(value.arguments[2].value)
        if is_call(value, "colMaxs", "colMeans", "colMins", "colSums"):
            return True
        inner = value.arguments[0].value if is_call(value, *_OF_PRODUCT) else _reshaped(value)
        return inner is not None and self._is_open_row(inner)

    def _weighted(self, right: _Found, operator: str) -> _Found | None:
        """The matrix product below a function that the engine would compute only where the weights are not 0."""
        value = right.value
        if _binary(value, "%*%") is not None:
            return right if operator == "*" else None
        power = _binary(value, "*", "^")
        inner: _Found | None
        if is_call(value, *_OF_PRODUCT) and len(value.arguments) == 1:
            inner = self._find(value.arguments[0].value).after(right)
            if value.function == "log":
                inner = self._sigmoid(inner) or inner
        elif power is not None and number_of(power.right) == 2:
            inner = self._find(power.left).after(right)
        elif power is not None and power.operator == "*" and number_of(power.left) == 2:
            inner = self._find(power.right).after(right)
        else:
            inner = self._sigmoid(right)
        if inner is not None and isinstance(inner.value, tree.Unary):
            inner = self._find(inner.value.operand).after(inner)
        return inner if inner is not None and _binary(inner.value, "%*%") is not None else None

    def _sigmoid(self, found: _Found) -> _Found | None:
        """The argument of ``exp`` in ``1 / (1 + exp(..))``."""
        for operator in ("/", "+"):
            outer = _binary(found.value, operator)
            if outer is None or number_of(outer.left) != 1:
                return None
            found = self._find(outer.right).after(found)
        power = operand_of(found.value, "exp")
        return None if power is None else self._find(power).after(found)

    def _of_matrix_product(self, node: tree.Binary) -> str | None:
        if any(map(self._is_factor_of_chain, (node.left, node.right))):
            return FACTORS_IN_ANOTHER_ORDER
        return WEIGHTED_PRODUCT if self._weighs_between_products(node) else None

    def _is_factor_of_chain(self, value: tree.Expression) -> bool:
        """Whether a value is a product of another statement; a reshape of it changes its size, else nobody wrote it.

        Where the product gathers rows by a table, the order is of no matter.
        """
        found = self._find(value)
        product = _binary(found.value, "%*%")
        if product is None or not found.is_elsewhere or found.is_shared:
            return False
        if any(_reshaped(step) is not None for step in self._steps(value)):
            return False
        return all(operand_of(factor, "table") is None for factor in (product.left, product.right))

    def _weighs_between_products(self, node: tree.Binary) -> bool:
        """Whether a product is ``t(U) %*% (W / (U %*% V))`` or ``(W / (U %*% V)) %*% t(V)``, or with a summand."""
        for operand, beside, is_left in ((node.right, node.left, True), (node.left, node.right, False)):
            weighted = self._find(operand)
            outer = _binary(weighted.value, "*", "/")
            if outer is None:
                continue
            inner = self._find(outer.right).after(weighted)
            summed = _binary(inner.value, "+", "-")
            if summed is not None:
                inner = self._find(summed.left).after(inner)
            product = _binary(inner.value, "%*%")
            if product is None or not inner.is_elsewhere:
                continue
            if self._is_transposed(beside, product.left if is_left else product.right):
                return True
        return False

    def _is_transposed(self, one: tree.Expression, other: tree.Expression) -> bool:
        for value, beside in ((self._find(one).value, other), (self._find(other).value, one)):
            transposed = operand_of(value, "t")
            if transposed is not None and self._is_same(transposed, beside):
                return True
        return False

    def _of_columns(self, node: tree.Call) -> str | None:
        if len(node.arguments) != 2:
            return None
        first, second = (self._find(argument.value) for argument in node.arguments)
        if _binary(first.value, "%*%") is None or not first.is_elsewhere:
            return None
        filled = operand_of(second.value, "matrix")
        return ZEROS_BESIDE_PRODUCT if filled is not None and number_of(filled) == 0 else None

    def _of_outer(self, node: tree.Call) -> str | None:
        row = self._find(node.arguments[1].value)
        transposed = operand_of(row.value, "t")
        if transposed is not None:
            row = self._find(transposed).after(row)
        filled = operand_of(row.value, "matrix")
        if filled is None or number_of(filled) is None or not row.is_elsewhere:
            return None
        assert isinstance(row.value, tree.Call)
        sizes = [number_of(argument.value) for argument in row.value.arguments[1:]]
        return FILLED_ROW if sizes != [1, 1] else None

    def _of_slice(self, node: tree.Indexed) -> str | None:
        found = self._find(tree.Name(node.name))
        if _binary(found.value, "%*%") is None or not found.is_elsewhere or found.is_shared:
            return None
        return SLICED_PRODUCT if _may_be_one_element(node) else None

    # Values that names stand for

    def _find(self, value: tree.Expression) -> _Found:
        """The definition of a value through names and reshapes; the engine drops a reshape that changes nothing."""
        if isinstance(value, tree.Name) and value.name not in self._values:
            return _Found(value)
        is_elsewhere = is_shared = False
        for step in self._steps(value):
            if isinstance(value, tree.Name) and step is not value:
                is_elsewhere, is_shared = True, is_shared or self._uses[value.name] > 1
            value = step
        return _Found(value, is_elsewhere, is_shared)

    def _is_same(self, one: tree.Expression, other: tree.Expression) -> bool:
        """Whether two values are equal up to copies and reshapes."""
        others = tuple(self._steps(other))
        return any(step in others for step in self._steps(one))

    def _steps(self, value: tree.Expression) -> Iterator[tree.Expression]:
        """A value, then its definitions, through one name or reshape at a time."""
        seen: set[str] = set()
        within: tree.Expression | None = value
        while within is not None:
            value = within
            yield value
            if isinstance(value, tree.Name):
                within = None if value.name in seen else self._values.get(value.name)
                seen.add(value.name)
            else:
                within = _reshaped(value)


def _binary(value: tree.Expression, *operators: str) -> tree.Binary | None:
    """The value if it is a binary operation with one of the operators, else None."""
    return value if is_operation(value, *operators) else None


def _may_be_one(size: tree.Expression) -> bool:
    """Whether a size may be 1: it is no number, and no number is a factor of it."""
    if number_of(size) is not None:
        return number_of(size) == 1
    return not (is_operation(size, "*") and any(number_of(each) is not None for each in (size.left, size.right)))


def _may_be_one_element(node: tree.Indexed) -> bool:
    """Whether a slice may have a single element: a row, a column or an element, but not the first one."""
    spans = [span for span in (node.rows, node.columns) if span is not None and span.lower is not None]
    is_one = all(span.upper is None or span.upper == span.lower for span in spans)
    return is_one and any(number_of(span.lower) != 1 for span in spans if span.lower is not None)


def _reshaped(value: tree.Expression) -> tree.Expression | None:
    """The operand of a reshape; None for other values."""
    first = operand_of(value, "matrix")
    return None if first is None or isinstance(first, tree.StringLiteral) or number_of(first) is not None else first
