"""Probabilities of classes coupled from those of all pairs, as support vector machines do with their scores."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from onnx_systemds.exporting.builtins.api import FLOAT, INT, Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.graph.nodes import Array, made_by, pairs, source_of
from onnx_systemds.exporting.passes.fusing import number_of
from onnx_systemds.model.ir import ML

_LEAST = 1e-7
"""The least probability of a pair, as onnxruntime has it."""
_LARGEST = float(np.finfo(np.float32).max)
_LINEAR = (0.0, 0.0, 0.0)


@template_function("coupled_probabilities")
def coupled_probabilities(ctx: Context, R: Matrix, classes: int) -> Value | None:
    """The probabilities of the classes; an SVMClassifier couples those that logistic functions of scores give."""
    g, both = ctx.g, list(combinations(range(classes), 2))
    found = _scores_of_pairs(R.tensor, both, classes) if classes >= 2 else None
    if found is None or g.dtype == "float64":
        return None
    scores, slopes, shifts = found
    finite = g.node("Clip", [scores, g.number(-_LARGEST), g.number(_LARGEST)], scores.dims)
    coefficients = np.zeros((classes - 1, len(both)))
    for pair, (_, other) in enumerate(both):  # its vector is one of the first class, and counts against the other
        coefficients[other - 1, pair] = 1.0
    attributes = {
        "kernel_type": "LINEAR", "kernel_params": _LINEAR, "post_transform": "NONE", "_domain": ML,
        "classlabels_ints": tuple(range(classes)), "vectors_per_class": tuple(range(classes - 1, -1, -1)),
        "support_vectors": tuple(np.eye(len(both)).ravel().tolist()), "rho": (0.0,) * len(both),
        "coefficients": tuple(coefficients.ravel().tolist()), "prob_a": tuple(slopes.tolist()),
        "prob_b": tuple(shifts.tolist()),
    }
    kinds = [(INT, (R.rows,)), (FLOAT, (R.rows, classes))]
    return ctx.matrix(g.nodes("SVMClassifier", [finite], kinds, **attributes)[1])


def _scores_of_pairs(
    coupled: Tensor, both: list[tuple[int, int]], classes: int
) -> tuple[Tensor, Array, Array] | None:
    """Return the scores of which probabilities of pairs are made, and slope and shift of each; None for others."""
    wins, offset = np.zeros((len(both), classes**2)), np.zeros(classes**2)
    for pair, (one, other) in enumerate(both):
        wins[pair, one * classes + other], wins[pair, other * classes + one] = 1.0, -1.0
        offset[other * classes + one] = 1.0
    for product, row in pairs(made_by(coupled, "Add")):
        made = made_by(product, "MatMul")
        if made is None or not _is(row, offset) or not _is(made.operand(1), wins):
            continue
        line = _exponent(made.operand())
        for scaled, shift in pairs(made_by(line, "Add")):
            for scores, slope in pairs(made_by(scaled, "Mul")):
                known = [_row(each, len(both)) for each in (slope, shift)]
                if known[0] is not None and known[1] is not None and scores.dims[1:] == (len(both),):
                    return scores, known[0], known[1]
    return None


def _exponent(won: Tensor) -> Tensor | None:
    """Return z of ``min(max(1 / (1 + exp(z)), least), 1 - least)``, None for anything else."""
    for limited, high in pairs(made_by(won, "Min")):
        for share, low in pairs(made_by(limited, "Max")):
            if number_of(high) == 1 - _LEAST and number_of(low) == _LEAST:
                return source_of(source_of(share, "Sigmoid"), "Neg")
    return None


def _is(tensor: Tensor, content: Array) -> bool:
    known = tensor.constant
    return known is not None and known.size == content.size and np.array_equal(known.ravel(), content.ravel())


def _row(tensor: Tensor, count: int) -> Array | None:
    """Return a known finite row as an array of rank 1."""
    known = tensor.constant
    is_row = known is not None and (known.shape == (1, count) or known.size == count == 1)
    return known.ravel() if known is not None and is_row and np.isfinite(known).all() else None
