"""The chain rule, one short rule for each operator; `gradient_tape` says what a rule is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.gradient_tape import Backward, Rule, rule

# --- one input: the factor of each -----------------------------------------------------------------------------


def _one_plus(n: Backward, text: str, sign: str = "Add") -> str:
    return n.emit(sign, n.number(1.0), text)


def _square(n: Backward, name: str) -> str:
    return n.emit("Mul", name, name)


def _inverse_root(n: Backward, inner: str) -> str:
    return n.emit("Reciprocal", n.emit("Sqrt", inner))


_FACTORS: dict[str, Callable[[Backward], str]] = {
    "Exp": lambda n: n.out,
    "Log": lambda n: n.emit("Reciprocal", n.x),
    "Sqrt": lambda n: n.emit("Div", n.number(0.5), n.out),
    "Reciprocal": lambda n: n.emit("Neg", _square(n, n.out)),
    "Tanh": lambda n: _one_plus(n, _square(n, n.out), "Sub"),
    "Sigmoid": lambda n: n.times(n.out, _one_plus(n, n.out, "Sub")),
    "Softplus": lambda n: n.emit("Sigmoid", n.x),
    "Softsign": lambda n: n.emit("Reciprocal", _square(n, _one_plus(n, n.emit("Abs", n.x)))),
    "Abs": lambda n: n.emit("Sign", n.x),
    "Sin": lambda n: n.emit("Cos", n.x),
    "Cos": lambda n: n.emit("Neg", n.emit("Sin", n.x)),
    "Tan": lambda n: _one_plus(n, _square(n, n.out)),
    "Sinh": lambda n: n.emit("Cosh", n.x),
    "Cosh": lambda n: n.emit("Sinh", n.x),
    "Asin": lambda n: _inverse_root(n, _one_plus(n, _square(n, n.x), "Sub")),
    "Acos": lambda n: n.emit("Neg", _inverse_root(n, _one_plus(n, _square(n, n.x), "Sub"))),
    "Atan": lambda n: n.emit("Reciprocal", _one_plus(n, _square(n, n.x))),
    "Asinh": lambda n: _inverse_root(n, _one_plus(n, _square(n, n.x))),
    "Acosh": lambda n: _inverse_root(n, n.emit("Sub", _square(n, n.x), n.number(1.0))),
    "Atanh": lambda n: n.emit("Reciprocal", _one_plus(n, _square(n, n.x), "Sub")),
    "Erf": lambda n: n.times(n.emit("Exp", n.emit("Neg", _square(n, n.x))), 2 / math.sqrt(math.pi)),
}


def _by_factor(factor: Callable[[Backward], str]) -> Rule:
    return lambda n: n.chain(factor(n))


for _name, _factor in _FACTORS.items():
    rule(_name)(_by_factor(_factor))


@rule("Identity")
def _identity(n: Backward) -> Sequence[str]:
    return [n.grad]


@rule("Neg")
def _neg(n: Backward) -> Sequence[str]:
    return [n.emit("Neg", n.grad)]


@rule("Cast", "CastLike")
def _cast(n: Backward) -> Sequence[str]:
    return [n.emit("CastLike", n.grad, n.x)]


@rule("Relu")
def _relu(n: Backward) -> Sequence[str]:
    return [n.where(n.emit("Greater", n.x, n.number(0.0)), n.grad)]


@rule("LeakyRelu")
def _leaky_relu(n: Backward) -> Sequence[str]:
    falling = n.times(n.grad, float(n.attribute("alpha")))
    return [n.emit("Where", n.emit("Greater", n.x, n.number(0.0)), n.grad, falling)]


@rule("Elu")
def _elu(n: Backward) -> Sequence[str]:
    falling = n.times(n.grad, n.emit("Add", n.out, n.number(float(n.attribute("alpha")))))
    return [n.emit("Where", n.emit("Greater", n.x, n.number(0.0)), n.grad, falling)]


@rule("Clip")
def _clip(n: Backward) -> Sequence[str]:
    return [n.where(n.emit("Equal", n.x, n.out), n.grad)]


@rule("Dropout")
def _dropout(n: Backward) -> Sequence[str]:
    training = n.constant(2)
    if n.version >= 12 and n.has(2) and (training is None or bool(training.ravel()[0])):
        raise UnsupportedCase("the derivative of a Dropout that trains")
    if n.version < 7 and not n.attribute("is_test"):
        raise UnsupportedCase("the derivative of a Dropout that trains")
    return [n.grad]


# --- two and more inputs ---------------------------------------------------------------------------------------


def _fitted(n: Backward, derivatives: Sequence[Callable[[], str]]) -> list[str]:
    """The derivatives of a broadcasting operator; only those that are asked for are made."""
    if n.version < 7 and n.attribute("broadcast"):
        raise UnsupportedCase(f"the derivative of {n.node.op_type} that broadcasts as before opset 7")
    return [n.fit(make(), position) if n.needs(position) else "" for position, make in enumerate(derivatives)]


@rule("Add")
def _add(n: Backward) -> Sequence[str]:
    return _fitted(n, [lambda: n.grad, lambda: n.grad])


@rule("Sub")
def _sub(n: Backward) -> Sequence[str]:
    return _fitted(n, [lambda: n.grad, lambda: n.emit("Neg", n.grad)])


@rule("Mul")
def _mul(n: Backward) -> Sequence[str]:
    return _fitted(n, [lambda: n.times(n.grad, n.node.inputs[1]), lambda: n.times(n.grad, n.x)])


@rule("Div")
def _div(n: Backward) -> Sequence[str]:
    divisor = n.node.inputs[1]
    return _fitted(n, [
        lambda: n.emit("Div", n.grad, divisor),
        lambda: n.emit("Neg", n.emit("Div", n.times(n.grad, n.out), divisor)),
    ])  # fmt: skip


@rule("Pow")
def _pow(n: Backward) -> Sequence[str]:
    def by_base() -> str:
        exponent = n.node.inputs[1]
        if n.dtype(1) != n.dtype(0):
            exponent = n.emit("CastLike", exponent, n.x)
        power = n.emit("Pow", n.x, n.emit("Sub", exponent, n.number(1.0)))
        # x^0 is 1 everywhere, though 0 * 0^-1 is none
        factor = n.emit("Where", n.emit("Equal", exponent, n.number(0.0)), n.number(0.0), n.times(exponent, power))
        return n.times(n.grad, factor)

    def by_exponent() -> str:
        # 0^y is 0 for all y around a positive one
        log = n.emit("Where", n.emit("Equal", n.x, n.number(0.0)), n.number(0.0), n.emit("Log", n.x))
        return n.times(n.grad, n.times(n.out, log))

    return _fitted(n, [by_base, by_exponent])


@rule("Sum")
def _sum(n: Backward) -> Sequence[str]:
    return _fitted(n, [lambda: n.grad] * n.input_count)


@rule("Mean")
def _mean(n: Backward) -> Sequence[str]:
    return _fitted(n, [lambda: n.times(n.grad, 1 / n.input_count)] * n.input_count)


@rule("Max", "Min")
def _extreme(n: Backward) -> Sequence[str]:
    """Equal inputs share the derivative."""
    hits = [n.emit("CastLike", n.emit("Equal", name, n.out), n.out) for name in n.node.inputs]
    share = n.emit("Div", n.grad, n.emit("Sum", *hits))
    return _fitted(n, [lambda hit=hit: n.times(share, hit) for hit in hits])  # type: ignore[misc]


@rule("Where")
def _where(n: Backward) -> Sequence[str]:
    condition = n.node.inputs[0]
    zero = n.number(0.0)
    return _fitted(n, [
        lambda: "",
        lambda: n.emit("Where", condition, n.grad, zero),
        lambda: n.emit("Where", condition, zero, n.grad),
    ])  # fmt: skip


# --- matrix products -------------------------------------------------------------------------------------------


def _turned(n: Backward, name: str, rank: int) -> str:
    return n.emit("Transpose", name, perm=(*range(rank - 2), rank - 1, rank - 2))


@rule("MatMul")
def _matmul(n: Backward) -> Sequence[str]:
    left, right, grad = n.x, n.node.inputs[1], n.grad
    ranks = [n.rank(0), n.rank(1)]
    if ranks[1] == 1:
        right, grad = (n.emit("Unsqueeze", name, n.tape.integers([-1])) for name in (right, grad))
    if ranks[0] == 1:
        left = n.emit("Unsqueeze", left, n.tape.integers([0]))
        grad = n.emit("Unsqueeze", grad, n.tape.integers([-2]))
    batch = (n.values[n.out].dims or ())[: max(*ranks, 2) - 2]
    whole = len(batch) + 2
    results = ["", ""]
    if n.needs(0):
        found = n.emit("MatMul", grad, _turned(n, right, max(ranks[1], 2)))
        results[0] = _batch_sum(n, found, n.dims(0), batch, whole, 0)
    if n.needs(1):
        found = n.emit("MatMul", _turned(n, left, max(ranks[0], 2)), grad)
        results[1] = _batch_sum(n, found, n.dims(1), batch, whole, 1)
    return results


def _batch_sum(n: Backward, name: str, own: Dims, batch: Dims, whole: int, position: int) -> str:
    """A product summed over the batch axes that the operand lacks, in the operand's dims."""
    padded = (*[1] * (len(batch) - len(own[:-2])), *own[:-2])
    axes = [axis for axis, (size, goal) in enumerate(zip(padded, batch)) if size != goal]
    if any(padded[axis] != 1 for axis in axes):
        raise UnsupportedCase("the derivative of a MatMul whose broadcast dims are not known")
    if axes:
        name = n.emit("ReduceSum", name, n.tape.integers(axes))
    return name if len(own) == whole else n.shaped(name, position)


