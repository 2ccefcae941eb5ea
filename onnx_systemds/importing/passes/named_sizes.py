"""Common-subexpression elimination for sizes: names sizes that a function computes several times.

The height of an image after three convolutions is ``(((h - 1) %/% 2) %/% 2) %/% 2 + 1`` wherever it is used. It gets a
name before its first use. The sum ``k*a*b + k*a + k*b + k`` is ``k*(a + 1)*(b + 1)``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.rewrite import rewritten, unchanged, with_origin
from onnx_systemds.dml.scopes import assigned, assignment_counts, is_call, is_operation, read_in
from onnx_systemds.importing.parameters import INTEGER
from onnx_systemds.importing.script import Script, with_functions

_ARITHMETIC = frozenset(("+", "-", "*", "%/%", "%%"))
_MOST_OPERATORS = 3
"""Of sums and products that are as plain as a name."""
_IMAGE = ("height", "width")
_ONE = tree.IntLiteral(1)


def with_named_sizes(script: Script) -> Script:
    """The script whose functions have names for sizes. Specialised scripts are made without (`Script.general`)."""
    return with_functions(script, map(with_named_sizes_in, script.functions))


def with_named_sizes_in(function: tree.Function) -> tree.Function:
    """The function with names for sizes that it computes more than once; the same object if there are none."""
    symbols = _symbols(function)
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


def _symbols(function: tree.Function) -> set[str]:
    """The integers that are parameters, or are read from matrices once, outside of branches and loops."""
    symbols = {parameter.name for parameter in function.parameters if parameter.type == INTEGER}
    symbols |= {it.target.name for it in function.body if isinstance(it, tree.Assign) and reads_size(it)}
    if symbols:
        counts = assignment_counts(function.body)
        given = {parameter.name for parameter in function.parameters}
        symbols = {name for name in symbols if counts[name] + (name in given) == 1}
    return symbols


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
        factors = sides_of(size)
        if factors is None:
            self.counts[size] += 1
            return
        for side, hint in zip(factors[1:], _IMAGE):
            self.counts[side] += 1
            self.hints.setdefault(side, hint)


def sides_of(size: tree.Expression) -> tuple[int, tree.Binary, tree.Binary] | None:
    """``k``, ``a + 1`` and ``b + 1`` of the sum ``k*a*b + k*a + k*b + k``; None of any other size."""
    terms: list[tree.Expression] = []
    for _ in range(3):
        if not is_operation(size, "+"):
            return None
        terms.append(size.right)
        size = size.left
    last, second, first = terms
    if not isinstance(last, tree.IntLiteral):
        return None
    number, both = last.value, size
    a, b = _without_factor(first, number), _without_factor(second, number)
    if a is None or b is None or not is_operation(both, "*") or both.right != b:
        return None
    if both.left != first:
        return None
    return number, tree.Binary("+", a, _ONE), tree.Binary("+", b, _ONE)


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

    def statements(self, statement: tree.Statement) -> Iterator[tree.Statement]:
        """The statement with names, after the definitions that it needs."""
        self.new = []
        found = rewritten(statement, unchanged, self._size)
        yield from (with_origin(definition, statement.origin) for definition in self.new)
        yield found

    def _size(self, size: tree.Node) -> tree.Expression | None:
        """A size with names; None for expressions that are no sizes."""
        if not isinstance(size, tree.Binary) or not is_size(size, self.sizes.symbols):
            return None
        if size in self.wanted:
            return self._name(size)
        factors = sides_of(size)
        if factors is not None and self.wanted.issuperset(factors[1:]):
            height, width = map(self._name, factors[1:])
            first = height if factors[0] == 1 else tree.Binary("*", tree.IntLiteral(factors[0]), height)
            return tree.Binary("*", first, width)
        return size

    def _name(self, size: tree.Binary) -> tree.Name:
        name = self.known.get(size)
        if name is None:
            hint = self.sizes.hints.get(size, "extent" if len(read_in(size)) == 1 else "cells")
            name = self.known[size] = tree.Name(self.names.fresh(hint))
            self.new.append(tree.Assign(name, size))
        return name
