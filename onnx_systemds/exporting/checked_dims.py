"""The dims of a function's inputs that it checks itself: a script stops where ``ncol(X) != 4``, so X has 4 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import assigned, assigns_variable, ends_run
from onnx_systemds.inference import dims as sizes
from onnx_systemds.inference.dim_equations import last_equal
from onnx_systemds.inference.dims import Dim

Pair = tuple[Dim, Dim]


def checked_dims(function: tree.Function, given: Mapping[str, Pair]) -> dict[str, Pair]:
    """Rows and columns of the matrices and frames among the parameters that are not ``given``.

    Open ones are symbols called after the parameter, or of another parameter whose size the function checks to be the
    same one.
    """
    names = [each.name for each in function.parameters if each.type.kind in ("matrix", "frame")]
    own = {name: (sizes.symbol(f"{name}_rows"), sizes.symbol(f"{name}_cols")) for name in names if name not in given}
    open_sizes = {size for pair in own.values() for size in pair}
    terms: dict[tree.Expression, Dim] = {
        tree.Call(call, (tree.CallArgument(None, tree.Name(name)),)): size
        for name, pair in {**given, **own}.items() for call, size in zip(("nrow", "ncol"), pair)
    }
    found: dict[Dim, Dim] = {}
    for statement in function.body:
        for left, right in _checks(statement):
            one, other = (_size(side, terms, found) for side in (left, right))
            if one is None or other is None or one == other:
                continue
            if one in open_sizes:
                found[one] = other
            elif other in open_sizes:
                found[other] = one
        changed = set(assigned((statement,)))
        terms = {term: size for term, size in terms.items() if not changed & _names(term)}
        if assigns_variable(statement) and not statement.accumulate and statement.value in terms:
            terms[statement.target] = terms[statement.value]
    return {name: (last_equal(found, rows), last_equal(found, columns)) for name, (rows, columns) in own.items()}


def _checks(statement: tree.Statement) -> Iterator[tuple[tree.Expression, tree.Expression]]:
    """What a statement checks to be equal: it stops where one of the pairs is not."""
    if not isinstance(statement, tree.If):
        return
    wrong = [*_either(statement.condition)]
    if _stops(statement.body):
        found = wrong
    elif set(assigned(statement.body)):  # of what it checks maybe, before it does
        found = []
    else:  # a check for all, and within it one with a message for each
        inner = [each for each in statement.body if isinstance(each, tree.If) and _stops(each.body)]
        found = [each.condition for each in inner if each.condition in wrong]
    yield from ((each.left, each.right) for each in found if isinstance(each, tree.Binary) and each.operator == "!=")


def _either(condition: tree.Expression) -> Iterator[tree.Expression]:
    if isinstance(condition, tree.Binary) and condition.operator in ("|", "||"):
        yield from (*_either(condition.left), *_either(condition.right))
    else:
        yield condition


def _stops(block: tree.Block) -> bool:
    return bool(block) and ends_run(block[-1])


def _size(side: tree.Expression, terms: Mapping[tree.Expression, Dim], found: Mapping[Dim, Dim]) -> Dim | None:
    if isinstance(side, tree.IntLiteral):
        return side.value if side.value > 0 else None
    size = terms.get(side)
    return None if size is None else last_equal(found, size)


def _names(term: tree.Expression) -> set[str]:
    """The variables in ``X`` or ``nrow(X)``."""
    inner = term.arguments[0].value if isinstance(term, tree.Call) else term
    return {inner.name} if isinstance(inner, tree.Name) else set()
