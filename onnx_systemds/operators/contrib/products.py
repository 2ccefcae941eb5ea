"""Products and convolutions with what onnxruntime's optimisers fuse into them: transpositions and activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onnx_systemds.dml.literals import literal
from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.broadcast_dims import broadcast_dims
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.registry import batch_rule, expander, generator, gradient, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Backward, Expansion, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.linear import (
    batch_sum,
    matmul_dims,
    product_result,
    repeated_factor,
    summed_product,
    turned,
)
from onnx_systemds.operators.support.batch_rules import mixes_in_product
from onnx_systemds.operators.support.movement import Source, input_source, permuted
from onnx_systemds.operators.support.products import batch_product, single_product
from onnx_systemds.operators.support.selection_products import is_finite

batch_rule("FusedMatMul", domain=CONTRIB)(mixes_in_product)

# --- FusedMatMul -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Factor:
    """A factor after its transpositions. perm: of the input's axes, without the swap of the last two if `swapped`."""

    dims: Dims
    perm: tuple[int, ...]
    swapped: bool = False


def _factor(node: NodeFacts, position: int) -> _Factor:
    """``transBatch`` moves the first axis after the batch axes, ``trans`` swaps the last two; vectors stay."""
    side = "AB"[position]
    dims = node.dims(position)
    last = len(dims) - 1
    if last < 1:
        return _Factor(dims, tuple(range(len(dims))))
    perm = tuple(range(last + 1))
    if node.attribute(f"transBatch{side}"):
        perm = (*perm[1:last], 0, last)
    moved = tuple(dims[axis] for axis in perm)
    if node.attribute(f"trans{side}"):
        return _Factor((*moved[:-2], moved[-1], moved[-2]), perm, swapped=True)
    return _Factor(moved, perm)


@shape_rule("FusedMatMul", "TransposeMatMul", domain=CONTRIB)
def fused_matmul_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As MatMul, of the transposed factors."""
    return (node.tensor(matmul_dims(node, {0: _factor(node, 0).dims, 1: _factor(node, 1).dims})),)


@generator("FusedMatMul", since=1, domain=CONTRIB)
@generator("TransposeMatMul", since=1, domain=CONTRIB)
def fused_matmul(node: NodeView) -> Fragment:
    """alpha times the product of two factors, each transposed where asked for."""
    left, right = _factor(node, 0), _factor(node, 1)
    alpha = float(node.attribute("alpha"))
    batch = broadcast_dims([left.dims[:-2], right.dims[:-2]])
    inner = left.dims[-1]
    cols: Dim = right.dims[-1] if len(right.dims) > 1 else 1
    if product(right.dims[:-2]) == 1:
        rows = product(left.dims[:-1])
        x = _whole(node, 0, left)(View(rows, inner))
        if right.swapped:
            y = f"t({_moved(node, 1, right.perm)(View(cols, inner))})"
        else:
            y = _whole(node, 1, right)(View(inner, cols))
        text = single_product(node, x, y, (rows, inner, cols))
    else:
        rows = left.dims[-2] if len(left.dims) > 1 else 1
        count = product(batch)
        x = repeated_factor(node, 0, _whole(node, 0, left), left.dims, batch, View(count * rows, inner))
        source = _moved(node, 1, right.perm) if right.swapped else _whole(node, 1, right)
        view = View(count * cols, inner) if right.swapped else View(count * inner, cols)
        y = repeated_factor(node, 1, source, right.dims, batch, view)
        text = batch_product(node, x, y, count, (rows, inner, cols), transposed=right.swapped)
        rows = count * rows
    if alpha != 1:
        text = f"{literal(alpha)} * ({text})"
    return product_result(node, text, rows, cols)


@gradient("FusedMatMul", domain=CONTRIB)
def _fused_matmul_gradient(n: Backward) -> Sequence[str]:
    """As that of MatMul, in the factors as they are transposed."""
    ranks = n.rank(0), n.rank(1)
    if min(ranks) < 2 or n.attribute("transBatchA") or n.attribute("transBatchB"):
        raise UnsupportedCase("the derivative of a FusedMatMul of vectors, or that moves the batch")
    swapped = n.attribute("transA"), n.attribute("transB")
    batch = (n.values[n.out].dims or ())[:-2]
    grad = n.times(n.grad, float(n.attribute("alpha")))
    rank = max(ranks)

    def factor(position: int) -> str:
        """The transposed factor, as the product of the derivative takes it."""
        name = n.node.inputs[position]
        return name if swapped[position] else turned(n, name, ranks[position])

    def derivative(position: int) -> str:
        if position == 1 and ranks[1] == 2 and batch and not swapped[0]:
            found = summed_product(n, n.node.inputs[0], grad)
            return turned(n, found, 2) if swapped[1] else found
        found = n.emit("MatMul", *((grad, factor(1)) if position == 0 else (factor(0), grad)))
        return batch_sum(n, turned(n, found, rank) if swapped[position] else found, batch, position)

    return n.needed([lambda: derivative(0), lambda: derivative(1)])


def _whole(node: NodeView, position: int, factor: _Factor) -> Source:
    """The factor with all its transpositions."""
    perm = (*factor.perm[:-2], factor.perm[-1], factor.perm[-2]) if factor.swapped else factor.perm
    return _moved(node, position, perm)


def _moved(node: NodeView, position: int, perm: Sequence[int]) -> Source:
    if tuple(perm) == tuple(range(len(perm))):
        return input_source(node, position)
    finite = is_finite(node, position)
    moved = permuted(node, input_source(node, position), node.dims(position), perm, finite=finite)
    return moved.bound(node, "left" if position == 0 else "right").source(node)


# --- activations -------------------------------------------------------------------------------------------------


def activated(node: Expansion, name: str, parameters: Sequence[float | None], x: str) -> None:
    """Give an activation of ``x`` as the output, by its name in ``activation`` attributes.

    parameters: alpha, beta, gamma or a range. Raises UnsupportedCase.
    """
    if name not in _PARAMETERS:
        raise UnsupportedCase(f"the activation {quoted(name)} is unknown")
    if name == "Clip":
        bounds = [node.number(bound) for bound in parameters if bound is not None]
        node.emit("Clip", x, *bounds, to=node.output())
        return
    if name == "ScaledTanh":
        alpha, beta = (node.number(1.0 if given is None else given) for given in parameters[:2])
        node.emit("Mul", alpha, node.emit("Tanh", node.emit("Mul", beta, x)), to=node.output())
        return
    given: dict[str, Any] = {
        key: float(parameter) for key, parameter in zip(_PARAMETERS[name], parameters) if parameter is not None
    }
    node.emit(name, x, to=node.output(), **given)


_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "Softplus": (), "Softsign": (), "LeakyRelu": ("alpha",), "Elu": ("alpha",),
    "Celu": ("alpha",), "ThresholdedRelu": ("alpha",), "Selu": ("alpha", "gamma"), "HardSigmoid": ("alpha", "beta"),
    "Clip": (), "ScaledTanh": (),
}


def _named_parameters(node: Expansion, name: str) -> list[float | None]:
    """The attributes ``activation_alpha`` and so on, in the order of the activation's own."""
    if name == "ScaledTanh":
        return [node.attribute("activation_alpha"), node.attribute("activation_beta")]
    return [node.attribute(f"activation_{key}") for key in _PARAMETERS.get(name, ())]


