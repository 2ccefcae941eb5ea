"""Layers of SystemDS's scripts/nn that are operators of ONNX, but are loops or permutations in DML."""

from __future__ import annotations

from onnx_systemds.exporting.builtins.api import Context, Matrix, Value
from onnx_systemds.exporting.builtins.contingency import places_of
from onnx_systemds.exporting.builtins.library import library_function
from onnx_systemds.exporting.builtins.recurrent import lstm
from onnx_systemds.exporting.graph.positions import read_positions
from onnx_systemds.inference.dims import Dim


@library_function("nn/util.dml", "transpose_NCHW_to_CNHW")
def channels_first(ctx: Context, X: Matrix, C: Dim) -> Value:
    """Images with the channels first."""
    width = X.cols // C
    moved = ctx.g.transpose(ctx.viewed(X, (X.rows, C, width)), (1, 0, 2))
    return Matrix(moved, C, X.rows * width)


@library_function("nn/util.dml", "transpose_ABCD_to_ACBD")
def middle_axes_exchanged(ctx: Context, X: Matrix, B: Dim, C: Dim) -> Value:
    """The second and third of four axes exchanged."""
    size = X.cols // (B * C)
    moved = ctx.g.transpose(ctx.viewed(X, (X.rows, B, C, size)), (0, 2, 1, 3))
    return Matrix(moved, X.rows, X.cols)


@library_function("nn/layers/lrn.dml", "forward")
def local_response_normalization(
    ctx: Context, X: Matrix, C: int, Hin: Dim, Win: Dim, N: int, alpha: float, beta: float, K: float
) -> Value | None:
    """The local response normalization; onnxruntime has the operator in float32 only."""
    if ctx.g.dtype == "float64" or N < 0:
        return None
    size = 2 * (N // 2) + 1
    images = ctx.viewed(X, (X.rows, C, Hin, Win))
    made = ctx.g.node("LRN", [images], images.dims, size=size, alpha=alpha * size, beta=beta, bias=K)
    return Matrix(made, X.rows, X.cols)


@library_function("nn/layers/lstm.dml", "forward")
def long_short_term_memory(
    ctx: Context, X: Matrix, W: Matrix, b: Matrix, T: int, D: int, return_sequences: bool, out0: Matrix, c0: Matrix
) -> tuple[Value, ...] | None:
    """The builtin `lstm`, if the layer takes all columns."""
    if X.cols != T * D or ctx.g.dtype == "float64":
        return None
    results: tuple[Value, ...] = lstm(ctx, X, W, b, out0, c0, return_sequences)
    return results


@library_function("nn/layers/embedding.dml", "forward")
def embedding(ctx: Context, indices: Matrix, embedding_dict: Matrix) -> Value:
    """The row of the dictionary for each index."""
    places = read_positions(ctx.g, places_of(ctx, indices))
    return ctx.matrix(ctx.g.gather(ctx.flat(embedding_dict), places, 0))


@library_function("nn/layers/bert_layer.dml", "layer_norm_forward")
def layer_normalization(
    ctx: Context, X: Matrix, gamma: Matrix, beta: Matrix, epsilon: float, B: Dim, C: Dim
) -> tuple[Value, ...]:
    """Layer normalization of each of B parts of a row; then means, variances and normalized numbers for gradients."""
    g, count = ctx.g, X.rows * B
    parts = ctx.viewed(X, (X.rows, B, C))
    scale, shift = (ctx.viewed(row, (C,)) for row in (gamma, beta))
    mean = g.reduce("ReduceMean", parts, (2,))
    centered = parts - mean
    variance = g.reduce("ReduceMean", centered * centered, (2,))
    norm = centered / (variance + epsilon).root()
    if g.knows("LayerNormalization"):
        out = g.node("LayerNormalization", [parts, scale, shift], parts.dims, axis=-1, epsilon=epsilon)
    else:
        out = norm * scale + shift
    transposed = g.transpose(g.reshape(norm, (count, C)), (1, 0))
    return (Matrix(out, X.rows, X.cols), *(Matrix(g.reshape(one, (1, count)), 1, count) for one in (mean, variance)),
            ctx.matrix(transposed))
