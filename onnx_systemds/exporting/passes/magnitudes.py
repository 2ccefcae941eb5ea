"""How large the numbers of a finished graph may be, and whether they are whole: `magnitudes`.

The bounds follow from constants and operators alone. What nothing is known of (inputs, weights in files, what a loop
passes on) counts as whole and as large as `unknown`, integers as up to 2^53.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import BOOL, INT, TEXT, Array, Node, Scope, SubGraph, Tensor, made_by, pairs
from onnx_systemds.exporting.limits import estimated_elements
from onnx_systemds.exporting.passes.dataflow import fed_back, given_back


@dataclass(frozen=True)
class Magnitude:
    """The largest that a number can be, whatever its sign, and whether it is whole."""

    largest: float
    whole: bool = True

    def joined(self, other: Magnitude) -> Magnitude:
        """Return that of either."""
        return Magnitude(max(self.largest, other.largest), self.whole and other.whole)


_Rule = Callable[[Node, Sequence[Magnitude]], Magnitude]
_LARGEST_WHOLE = 2.0**63
_LARGEST_EXACT = 2.0**53


def magnitudes(
    scope: Scope, outputs: Iterable[Tensor], unknown: float, integers: float = _LARGEST_EXACT
) -> Mapping[Tensor, Magnitude]:
    """Return the magnitudes of all numbers that `outputs` need, those of the bodies of loops included.

    integers: how large those of inputs may be that are integers.
    """
    found = _Magnitudes(unknown, integers)
    found.visit(scope, outputs)
    return found.known


class _Magnitudes:
    """Walks the nodes in their order; a body first as it begins, then with what it passes on, too."""

    def __init__(self, unknown: float, integers: float) -> None:
        self.unknown = unknown
        self.integers = integers
        self.known: dict[Tensor, Magnitude] = {}

    def visit(self, scope: Scope, outputs: Iterable[Tensor]) -> None:
        for node in needed_nodes(scope, outputs):
            for tensor in node.outputs:
                self.known.pop(tensor, None)
            bodies = node.subgraphs()
            for body in bodies:
                self.visit_body(node, body)
            if not bodies:
                self.known.update((tensor, self.result(node, tensor)) for tensor in node.outputs)

    def visit_body(self, node: Node, body: SubGraph) -> None:
        self.join(body.inputs, node.inputs[: len(body.inputs)])
        self.visit(body.scope, body.outputs)
        results = given_back(node, body)
        states = fed_back(node, body)
        if states:
            self.join(states, results)
            self.visit(body.scope, body.outputs)
        self.join(node.outputs, results)

    def join(self, tensors: Sequence[Tensor], given: Sequence[Tensor | None]) -> None:
        for tensor, other in zip(tensors, given):
            found = self.of(other)
            self.known[tensor] = self.known[tensor].joined(found) if tensor in self.known else found

    def of(self, tensor: Tensor | None) -> Magnitude:
        if tensor is None or tensor.kind in (BOOL, TEXT):
            return Magnitude(1.0)
        if tensor not in self.known:
            known = tensor.constant
            self.known[tensor] = self.of_unknown(tensor) if known is None else _of_constant(known)
        return self.known[tensor]

    def of_unknown(self, tensor: Tensor) -> Magnitude:
        """Return that of an input, or of what is as good as one; integers may be dates and keys."""
        is_given = tensor.kind == INT and tensor.node is None
        return Magnitude(self.integers if is_given else self.unknown)

    def result(self, node: Node, tensor: Tensor) -> Magnitude:
        rule = RULES.get(node.op)
        if rule is None:
            return Magnitude(self.unknown, whole=tensor.kind == INT)
        found = rule(node, [self.of(given) for given in node.inputs])
        return Magnitude(found.largest) if tensor.kind == INT else found


def _of_constant(content: Array) -> Magnitude:
    finite = np.abs(content[np.isfinite(content)])
    largest = float(finite.max()) if finite.size else 0.0
    return Magnitude(largest, largest < _LARGEST_WHOLE and bool((np.floor(finite) == finite).all()))


def _any_of(node: Node, given: Sequence[Magnitude]) -> Magnitude:
    """Return that of the inputs of the kind of the result."""
    kind = node.outputs[0].kind
    own = [each for each, tensor in zip(given, node.inputs) if tensor is not None and tensor.kind == kind]
    return Magnitude(max(each.largest for each in own), all(each.whole for each in own))


def _clipped(_: Node, given: Sequence[Magnitude]) -> Magnitude:
    bound = max((each.largest for each in given[1:]), default=math.inf)
    return Magnitude(min(given[0].largest, bound), all(each.whole for each in given))


def _sum(_: Node, given: Sequence[Magnitude]) -> Magnitude:
    return Magnitude(sum(each.largest for each in given), all(each.whole for each in given))


def _difference(node: Node, given: Sequence[Magnitude]) -> Magnitude:
    divisor = remainder_divisor(node)
    return _sum(node, given) if divisor is None else Magnitude(_of_constant(divisor).largest, given[0].whole)


def remainder_divisor(node: Node) -> Array | None:
    """Return the number `b` where a Sub is ``a - floor(a / b) * b``, or with a quotient that is cut off."""
    for cut, b in pairs(made_by(node.inputs[1], "Mul")):
        quotient = _cut_quotient(cut)
        if quotient is not None and b.constant is not None and quotient.inputs == (node.inputs[0], b):
            return b.constant
    return None


def _cut_quotient(x: Tensor | None) -> Node | None:
    """Return the Div whose result, without its fraction, a tensor is."""
    product = made_by(x, "Mul")
    floors = [made_by(part, "Floor") for part in ((x,) if product is None else product.inputs)]
    floor = next(filter(None, floors), None)
    return None if floor is None else whole_quotient(floor) or made_by(floor.inputs[0], "Div")


def whole_quotient(node: Node) -> Node | None:
    """Return the Div whose absolute value a Floor rounds: integer division cuts off so."""
    inner = made_by(node.inputs[0], "Abs") if node.op == "Floor" else None
    return None if inner is None else made_by(inner.inputs[0], "Div")


def _quotient(node: Node, given: Sequence[Magnitude]) -> Magnitude:
    divisor = node.operand(1).constant
    least = 1.0 if divisor is None or not divisor.size else float(np.abs(divisor).min()) or 1.0
    return Magnitude(given[0].largest / least, node.outputs[0].kind == INT)


def _power(_: Node, given: Sequence[Magnitude]) -> Magnitude:
    base, exponent = given[0].largest, given[1].largest
    largest = math.inf if exponent * math.log2(max(base, 2.0)) > 64 else base**exponent
    return Magnitude(largest, given[0].whole and given[1].whole and math.isfinite(largest))


def _added_up(node: Node, given: Sequence[Magnitude]) -> Magnitude:
    data = node.operand()
    if node.op == "CumSum":
        axis = node.operand(1).constant
        count = estimated_elements(data.dims if axis is None else (data.dims[int(axis.item())],))
    else:
        count = max(1, estimated_elements(data.dims) // max(1, estimated_elements(node.outputs[0].dims)))
    return Magnitude(given[0].largest * count, given[0].whole)


def sum_before_division(node: Node, given: Magnitude) -> Magnitude:
    """Return the magnitude of the sum that a ReduceMean of such numbers divides."""
    return _added_up(node, [given])


def _matrix_product(node: Node, given: Sequence[Magnitude]) -> Magnitude:
    inner = node.operand().dims[0 if node.attributes.get("transA") else -1]
    found = given[0].largest * given[1].largest * estimated_elements((inner,))
    return Magnitude(found + sum(each.largest for each in given[2:]), all(each.whole for each in given))


_MOVES = ("Cast", "Compress", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape",
         "Slice", "Squeeze", "Tile", "TopK", "Transpose", "Unique", "Unsqueeze")
_CHOICES_OF_ONE = ("Abs", "Neg", "ReduceMax", "ReduceMin", "Relu")
_CHOICES = ("Concat", "Max", "Min", "Pad", "ScatterElements", "ScatterND", "Where")
KEEPING = (*_MOVES, *_CHOICES_OF_ONE, *_CHOICES, "Clip")
"""What calculates nothing: its numbers are those that it takes, but for their sign."""
RULES: Mapping[str, _Rule] = {
    **dict.fromkeys((*_MOVES, *_CHOICES_OF_ONE), lambda _, given: given[0]),
    **dict.fromkeys(_CHOICES, _any_of),
    **dict.fromkeys(("Ceil", "Floor", "Round"), lambda _, given: Magnitude(given[0].largest)),
    **dict.fromkeys(("ReduceSum", "CumSum"), _added_up),
    "ReduceMean": lambda _, given: Magnitude(given[0].largest, whole=False),
    **dict.fromkeys(("MatMul", "Gemm"), _matrix_product),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"),
                    lambda _, given: Magnitude(2 * max(each.largest for each in given))),
    "Add": _sum,
    "Clip": _clipped,
    "Div": _quotient,
    "Mod": lambda _, given: Magnitude(given[1].largest, given[0].whole and given[1].whole),
    "Mul": lambda _, given: Magnitude(given[0].largest * given[1].largest, given[0].whole and given[1].whole),
    "Pow": _power,
    "Sign": lambda _, __: Magnitude(1.0),
    "Sub": _difference,
}
"""How the magnitude of a result follows from those of the inputs."""