@expander("FusedGemm", domain=CONTRIB)
def fused_gemm(node: Expansion) -> None:
    """Gemm, then an activation."""
    name = node.attribute("activation") or ""
    attributes = node.attributes("alpha", "beta", "transA", "transB")
    inputs = node.first_inputs(3)
    gemm = node.emit("Gemm", *inputs, to="" if name else node.output(), **attributes)
    if name:
        activated(node, str(name), _named_parameters(node, str(name)), gemm)


@expander("FusedMatMulActivation", domain=CONTRIB)
def fused_matmul_activation(node: Expansion) -> None:
    """FusedMatMul, then an activation, of which Softmax knows an axis."""
    name = str(node.attribute("activation"))
    attributes = node.attributes("alpha", "transA", "transB", "transBatchA", "transBatchB")
    y = node.emit("FusedMatMul", node.input("A"), node.input("B"), domain=CONTRIB, **attributes)
    if name in ("Softmax", "LogSoftmax"):
        axis = node.attribute("activation_axis")
        node.emit(name, y, to=node.output(), axis=-1 if axis is None else axis)
    else:
        activated(node, name, _named_parameters(node, name), y)


@expander("GemmFastGelu", domain=CONTRIB)
def gemm_fast_gelu(node: Expansion) -> None:
    """A product plus bias, then Gelu by tanh."""
    product_ = node.emit("MatMul", node.input("X"), node.input("W"))
    total = node.emit("Add", product_, node.input("bias")) if node.has("bias") else product_
    node.emit("Gelu", total, to=node.output(), approximate="tanh")


@expander("FusedConv", domain=CONTRIB)
def fused_conv(node: Expansion) -> None:
    """Conv, plus a fourth input, then an activation."""
    attributes = node.attributes("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    name = node.attribute("activation") or ""
    bare = not node.has("Z") and not name
    inputs = node.first_inputs(3)
    y = node.emit("Conv", *inputs, to=node.output() if bare else "", **attributes)
    if node.has("Z"):
        y = node.emit("Add", y, node.input("Z"), to="" if name else node.output())
    if name:
        activated(node, str(name), list(node.attribute("activation_params") or ()), y)
