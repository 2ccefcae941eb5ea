"""Matrix algebra: products, sums of products, transposition, diagonals."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.aggregates import reduced_along_axes
from onnx_systemds.exporting.builtins.api import FLOAT, Context, Matrix, Tensor, Value, builtin
from onnx_systemds.exporting.builtins.products import product
from onnx_systemds.exporting.graph.images import planes
from onnx_systemds.exporting.graph.patches import patches_of
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.known_dims import differ


@builtin("%*%")
def matrix_product(ctx: Context, left: Value, right: Value) -> Value:
    """The product of two matrices."""
    a, b = ctx.as_matrix(left), ctx.as_matrix(right)
    if differ(a.cols, b.rows):
        raise UnsupportedCase(f"the product of {a} and {b}: inner sizes differ")
    return _convolution(ctx, a, b) or _of_channels(ctx, a, b) or _sums_of_rows(ctx, a, b) or ctx.matrix(
        product(ctx.g, ctx.flat(a), ctx.flat(b)))


def _convolution(ctx: Context, filters: Matrix, columns: Matrix) -> Matrix | None:
    """Return the product of filters and the windows of an image as a Conv, which onnxruntime has in float32 alone."""
    chosen = filters.tensor.row_choice is not None
    found = patches_of(ctx.flat(columns)) if ctx.g.dtype == "float32" and not chosen else None
    if found is None or found.padding not in (None, 0.0):
        return None
    image = ctx.g.reshape(found.image, (1, *found.shape))
    kernels = ctx.viewed(filters, (filters.rows, found.shape[0], *found.window))
    dims = (1, filters.rows, *found.extents)
    return Matrix(ctx.g.node("Conv", [image, kernels], dims, **found.attributes()), filters.rows, columns.cols)


def _sums_of_rows(ctx: Context, a: Matrix, ones: Matrix) -> Matrix | None:
    """Return the product of a matrix that is a tensor of more axes, as images are, and a column of ones."""
    if ones.cols != 1 or ctx.g.filling(ones.tensor) is not ctx.g.number(1.0):
        return None
    return reduced_along_axes(ctx, a, "ReduceSum")


def _of_channels(ctx: Context, filters: Matrix, channels: Matrix) -> Matrix | None:
    """Return the product of known filters and the channels of an image as a Conv."""
    known = filters.tensor.is_constant
    image = planes(channels.tensor, channels.rows, channels.cols) if known and ctx.g.dtype == "float32" else None
    if image is None or image.kind != FLOAT or not ctx.g.visible(image):
        return None
    kernels = ctx.viewed(filters, (filters.rows, filters.cols, 1, 1))
    dims = (1, filters.rows, *image.dims[2:])
    found = ctx.g.node("Conv", [image, kernels], dims, kernel_shape=(1, 1), pads=(0, 0, 0, 0), strides=(1, 1))
    return Matrix(found, filters.rows, channels.cols)


@builtin("t")
def transposed(ctx: Context, target: Matrix) -> Value:
    """The transpose."""
    return ctx.matrix(ctx.g.transpose(ctx.flat(target), (1, 0)))


@builtin("trace", "tr")
def trace(ctx: Context, target: Matrix) -> Value:
    """The trace."""
    g, x = ctx.g, ctx.flat(target)
    if differ(*target.dims):
        raise UnsupportedCase(f"trace of {target}, which is not square")
    return ctx.scalar(g.reduce("ReduceSum", _without_others(ctx, x), (0, 1), keepdims=False))


@builtin("diag")
def diagonal(ctx: Context, target: Matrix) -> Matrix:
    """The diagonal of a matrix as a column, or the diagonal matrix of a column."""
    g, x = ctx.g, ctx.flat(target)
    rows, cols = target.dims
    if cols == 1 and rows != 1:
        return ctx.matrix(_with_diagonal(ctx, x))
    if differ(rows, cols):
        raise UnsupportedCase(f"the diagonal of {target}, which is not square")
    if isinstance(cols, int) or rows in (1, cols):
        return ctx.matrix(_diagonal_of(ctx, x))
    is_column = g.reshape(g.size_tensor(cols).equals(g.constant([1])), ())
    dims = (rows, g.size_symbol("cols"))
    return ctx.matrix(g.choice(is_column, lambda: _with_diagonal(ctx, x), lambda: _diagonal_of(ctx, x), dims))


def _with_diagonal(ctx: Context, column: Tensor) -> Tensor:
    """Return a matrix that has a column on its diagonal."""
    g, rows = ctx.g, column.dims[0]
    return _without_others(ctx, g.expand(column, (rows, rows)))


def _diagonal_of(ctx: Context, x: Tensor) -> Tensor:
    """Return the diagonal of a matrix as a column."""
    return ctx.g.reduce("ReduceSum", _without_others(ctx, x), (1,))


def _without_others(ctx: Context, x: Tensor) -> Tensor:
    """Return a matrix with zeros beside its diagonal; a product would make NaN of what is infinite there."""
    return ctx.g.where(ctx.g.truth(ctx.g.node("EyeLike", [x], x.dims)), x, 0.0)


@builtin("einsum")
def einstein_sum(ctx: Context, equation: str, /, *operands: Value) -> Value:
    """The Einstein sum by an equation; an operand of one letter is a column."""
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands) or any(not 1 <= len(term) <= 2 for term in terms) or len(output) > 2:
        raise UnsupportedCase(f"einsum of {len(operands)} matrices by {equation}")
    sizes: dict[str, Dim] = {}
    tensors = []
    for term, operand in zip(terms, map(ctx.as_matrix, operands)):
        dims: Dims = operand.dims if len(term) == 2 else (operand.rows * operand.cols,)
        sizes |= {letter: size for letter, size in zip(term, dims) if not isinstance(sizes.get(letter), int)}
        tensors.append(ctx.viewed(operand, dims))
    dims = tuple(sizes[letter] for letter in output)
    found = ctx.g.node("Einsum", tensors, dims, equation=f"{inputs}->{output}")
    return ctx.matrix(ctx.g.reshape(found, (*dims, *[1] * (2 - len(dims)))))
