"""Where statements put the heads of an attention one below the other, and side by side again.

Few heads are parts of columns in another shape, more of them rows that a product gathers (see `movement.permuted`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.operands import expression_of, fits
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.dml.rewrite import call
from onnx_systemds.dml.scopes import (
    assigns_variable,
    definition_counts,
    is_call,
    is_operation,
    is_reshape,
    read_counts,
    results,
)
from onnx_systemds.importing.passes.matrix_sizes import Symbolic, is_dim
from onnx_systemds.importing.passes.merged_slices import places
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim
from onnx_systemds.operators.support.attention import Heads

SizeOf: TypeAlias = Callable[[tree.Expression], Symbolic | None]
_ALL = tree.Span()
_GATHERS = tuple(map(expression_of, (
    "table(seq(1, n), I, n, m) %*% rbind(X, matrix(0, rows=p, cols=c))", "table(seq(1, n), I, n, m) %*% X",
)))
_ORDER = expression_of("""matrix(outer(
    matrix(outer(seq(0, a) * b, t(seq(0, c)), "+"), rows=d, cols=1), t(seq(0, e) * f), "+"), rows=g, cols=1) + 1""")


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of a function that get a value once: what gives it to those that are no parameters or results.

    reads: how often each variable is read.
    """

    stable: frozenset[str]
    assigned: Mapping[str, tree.Assign]
    reads: Counter[str]

    def value(self, node: tree.Expression, reads: int | None = None) -> tree.Expression | None:
        """What a variable stands for, if it is read so often; None for anything else."""
        if not isinstance(node, tree.Name) or node.name not in self.assigned:
            return None
        return self.assigned[node.name].value if reads in (None, self.reads[node.name]) else None


def variables(function: tree.Function) -> Variables:
    """The variables of a function."""
    changes, kept = definition_counts(function), results(function)
    stable = frozenset(name for name, count in changes.items() if count == 1)
    assigned = {it.target.name: it for it in function.body if assigns_variable(it) and not it.accumulate}
    own = {name: it for name, it in assigned.items() if name in stable - kept}
    return Variables(stable, own, read_counts(function.body))


class _Part(NamedTuple):
    """Columns of a matrix in another shape."""

    of: tree.Indexed
    rows: tree.Expression
    whole: tree.Expression


class Join(NamedTuple):
    """Heads that are put side by side: those of how many tokens of how many samples, and of how many columns.

    whole: the heads one below the other. samples: how many there are, ``many`` in figures. rows, cols: of the result.
    names: of variables that are read for it.
    """

    whole: tree.Expression
    many: Dim
    heads: int
    tokens: Dim
    width: int
    samples: tree.Expression | None
    rows: tree.Expression
    cols: tree.Expression
    names: tuple[str, ...] = ()


class Split(NamedTuple):
    """Heads that are put one below the other, of so many columns each.

    names: of the variables from there to here. samples: how many there are, in figures ``many``. rows: of them all.
    """

    names: tuple[str, ...]
    heads: Heads
    width: int
    samples: tree.Expression
    many: Dim
    rows: Dim


class _Gather(NamedTuple):
    """Rows of a matrix in another order: of three axes the last two change places. many: the size of the first one.

    outer, inner: of the others, as they are in the matrix. sizes: the last places of the three, from 0. rows: of the
    result. names: of the variable of the order, if it has any.
    """

    matrix: tree.Expression
    many: Dim
    outer: Dim
    inner: Dim
    sizes: tuple[tree.Expression, tree.Expression, tree.Expression]
    rows: tree.Expression
    names: tuple[str, ...]


def join_of(value: tree.Expression, known: Variables, size_of: SizeOf) -> Join | None:
    """The heads that a value puts side by side, as parts of columns or by a gather of rows; None for other values."""
    inner = value.arguments[0].value if is_reshape(value) else value
    gather = _gather(inner, known, size_of)
    if gather is not None:
        matrix, heads, size = gather.matrix, _literal(gather.sizes[1]), size_of(gather.matrix)
        whole = known.value(matrix, 1)
        if not isinstance(matrix, tree.Name) or whole is None or heads is None or not isinstance(size, tuple):
            return None
        if size[0] != gather.many * heads * gather.inner or not isinstance(size[1], int):
            return None
        shape = _shape(value) or (gather.rows, tree.IntLiteral(size[1]))
        samples = _size(gather.sizes[0])
        names = (*gather.names, matrix.name)
        return Join(whole, gather.many, heads, gather.inner, size[1], samples, *shape, names)
    parts = _parts(inner)
    if not parts:
        return None
    name = tree.Name(parts[0].of.name)
    whole, size, part_size = known.value(name, len(parts)), size_of(name), size_of(parts[0].whole)
    if whole is None or not isinstance(size, tuple) or not isinstance(part_size, tuple):
        return None
    count, width = size[0], part_size[1]
    heads, tokens = len(parts), dim.divide_exactly(part_size[0], count)
    if tokens is None or not isinstance(width, int):
        return None
    cells = tokens * width
    is_whole = (
        size == (count, heads * cells)
        and all(size_of(part.whole) == part_size for part in parts)
        and [_span(part.of, size_of) for part in parts] == [(at * cells + 1, (at + 1) * cells) for at in range(heads)]
    )
    shape = _shape(value) or (parts[0].rows, tree.IntLiteral(heads * width))
    samples = whole.arguments[1].value if is_reshape(whole) else None
    return Join(whole, count, heads, tokens, width, samples, *shape, (name.name,)) if is_whole else None