@rule("Gemm")
def _gemm(n: Backward) -> Sequence[str]:
    left, right = n.x, n.node.inputs[1]
    trans_a, trans_b = int(n.attribute("transA") or 0), int(n.attribute("transB") or 0)
    alpha, beta = float(n.attribute("alpha")), float(n.attribute("beta"))
    results = ["", "", ""][: n.input_count]
    if n.needs(0):
        pair, flags = ((right, n.grad), (trans_b, 1)) if trans_a else ((n.grad, right), (0, 1 - trans_b))
        results[0] = n.emit("Gemm", *pair, alpha=alpha, transA=flags[0], transB=flags[1])
    if n.needs(1):
        pair, flags = ((n.grad, left), (1, trans_a)) if trans_b else ((left, n.grad), (1 - trans_a, 0))
        results[1] = n.emit("Gemm", *pair, alpha=alpha, transA=flags[0], transB=flags[1])
    if n.needs(2):
        results[2] = n.fit(n.grad if beta == 1 else n.times(n.grad, beta), 2)
    return results


@rule("Einsum")
def _einsum(n: Backward) -> Sequence[str]:
    """For each operand the einsum of the other ones and the derivative."""
    terms, _, result = str(n.attribute("equation")).replace(" ", "").partition("->")
    letters = terms.split(",")
    if "." in terms or not result.isalpha() or any(len(set(term)) < len(term) for term in letters):
        raise UnsupportedCase("the derivative of an Einsum with an ellipsis, a diagonal or without named results")
    results = []
    for position, own in enumerate(letters):
        others = [term for other, term in enumerate(letters) if other != position]
        if not set(own) <= set("".join([result, *others])):
            raise UnsupportedCase("the derivative of an Einsum that sums an axis of a single operand")
        names = [name for other, name in enumerate(n.node.inputs) if other != position]
        equation = f"{','.join([result, *others])}->{own}"
        results.append(n.emit("Einsum", n.grad, *names, equation=equation) if n.needs(position) else "")
    return results


