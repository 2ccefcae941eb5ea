"""Derivatives of reductions: that of the result times a factor for each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx_systemds.inference.registry import gradient
from onnx_systemds.operators.api import Backward
from onnx_systemds.operators.onnx.reduction import REDUCTIONS, reduced_axes


def _reduction_gradient(factor: Callable[[Backward, list[int]], str] | None) -> Callable[[Backward], Sequence[str]]:
    """A reduction's derivative: that of the result times a factor for each element."""

    def derivative(n: Backward) -> Sequence[str]:
        axes = sorted(reduced_axes(n, REDUCTIONS[n.node.op_type]))
        grad = _kept(n, n.grad, axes)
        if n.node.op_type == "ReduceMean":
            grad = n.share(grad, axes)
        if factor is None:
            return [n.emit("Expand", grad, n.emit("Shape", n.x))]
        return [n.emit("Mul", factor(n, axes), grad)]

    return derivative


def _kept(n: Backward, name: str, axes: Sequence[int]) -> str:
    """A result of a reduction with its reduced axes."""
    return name if n.attribute("keepdims") or not axes else n.unsqueeze(name, *axes)


def _extreme_shares(n: Backward, axes: list[int]) -> str:
    """Equal maxima share the derivative."""
    hits = n.emit("CastLike", n.emit("Equal", n.x, _kept(n, n.out, axes)), n.x)
    return n.emit("Div", hits, n.total(hits, axes))


def _direction(n: Backward, axes: list[int]) -> str:
    """The elements by their L2 norm; 0 where all of them are, as in PyTorch."""
    norm = _kept(n, n.out, axes)
    return n.emit("Div", n.x, n.emit("Where", n.emit("Equal", norm, n.number(0.0)), n.number(1.0), norm))


def _other_factors(n: Backward, axes: list[int]) -> str:
    """The product of all others: of a 0 that of what is not 0, unless there is another 0."""
    if not axes:
        return n.number(1.0)
    zero, ones = n.emit("Equal", n.x, n.number(0.0)), n.number(1.0)
    count = n.total(n.emit("CastLike", zero, n.x), axes)
    others = n.emit("ReduceProd", n.emit("Where", zero, ones, n.x), n.known(axes))
    quotient = n.emit("Div", _kept(n, n.out, axes), n.emit("Where", zero, ones, n.x))
    of_zero = n.where(n.emit("Equal", count, ones), others)
    return n.emit("Where", zero, of_zero, quotient)


_WEIGHTS: dict[str, Callable[[Backward, list[int]], str] | None] = {
    "ReduceSum": None,
    "ReduceMean": None,
    "ReduceMax": _extreme_shares,
    "ReduceMin": _extreme_shares,
    "ReduceProd": _other_factors,
    "ReduceSumSquare": lambda n, axes: n.times(n.x, 2.0),
    "ReduceL1": lambda n, axes: n.emit("Sign", n.x),
    "ReduceL2": _direction,
    "ReduceLogSum": lambda n, axes: n.emit(
        "Expand", n.emit("Exp", n.emit("Neg", _kept(n, n.out, axes))), n.emit("Shape", n.x)
    ),
    "ReduceLogSumExp": lambda n, axes: n.emit("Exp", n.emit("Sub", n.x, _kept(n, n.out, axes))),
}
for _name, _weight in _WEIGHTS.items():
    gradient(_name)(_reduction_gradient(_weight))
