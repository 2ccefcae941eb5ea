"""Common-subexpression elimination for sizes: names sizes that a function computes several times.

The height of an image after three convolutions is ``(((h - 1) %/% 2) %/% 2) %/% 2 + 1`` wherever it is used. It gets a
name before its first use. The sum ``k*a*b + k*a + k*b + k`` is ``k*(a + 1)*(b + 1)``, and ``k*a + k`` is ``k*(a + 1)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import rewritten, unchanged, with_origin
from onnx_systemds.dml.scopes import assigned, binaries_in, blocks_in, definition_counts, is_call, is_operation, read_in
from onnx_systemds.importing.parameters import INTEGER
from onnx_systemds.importing.passes.blocks.kinds import kinds_of
from onnx_systemds.importing.script import Script, with_functions

_ARITHMETIC = frozenset(("+", "-", "*", "%/%", "%%"))
_MOST_OPERATORS = 3
"""Of sums and products that are as plain as a name."""
_IMAGE = ("height", "width")
_ONE = tree.IntLiteral(1)


def with_named_sizes(script: Script) -> Script:
    """The script whose functions have names for sizes. Specialised scripts are made without (`Script.general`)."""
    others = script.callees
    return with_functions(script, (with_named_sizes_in(function, others) for function in script.functions))


def with_named_sizes_in(function: tree.Function, others: Mapping[str, tree.Function]) -> tree.Function:
    """The function with names for sizes that it computes more than once; the same object if there are none.

    others: the functions that it calls, by name.
    """
    symbols = _symbols(function, others)
    if not symbols:
        return function
    found = _Sizes(symbols)
    for statement in function.body:
        found.count(statement)
    wanted = {size for size, count in found.counts.items() if count > 1 and _is_worth_a_name(size)}
    if not wanted:
        return function
    taken = {node.name for node in tree.walk(function) if isinstance(node, (tree.Name, tree.Indexed, tree.Parameter))}
    naming = _Naming(found, wanted, Names(taken.union(assigned(function.body))))
    return replace(function, body=tuple(new for statement in function.body for new in naming.statements(statement)))


def _symbols(function: tree.Function, others: Mapping[str, tree.Function]) -> set[str]:
    """The integers that are parameters, or are assigned once, outside of branches and loops.

    others: the functions that it calls, by name.
    """
    integers = {name for name, kind in kinds_of(function, others).items() if kind == INTEGER}
    counts = definition_counts(function)
    inside = {name for it in function.body for block in blocks_in(it) for name in assigned(block)}
    return {name for name in integers - inside if counts[name] == 1}


def reads_size(statement: tree.Statement) -> bool:
    """Whether a statement reads the rows or columns of a matrix."""
    value = statement.value if isinstance(statement, tree.Assign) else None
    return is_call(value, "nrow", "ncol")


def is_size(node: tree.Expression, symbols: Collection[str]) -> bool:
    """Whether an expression is computed from symbols and integers alone."""
    stack: list[tree.Expression] = [node]
    has_symbol = False
    while stack:
        found = stack.pop()
        if isinstance(found, tree.Binary) and found.operator in _ARITHMETIC:
            stack += (found.left, found.right)
        elif isinstance(found, tree.Name) and found.name in symbols:
            has_symbol = True
        elif not isinstance(found, tree.IntLiteral):
            return False
    return has_symbol


class _Sizes:
    """Counts the sizes that statements compute from symbols. hints: names for the sizes of images."""

    def __init__(self, symbols: set[str]) -> None:
        self.symbols = symbols
        self.counts: Counter[tree.Expression] = Counter()
        self.hints: dict[tree.Expression, str] = {}

    def count(self, statement: tree.Statement) -> None:
        """Count the sizes that a statement computes."""
        stack: list[tree.Node] = [statement]
        while stack:
            node = stack.pop()
            if isinstance(node, tree.Binary) and is_size(node, self.symbols):
                self._count_size(node)
                continue
            if isinstance(node, tree.CallArgument) and node.name == "input_shape":
                for item, hint in zip(getattr(node.value, "items", ())[2:], _IMAGE):
                    self.hints.setdefault(item, hint)
            stack.extend(tree.children(node))

    def _count_size(self, size: tree.Binary) -> None:
        _, sides = factors_of(size)
        for side, hint in zip(sides, _IMAGE):
            self.counts[side] += 1
            if len(sides) > 1:
                self.hints.setdefault(side, hint)


def factors_of(size: tree.Binary) -> tuple[int, tuple[tree.Binary, ...]]:
    """``k``, ``a + 1`` and ``b + 1`` of the sum ``k*a*b + k*a + k*b + k``; ``k`` and ``a + 1`` of ``k*a + k``.

    Other sizes are a factor of their own.
    """
    number = size.right.value if isinstance(size.right, tree.IntLiteral) else 0
    if number < 1 or not is_operation(size, "+"):
        return 1, (size,)
    b = _without_factor(size.left, number)
    if b is not None and not is_operation(b, "+"):
        return number, (tree.Binary("+", b, _ONE),)
    if not is_operation(size.left, "+") or not is_operation(size.left.left, "+"):
        return 1, (size,)
    both, first, second = size.left.left.left, size.left.left.right, size.left.right
    a, b = _without_factor(first, number), _without_factor(second, number)
    if a is None or b is None or not is_operation(both, "*") or both.right != b or both.left != first:
        return 1, (size,)
    return number, (tree.Binary("+", a, _ONE), tree.Binary("+", b, _ONE))


def _without_factor(term: tree.Expression, number: int) -> tree.Expression | None:
    """The other factor in a product with a number; None for other expressions."""
    if number == 1:
        return term
    is_product = is_operation(term, "*") and term.left == tree.IntLiteral(number)
    return term.right if isinstance(term, tree.Binary) and is_product else None


def _is_worth_a_name(size: tree.Expression) -> bool:
    operators = [node.operator for node in tree.walk(size) if isinstance(node, tree.Binary)]
    return len(operators) > _MOST_OPERATORS or (len(operators) > 1 and not {"%/%", "%%"}.isdisjoint(operators))


class _Naming:
    """Writes names for sizes into statements, and their definitions before the first use."""

    def __init__(self, sizes: _Sizes, wanted: set[tree.Expression], names: Names) -> None:
        self.sizes = sizes
        self.wanted = wanted
        self.names = names
        self.known: dict[tree.Expression, tree.Name] = {}
        self.new: list[tree.Statement] = []
        self.is_inside = False  # a branch or a loop, which may not run

    def statements(self, statement: tree.Statement) -> Iterator[tree.Statement]:
        """The statement with names, after the definitions that it needs."""
        self.new, self.is_inside = [], False
        if isinstance(statement, tree.If):  # its condition is always asked
            condition = rewritten(statement.condition, unchanged, self._size)
            statement = statement if condition is statement.condition else replace(statement, condition=condition)
        self.is_inside = bool(blocks_in(statement))
        found = rewritten(statement, unchanged, self._size)
        yield from (with_origin(definition, statement.origin) for definition in self.new)
        yield found

    def _size(self, size: tree.Node) -> tree.Expression | None:
        """A size as a product of names; None for other expressions."""
        if not isinstance(size, tree.Binary) or not is_size(size, self.sizes.symbols):
            return None
        number, sides = factors_of(size)
        if not self.wanted.issuperset(sides) or (self.is_inside and any(map(self._may_fail, sides))):
            return None  # there may be names in it
        names = [*map(self._name, sides)]
        found: tree.Expression = names.pop(0) if number == 1 else tree.IntLiteral(number)
        for name in names:
            found = tree.Binary("*", found, name)
        return found

    def _may_fail(self, size: tree.Binary) -> bool:
        """Whether a size that has no name yet is divided by another one: the engine fails where that is 0."""
        return size not in self.known and any(
            node.operator in ("%/%", "%%") and not isinstance(node.right, tree.IntLiteral) for node in binaries_in(size)
        )

    def _name(self, size: tree.Binary) -> tree.Name:
        name = self.known.get(size)
        if name is None:
            hint = self.sizes.hints.get(size, "extent" if len(read_in(size)) == 1 else "cells")
            name = self.known[size] = tree.Name(self.names.fresh(hint))
            self.new.append(tree.Assign(name, size))
        return name
