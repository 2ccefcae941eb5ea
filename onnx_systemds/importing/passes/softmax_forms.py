"""How scripts say a Softmax along rows: ``E / rowSums(E)``, where E is ``exp(X - rowMaxs(X))``."""

from __future__ import annotations

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.scopes import is_operation, operand_of


def powers_of_shares(value: tree.Expression | None) -> tree.Expression | None:
    """E of ``E / rowSums(E)``; None for other expressions."""
    if not is_operation(value, "/") or operand_of(value.right, "rowSums") != value.left:
        return None
    return value.left


def scores_of_powers(value: tree.Expression | None) -> tree.Expression | None:
    """X of ``exp(X - rowMaxs(X))``; None for other expressions."""
    difference = operand_of(value, "exp")
    if not is_operation(difference, "-") or operand_of(difference.right, "rowMaxs") != difference.left:
        return None
    return difference.left
