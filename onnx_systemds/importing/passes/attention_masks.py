"""What is added to the scores of an attention, or chooses among them, and what is asked of it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.operands import expression_of, fits
from onnx_systemds.dml.scopes import is_reshape, operand_of
from onnx_systemds.importing.passes.attention_heads import SizeOf, Variables, arguments_of, unshaped
from onnx_systemds.importing.passes.matrix_sizes import Symbolic
from onnx_systemds.inference.dims import Dim

ScoreSizes: TypeAlias = tuple[Dim, int, Dim, Dim]
"""Samples, heads, queries and keys."""
_REPEATED = expression_of("table(seq(1, n), (seq(0, a) %/% b) + 1, n, m) %*% rbind(X, matrix(0, rows=p, cols=c))")
"""Rows of X, each so often below itself."""
_REPEATED_NUMBERS = expression_of("table(seq(1, n), (seq(0, a) %/% b) + 1, n, m) %*% X")
_REPEATED_ROW = expression_of("abs(matrix(1, rows=n, cols=1)) %*% X")
_REPEATED_COLUMN = expression_of("C %*% abs(matrix(1, rows=1, cols=n))")
_HIDDEN = expression_of("C == (-Inf)")


class Added(NamedTuple):
    """A value that is added to scores, or chooses among them. kind: see `support.attention.Mask`."""

    kind: str
    value: tree.Expression


def mask_of(
    given: tree.Expression, shape: Symbolic | None, sizes: ScoreSizes, known: Variables, size_of: SizeOf
) -> Added | None:
    """What a value is that is added to scores, or chooses among them; None for other values.

    shape: of the scores there.
    """
    count, heads, queries, keys = sizes
    cells = queries * keys
    mask = known.value(given) or given
    repeated = arguments_of(operand_of(mask, "matrix"), "cbind") if is_reshape(mask) else []
    row = repeated[0] if repeated else mask
    found: dict[str, Any] = {}
    if fits(_REPEATED_ROW, mask, found) and (size_of(found["X"]), shape) == ((1, cells), (count * heads, cells)):
        return Added("all", found["X"])
    if size_of(mask) == shape:
        is_repeated = fits(_REPEATED, mask, found := {}) or fits(_REPEATED_NUMBERS, mask, found := {})
        if is_repeated and size_of(found["X"]) == (count, keys):
            times, last = size_of(found["b"]), size_of(found["a"])
            if (times, last) == (heads * queries, count * heads * queries - 1):
                return Added("keys", found["X"])
        if is_reshape(row) and repeated == [row] * heads and size_of(row) == (count, cells):
            return Added("sample", row.arguments[0].value)
        return Added("head", given)
    if (size_of(mask), shape) == ((1, heads * cells), (count, heads * cells)):
        return Added("heads", given)
    return Added("all", given) if (size_of(mask), shape) == ((1, cells), (count * heads, cells)) else None


def guard_of(
    guard: tree.Expression, mask: Added, sizes: ScoreSizes, known: Variables, size_of: SizeOf
) -> tuple[str, ...] | None:
    """The variables between a mask and a guard that says which of its rows are -inf as a whole; None for others."""
    kind, (count, heads, queries, keys) = mask.kind, sizes
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
    hidden, first = origin_of(found["C"], known)
    if not fits(_HIDDEN, hidden, found := {}):
        return None
    maxima, second = origin_of(found["C"], known)
    given = operand_of(maxima, "rowMaxs")
    if given is None or size_of(given) != (rows, keys) or base_of(given, known) != base_of(mask.value, known):
        return None
    return *second, *first


def origin_of(node: tree.Expression, known: Variables) -> tuple[tree.Expression, tuple[str, ...]]:
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


def base_of(node: tree.Expression, known: Variables) -> tree.Expression:
    """The first variable that has the cells of a value, maybe in another shape; the value itself without one."""
    value, names = origin_of(node, known)
    if isinstance(value, tree.Name):
        return value
    return tree.Name(names[0]) if names else node
