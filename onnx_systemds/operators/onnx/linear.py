"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import plus
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.assumptions import Relation, axis_words
from onnx_systemds.inference.broadcast_dims import broadcast_dims, of_rank
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.integer_spans import LIMIT, Span, Sums, Terms
from onnx_systemds.inference.registry import batch_rule, generator, gradient, integer_rule, nn_layer, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.onnx.combining import truncated, wrapped, wraps
from onnx_systemds.operators.onnx.wrapping import may_exceed, wrapped_matmul
from onnx_systemds.operators.support.batch_rules import mixes_in_product, output_size, size_from_right, unlimited
from onnx_systemds.operators.support.broadcasting import broadcast, expand_text, varies
from onnx_systemds.operators.support.empty_outputs import unless_empty
from onnx_systemds.operators.support.integer_rules import summed
from onnx_systemds.operators.support.movement import Source, input_source
from onnx_systemds.operators.support.products import batch_product, single_product
from onnx_systemds.operators.support.selection_products import is_finite, repeated_row

batch_rule("MatMul")(mixes_in_product)


@integer_rule("MatMul")
@summed
def contracted(node: NodeFacts) -> Terms:
    """Sums along the last axis."""
    return Terms((0, 1), node.dims(0)[-1] if node.rank(0) else 1)


