"""Attention of any number of samples, as a call of a function with a loop over samples.

As nodes say it, heads are columns of a product that are put one below the other, all scores are in one matrix, and
the results are parted again. The function takes each sample as it stands, and holds the scores of one alone. Numbers
are the same to the last bit. Where the number of samples is known, products are written out (see `joined_parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.dml.rewrite import call, reshaped
from onnx_systemds.dml.scopes import (
    assigns_variable,
    definition_counts,
    is_call,
    is_operation,
    is_reshape,
    operand_of,
    read_in,
    reads_of,
    results,
)
from onnx_systemds.importing.origins import JoinedOrigin
from onnx_systemds.importing.passes.hidden_zeros import with_hidden_zeros
from onnx_systemds.importing.passes.merged_slices import places, with_merged_slices_in
from onnx_systemds.importing.passes.specialisation.matrix_sizes import Known, statements_with_sizes
from onnx_systemds.importing.passes.specialisation.specialise import example_sizes
from onnx_systemds.importing.passes.specialisation.trees import called_functions
from onnx_systemds.importing.script import Script, with_main
from onnx_systemds.operators.support.attention import Heads, attention_function, sources
from onnx_systemds.operators.support.products import LIBRARY

_ALL = tree.Span()
SizeOf = Callable[[tree.Expression], Known | None]


def with_attention(script: Script) -> Script:
    """The script whose main function calls functions for attention; the same object where there is none."""
    others = {name: it for name, it in script.callable_functions.items() if name != script.function}
    if not others.keys() >= set(LIBRARY.values()):
        return script
    functions: dict[str, tree.Function] = {}
    main = _with_calls(with_merged_slices_in(script.main), others, example_sizes(script), functions)
    if not functions:
        return script
    library = (*script.library, *(with_hidden_zeros(it, others) for it in functions.values()))
    changed = with_main(script, main)
    called = {it.name for it in called_functions(tree.Script((*library, *changed.functions)), [main])}
    return replace(changed, library=tuple(sorted((it for it in library if it.name in called), key=attrgetter("name"))))


def _with_calls(
    function: tree.Function, others: Mapping[str, tree.Function], given: Mapping[str, Known],
    functions: dict[str, tree.Function],
) -> tree.Function:
    """The function with calls; ``functions`` takes what it calls, by its text with the same name for all."""
    known, names = _variables(function), Names((*others, function.name))
    made: list[tree.Statement] = []
    replaced: set[str] = set()
    for statement, size_of in statements_with_sizes(function.body, others, given):
        found = _attention(statement, known, size_of)
        if found is not None:
            text = found.function("attention")
            if text not in functions:
                functions[text] = function_of(found.function(names.fresh("attention")))
            statement = found.statement(functions[text].name)
            replaced.update(it.target.name for it in found.replaced)
        made.append(statement)
    return replace(function, body=_without_unread(made, replaced)) if replaced else function


def _without_unread(block: list[tree.Statement], names: set[str]) -> tree.Block:
    """The statements without those that assign one of these variables, which nothing reads any more."""
    reads = Counter(name for statement in block for name in reads_of(statement))
    found: list[tree.Statement] = []
    for statement in reversed(block):
        if assigns_variable(statement) and statement.target.name in names and not reads[statement.target.name]:
            reads.subtract(reads_of(statement))
        else:
            found.append(statement)
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class _Variables:
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


def _variables(function: tree.Function) -> _Variables:
    changes, kept = definition_counts(function), results(function)
    stable = frozenset(name for name, count in changes.items() if count == 1)
    assigned = {it.target.name: it for it in function.body if assigns_variable(it) and not it.accumulate}
    reads = Counter(name for statement in function.body for name in reads_of(statement))
    return _Variables(stable, {name: it for name, it in assigned.items() if name in stable - kept}, reads)


class _Attention(NamedTuple):
    """What a call of a function gives to a variable. replaced: the statements whose place it takes, but for the last.

    added: the mask, if there is any, see `attention_function`. rows, width: of the result.
    """

    result: tree.Assign
    heads: tuple[Heads, Heads, Heads]
    scale: str
    kind: str
    added: tuple[tree.Expression, ...]
    samples: tree.Expression
    rows: tree.Expression
    width: int
    replaced: tuple[tree.Assign, ...]

    def function(self, name: str) -> str:
        """The text of the function."""
        return attention_function(name, self.heads, scale=self.scale, mask=self.kind)

    def statement(self, function: str) -> tree.Assign:
        """The call, whose result gets its size: of that of a call the engine knows none."""
        value = call(function, *map(tree.Name, sources(self.heads)), *self.added, self.samples)
        origin = JoinedOrigin((*self.replaced, self.result), may_split=False)
        return replace(self.result, value=reshaped(value, self.rows, self.width), origin=origin)


class _Part(NamedTuple):
    """Columns of a matrix in another shape."""

    of: tree.Indexed
    rows: tree.Expression
    whole: tree.Expression


class _Split(NamedTuple):
    """Heads that are put one below the other, of so many columns each.

    name: of the variable that they are put into. samples: how many there are, in figures ``many``. rows: of them all.
    """

    name: str
    heads: Heads
    width: int
    samples: tree.Expression
    many: int
    rows: int


class _Scores(NamedTuple):
    """Products of queries and keys. mask: what is added to them after the scale. size: of both there.

    names: of the variables on the way.
    """

    products: tree.Call
    names: tuple[str, ...] = ()
    scale: str = ""
    mask: tree.Expression | None = None
    size: Known | None = None


def _attention(statement: tree.Statement, known: _Variables, size_of: SizeOf) -> _Attention | None:
    """The attention whose heads a statement puts side by side; None for other statements."""
    parts = _parts(statement.value) if assigns_variable(statement) else ()
    if not assigns_variable(statement) or not parts:
        return None
    whole = tree.Name(parts[0].of.name)
    values = _products(known.value(whole, len(parts)), LIBRARY[False])
    softmax = None if values is None else _softmax(values.arguments[0].value, known)
    scores = None if softmax is None else _scores(softmax[-1], known, size_of, reads=2)
    if values is None or softmax is None or scores is None:
        return None
    factors = [argument.value for argument in (*scores.products.arguments[:2], values.arguments[1])]
    splits = [split for node in factors if (split := _split(node, known, size_of)) is not None]
    if len(splits) < len(factors):
        return None
    q, k, v = splits
    count, heads, m, n = q.many, len(q.heads.columns), q.rows // q.many, k.rows // k.many
    cells = m * v.width
    fits = (
        q.width == k.width and k.rows == v.rows and len(parts) == heads
        and all(it.many == count and len(it.heads.columns) == heads for it in splits)
        and all(size_of(it.arguments[2].value) == count * heads for it in (values, scores.products))
        and size_of(softmax[-1]) == (count * heads * m, n) and size_of(whole) == (count, heads * cells)
        and all(size_of(part.whole) == (count * m, v.width) for part in parts)
        and [_span(part.of, size_of) for part in parts] == [(at * cells + 1, (at + 1) * cells) for at in range(heads)]
    )
    mask = _mask(scores, count, heads, m * n, size_of)
    if not fits or mask is None:
        return None
    read = {it.heads.source for it in splits}.union(*map(read_in, (q.samples, parts[0].rows, *mask[1])))
    if not known.stable >= read:
        return None
    names = (q.name, k.name, v.name, *scores.names, *(it.name for it in (*softmax[::-1], whole)))
    replaced = tuple(known.assigned[name] for name in dict.fromkeys(names))
    width = heads * v.width
    return _Attention(
        statement, (q.heads, k.heads, v.heads), scores.scale, *mask, q.samples, parts[0].rows, width, replaced
    )


def _softmax(shares: tree.Expression, known: _Variables) -> tuple[tree.Name, tree.Name, tree.Name] | None:
    """The variables of ``E / rowSums(E)``, of E and of S, of which E is ``exp(S - rowMaxs(S))``."""
    quotient = known.value(shares, 1)
    if not is_operation(quotient, "/") or operand_of(quotient.right, "rowSums") != quotient.left:
        return None
    difference = operand_of(known.value(quotient.left, 2), "exp")
    if not is_operation(difference, "-") or operand_of(difference.right, "rowMaxs") != difference.left:
        return None
    names = [it for it in (shares, quotient.left, difference.left) if isinstance(it, tree.Name)]
    return (names[0], names[1], names[2]) if len(names) == 3 else None


def _scores(node: tree.Expression, known: _Variables, size_of: SizeOf, reads: int = 1) -> _Scores | None:
    """The products of queries and keys that a value is, with a factor and a mask or without."""
    if isinstance(node, tree.Name):
        value = known.value(node, reads)
        found = None if value is None else _scores(value, known, size_of)
        return None if found is None else found._replace(names=(*found.names, node.name))
    if is_reshape(node):
        products = _products(node, LIBRARY[True])
        return _scores(node.arguments[0].value, known, size_of) if products is None else _Scores(products)
    if is_operation(node, "+"):
        for side, mask in ((node.left, node.right), (node.right, node.left)):
            found = _scores(side, known, size_of)
            if found is not None:
                return None if found.mask is not None else found._replace(mask=mask, size=size_of(side))
    if is_operation(node, "*", "/") and number_of(node.right) is not None:
        found = _scores(node.left, known, size_of)
        if found is not None and not found.scale and found.mask is None:
            return found._replace(scale=f"{node.operator} {print_expression(node.right)}")
    return None


def _mask(
    scores: _Scores, count: int, heads: int, cells: int, size_of: SizeOf
) -> tuple[str, tuple[tree.Expression, ...]] | None:
    """The kind of the mask, see `attention_function`, and the mask if there is any; None for other ones."""
    mask = scores.mask
    if mask is None:
        return "", ()
    repeated = _arguments(operand_of(mask, "matrix"), "cbind") if is_reshape(mask) else []
    row = repeated[0] if repeated else mask
    if size_of(mask) == scores.size:
        if is_reshape(row) and repeated == [row] * heads and size_of(row) == (count, cells):
            return "sample", (row.arguments[0].value,)
        return "head", (mask,)
    return ("all", (mask,)) if (size_of(mask), scores.size) == ((1, cells), (count * heads, cells)) else None


def _split(node: tree.Expression, known: _Variables, size_of: SizeOf) -> _Split | None:
    """The heads that are put one below the other in a variable; None if it is anything else."""
    value = known.value(node)
    parts = _parts(value.arguments[0].value) if is_reshape(value) else ()
    if not isinstance(node, tree.Name) or not parts or value is None:
        return None
    source = tree.Name(parts[0].of.name)
    columns = [found for part in parts if (found := places(part.of.columns)) is not None]
    width = columns[0][1] - columns[0][0] + 1 if columns else 0
    count, rows = size_of(parts[0].rows), size_of(tree.Call("nrow", (tree.CallArgument(None, source),)))
    if not isinstance(count, int) or not isinstance(rows, int) or len(columns) < len(parts) or rows % count:
        return None
    fits = all(last - first + 1 == width for first, last in columns) and all(
        size_of(part.whole) == (count, rows // count * width) for part in parts
    )
    if not fits or size_of(value) != (rows * len(parts), width):
        return None
    return _Split(node.name, Heads(source.name, tuple(columns)), width, parts[0].rows, count, rows)


def _parts(value: tree.Expression) -> tuple[_Part, ...]:
    """Columns of one matrix, all in another shape, that are put side by side; nothing for other expressions."""
    found: list[_Part] = []
    for node in _arguments(value, "cbind"):
        inner = node.arguments[0].value if is_reshape(node) else None
        if not is_reshape(node) or not isinstance(inner, tree.Indexed) or inner.rows != _ALL or inner.columns is None:
            return ()
        found.append(_Part(inner, node.arguments[1].value, node))
    return tuple(found) if len({part.of.name for part in found}) == 1 < len(found) else ()


def _products(value: tree.Expression | None, function: str) -> tree.Call | None:
    """The call of a function for products of pairs that a value is in another shape."""
    while is_reshape(value):
        value = value.arguments[0].value
    return value if is_call(value, function) else None


def _arguments(value: tree.Expression | None, function: str) -> list[tree.Expression]:
    return [argument.value for argument in value.arguments] if is_call(value, function) else []


def _span(part: tree.Indexed, size_of: SizeOf) -> tuple[Known | None, Known | None]:
    """The first and the last column of a part."""
    assert part.columns is not None and part.columns.lower is not None
    upper = part.columns.lower if part.columns.upper is None else part.columns.upper
    return size_of(part.columns.lower), size_of(upper)
