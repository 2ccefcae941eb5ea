"""Attention of any number of samples, as a call of a function with a loop over samples.

As nodes say it, heads are columns of a product that are put one below the other, all scores are in one matrix, and
the results are parted again. The function takes each sample as it stands, and holds the scores of one alone. Numbers
are the same to the last bit. Where the number of samples is known, products are written out (see `joined_parts`).
"""

from __future__ import annotations

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
    results,
)
from onnx_systemds.importing.origins import JoinedOrigin
from onnx_systemds.importing.passes.attention_heads import (
    Join,
    SizeOf,
    Variables,
    join_of,
    join_of_one_token,
    split_of,
    unshaped,
    variables,
)
from onnx_systemds.importing.passes.attention_masks import ScoreSizes, base_of, guard_of, mask_of, origin_of
from onnx_systemds.importing.passes.hidden_zeros import with_hidden_zeros
from onnx_systemds.importing.passes.matrix_sizes import Symbolic, is_dim, statements_with_symbols
from onnx_systemds.importing.passes.merged_slices import with_merged_slices_in
from onnx_systemds.importing.passes.softmax_forms import powers_of_shares, scores_of_powers
from onnx_systemds.importing.passes.unread import without_unread
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim
from onnx_systemds.operators.support.attention import Heads, Mask, Sizes, Step, attention_function, sources
from onnx_systemds.operators.support.products import LIBRARY, Pairs, pairs_of

_MOST_HEADS = 32
"""With more of them the function, in which their products are written out, gets long."""
_MOST_SCORES = 2**16
"""Of a sample, where sizes are known: the engine's threads share those of all samples at once (12,000 scores of each
are faster in a loop, 131,000 slower)."""
_CHOSEN = {
    True: expression_of("max(ifelse(M > 0, matrix(c, rows=a, cols=b), X), -Inf)"),
    False: expression_of("max(ifelse(M > 0, X, matrix(c, rows=a, cols=b)), -Inf)"),
}
"""A number where a mask is not 0, and where it is."""
_FILLED = expression_of("replace(target=X, pattern=NaN, replacement=0.0)")


def attention_called(
    function: tree.Function, others: Mapping[str, tree.Function], given: Mapping[str, Symbolic], *, is_sized: bool
) -> tuple[tree.Function, dict[str, tree.Function]]:
    """A function that calls functions for attention, and these by name; the same object where it has none.

    others: the functions of the script, by name. given: sizes of the parameters. is_sized: whether these are numbers,
    which the functions hold. One sample stays as it is then.
    """
    pairs: dict[str, Pairs] = {name: it for name, each in others.items() if (it := pairs_of(each)) is not None}
    if not pairs and not others.keys() >= set(LIBRARY.values()):
        return function, {}
    merged = with_merged_slices_in(function)
    known, names = variables(merged), Names((*others, function.name))
    made: list[tree.Statement] = []
    replaced: set[str] = set()
    functions: dict[str, tree.Function] = {}  # by their texts with the same name for all
    for statement, size_of in statements_with_symbols(merged.body, others, given):
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
    body = without_unread(made, results(function), lambda it: assigns_variable(it) and it.target.name in replaced)
    return replace(merged, body=tuple(body)), called


class _Attention(NamedTuple):
    """What a call of a function gives to a variable. replaced: the statements whose place it takes, but for the last.

    heads, steps, fills, guards, sizes: see `attention_function`. added: the masks, if there are any. rows, cols: of the
    result.
    """

    result: tree.Assign
    heads: tuple[Heads, Heads, Heads]
    steps: tuple[Step, ...]
    fills: bool
    guards: bool
    sizes: Sizes | None
    added: tuple[tree.Expression, ...]
    samples: tree.Expression
    rows: tree.Expression
    cols: tree.Expression
    replaced: tuple[tree.Assign, ...]

    def function(self, name: str) -> str:
        """The text of the function."""
        return attention_function(
            name, self.heads, self.steps, fills=self.fills, guards=self.guards, sizes=self.sizes
        )

    def statement(self, function: str) -> tree.Assign:
        """The call, whose result gets its size: of that of a call the engine knows none."""
        count = () if self.sizes else (self.samples,)
        matrices = [expression_of(source) for source, _ in sources(self.heads)]
        value = call(function, *matrices, *self.added, *count)
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
    number: Dim


class _Choice(NamedTuple):
    """What is added to scores of this shape, or chooses among them. hides: as in `Mask`."""

    value: tree.Expression
    shape: Symbolic | None
    hides: tuple[str, bool] = ("", True)


class _Scores(NamedTuple):
    """Products of queries and keys, and what happens to them. names: of the variables on the way."""

    products: _Products
    names: tuple[str, ...] = ()
    steps: tuple[_Choice | str, ...] = ()

    def then(self, step: _Choice | str) -> _Scores:
        return self._replace(steps=(*self.steps, step))


