"""ArgMin and ArgMax of rows: computed from a mask of the extremes, or inside a product with known numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnx_systemds.exporting.graph.nodes import BOOL, FLOAT, INT, Array, Node, Tensor, first_found, made_by
from onnx_systemds.exporting.passes.fusing import Fusing, only_axis

_EXTREMES: Mapping[str, tuple[tuple[str, ...], str, float]] = {
    "ReduceMin": (("LessOrEqual", "Equal"), "ArgMin", -np.inf),
    "ReduceMax": (("GreaterOrEqual", "Equal"), "ArgMax", np.inf),
}
"""By reduction: comparisons with the extreme, the operator for its index, and what replaces NaN."""


def arg_extreme_of_mask(fusing: Fusing, node: Node) -> bool:
    """The index of the last true element of ``D <= rowMins(D)`` for a product D; rows of NaN keep their index."""
    truths, axis = fusing.source(node.inputs[0], "Cast"), node.integer("axis")
    for extreme, (comparisons, op, gap) in _EXTREMES.items():
        compared = first_found(fusing.single(truths, each) for each in comparisons)
        reduced = None if compared is None else fusing.single(compared.inputs[1], extreme)
        if compared is None or reduced is None or only_axis(reduced) != axis:
            continue
        x = compared.operand()
        if reduced.inputs[0] is x and x.kind == FLOAT and made_by(x, "Gemm", "MatMul") is not None:
            gaps = fusing.inserted(node, "IsNaN", [x], Tensor(BOOL, x.dims))
            worst = fusing.builder.constant(gap, x.kind)
            known = fusing.inserted(node, "Where", [gaps, worst, x], Tensor(x.kind, x.dims))
            return fusing.become(node, op, [known], **node.attributes)
    return False


def arg_extreme_of_product(fusing: Fusing, node: Node) -> bool:
    """The index of the extreme of each row of a product with known numbers; for a row of NaN the first index.

    A last column that is worse than all others stands for rows of NaN. So NaN is replaced by one number instead of a
    row, which takes onnxruntime several times as long.
    """
    best = fusing.single(node.inputs[1], "ArgMax") or fusing.single(node.inputs[1], "ArgMin")
    chosen = None if best is None else fusing.single(best.inputs[0], "Where")
    test, held = (None, None) if chosen is None else (chosen.inputs[0], chosen.inputs[2])
    asked, limited = fusing.single(test, "IsNaN"), fusing.single(held, "Clip")
    if best is None or chosen is None or asked is None or limited is None or limited.inputs[0] is not asked.inputs[0]:
        return False
    x, gaps, table = asked.operand(), chosen.operand(1).constant, node.operand().constant
    product = made_by(x, "Gemm", "MatMul")
    if product is None or product.scope is not fusing.scope or fusing.uses[x] != 2 or gaps is None or table is None:
        return False
    is_ranked = gaps.shape == (1, len(table)) and bool(np.isinf(gaps[:, 1:]).all())
    if best.attributes.get("select_last_index") != 1 or not is_ranked:
        return False
    widened = _with_constant_column(fusing, product, gaps[:, -1:])
    if widened is None:
        return False
    dims = (x.dims[0], len(table) + 1)
    scores = fusing.inserted(node, "Gemm", widened, Tensor(x.kind, dims, x.hint), product.attributes)
    rest = fusing.inserted(node, "Clip", [scores, *limited.inputs[1:]], Tensor(x.kind, dims))
    gap = fusing.inserted(node, "IsNaN", [scores], Tensor(BOOL, dims))
    worst = fusing.builder.constant(gaps[0, -1], x.kind)
    ranks = fusing.inserted(node, "Where", [gap, worst, rest], Tensor(x.kind, dims))
    place = fusing.inserted(node, best.op, [ranks], Tensor(INT, best.outputs[0].dims), best.attributes)
    places = fusing.builder.constant(np.append(table, table[0]), node.operand().kind)
    return fusing.become(node, "Gather", [places, place], **node.attributes)


def _with_constant_column(fusing: Fusing, product: Node, number: Array) -> list[Tensor | None] | None:
    """Return the inputs of a Gemm with one more column of a number; None if the factors are not all known."""
    factors = product.operand(1)
    added = product.operand(2).constant if len(product.inputs) == 3 else np.zeros((1, 1))
    known, is_transposed = factors.constant, bool(product.attributes.get("transB"))
    if known is None or known.ndim != 2 or added is None or fusing.uses[factors] != 1 or product.operand().rank != 2:
        return None
    width = known.shape[0 if is_transposed else 1]
    if added.size not in (1, width) or added.shape[-1:] not in ((), (added.size,)):
        return None
    wider = np.pad(known, ((0, 1), (0, 0)) if is_transposed else ((0, 0), (0, 1)))
    row = np.append(np.broadcast_to(added.reshape(1, -1), (1, width)), number, 1)
    constants = [fusing.builder.constant(array, factors.kind) for array in (wider, row)]
    return [product.operand(), *constants]
