"""Where the engine computes an operation on whole matrices: in its own process (the driver), or on Spark."""

from __future__ import annotations

IN_DRIVER = frozenset([
    "avg_pool", "bias_add", "bias_multiply", "conv2d", "conv2d_backward_data", "conv2d_backward_filter", "einsum",
    "max_pool", "unique",
])
"""Builtins that have no form on Spark: however large their matrices, they are computed in the driver."""
BUDGET_SHARE = 0.7
"""Of the heap, for the matrices of one operation: with -exec hybrid what needs more is computed on Spark."""
