"""`Backward`: what a gradient rule gets, to emit the nodes of the chain rule.

A rule stands beside the generator of its operator, registered by `registry.gradient`. It gets its node and the
derivative of y by the node's outputs, and returns those by its inputs as names of values that further nodes compute;
"" for an input without a derivative, a `Run` for one of which a run of elements was read. Those by what sub-graphs
capture (`Backward.captured`) come after them. Where an operator has a kink a rule takes the derivative from one side,
or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.values import FLOAT_DTYPES
from onnx_systemds.model import protos
from onnx_systemds.model.ir import DERIVATIVES, Array, Node
from onnx_systemds.model.walk import names_captured_by

OPSET = 18  # of the nodes that are made


@dataclass(frozen=True, slots=True)
class Run:
    """The derivative by a run of elements along an axis of a value; that by all others is 0.

    whole: writes the derivative by the value, with the zeros.
    """

    derivative: str
    axis: int
    start: Dim
    count: Dim
    whole: Callable[[], str]


class Backward(NodeFacts, NodeWriter):
    """A node, the derivatives of y by its outputs (``grad``: by the first), and the emitted nodes."""

    def __init__(
        self, facts: NodeFacts, node: Node, writer: NodeWriter, given: Sequence[str], active: set[str]
    ) -> None:
        NodeFacts.__init__(self, node, facts.values, facts.graph_name)
        NodeWriter.__init__(self, writer.replaced, writer.prefix, writer.opset)
        self.run_sizes = facts.run_sizes
        self.nodes = writer.nodes
        self.given = given
        self.active = active

    @property
    def grad(self) -> str:
        """The derivative by the first output. Raises UnsupportedCase."""
        if not self.given[0]:
            raise UnsupportedCase(f"the derivative of an output of {self.node.op_type} other than the first")
        return self.given[0]

    @property
    def x(self) -> str:
        """The first input."""
        return self.node.inputs[0]

    @property
    def out(self) -> str:
        """The first output."""
        return self.node.outputs[0]

    def needs(self, position: int) -> bool:
        """Whether the derivative by an input is needed."""
        return self.has(position) and self.node.inputs[position] in self.active

    def known(self, content: Any, dtype: str = "int64", to: str = "") -> str:
        """Emit a constant; of floating-point numbers with all their digits, whatever the type has."""
        given = np.array(content, protos.numpy_dtype("double" if dtype in FLOAT_DTYPES else dtype))
        held = protos.held(given, dtype)
        constant = self.emit("Constant", to=to, value=held)
        return constant if protos.dtype_of(held) == dtype else self.retyped(constant, dtype)

    def retyped(self, name: str, dtype: str, given: str = "") -> str:
        """Emit the same numbers as those of a type, which are not rounded to it: the script computes in FP64.

        given: the type that they have, if it is known; where it is that type, nothing is emitted.
        """
        if dtype == given:
            return name
        return self.emit("Retyped", name, domain=DERIVATIVES, dtype=protos.element_type(dtype))

    @property
    def captured(self) -> tuple[str, ...]:
        """The values that sub-graphs of the node capture, and by which derivatives are needed."""
        return tuple(sorted(names_captured_by(self.node) & self.active))

    def number(self, value: float) -> str:
        """A constant in the type of the first output."""
        return self.known(value, self.values[self.out].dtype)

    def times(self, left: str, right: str | float) -> str:
        """Emit the product of a value and a value or number."""
        return self.emit("Mul", left, right if isinstance(right, str) else self.number(right))

    def chain(self, factor: str) -> list[str]:
        """Emit the derivative by the input of an elementwise function, from the function's own derivative."""
        return [self.emit("Mul", self.grad, factor)]

    def where(self, condition: str, derivative: str) -> str:
        """Emit the derivative where a condition holds, else 0."""
        return self.emit("Where", condition, derivative, self.number(0.0))

    def fit(self, derivative: str, position: int) -> str:
        """Emit the sum of a derivative over the axes along which an input was broadcast.

        Where sizes do not tell, it was not: a reshape to the dims of the input ends the run if it was after all.
        """
        own = self.dims(position)
        whole = self.values[self.out].dims
        assert whole is not None
        lead = len(whole) - len(own)
        if lead:
            derivative = self.total(derivative, range(lead), keepdims=0)
        derivative, is_told = self.summed(derivative, own, whole[lead:])
        return derivative if is_told else self.shaped(derivative, position)

    def summed(self, derivative: str, own: Dims, whole: Dims) -> tuple[str, bool]:
        """Emit the sum of a derivative over the axes in which dims of 1 were broadcast; whether sizes tell which."""
        pairs = [*zip(own, whole)]
        axes = [axis for axis, (size, goal) in enumerate(pairs) if size == 1 and goal != 1]
        is_told = all(size in (1, goal) for size, goal in pairs)
        return self.total(derivative, axes), is_told

    def total(self, name: str, axes: Sequence[int], *, keepdims: int = 1) -> str:
        """Emit the sum along some axes; of none, which ONNX takes for all, it is the value itself."""
        return self.emit("ReduceSum", name, self.known(axes), keepdims=keepdims) if axes else name

    def mean(self, name: str, axes: Sequence[int]) -> str:
        """Emit the mean along some axes, of which none are left out as by `total`."""
        return self.emit("ReduceMean", name, self.known(axes)) if axes else name

    def shaped(self, derivative: str, position: int = 0) -> str:
        """Emit a derivative reshaped to the dims of an input."""
        return self.emit("Reshape", derivative, self.emit("Shape", self.node.inputs[position]))

    def along(self, name: str, axis: int, matrix: Array) -> str:
        """Emit the product of an axis with a matrix of [its size, the size of this axis of the first input]."""
        factor, last = self.known(matrix, self.dtype(0)), self.rank(0) - 1
        if axis == last:
            return self.emit("MatMul", name, factor)
        perm = list(range(last + 1))
        perm[axis], perm[last] = last, axis
        turned = self.emit("MatMul", self.emit("Transpose", name, perm=tuple(perm)), factor)
        return self.emit("Transpose", turned, perm=tuple(perm))

    # --- what several rules compute ----------------------------------------------------------------------------

    def needed(self, derivatives: Sequence[Callable[[], str]]) -> list[str]:
        """The derivatives by the inputs; those that are not needed are not emitted."""
        return [make() if self.needs(position) else "" for position, make in enumerate(derivatives)]

    def fitted(self, derivatives: Sequence[Callable[[], str]]) -> list[str]:
        """As `needed`, for a broadcasting operator. Raises UnsupportedCase."""
        if self.version < 7 and self.attribute("broadcast"):
            raise UnsupportedCase(f"the derivative of {self.node.op_type} that broadcasts as before opset 7")
        return [self.fit(make(), position) if self.needs(position) else "" for position, make in enumerate(derivatives)]

    def one_plus(self, name: str) -> str:
        """Emit 1 + x."""
        return self.emit("Add", self.number(1.0), name)

    def one_minus(self, name: str) -> str:
        """Emit 1 - x."""
        return self.emit("Sub", self.number(1.0), name)

    def squared(self, name: str) -> str:
        """Emit x * x."""
        return self.emit("Mul", name, name)

    def inverse_root(self, name: str) -> str:
        """Emit 1 / sqrt(x)."""
        return self.emit("Reciprocal", self.emit("Sqrt", name))

    def share(self, name: str, axes: Sequence[int]) -> str:
        """Emit the quotient of a value and the number of elements of the first input along some axes."""
        count = product(self.dims(0)[axis] for axis in axes)
        if isinstance(count, int):
            return name if count == 1 else self.emit("Div", name, self.known(float(count), self.dtype(0)))
        sizes = self.emit("Gather", self.emit("Shape", self.x), self.known(axes))
        return self.emit("Div", name, self.retyped(self.emit("ReduceProd", sizes, keepdims=0), self.dtype(0)))

    def reversed(self, name: str, axes: Sequence[int]) -> str:
        """Emit a value from the last to the first element along some axes."""
        last, first, back = ([number] * len(axes) for number in (-1, -(2**31), -1))
        return self.emit("Slice", name, *map(self.known, (last, first, axes, back)))

    def by_norm(self, x: str, axis: int, *, is_first: bool) -> str:
        """Emit the derivative by x of the output, which is x by its norm along an axis, or x where all of them are 0.

        The norm, the L1 norm if it is the first, has the derivative x / norm(x), or the sign of x.
        """
        norm = self.emit("ReduceL1" if is_first else "ReduceL2", x, self.known([axis]))
        slope = self.emit("Sign", x) if is_first else self.out
        along = self.times(slope, self.total(self.times(self.grad, self.out), [axis]))
        divisor = self.emit("Where", self.emit("Equal", norm, self.number(0.0)), self.number(1.0), norm)
        return self.emit("Div", self.emit("Sub", self.grad, along), divisor)

    def centred_mean(self, grad: str, normal: str, axes: Sequence[int]) -> str:
        """Emit the derivative by x, times the deviation, of ``normal``, which is x less its mean, by its deviation."""
        along = self.mean_along(grad, normal, axes)
        return self.emit("Sub", self.emit("Sub", grad, self.mean(grad, axes)), along)

    def mean_along(self, grad: str, normal: str, axes: Sequence[int]) -> str:
        """Emit the part of a derivative that has the direction of ``normal``, whose mean square along the axes is 1."""
        return self.times(normal, self.mean(self.times(grad, normal), axes))


def by_factor(factor: Callable[[Backward], str]) -> Callable[[Backward], Sequence[str]]:
    """The rule of an elementwise function of one input, from its own derivative."""
    return lambda n: n.chain(factor(n))


def flat(n: Backward) -> Sequence[str]:
    """The rule of operators whose derivative is 0, and of those that only read dims."""
    return [""] * n.input_count
