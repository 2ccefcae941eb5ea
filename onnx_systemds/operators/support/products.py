"""Products of many pairs of matrices, as DML text."""

from __future__ import annotations

from onnx_systemds.inference.dims import Dim
from onnx_systemds.operators.api.node_view import NodeView

MOST_WRITTEN_OUT = 32  # pairs: a loop over few small matrices takes longer than their products


def batch_product(
    node: NodeView, x: str, y: str, count: Dim, rows: Dim, y_rows: Dim, *, transposed: bool = False
) -> str:
    """The products of ``count`` pairs of matrices, one below the other as they are in ``x`` and ``y``.

    rows, y_rows: how many rows a matrix of ``x`` and of ``y`` has. transposed: whether those of ``y`` are.
    """
    if not isinstance(count, int) or not 1 < count <= MOST_WRITTEN_OUT:
        return node.call("batch_matmul_transposed" if transposed else "batch_matmul", x, y, node.dim(count))
    before: list[str] = []
    left, right = (_spans(name, count, size, before) for name, size in (("X", rows), ("Y", y_rows)))
    spans = list(zip(left, right))
    names: dict[str, object] = {"count": count, "transposed": transposed, "before": before, "spans": spans}
    function = node.own_function(
        f"products_of_{count}", f"{count} {left[0]} {right[0]} {transposed}",
        lambda name: node.render("batch_product", name=name, **names)[0],
    )  # fmt: skip
    return f"{function}({x}, {y})"


def _spans(name: str, count: int, length: Dim, before: list[str]) -> list[str]:
    """The rows of each matrix of ``name``; a length that only the run knows is computed there."""
    if isinstance(length, int):
        return [f"{index * length + 1}:{(index + 1) * length}" for index in range(count)]
    size = f"size{name}"
    before.append(f"{size} = nrow({name}) %/% {count}")
    return [f"({index} * {size} + 1):({index + 1} * {size})" for index in range(count)]
