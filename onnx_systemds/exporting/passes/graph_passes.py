"""Joins nodes of a finished graph where nothing else uses what lies between them.

MatMul + Add is Gemm, Conv and per-channel constants after it are one Conv, exp / rowSums(exp) is Softmax.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from onnx_systemds.exporting.graph.grouped_convolutions import grouped
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import TEXT, Attribute, Node, Scope, Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.passes.activations import (
    doubled_sigmoid,
    leaky,
    log_cosh,
    log_softmax,
    normalized_logarithm,
    rectified,
    softplus,
    tangent,
    unlowered,
)
from onnx_systemds.exporting.passes.convolution_joins import divided, lowered, padded, scaled, shifted
from onnx_systemds.exporting.passes.idioms import (
    Fusing,
    batch_normalization,
    gelu,
    layer_normalization,
    missing_replaced,
    normalized_scaled,
    normalized_shifted,
    only_axis,
    unit_rows,
)
from onnx_systemds.exporting.passes.plugin_joins import joined
from onnx_systemds.exporting.passes.simplifications import (
    based,
    classified,
    clipped,
    moved_back,
    pooled,
    summed,
    without_axes,
)
from onnx_systemds.exporting.passes.stacks import exchanged, stacked
from onnx_systemds.inference.dims import Dims


def fuse(builder: Operators) -> None:
    """Join nodes in the whole graph."""
    uses: Counter[Tensor] = Counter(tensor for _, tensor in builder.outputs)
    scopes = list(_counted(builder.main, [tensor for _, tensor in builder.outputs], uses))
    for scope, needed in scopes:
        fusing = _Fusing(builder, scope, uses)
        for node in needed:
            fusing.visit(node)


def _counted(
    scope: Scope, outputs: Iterable[Tensor], uses: Counter[Tensor]
) -> Iterable[tuple[Scope, list[Node]]]:
    """Yield the scopes with their needed nodes, and count how often each tensor is used."""
    needed = needed_nodes(scope, outputs)
    yield scope, needed
    for node in needed:
        uses.update(tensor for tensor in node.inputs if tensor is not None)
        for body in node.subgraphs():
            uses.update(body.outputs)
            yield from list(_counted(body.scope, body.outputs, uses))


class _Fusing:
    """Joins the nodes of one scope."""

    def __init__(self, builder: Operators, scope: Scope, uses: Counter[Tensor]) -> None:
        self.builder, self.scope, self.uses = builder, scope, uses
        self.rules: dict[str, tuple[Callable[[Node], bool], ...]] = {
            "Add": (self.gemm, *self.formulas(shifted, batch_normalization, normalized_shifted, based, rectified)),
            "Sub": self.formulas(lowered, normalized_logarithm, doubled_sigmoid),
            "Mul": self.formulas(scaled, gelu, normalized_scaled, moved_back),
            "Div": (*self.formulas(divided), self.softmax, *self.formulas(layer_normalization, unit_rows, tangent)),
            "Log": self.formulas(log_softmax, softplus, log_cosh),
            "Where": self.formulas(rectified),
            "If": self.formulas(missing_replaced),
            "Transpose": (self.turned,),
            "Concat": (self.grouped, *self.formulas(stacked)),
            "Reshape": (self.reshaped, *self.formulas(pooled, without_axes, exchanged)),
            "Slice": (self.chosen,),
            "Softmax": self.formulas(classified),
            "Min": self.formulas(clipped),
            "Max": self.formulas(clipped, leaky),
            "ReduceSum": self.formulas(summed),
            **dict.fromkeys(("Conv", "MaxPool", "AveragePool"), self.formulas(padded)),
        }

    def formulas(self, *rules: Callable[[Fusing, Node], bool]) -> tuple[Callable[[Node], bool], ...]:
        """Return rules of other modules as those of this pass."""
        return tuple(partial(rule, self) for rule in rules)

    def visit(self, node: Node) -> None:
        """Turn `node` into what it is together with the nodes in front of it."""
        before = node.op
        found = joined(self, node) or any(rule(node) for rule in self.rules.get(before, ()))
        if found and node.op != before:
            self.visit(node)  # which may be part of a further pattern

    def single(self, tensor: Tensor | None, op: str) -> Node | None:
        """Return the node `op` that makes a tensor that only one node uses."""
        node = None if tensor is None else tensor.node
        if node is None or tensor is None or node.op != op or self.uses[tensor] != 1 or node.scope is not self.scope:
            return None
        return node

    def become(self, node: Node, op: str, inputs: Iterable[Tensor | None], **attributes: object) -> bool:
        """Make `node` another one with the same result."""
        node.op, node.inputs, node.attributes = op, tuple(inputs), attributes  # type: ignore[assignment]
        return True

    def inserted(
        self, place: Node, op: str, inputs: Iterable[Tensor | None], output: Tensor,
        attributes: Mapping[str, Attribute] = MappingProxyType({}),
    ) -> Tensor:  # fmt: skip
        """Put a new node in front of another one; returns its output."""
        output.node = Node(op, tuple(inputs), (output,), attributes, place.place, self.scope)
        self.scope.nodes.insert(self.scope.nodes.index(place), output.node)
        return output

    def gemm(self, node: Node) -> bool:
        """``A %*% B + row``."""
        for product, bias in (node.inputs, node.inputs[::-1]):
            product, factor = self.multiplied(product)
            made = self.single(product, "MatMul")
            if made is None or product is None or bias is None or product.rank != 2 or bias.rank not in (0, 2):
                continue
            if product.dims != node.outputs[0].dims or (bias.rank == 2 and bias.dims not in (
                (1, product.dims[1]), (product.dims[0], 1), product.dims, (1, 1)
            )):  # fmt: skip
                continue
            turned = [self.transposed(operand) for operand in made.inputs]
            flags: dict[str, Any] = {n: 1 for n, (_, flag) in zip(("transA", "transB"), turned) if flag}
            if factor != 1:
                flags["alpha"] = factor
            return self.become(node, "Gemm", [operand for operand, _ in turned] + [bias], **flags)
        return False

    def multiplied(self, x: Tensor | None) -> tuple[Tensor | None, float]:
        """Return what a number is multiplied with, and that number if an attribute holds it exactly; else `x` and 1."""
        node = self.single(x, "Mul")
        for one, other in (node.inputs, node.inputs[::-1]) if node is not None else ():
            known = None if other is None else other.constant
            if known is not None and not known.shape and float(np.float32(known)) == known:
                return one, float(known)
        return x, 1.0

    def transposed(self, operand: Tensor | None) -> tuple[Tensor | None, bool]:
        """Return what a transposition is made of, and whether there is one."""
        if operand is not None and operand.node is not None and operand.node.op == "Transpose":
            return operand.node.inputs[0], True
        return operand, False

    def grouped(self, node: Node) -> bool:
        """Convolutions of a range of channels each."""
        if any(self.uses[tensor] != 1 for tensor in node.inputs if tensor is not None):
            return False
        before = grouped(self.builder, node)
        if before is not None:
            self.scope.nodes.insert(self.scope.nodes.index(node), before)
        return before is not None

    def reshaped(self, node: Node) -> bool:
        """A Reshape of a Reshape."""
        source, dims = node.inputs[0], node.outputs[0].dims
        before = source.node if source is not None else None
        if before is None or before.op != "Reshape" or before.inputs[0] is None or before.scope is not self.scope:
            return False
        target = self.builder.target(before.inputs[0], dims)
        return target.constant is not None and self.become(node, "Reshape", [before.inputs[0], target])

    def chosen(self, node: Node) -> bool:
        """A Slice from a computed place to the next one."""
        x, start, stop, axes = node.inputs[:4]
        after = self.single(stop, "Add") if len(node.inputs) == 4 else None
        if after is None or start is None or start.constant is not None or axes is None or axes.constant is None:
            return False
        one = next((other for same, other in (after.inputs, after.inputs[::-1]) if same is start), None)
        if one is None or one.constant is None or one.constant.tolist() != [1] or node.outputs[0].kind == TEXT:
            return False
        return self.become(node, "Gather", [x, start], axis=int(axes.constant.item()))

    def viewed(self, source: Tensor, dims: Dims, node: Node) -> Tensor | None:
        """Return a tensor with other dims, of a Reshape in front of `node`; None where sizes must be computed."""
        if source.dims == dims:
            return source
        if source.node is not None and source.node.op == "Reshape" and source.node.scope is self.scope:
            source = source.node.inputs[0] or source
        target = self.builder.target(source, dims)
        if target.constant is None:
            return None
        return self.inserted(node, "Reshape", (source, target), Tensor(source.kind, dims))

    def softmax(self, node: Node) -> bool:
        """``E / sum(E)`` along an axis, with ``E = exp(S)`` or ``E = exp(S - max(S))``."""
        powers, total = node.inputs
        summed = self.single(total, "ReduceSum")
        axis = None if summed is None else only_axis(summed)
        if powers is None or summed is None or summed.inputs[0] is not powers or self.uses[powers] != 2 or axis is None:
            return False
        scores = self.exponents(powers, node)
        if scores is None:
            return False
        source = unlowered(scores, axis)
        if source is not scores and scores.node is not None:
            highest = scores.node.inputs[1]
            if highest is not None and self.uses[scores] == self.uses[highest] == 1:
                self.uses[source] -= 1  # once for both
        return self.become(node, "Softmax", [source], axis=axis)

    def exponents(self, powers: Tensor, place: Node) -> Tensor | None:
        """Return S of ``exp(S)``, also with constants beside it, as of a class whose scores are 0; else None."""
        made = powers.node
        if made is None or made.op == "Exp":
            return None if made is None else made.inputs[0]
        if made.op == "Pad" and not made.attributes and len(made.inputs) == 3:
            inputs = [self.logarithm(made.inputs[0]), made.inputs[1], self.logarithm(made.inputs[2])]
        elif made.op == "Concat":
            inputs = [self.logarithm(part) for part in made.inputs]
        else:
            return None
        if None in inputs:
            return None
        scores = self.inserted(place, made.op, inputs, Tensor(powers.kind, powers.dims), made.attributes)
        self.uses[scores] = 1
        return scores

    def logarithm(self, powers: Tensor | None) -> Tensor | None:
        """Return the logarithm of what is a power, or a constant; None for anything else."""
        raised = self.single(powers, "Exp")
        if raised is not None or powers is None or powers.constant is None:
            return None if raised is None else raised.inputs[0]
        known = powers.constant
        return self.builder.constant(np.log(known), powers.kind) if (known > 0).all() else None

    def turned(self, node: Node) -> bool:
        """A Softmax of a transposed matrix that is transposed back."""
        made = self.single(node.inputs[0], "Softmax")
        source = None if made is None else made.inputs[0]
        before = None if source is None else source.node
        if made is None or before is None or before.op != "Transpose":
            return False
        one, other, axis = before.attributes["perm"], node.attributes["perm"], made.attributes["axis"]
        assert isinstance(one, tuple) and isinstance(other, tuple) and isinstance(axis, int)
        if [one[int(place)] for place in other] != list(range(len(one))):
            return False
        return self.become(node, "Softmax", before.inputs, axis=int(one[axis]))