# --- reductions ------------------------------------------------------------------------------------------------


def _axes(n: Backward) -> list[int]:
    from onnx_systemds.operators.onnx.reduction import REDUCTIONS, reduced_axes

    return sorted(reduced_axes(n, REDUCTIONS[n.node.op_type]))


def _kept(n: Backward, name: str, axes: Sequence[int]) -> str:
    """A result of a reduction with its reduced axes."""
    return name if n.attribute("keepdims") or not axes else n.emit("Unsqueeze", name, n.tape.integers(axes))


def _reduction(factor: Callable[[Backward, list[int]], str] | None) -> Rule:
    """A reduction's derivative: that of the result times a factor for each element."""

    def derivative(n: Backward) -> Sequence[str]:
        axes = _axes(n)
        grad = _kept(n, n.grad, axes)
        if factor is None:
            return [n.emit("Expand", grad, n.emit("Shape", n.x))]
        return [n.emit("Mul", factor(n, axes), grad)]

    return derivative


def _share(n: Backward, axes: list[int]) -> str:
    """1 divided by the number of elements in one result, for each element."""
    hits = n.tape.filled_like(n.x, n.dtype(0), 1.0)
    return n.emit("Div", hits, n.emit("ReduceSum", hits, n.tape.integers(axes))) if axes else hits