@integer_rule("Gemm")
def contracted_and_added(node: NodeFacts) -> Sums:
    """Sums along an axis, and the third input, each with its factor."""
    alpha, beta = (max(ceil(abs(node.attribute(name))), 1) for name in ("alpha", "beta"))

    def terms() -> Terms:
        return Terms((0, 1), alpha * node.dims(0)[0 if node.attribute("transA") else -1])

    def total(span: Span, spans: Sequence[Span]) -> Span:
        low = span.low if node.attribute("alpha") > 0 else -span.reach
        added = beta * spans[2].reach if node.has(2) else 0
        return Span(low - added, span.high + added)

    is_plain = node.attribute("alpha") == 1 and not node.has(2)
    return Sums(terms, total=None if is_plain else total, largest={2: LIMIT // beta})


@shape_rule("MatMul")
def matmul_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Numpy's matmul: batch axes broadcast, a vector loses its axis."""
    return (node.tensor(matmul_dims(node, {0: node.dims("A"), 1: node.dims("B")})),)


def matmul_dims(node: NodeFacts, factors: Mapping[int, Dims]) -> Dims:
    """Dims of the product of two inputs, by position. Raises UnsupportedCase for scalars and sizes that do not fit."""
    left, right = factors.values()
    if not left or not right:
        raise UnsupportedCase("a matrix product of a scalar")
    left_words, right_words = (f"the inner axis of {quoted(node.node.inputs[position])}" for position in factors)
    node.assume_equal(left[-1], right[-2:][0], left_words, right_words)
    batch = broadcast(node, {position: dims[:-2] for position, dims in factors.items()})
    return (*batch, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


@generator("MatMul", since=1)
def matmul(node: NodeView) -> Fragment:
    """A product; with several matrices on the right one by one, by batch."""
    left, right = node.dims("A"), node.dims("B")
    inner = left[-1]
    cols: Dim = right[-1] if len(right) > 1 else 1
    batch = broadcast_dims([left[:-2], right[:-2]])
    if inner == 0:  # sums of nothing
        view = split_view(node.output_dims(), 1)
        return node.result("0", SCALAR) if node.output_dims() == () else node.result(node.full("0", view), view)
    if product(right[:-2]) == 1:
        rows = product(left[:-1])
        a, b = node.view("A", View(rows, inner)), node.view("B", View(inner, cols))
        text = wrapped_result(node, _product(node, a, b, (rows, inner, cols)))
        return product_result(node, text, rows, cols)
    rows = left[-2] if len(left) > 1 else 1
    count = product(batch)
    x = repeated_factor(node, 0, input_source(node, 0), left, batch, View(count * rows, inner))
    y = repeated_factor(node, 1, input_source(node, 1), right, batch, View(count * inner, cols))
    return _batch_product(node, x, y, count, (rows, inner, cols))


@gradient("MatMul")
def _matmul_gradient(n: Backward) -> Sequence[str]:
    left, right, grad = n.x, n.node.inputs[1], n.grad
    ranks = [n.rank(0), n.rank(1)]
    if ranks[1] == 1:
        right, grad = (n.unsqueeze(name, -1) for name in (right, grad))
    if ranks[0] == 1:
        left = n.unsqueeze(left, 0)
        grad = n.unsqueeze(grad, -2)
    batch = (n.values[n.out].dims or ())[: max(*ranks, 2) - 2]
    return n.needed([
        lambda: batch_sum(n, n.emit("MatMul", grad, turned(n, right, max(ranks[1], 2))), batch, 0),
        lambda: batch_sum(n, n.emit("MatMul", turned(n, left, max(ranks[0], 2)), grad), batch, 1)
        if ranks[1] != 2 or not batch else summed_product(n, left, grad),
    ])


def summed_product(n: Backward, left: str, right: str) -> str:
    """Emit the sum over all axes but the last ones of products of these: that of a matrix, for all samples at once."""
    rows = [n.emit("Reshape", name, n.emit("Concat", n.known([-1]), n.emit("Shape", name, start=-1), axis=0))
            for name in (left, right)]
    return n.emit("MatMul", turned(n, rows[0], 2), rows[1])


def turned(n: Backward, name: str, rank: int) -> str:
    """Emit a value with its last two axes swapped."""
    return n.emit("Transpose", name, perm=(*range(rank - 2), rank - 1, rank - 2))


def batch_sum(n: Backward, name: str, batch: Dims, position: int) -> str:
    """Emit a product summed over the batch axes that the operand lacks, in the operand's dims. batch: of the result."""
    own = n.dims(position)
    padded = of_rank(own[:-2], len(batch))
    name, is_told = n.summed(name, padded, batch)  # else as in `Backward.fit`
    return name if is_told and len(own) == len(batch) + 2 else n.shaped(name, position)


def _batch_product(node: NodeView, x: str, y: str, count: Dim, sizes: tuple[Dim, Dim, Dim]) -> Fragment:
    rows, inner, cols = sizes

    def multiply(left: str, right: str) -> str:
        return batch_product(node, left, right, count, sizes)

    text = wrapped_matmul(node, x, y, multiply) if may_exceed(node, inner) else multiply(x, y)
    fragment = node.result(wrapped_result(node, text), View(count * rows, cols))
    return unless_empty(node, fragment, inner)  # sums of nothing


def _product(node: NodeView, left: str, right: str, sizes: tuple[Dim, Dim, Dim]) -> str:
    """The product of two matrices, sizes as in `single_product`; that of 32-bit integers has still to be wrapped."""
    rows, inner, _ = sizes

    def multiply(x: str, y: str) -> str:
        return single_product(node, x, y, sizes)

    if may_exceed(node, inner):
        return wrapped_matmul(node, left, right, multiply)
    if inner == 1 and rows == 1:  # a matrix of one cell would not do (product-of-row-and-cell)
        return f"{right} * as.scalar({left})"
    if inner == 1:  # one of them may be a plain matrix(1, ...), see `repeated_row`
        return f"{repeated_row(right, node.dim(rows))} * {left}"
    return multiply(left, right)


def product_result(node: NodeView, text: str, rows: Dim, cols: Dim) -> Fragment:
    """The result that a product of matrices is: a scalar where it has a single element."""
    if rows == 1 and cols == 1:
        return node.result(f"as.scalar({text})", None)
    return node.result(text, View(rows, cols))


def wrapped_result(node: NodeView, text: str) -> str:
    """A product; one of integers that wrap is computed once, and wrapped."""
    return wrapped(node.output_dtype(), node.named("sums", text)) if wraps(node.output_dtype()) else text


def repeated_factor(node: NodeView, position: int, source: Source, dims: Dims, batch: Dims, view: View) -> str:
    """A factor of a batched product with its batch axes repeated where they are broadcast, as ``view``."""
    own = dims[:-2]
    if product(own) == product(batch):
        return source(view)
    form, pattern = View(1, product(dims)), [*varies(own, batch), True, True]
    whole_dims = (*batch, *((1, *dims)[-2:]))
    return expand_text(node, source(form), form, pattern, whole_dims, view, finite=is_finite(node, position))


@shape_rule("Gemm")
def gemm_rule(node: NodeFacts) -> tuple[Value, ...]:
    """M x N."""
    left, right = node.dims("A"), node.dims("B")
    if (len(left), len(right)) != (2, 2):
        raise UnsupportedCase(f"a product of matrices of rank {len(left)} and {len(right)}")
    flipped_left, flipped_right = bool(node.attribute("transA")), bool(node.attribute("transB"))
    node.assume_same_size((0, 0 if flipped_left else 1), (1, 1 if flipped_right else 0))
    dims = (left[1 if flipped_left else 0], right[0 if flipped_right else 1])
    if node.has("C") and node.version >= 7:
        assume_added(node, dims, 2)
    return (node.tensor(dims),)


def assume_added(node: NodeFacts, dims: Dims, position: int) -> None:
    """Take an input to be one that is broadcast to the output's ``dims``. Raises UnsupportedCase where it cannot be."""
    if node.rank(position) > len(dims):
        raise UnsupportedCase(f"an input of rank {node.rank(position)} is broadcast to rank {len(dims)}")
    for back, dim in enumerate(reversed(node.dims(position)), 1):
        if dim != 1:
            words = axis_words(node.node.outputs[0], len(dims) - back)
            node.assume_equal(dims[-back], dim, words, node.axis_words(position, -back), Relation.BROADCAST)


@batch_rule("Gemm")
def _gemm_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Rows of the result, or its columns; what is added has as many, or is the same for all."""
    size, place = unlimited(node.dims(position)[axis]), {0: 2, 1: 1}.get(position, node.rank(position) - axis)
    added = size_from_right(node.dims("C"), place) if node.has("C") else 1
    return output_size(node, place) != size or added not in (1, size)


@generator("Gemm", since=(1, 6, 7, 11))
def gemm(node: NodeView) -> Fragment:
    """alpha * A %*% B + beta * C."""
    a = node.matrix("A", 1)
    if node.attribute("transA"):
        a = f"t({a})"
    weight = node.constant("B")
    if node.attribute("transB"):
        b = f"t({node.matrix('B', 1)})" if weight is None else _turned_weight(node, weight)
    else:
        b = node.matrix("B", 1)
    rows, cols = node.output_dims()
    inner = node.dims("A")[0 if node.attribute("transA") else 1]
    text = _product(node, a, b, (rows, inner, cols))
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    dtype = node.output_dtype()
    is_whole = float(alpha).is_integer() and float(beta).is_integer()
    if dtype in INTEGER_DTYPES and not is_whole:
        text = wrapped_result(node, text)  # as far as it goes it is a product of integers
    if alpha != 1:
        text = f"{literal(alpha)} * ({text})"
    if node.has("C") and beta != 0:
        bias = added_operand(node, rows, cols)
        text = plus(text, bias) if beta == 1 else f"{text} + {literal(beta)} * {bias}"
    if dtype in INTEGER_DTYPES:
        text = wrapped_result(node, text if is_whole else truncated(f"({text})"))
    return node.result(text, View(rows, cols))


def _turned_weight(node: NodeView, weight: Array) -> str:
    """A known weight, stored the way the product reads it; once for all nodes that read it, as steps of a cell do."""
    if node.is_shared("B"):
        return node.constant_matrix(weight.T, "turned", node.name("B"))
    return node.constant_matrix(weight.T, "weight")


@nn_layer("Gemm")
def affine(node: NodeView) -> Fragment | None:
    """nn/layers/affine.dml, of a known weight and a bias per column, or none."""
    weight, (rows, cols) = node.constant("B"), node.output_dims()
    is_plain = not node.attribute("transA") and node.attribute("alpha") == 1 and _is_float(node)
    has_bias = node.has("C") and node.attribute("beta") != 0
    if weight is None or not is_plain or 0 in weight.shape:
        return None
    if has_bias and (node.attribute("beta") != 1 or node.dims("C") not in ((cols,), (1, cols))):
        return None
    b = _turned_weight(node, weight) if node.attribute("transB") else node.matrix("B", 1)
    bias = node.view("C", View(1, cols)) if has_bias else node.filled(0, View(1, cols))
    return node.result(node.layer("affine", node.matrix("A", 1), b, bias), View(rows, cols))


@nn_layer("Add", since=7)
def affine_of_product(node: NodeView) -> Fragment | None:
    """nn/layers/affine.dml, where a MatMul with a known weight is one operand and a known bias the other."""
    for position in (0, 1):
        product_, bias = node.upstream(position), node.constant(1 - position)
        if product_ is None or bias is None or product_.node.identity != ("", "MatMul") or not _is_float(node):
            continue
        weight = product_.constant("B")
        if weight is None or weight.ndim != 2 or 0 in weight.shape or product_.rank("A") < 2:
            continue
        if (inner := weight.shape[0]) and bias.size == bias.shape[-1:][0] == weight.shape[1]:
            rows = product(product_.dims("A")[:-1])
            x, w = product_.view("A", View(rows, inner)), product_.view("B", View(*weight.shape))
            row = node.view(1 - position, View(1, weight.shape[1]))
            return node.result(node.layer("affine", x, w, row), View(rows, weight.shape[1]))
    return None


def _is_float(node: NodeView) -> bool:
    return node.output_dtype() not in INTEGER_DTYPES


@gradient("Gemm")
def _gemm_gradient(n: Backward) -> Sequence[str]:
    left, right = n.x, n.node.inputs[1]
    trans_a, trans_b = int(n.attribute("transA") or 0), int(n.attribute("transB") or 0)
    alpha, beta = float(n.attribute("alpha")), float(n.attribute("beta"))

    def product_(a: str, b: str, turns_a: int, turns_b: int) -> str:
        return n.emit("Gemm", a, b, alpha=alpha, transA=turns_a, transB=turns_b)

    by_left = (right, n.grad, trans_b, 1) if trans_a else (n.grad, right, 0, 1 - trans_b)
    by_right = (n.grad, left, 1, trans_a) if trans_b else (left, n.grad, 1 - trans_a, 0)
    return n.needed([
        lambda: product_(*by_left),
        lambda: product_(*by_right),
        lambda: n.fit(n.grad if beta == 1 else n.times(n.grad, beta), 2),
    ])


def added_operand(node: NodeView, rows: Dim, cols: Dim) -> str:
    """C as a right operand: a scalar, a row, a column or a full matrix."""
    dims = (1, 1, *node.dims("C"))[-2:]
    if product(dims) == 1:
        return node.scalar("C")
    return node.view("C", View(dims[0] if dims[0] == 1 else rows, dims[1] if dims[1] == 1 else cols))
