"""Attention of any number of samples, as a call of a function with a loop over samples.

As nodes say it, heads are columns of a product that are put one below the other, all scores are in one matrix, and
the results are parted again. The function takes each sample as it stands, and holds the scores of one alone. Numbers
are the same to the last bit. Where the number of samples is known, products are written out (see `joined_parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.library import function_of
from onnx_systemds.dml.literals import number_of
from onnx_systemds.dml.names import Names
from onnx_systemds.dml.operands import expression_of, fits
from onnx_systemds.dml.printer import print_expression
from onnx_systemds.dml.rewrite import call, reshaped
from onnx_systemds.dml.scopes import (
    assigns_variable,
    is_operation,
    is_reshape,
    operand_of,
    read_in,
    reads_of,
)
from onnx_systemds.importing.origins import JoinedOrigin
from onnx_systemds.importing.passes.attention_heads import (
    SizeOf,
    Variables,
    arguments_of,
    join_of,
    split_of,
    unshaped,
    variables,
)
from onnx_systemds.importing.passes.hidden_zeros import with_hidden_zeros
from onnx_systemds.importing.passes.merged_slices import with_merged_slices_in
from onnx_systemds.importing.passes.specialisation.matrix_sizes import Known, statements_with_sizes
from onnx_systemds.operators.support.attention import Heads, Mask, Sizes, attention_function, sources
from onnx_systemds.operators.support.products import LIBRARY, Pairs, pairs_of

_MOST_HEADS = 32
"""With more of them the function, in which their products are written out, gets long."""
_MOST_SCORES = 2**16
"""Of a sample, where sizes are known: the engine's threads share those of all samples at once (12,000 scores of each
are faster in a loop, 131,000 slower)."""
_REPEATED = expression_of("table(seq(1, n), (seq(0, a) %/% b) + 1, n, m) %*% rbind(X, matrix(0, rows=p, cols=c))")
"""Rows of X, each so often below itself."""
_REPEATED_NUMBERS = expression_of("table(seq(1, n), (seq(0, a) %/% b) + 1, n, m) %*% X")
_REPEATED_ROW = expression_of("abs(matrix(1, rows=n, cols=1)) %*% X")
_CHOSEN = {
    True: expression_of("max(ifelse(M > 0, matrix(c, rows=a, cols=b), X), -Inf)"),
    False: expression_of("max(ifelse(M > 0, X, matrix(c, rows=a, cols=b)), -Inf)"),
}
"""A number where a mask is not 0, and where it is."""
_FILLED = expression_of("replace(target=X, pattern=NaN, replacement=0.0)")
_REPEATED_COLUMN = expression_of("C %*% abs(matrix(1, rows=1, cols=n))")
_HIDDEN = expression_of("C == (-Inf)")


def attention_called(
    function: tree.Function, others: Mapping[str, tree.Function], given: Mapping[str, Known], *, is_sized: bool
) -> tuple[tree.Function, dict[str, tree.Function]]:
    """A function that calls functions for attention, and these by name; the same object where it has none.

    others: the functions of the script, by name. given: sizes of the parameters, or examples of them. is_sized: whether
    these are all sizes that there are, so that the functions hold them as numbers. One sample stays as it is then.
    """
    pairs: dict[str, Pairs] = {name: it for name, each in others.items() if (it := pairs_of(each)) is not None}
    if not pairs and not others.keys() >= set(LIBRARY.values()):
        return function, {}
    merged = with_merged_slices_in(function)
    known, names = variables(merged), Names((*others, function.name))
    made: list[tree.Statement] = []
    replaced: set[str] = set()
    functions: dict[str, tree.Function] = {}  # by their texts with the same name for all
    for statement, size_of in statements_with_sizes(merged.body, others, given):
        found = _attention(statement, known, size_of, pairs, is_sized=is_sized)
        if found is not None:
            text = found.function("attention")
            if text not in functions:
                functions[text] = function_of(found.function(names.fresh("attention")))
            statement = found.statement(functions[text].name)
            replaced.update(it.target.name for it in found.replaced)
        made.append(statement)
    if not functions:
        return function, {}
    called = {it.name: with_hidden_zeros(it, others) for it in functions.values()}
    return replace(merged, body=_without_unread(made, replaced)), called


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


class _Attention(NamedTuple):
    """What a call of a function gives to a variable. replaced: the statements whose place it takes, but for the last.

    heads, scale, mask, fills, sizes: see `attention_function`. added: the mask, if there is any. rows, cols: of the
    result.
    """

    result: tree.Assign
    heads: tuple[Heads, Heads, Heads]
    scale: str
    mask: Mask
    fills: bool
    sizes: Sizes | None
    added: tuple[tree.Expression, ...]
    samples: tree.Expression
    rows: tree.Expression
    cols: tree.Expression
    replaced: tuple[tree.Assign, ...]

    def function(self, name: str) -> str:
        """The text of the function."""
        return attention_function(
            name, self.heads, scale=self.scale, mask=self.mask, fills=self.fills, sizes=self.sizes
        )

    def statement(self, function: str) -> tree.Assign:
        """The call, whose result gets its size: of that of a call the engine knows none."""
        count = () if self.sizes else (self.samples,)
        value = call(function, *map(expression_of, sources(self.heads)), *self.added, *count)
        origin = JoinedOrigin((*self.replaced, self.result), may_split=False)
        return replace(self.result, value=reshaped(value, self.rows, self.cols), origin=origin)


class _Softmax(NamedTuple):
    """What is divided by its sums. names: of the variables on the way, the scores first. fills: as in `_Attention`.

    guard: which of the shares are 0, where they are not filled.
    """

    scores: tree.Name
    names: tuple[str, ...]
    fills: bool = False
    guard: tree.Expression | None = None


class _Products(NamedTuple):
    """So many products of pairs of matrices, those of one factor one below the other."""

    factors: tuple[tree.Expression, tree.Expression]
    number: int


class _Scores(NamedTuple):
    """Products of queries and keys. mask: what is added to them after the scale. size: of both there.

    names: of the variables on the way. hides: see `_Attention`; the number is "" where the mask is added.
    """

    products: _Products
    names: tuple[str, ...] = ()
    scale: str = ""
    mask: tree.Expression | None = None
    size: Known | None = None
    hides: tuple[str, bool] = ("", True)


def _attention(
    statement: tree.Statement, known: Variables, size_of: SizeOf, pairs: Mapping[str, Pairs], *, is_sized: bool
) -> _Attention | None:
    """The attention whose heads a statement puts side by side; None for other statements."""
    join = join_of(statement.value, known, size_of) if assigns_variable(statement) else None
    if not assigns_variable(statement) or join is None or (is_sized and join.many == 1):
        return None
    values = _products(known.value(join.whole, join.reads), size_of, pairs, transposed=False)
    softmax = None if values is None else _softmax(values.factors[0], known)
    scores = None if softmax is None else _scores(softmax.scores, known, size_of, pairs, reads=2)
    if values is None or softmax is None or scores is None:
        return None
    factors = (*scores.products.factors, values.factors[1])
    splits = [split for node in factors if (split := split_of(node, known, size_of)) is not None]
    if len(splits) < len(factors):
        return None
    q, k, v = splits
    count, heads, m, n = join.many, join.heads, join.tokens, k.rows // k.many
    are_of_one = (
        heads <= _MOST_HEADS and q.rows == count * m and k.rows == v.rows
        and q.width == k.width and v.width == join.width
        and all(it.many == count and len(it.heads.columns) == heads for it in splits)
        and values.number == scores.products.number == count * heads
        and size_of(softmax.scores) == (count * heads * m, n)
    )
    mask = _mask(scores, (count, heads, m, n), known, size_of)
    if not are_of_one or mask is None or (is_sized and heads * m * n > _MOST_SCORES):
        return None
    guard = () if softmax.guard is None else _guard(softmax.guard, mask, (count, heads, m, n), known, size_of)
    if guard is None or (guard and scores.hides[0]):
        return None
    kind, added = mask[0], tuple(_base(it, known) for it in mask[1])
    if kind == "keys" and size_of(added[0]) != (count, n):  # the function gives any other mask its shape itself
        added = mask[1]
    shaped = [name for it in mask[1] for name in _origin(it, known)[1] if tree.Name(name) not in added]
    given = (*(expression_of(it.heads.source) for it in splits), q.samples, join.rows, join.cols, *added)
    if not known.stable >= set[str]().union(*map(read_in, given)):
        return None
    masks = (scores.mask.name,) if isinstance(scores.mask, tree.Name) else ()
    between = (*shaped, *masks, *scores.names, *softmax.names, *guard, join.whole.name)
    names = dict.fromkeys((*q.names, *k.names, *v.names, *between, *join.names))
    replaced = tuple(known.assigned[name] for name in names if name in known.assigned)
    columns = [size[1] for it in splits if isinstance(size := size_of(expression_of(it.heads.source)), tuple)]
    if len(columns) < len(splits):
        return None
    of_sources = dict(zip((it.heads.source for it in splits), columns))  # those that several share once
    sizes = Sizes(count, m, n, tuple(of_sources.values())) if is_sized else None
    return _Attention(
        statement, (q.heads, k.heads, v.heads), scores.scale, Mask(kind, scores.hides, bool(guard)), softmax.fills,
        sizes, added, q.samples, join.rows, join.cols, replaced,
    )


def _softmax(shares: tree.Expression, known: Variables) -> _Softmax | None:
    """``E / rowSums(E)``, where E is ``exp(S - rowMaxs(S))``; with 0 for NaN, or for what a guard says."""
    value = unshaped(known.value(shares, 1))
    filled: dict[str, Any] = {}
    is_filled = fits(_FILLED, value, filled)
    if is_filled or (fits(_CHOSEN[True], value, filled) and number_of(filled["c"]) == 0):
        found = _softmax(filled["X"], known)
        if found is None or found.fills or found.guard or not isinstance(shares, tree.Name):
            return None
        return found._replace(names=(*found.names, shares.name), fills=is_filled, guard=filled.get("M"))
    if not is_operation(value, "/") or operand_of(value.right, "rowSums") != value.left:
        return None
    difference = operand_of(known.value(value.left, 2), "exp")
    if not is_operation(difference, "-") or operand_of(difference.right, "rowMaxs") != difference.left:
        return None
    names = [it for it in (difference.left, value.left, shares) if isinstance(it, tree.Name)]
    return _Softmax(names[0], tuple(it.name for it in names)) if len(names) == 3 else None


def _scores(
    node: tree.Expression, known: Variables, size_of: SizeOf, pairs: Mapping[str, Pairs], reads: int = 1
) -> _Scores | None:
    """The products of queries and keys that a value is, with a factor and a mask or without."""
    if isinstance(node, tree.Name):
        value = known.value(node, reads)
        found = None if value is None else _scores(value, known, size_of, pairs)
        return None if found is None else found._replace(names=(*found.names, node.name))
    products = _products(node, size_of, pairs, transposed=True)
    if products is not None:
        return _Scores(products)
    if is_reshape(node):
        return _scores(node.arguments[0].value, known, size_of, pairs)
    for where, form in _CHOSEN.items():
        chosen: dict[str, Any] = {}
        if fits(form, node, chosen) and number_of(chosen["c"]) is not None:
            found = _scores(chosen["X"], known, size_of, pairs)
            if found is None or found.mask is not None:
                return None
            hides = (print_expression(chosen["c"]), where)
            return found._replace(mask=chosen["M"], size=size_of(chosen["X"]), hides=hides)
    if is_operation(node, "+"):
        for side, mask in ((node.left, node.right), (node.right, node.left)):
            found = _scores(side, known, size_of, pairs)
            if found is not None:
                return None if found.mask is not None else found._replace(mask=mask, size=size_of(side))
    if is_operation(node, "*", "/"):
        is_first = node.operator == "*" and number_of(node.left) is not None
        scores, number = (node.right, node.left) if is_first else (node.left, node.right)
        found = None if number_of(number) is None else _scores(scores, known, size_of, pairs)
        if found is not None and not found.scale and found.mask is None:
            return found._replace(scale=f"{node.operator} {print_expression(number)}")
    return None


def _mask(
    scores: _Scores, sizes: tuple[int, int, int, int], known: Variables, size_of: SizeOf
) -> tuple[str, tuple[tree.Expression, ...]] | None:
    """The kind of the mask, see `attention_function`, and the mask if there is any; None for other ones."""
    given, (count, heads, queries, keys) = scores.mask, sizes
    cells = queries * keys
    if given is None:
        return "", ()
    mask = known.value(given) or given
    repeated = arguments_of(operand_of(mask, "matrix"), "cbind") if is_reshape(mask) else []
    row = repeated[0] if repeated else mask
    found: dict[str, Any] = {}
    if fits(_REPEATED_ROW, mask, found) and (size_of(found["X"]), scores.size) == ((1, cells), (count * heads, cells)):
        return "all", (found["X"],)
    if size_of(mask) == scores.size:
        is_repeated = fits(_REPEATED, mask, found := {}) or fits(_REPEATED_NUMBERS, mask, found := {})
        if is_repeated and size_of(found["X"]) == (count, keys):
            times, last = size_of(found["b"]), size_of(found["a"])
            if (times, last) == (heads * queries, count * heads * queries - 1):
                return "keys", (found["X"],)
        if is_reshape(row) and repeated == [row] * heads and size_of(row) == (count, cells):
            return "sample", (row.arguments[0].value,)
        return "head", (given,)
    if (size_of(mask), scores.size) == ((1, heads * cells), (count, heads * cells)):
        return "heads", (given,)
    return ("all", (given,)) if (size_of(mask), scores.size) == ((1, cells), (count * heads, cells)) else None


def _guard(
    guard: tree.Expression, mask: tuple[str, tuple[tree.Expression, ...]], sizes: tuple[int, int, int, int],
    known: Variables, size_of: SizeOf,
) -> tuple[str, ...] | None:
    """The variables between a mask and a guard that says which of its rows are -inf as a whole; None for others."""
    (kind, added), (count, heads, queries, keys) = mask, sizes
    rows = {"keys": count, "sample": count * queries, "head": count * heads * queries, "heads": heads * queries,
            "all": queries}.get(kind)
    repeated, found = unshaped(guard), dict[str, Any]()
    if kind == "sample":
        is_repeated = fits(_REPEATED, repeated, found) or fits(_REPEATED_NUMBERS, repeated, found := {})
        if not is_repeated or (size_of(found["b"]), size_of(found["a"])) != (heads, count * heads - 1):
            return None
        repeated = unshaped(found["X"])
    elif kind in ("heads", "all"):
        if not fits(_REPEATED_ROW, repeated, found):
            return None
        repeated = unshaped(found["X"])
    whole = (rows, heads * queries * keys if kind == "keys" else keys)
    if repeated is None or size_of(repeated) != whole or not fits(_REPEATED_COLUMN, repeated, found := {}):
        return None
    hidden, first = _origin(found["C"], known)
    if not fits(_HIDDEN, hidden, found := {}):
        return None
    maxima, second = _origin(found["C"], known)
    given = operand_of(maxima, "rowMaxs")
    if given is None or size_of(given) != (rows, keys) or _base(given, known) != _base(added[0], known):
        return None
    return *second, *first


def _origin(node: tree.Expression, known: Variables) -> tuple[tree.Expression, tuple[str, ...]]:
    """What a value is calculated by, whatever its shape, and the variables on the way, the first one first."""
    names: list[str] = []
    while True:
        if is_reshape(node):
            node = node.arguments[0].value
        elif isinstance(node, tree.Name) and (value := known.value(node)) is not None:
            names.append(node.name)
            node = value
        else:
            return node, tuple(names[::-1])


def _base(node: tree.Expression, known: Variables) -> tree.Expression:
    """The first variable that has the cells of a value, maybe in another shape; the value itself without one."""
    value, names = _origin(node, known)
    if isinstance(value, tree.Name):
        return value
    return tree.Name(names[0]) if names else node


def _products(
    value: tree.Expression | None, size_of: SizeOf, pairs: Mapping[str, Pairs], *, transposed: bool
) -> _Products | None:
    """The products of pairs that a value is in another shape."""
    product = unshaped(value)
    if not isinstance(product, tree.Call):
        return None
    factors, number = [argument.value for argument in product.arguments], None
    if product.function == LIBRARY[transposed]:
        number = size_of(factors[2])
    elif (found := pairs.get(product.function)) is not None and found.transposed == transposed:
        number = found.number
    return _Products((factors[0], factors[1]), number) if isinstance(number, int) else None