def _extremes(n: Backward, axes: list[int]) -> str:
    """Equal maxima share the derivative."""
    hits = n.emit("CastLike", n.emit("Equal", n.x, _kept(n, n.out, axes)), n.x)
    return n.emit("Div", hits, n.emit("ReduceSum", hits, n.tape.integers(axes))) if axes else hits


_REDUCTIONS: dict[str, Callable[[Backward, list[int]], str] | None] = {
    "ReduceSum": None,
    "ReduceMean": _share,
    "ReduceMax": _extremes,
    "ReduceMin": _extremes,
    "ReduceSumSquare": lambda n, axes: n.times(n.x, 2.0),
    "ReduceL1": lambda n, axes: n.emit("Sign", n.x),
    "ReduceL2": lambda n, axes: n.emit("Div", n.x, _kept(n, n.out, axes)),
    "ReduceLogSum": lambda n, axes: n.emit(
        "Expand", n.emit("Exp", n.emit("Neg", _kept(n, n.out, axes))), n.emit("Shape", n.x)
    ),
    "ReduceLogSumExp": lambda n, axes: n.emit("Exp", n.emit("Sub", n.x, _kept(n, n.out, axes))),
}
for _name, _weight in _REDUCTIONS.items():
    rule(_name)(_reduction(_weight))


def _softmax_axes(n: Backward) -> str:
    """The axes of one distribution: before opset 13 all from the axis on."""
    axis = n.normalize_axis(int(n.attribute("axis")), n.rank(0))
    return n.tape.integers([axis] if n.version >= 13 else range(axis, n.rank(0)))


@rule("Softmax")
def _softmax(n: Backward) -> Sequence[str]:
    weighted = n.emit("ReduceSum", n.times(n.grad, n.out), _softmax_axes(n))
    return [n.times(n.emit("Sub", n.grad, weighted), n.out)]


@rule("LogSoftmax")
def _log_softmax(n: Backward) -> Sequence[str]:
    total = n.emit("ReduceSum", n.grad, _softmax_axes(n))
    return [n.emit("Sub", n.grad, n.times(n.emit("Exp", n.out), total))]


@rule("GlobalAveragePool")
def _global_average_pool(n: Backward) -> Sequence[str]:
    share = _share(n, list(range(2, n.rank(0))))
    return [n.times(share, n.grad)]


@rule("CumSum")
def _cumsum(n: Backward) -> Sequence[str]:
    back = 0 if n.attribute("reverse") else 1
    return [n.emit("CumSum", n.grad, n.node.inputs[1], reverse=back, exclusive=int(n.attribute("exclusive")))]