def join_of_one_token(value: tree.Expression, number: Dim, size_of: SizeOf) -> Join | None:
    """The heads of one token of each sample, so many in all, which another shape puts side by side."""
    size = size_of(value)
    if not is_reshape(value) or not isinstance(size, tuple) or not isinstance(size[1], int):
        return None
    heads, (samples, rows, cols) = dim.divide_exactly(number, size[0]), (value.arguments[at].value for at in (1, 1, 2))
    if not isinstance(heads, int) or heads < 2:
        return None
    return Join(value, size[0], heads, 1, size[1] // heads, samples, rows, cols)


def _shape(value: tree.Expression) -> tuple[tree.Expression, tree.Expression] | None:
    """The rows and columns that a value is given; None if it is not given any."""
    return (value.arguments[1].value, value.arguments[2].value) if is_reshape(value) else None


def _gather(value: tree.Expression, known: Variables, size_of: SizeOf) -> _Gather | None:
    """The rows that a product takes in another order, as `movement.permuted` does; None for other values."""
    found: dict[str, Any] = {}
    order: dict[str, Any] = {}
    if not any(fits(form, value, found := {}) for form in _GATHERS):
        return None
    if not fits(_ORDER, known.value(found["I"]) or found["I"], order):
        return None
    figures = {name: size for name, node in order.items() if is_dim(size := size_of(node))}
    if len(figures) < len(order):
        return None
    a, b, c, d, e, f, g = (figures[name] for name in "abcdefg")
    many, outer, inner = a + 1, e + 1, c + 1
    if g == 0 or (b, d, f, g) != (outer * inner, many * inner, inner, many * outer * inner) or size_of(found["n"]) != g:
        return None
    names = (found["I"].name,) if isinstance(found["I"], tree.Name) else ()
    return _Gather(found["X"], many, outer, inner, (order["a"], order["e"], order["c"]), found["n"], names)


def _size(last: tree.Expression) -> tree.Expression | None:
    """The size of an axis of so many places from 0; None where that is not the size less 1."""
    if isinstance(last, tree.IntLiteral):
        return tree.IntLiteral(last.value + 1)
    return last.left if is_operation(last, "-") and last.right == tree.IntLiteral(1) else None


def _literal(last: tree.Expression) -> int | None:
    """The size of an axis of so many places from 0, as a number."""
    return last.value + 1 if isinstance(last, tree.IntLiteral) else None


def split_of(
    node: tree.Expression, heads: int, join: Join, known: Variables, size_of: SizeOf
) -> Split | None:
    """The heads that are one below the other in a matrix; None where they are not as many.

    Each stands there once: of the heads of the result several may share one.
    """
    if not heads or join.heads % heads:
        return None
    found = split_of_columns(node, known, size_of) or _stacked(node, heads, join, size_of)
    if found is None or len(found.heads.columns) != heads:
        return None
    times = join.heads // heads
    return found if times == 1 else found._replace(heads=found.heads.shared(times))


def _stacked(node: tree.Expression, heads: int, join: Join, size_of: SizeOf) -> Split | None:
    """Heads of any origin, which are one below the other in a matrix."""
    size = size_of(node)
    rows = dim.divide_exactly(size[0], heads) if isinstance(size, tuple) else None
    if join.samples is None or not isinstance(size, tuple) or not isinstance(size[1], int) or rows is None:
        return None
    found = Heads(print_expression(node), ((1, size[1]),) * heads, tuple(range(heads)))
    return Split((), found, size[1], join.samples, join.many, rows)


def split_of_columns(node: tree.Expression, known: Variables, size_of: SizeOf) -> Split | None:
    """The heads that are columns side by side, and are put one below the other in a variable; None for others."""
    value = known.value(node)
    if not isinstance(node, tree.Name) or value is None:
        return None
    gather = _gather(value, known, size_of)
    if gather is not None:
        return _split_by_rows(node.name, gather, known, size_of)
    if not is_reshape(value):
        return None
    repeated = arguments_of(value.arguments[0].value, "cbind")
    if repeated and is_reshape(repeated[0]) and repeated == [repeated[0]] * len(repeated):
        found = _split_of_few(repeated[0], known, size_of)
        return None if found is None else _repeated(found, node.name, len(repeated), (value, repeated[0]), size_of)
    found = _split_by_columns(value.arguments[0].value, size_of)
    if found is None or size_of(value) != (found.rows * len(found.heads.columns), found.width):
        return None
    return found._replace(names=(node.name,))


def _split_of_few(reshaped: tree.Call, known: Variables, size_of: SizeOf) -> Split | None:
    """Heads that several queries share, or the only one, in a variable of any shape; None for anything else.

    reshaped: the variable, with a row for each head of each sample.
    """
    node, samples, _ = (argument.value for argument in reshaped.arguments)
    value = unshaped(known.value(node))
    if value is None or not isinstance(node, tree.Name):
        return None
    found = _split_by_columns(value, size_of)
    if found is None and isinstance(value, tree.Indexed) and value.rows == _ALL:
        span, count, size = places(value.columns), size_of(samples), size_of(value)
        if span is None or not is_dim(count) or not isinstance(size, tuple) or not isinstance(size[1], int):
            return None
        if dim.divide_exactly(size[0], count) is not None:
            found = Split((), Heads(value.name, (span,)), size[1], samples, count, size[0])
    return None if found is None else found._replace(names=(node.name,))


def _repeated(
    few: Split, name: str, times: int, shapes: tuple[tree.Expression, tree.Expression], size_of: SizeOf
) -> Split | None:
    """Heads each of which stands there so often; None where shapes, of all and of one of each, part them otherwise."""
    heads = len(few.heads.columns)
    tokens = dim.divide_exactly(few.rows, few.many)
    if tokens is None:
        return None
    whole, each = (times * heads * few.rows, few.width), (heads * few.many, tokens * few.width)
    if tuple(map(size_of, shapes)) != (whole, each):
        return None
    return few._replace(names=(*few.names, name), heads=few.heads.shared(times))


def _split_by_columns(value: tree.Expression, size_of: SizeOf) -> Split | None:
    """Heads that are columns of a matrix, each in another shape, which are put side by side."""
    parts = _parts(value)
    if not parts:
        return None
    source = tree.Name(parts[0].of.name)
    columns = [found for part in parts if (found := places(part.of.columns)) is not None]
    width = columns[0][1] - columns[0][0] + 1 if columns else 0
    count, rows = size_of(parts[0].rows), size_of(call("nrow", source))
    tokens = dim.divide_exactly(rows, count) if is_dim(rows) and is_dim(count) else None
    if not is_dim(rows) or not is_dim(count) or tokens is None or len(columns) < len(parts):
        return None
    is_whole = all(last - first + 1 == width for first, last in columns) and all(
        size_of(part.whole) == (count, tokens * width) for part in parts
    )
    return Split((), Heads(source.name, tuple(columns)), width, parts[0].rows, count, rows) if is_whole else None


def _split_by_rows(name: str, gather: _Gather, known: Variables, size_of: SizeOf) -> Split | None:
    """Heads that a gather puts one below the other: of a matrix with a row for each head of each token."""
    samples, heads = _size(gather.sizes[0]), _literal(gather.sizes[2])
    value = known.value(gather.matrix) or gather.matrix
    if not is_reshape(value) or heads is None or samples is None:
        return None
    source, width = value.arguments[0].value, value.arguments[2].value
    rows = gather.many * gather.outer
    if not isinstance(width, tree.IntLiteral) or size_of(source) != (rows, heads * width.value):
        return None
    first = 1
    if isinstance(source, tree.Indexed):
        span = places(source.columns)
        if source.rows != _ALL or span is None:
            return None
        first = span[0]
        source = tree.Name(source.name)
    elif not isinstance(source, (tree.Binary, tree.Name)):
        return None
    columns = tuple((first + at * width.value, first + (at + 1) * width.value - 1) for at in range(heads))
    between = (gather.matrix.name,) if isinstance(gather.matrix, tree.Name) else ()
    names = (*gather.names, *between, name)
    return Split(names, Heads(print_expression(source), columns), width.value, samples, gather.many, rows)


def _parts(value: tree.Expression) -> tuple[_Part, ...]:
    """Columns of one matrix, all in another shape, that are put side by side; nothing for other expressions."""
    found: list[_Part] = []
    for node in arguments_of(value, "cbind"):
        inner = node.arguments[0].value if is_reshape(node) else None
        if not is_reshape(node) or not isinstance(inner, tree.Indexed) or inner.rows != _ALL:
            return ()
        if inner.columns is None or inner.columns.lower is None:
            return ()
        found.append(_Part(inner, node.arguments[1].value, node))
    return tuple(found) if len({part.of.name for part in found}) == 1 < len(found) else ()


def unshaped(value: tree.Expression | None) -> tree.Expression | None:
    """What a value is before it gets another shape."""
    while is_reshape(value):
        value = value.arguments[0].value
    return value


def arguments_of(value: tree.Expression | None, function: str) -> list[tree.Expression]:
    """The arguments of a call of a function; none of other values."""
    return [argument.value for argument in value.arguments] if is_call(value, function) else []


def _span(part: tree.Indexed, size_of: SizeOf) -> tuple[Symbolic | None, Symbolic | None]:
    """The first and the last column of a part."""
    assert part.columns is not None and part.columns.lower is not None
    upper = part.columns.lower if part.columns.upper is None else part.columns.upper
    return size_of(part.columns.lower), size_of(upper)