def _attention(
    statement: tree.Statement, known: Variables, size_of: SizeOf, pairs: Mapping[str, Pairs], *, is_sized: bool
) -> _Attention | None:
    """The attention whose heads a statement puts side by side; None for other statements."""
    if not assigns_variable(statement):
        return None
    values, join = _joined_values(statement.value, known, size_of, pairs)
    if values is None or join is None or (is_sized and join.many == 1):
        return None
    softmax = _softmax(values.factors[0], known)
    scores = None if softmax is None else _scores(softmax.scores, known, size_of, pairs, reads=2)
    if softmax is None or scores is None:
        return None
    shared = dim.divide_exactly(values.number, join.many)  # heads of keys and values, each for one or more queries
    if not isinstance(shared, int):
        return None
    factors = (*scores.products.factors, values.factors[1])
    q, k, v = (split_of(node, number, join, known, size_of)
               for node, number in zip(factors, (join.heads, shared, shared)))
    if q is None or k is None or v is None:
        return None
    count, heads, m, n = join.many, join.heads, join.tokens, dim.divide_exactly(k.rows, k.many)
    if n is None:
        return None
    are_of_one = (
        heads <= _MOST_HEADS and q.rows == count * m and k.rows == v.rows
        and q.width == k.width and v.width == join.width
        and q.many == k.many == v.many == count and values.number == scores.products.number == count * shared
        and size_of(softmax.scores) == (count * heads * m, n)
    )
    if not are_of_one:
        return None
    if v.heads.below and join.cols != tree.IntLiteral(heads * join.width):
        return None  # how wide values are may depend on the run
    masks = _masks(scores, softmax, (count, heads, m, n), known, size_of)
    matrices = [expression_of(source) for source, _ in sources((q.heads, k.heads, v.heads))]
    columns = [size[1] for it in matrices if isinstance(size := size_of(it), tuple)]
    if masks is None or len(columns) < len(matrices):
        return None
    given = (*matrices, q.samples, join.rows, join.cols, *masks.added)
    if not known.stable >= set[str]().union(*map(read_in, given)):
        return None
    names = dict.fromkeys((*q.names, *k.names, *v.names, *masks.names, *scores.names, *softmax.names, *join.names))
    replaced = tuple(known.assigned[name] for name in names if name in known.assigned)
    sizes = None
    if is_sized:
        samples, queries, keys, *widths = (size for size in (count, m, n, *columns) if isinstance(size, int))
        if heads * queries * keys > _MOST_SCORES:
            return None
        sizes = Sizes(samples, queries, keys, tuple(widths))
    return _Attention(
        statement, (q.heads, k.heads, v.heads), masks.steps, softmax.fills, softmax.guard is not None, sizes,
        masks.added, q.samples, join.rows, join.cols, replaced,
    )


def _joined_values(
    value: tree.Expression, known: Variables, size_of: SizeOf, pairs: Mapping[str, Pairs]
) -> tuple[_Products | None, Join | None]:
    """The products with values that an expression puts side by side, and how; None for others."""
    products = _products(value, size_of, pairs, transposed=False)
    if products is not None:
        return products, join_of_one_token(value, products.number, size_of)
    join = join_of(value, known, size_of)
    return None if join is None else _products(join.whole, size_of, pairs, transposed=False), join


class _Masks(NamedTuple):
    """What happens to scores. added: what a call passes for the masks. names: of variables that are read for them."""

    steps: tuple[Step, ...]
    added: tuple[tree.Expression, ...]
    names: tuple[str, ...]


def _masks(
    scores: _Scores, softmax: _Softmax, sizes: ScoreSizes, known: Variables, size_of: SizeOf
) -> _Masks | None:
    """The masks of scores; None if one is of another shape, or a guard asks anything but a single mask."""
    choices = [it for it in scores.steps if isinstance(it, _Choice)]
    found = [it for choice in choices if (it := mask_of(choice.value, choice.shape, sizes, known, size_of)) is not None]
    if len(found) < len(choices):
        return None
    guard: tuple[str, ...] | None = ()
    if softmax.guard is not None:
        is_alone = len(choices) == 1 and not choices[0].hides[0]
        guard = guard_of(softmax.guard, found[0], sizes, known, size_of) if is_alone else None
    if guard is None:
        return None
    keys = (sizes[0], sizes[-1])  # the function gives any other mask its shape itself
    bases = [base_of(it.value, known) for it in found]
    added = tuple(it.value if it.kind == "keys" and size_of(base) != keys else base for it, base in zip(found, bases))
    shaped = [name for it in found for name in origin_of(it.value, known)[1] if tree.Name(name) not in added]
    chosen = [it.value.name for it in choices if isinstance(it.value, tree.Name)]
    kinds = iter(found)
    steps = tuple(it if isinstance(it, str) else Mask(next(kinds).kind, it.hides) for it in scores.steps)
    return _Masks(steps, added, (*shaped, *chosen, *guard))


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
    powers = powers_of_shares(value)
    scores = None if powers is None else scores_of_powers(known.value(powers, 2))
    names = [it for it in (scores, powers, shares) if isinstance(it, tree.Name)]
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
            hides = (print_expression(chosen["c"]), where)
            return None if found is None else found.then(_Choice(chosen["M"], size_of(chosen["X"]), hides))
    inner = operand_of(node, "tanh")
    if inner is not None:
        found = _scores(inner, known, size_of, pairs)
        return None if found is None else found.then("tanh")
    if is_operation(node, "+"):
        for side, mask in ((node.left, node.right), (node.right, node.left)):
            found = _scores(side, known, size_of, pairs)
            if found is not None:
                return found.then(_Choice(mask, size_of(side)))
    if is_operation(node, "*", "/"):
        is_first = node.operator == "*" and number_of(node.left) is not None
        scores, number = (node.right, node.left) if is_first else (node.left, node.right)
        found = None if number_of(number) is None else _scores(scores, known, size_of, pairs)
        return None if found is None else found.then(f"{node.operator} {print_expression(number)}")
    return None


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
    return _Products((factors[0], factors[1]), number) if is_dim(number) else None
