"""Scaler, Normalizer, Binarizer and Imputer of ai.onnx.ml: numbers in, numbers of the same dims out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.engine.safe_forms import counted, row_sums
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.inference.values import FINITE_DTYPES, INTEGER_DTYPES
from onnx_systemds.model.ir import ML
from onnx_systemds.model.single_precision import has_other_decimals
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.casting import single_text
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.onnx.precision import limit_text
from onnx_systemds.operators.support.batch_rules import mixes_all_but_first
from onnx_systemds.operators.support.selection_products import minus_vector

shape_rule("Binarizer", "Imputer", domain=ML)(same_dims)
batch_rule("Binarizer", "Imputer", "Normalizer", "Scaler", domain=ML)(mixes_all_but_first)


def sample_count(dims: Dims) -> Dim:
    """Rows of a matrix of samples: a tensor of rank 1 is one sample."""
    return dims[0] if len(dims) > 1 else 1


def data_view(node: NodeFacts) -> View:
    """Rows and features of the data; a vector is a single row. Raises UnsupportedCase."""
    dims = node.dims(0)
    if len(dims) not in (1, 2):
        raise UnsupportedCase(f"data of rank {len(dims)}")
    return View(*((1, *dims)[-2:]))


def sample_view(dims: Dims, features: int) -> View:
    """The view of samples with a column per feature: the second axis, or the only one.

    With more than two axes the features repeat along the row-major elements, as onnxruntime counts them.
    Raises UnsupportedCase for a tensor without axes, or with another number of features.
    """
    if not dims:
        raise UnsupportedCase("features in a tensor of rank 0")
    axis = min(1, len(dims) - 1)
    if isinstance(dims[axis], int) and dims[axis] != features:
        raise UnsupportedCase(f"attributes for {features} features, the input has {dims[axis]}")
    return View(product(dims[:axis]) * product(dims[axis + 1 :]), features)


def row_operand(node: NodeView, values: Sequence[float], hint: str) -> str:
    """Numbers by column as a right operand: a literal where they are all the same, else a row."""
    row = np.asarray(values, np.float64).reshape(1, -1)
    return literal(row[0, 0]) if bool((row == row[0, 0]).all()) else node.constant_matrix(row, hint)


@shape_rule("Scaler", "Normalizer", domain=ML)
def float_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The input's dims, as floats."""
    return (node.tensor(node.dims("X"), "float"),)


@generator("Scaler", since=1, domain=ML)
def scaler(node: NodeView) -> Fragment:
    """(x - offset) * scale, by feature or for all."""
    offset, scale = node.attribute("offset") or (), node.attribute("scale") or ()
    if not scale or len(scale) != len(offset):
        raise UnsupportedCase(f"a scaler with {len(offset)} offsets and {len(scale)} scales")
    view = node.known_form("X")
    if view is SCALAR or len(scale) > 1:
        view = sample_view(node.dims("X"), len(scale))
    text = node.view("X", view)
    scaled = any(value != 1 for value in scale)
    if any(value != 0 for value in offset):
        row = row_operand(node, offset, "offset")
        text = f"({text} - {row})" if scaled else minus_vector(text, row)
        if scaled:
            text = node.rounded(text, view)
    if scaled:
        return node.result(f"{text} * {row_operand(node, scale, 'scale')}", view)
    return node.result(text, view)


@generator("Normalizer", since=1, domain=ML)
def normalizer(node: NodeView) -> Fragment:
    """Each row by its largest element (with its sign), sum of absolute values or length; 0 divides nothing."""
    view = data_view(node)
    x, cols = node.view("X", view), node.dim(view.cols)
    sizes = {"MAX": _largest(node, x), "L1": row_sums(f"abs({x})", cols), "L2": f"sqrt({row_sums(f'{x}^2', cols)})"}
    if node.attribute("norm") not in sizes:
        raise UnsupportedCase("the norm is none of MAX, L1 and L2")
    norm = node.named("norm", sizes[node.attribute("norm")])
    return node.result(f"{x} / ({norm} + ({norm} == 0))", view)


def _largest(node: NodeView, x: str) -> str:
    if node.dtype("X") in FINITE_DTYPES:
        return f"rowMaxs({x})"
    return f"rowMaxs(replace(target={x}, pattern=NaN, replacement=-Inf))"  # NaN is not larger than anything


@generator("Binarizer", since=1, domain=ML)
def binarizer(node: NodeView) -> Fragment:
    """1 where the threshold is exceeded, else 0."""
    threshold, form = limit_text(node, node.attribute("threshold")), node.wanted_form()
    if form is SCALAR or not node.dims("X"):
        return node.result(f"as.double({node.scalar('X')} > {threshold})", SCALAR)
    return node.result(f"{node.view('X', form)} > {threshold}", form)


@generator("Imputer", since=1, domain=ML)
def imputer(node: NodeView) -> Fragment:
    """One value, which may be NaN, is replaced by another, by feature or for all."""
    integral = node.dtype("X") in INTEGER_DTYPES
    values = node.attribute("imputed_value_int64s" if integral else "imputed_value_floats") or ()
    replaced = node.attribute("replaced_value_int64" if integral else "replaced_value_float")
    if not values:
        raise UnsupportedCase(f"an imputer without values for elements of type {node.dtype('X')}")
    dims = node.dims("X")
    features = dims[min(1, len(dims) - 1)] if dims else 1
    if isinstance(features, int) and features != len(values):
        values = values[:1]  # as onnxruntime does
    view = node.known_form("X")
    if view is SCALAR or len(values) > 1:
        view = sample_view(dims, len(values))
    x = node.view("X", view)
    if not integral and view is not SCALAR and has_other_decimals(replaced):
        x = node.named("rounded", single_text(node, x))
    if len(set(values)) == 1:
        return node.result(f"replace(target={x}, pattern={literal(replaced)}, replacement={literal(values[0])})", view)
    condition = f"{x} != {x}" if math.isnan(replaced) else f"{x} == {literal(replaced)}"
    row = node.constant_matrix(np.asarray(values, np.float64).reshape(1, -1), "values")
    imputed = f"{node.filled(1, View(view.rows, 1))} %*% {row}"
    return node.result(counted(f"ifelse({node.mask(condition, view)}, {imputed}, {x})"), view)


# --- derivatives -----------------------------------------------------------------------------------------------


@gradient("Scaler", domain=ML)
def _scaler_gradient(n: Backward) -> Sequence[str]:
    if n.rank(0) != 2:
        raise UnsupportedCase(f"the derivative of a Scaler of rank {n.rank(0)}")
    scale = n.known(n.attribute("scale"), n.values[n.out].dtype)
    return [n.emit("CastLike", n.emit("Mul", n.grad, scale), n.x)]


@gradient("Normalizer", domain=ML)
def _normalizer_gradient(n: Backward) -> Sequence[str]:
    norm = n.attribute("norm")
    if norm not in ("L1", "L2") or n.rank(0) != 2:
        raise UnsupportedCase(f"the derivative of a Normalizer with norm {norm} of rank {n.rank(0)}")
    return [n.emit("CastLike", n.by_norm(n.emit("CastLike", n.x, n.out), 1, is_first=norm == "L1"), n.x)]
