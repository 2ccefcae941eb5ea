"""Where products of sparse matrices pass over zeros beside what is not finite, as docs/differences.md says, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

Places = np.ndarray[Any, np.dtype[np.bool_]]


def passed_over(model: ModelProto, feeds: Mapping[str, Any], judged: Places) -> Places:
    """The elements that may be others than the judge's, which are NaN or infinities (``judged``): all of them in most models.

    Of a single Mul, Div or MatMul these are NaN of zeros times what is not finite, and of zeros divided by NaN, alone.
    """
    node = model.graph.node[0]
    if len(model.graph.node) > 1 or node.op_type not in ("Mul", "Div", "MatMul"):
        return judged
    left, right = (np.asarray(feeds[name]).astype(np.float64) for name in node.input[:2])
    if node.op_type == "Div":
        return judged & ((left == 0) & np.isnan(right))
    if node.op_type == "Mul":
        return judged & (((left == 0) & ~np.isfinite(right)) | (~np.isfinite(left) & (right == 0)))
    zeros = _meetings(left == 0, ~np.isfinite(right)) | _meetings(~np.isfinite(left), right == 0)
    return judged & zeros & ~_meetings(np.isnan(left), right != 0) & ~_meetings(left != 0, np.isnan(right))


def _meetings(left: Places, right: Places) -> Places:
    """Whether any element of a row of the one is marked as well as that of a column of the other."""
    return np.asarray(np.matmul(left.astype(np.float32), right.astype(np.float32)) > 0)
