"""Joins nodes of a finished graph where nothing else uses what lies between them.

MatMul + Add is Gemm, Conv and per-channel constants after it are one Conv, exp / rowSums(exp) is Softmax.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from onnx_systemds.exporting.graph.grouped_convolutions import grouped
from onnx_systemds.exporting.graph.nodes import (
    FLOAT,
    TEXT,
    Array,
    Attribute,
    FunctionBody,
    Node,
    Scope,
    SubGraph,
    Tensor,
)
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.passes.idioms import (
    Fusing,
    batch_normalization,
    gelu,
    layer_normalization,
    missing_replaced,
    normalized_scaled,
    normalized_shifted,
    reduced_axes,
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

SCALE = "_scale"
"""Attribute of a Conv whose filters are multiplied, one number per filter, when the model is written."""


def needed_nodes(scope: Scope, extra: Iterable[Node], outputs: Iterable[Tensor]) -> list[Node]:
    """Return the nodes of a scope, and of `extra` after it, that its outputs need, in their order."""
    return _needed(scope, extra, outputs)[0]


def captured(body: SubGraph) -> set[Tensor]:
    """Return the tensors that a branch or body uses, also those of outer graphs."""
    return _needed(body.scope, (), body.outputs)[1]


def _needed(scope: Scope, extra: Iterable[Node], outputs: Iterable[Tensor]) -> tuple[list[Node], set[Tensor]]:
    """Return the nodes and the tensors that outputs need; each body within is looked at once."""
    needed = set(outputs)
    found: list[Node] = []
    for node in reversed([*scope.nodes, *extra]):
        if any(tensor in needed for tensor in node.outputs):
            found.append(node)
            needed.update(tensor for tensor in node.inputs if tensor is not None)
            for _, body in node.subgraphs():
                if not isinstance(body, FunctionBody):  # which sees nothing but its inputs
                    needed |= captured(body)
    return found[::-1], needed


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
    needed = needed_nodes(scope, [], outputs)
    yield scope, needed
    for node in needed:
        uses.update(tensor for tensor in node.inputs if tensor is not None)
        for _, body in node.subgraphs():
            uses.update(body.outputs)
            yield from list(_counted(body.scope, body.outputs, uses))


class _Fusing:
    """Joins the nodes of one scope."""

    def __init__(self, builder: Operators, scope: Scope, uses: Counter[Tensor]) -> None:
        self.builder, self.scope, self.uses = builder, scope, uses
        self.rules: dict[str, tuple[Callable[[Node], bool], ...]] = {
            "Add": (self.gemm, self.shifted, *self.formulas(batch_normalization, normalized_shifted, based)),
            "Sub": (self.lowered,),
            "Mul": (self.scaled, *self.formulas(gelu, normalized_scaled, moved_back)),
            "Div": (self.divided, self.softmax, *self.formulas(layer_normalization, unit_rows)),
            "If": self.formulas(missing_replaced),
            "Transpose": (self.turned,),
            "Concat": (self.grouped, *self.formulas(stacked)),
            "Reshape": (self.reshaped, *self.formulas(pooled, without_axes, exchanged)),
            "Slice": (self.chosen,),
            "Softmax": self.formulas(classified),
            "Min": self.formulas(clipped),
            "Max": self.formulas(clipped),
            "ReduceSum": self.formulas(summed),
            **dict.fromkeys(("Conv", "MaxPool", "AveragePool"), (self.padded,)),
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
        self, place: Node, op: str, inputs: Iterable[Tensor | None], output: Tensor, attributes: Mapping[str, Attribute]
    ) -> Node:
        """Put a new node in front of another one."""
        found = Node(op, tuple(inputs), (output,), attributes, place.place, self.scope)
        self.scope.nodes.insert(self.scope.nodes.index(place), found)
        return found

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

    def per_channel(self, x: Tensor | None, other: Tensor | None) -> tuple[Node, Array] | None:
        """Return the Conv that makes `x`, and `other` as a constant per channel."""
        conv = self.single(x, "Conv") or self.single(x, "ConvTranspose")
        if conv is None or x is None or other is None or other.constant is None or not isinstance(x.dims[1], int):
            return None
        content, channels = other.constant, x.dims[1]
        full = (1,) * (x.rank - content.ndim) + content.shape
        if len(full) != x.rank or full not in ((1, channels, *[1] * (x.rank - 2)), (1,) * x.rank):
            return None
        return conv, np.broadcast_to(content.reshape(-1), (channels,))

    def bias(self, conv: Node) -> Array | None:
        """Return the known bias of a Conv, zeros for none; None when it is computed."""
        if len(conv.inputs) == 2:
            channels = conv.outputs[0].dims[1]
            return np.zeros(channels) if isinstance(channels, int) else None
        bias = conv.inputs[2]
        return None if bias is None else bias.constant

    def rebuilt(self, node: Node, conv: Node, bias: Array, scale: Array | None, hint: str) -> bool:
        attributes = dict(conv.attributes)
        if scale is not None:
            before = attributes.get(SCALE)
            attributes[SCALE] = scale * before if isinstance(before, np.ndarray) else scale
        inputs = list(conv.inputs[:2])
        if bias.any():
            constant = self.builder.constant(bias, FLOAT)
            constant.hint = constant.hint or hint
            inputs.append(constant)
        return self.become(node, conv.op, inputs, **attributes)

    def shifted(self, node: Node) -> bool:
        """``Conv + constant``, or + a computed number per channel."""
        return any(self._shifted(node, x, other, 1.0) for x, other in (node.inputs, node.inputs[::-1]))

    def lowered(self, node: Node) -> bool:
        """``Conv - constant``."""
        return self._shifted(node, node.inputs[0], node.inputs[1], -1.0)

    def _shifted(self, node: Node, x: Tensor | None, other: Tensor | None, sign: float) -> bool:
        found = self.per_channel(x, other)
        if found is not None and other is not None:
            before = self.bias(found[0])
            return before is not None and self.rebuilt(node, found[0], before + sign * found[1], None, other.hint)
        return sign > 0 and self.computed_bias(node, x, other)

    def computed_bias(self, node: Node, x: Tensor | None, other: Tensor | None) -> bool:
        """Give a Conv without a bias one that is computed, where it is just the column of a matrix."""
        conv = self.single(x, "Conv")
        if conv is None or x is None or other is None or len(conv.inputs) != 2:
            return False
        if other.dims != (1, x.dims[1], *[1] * (x.rank - 2)):
            return False
        source = other.node.inputs[0] if other.node is not None and other.node.op == "Reshape" else other
        bias = Tensor(FLOAT, (x.dims[1],), "bias")
        shape = self.builder.constant([-1])
        bias.node = Node("Reshape", (source, shape), (bias,), {}, node.place, self.scope)
        self.scope.nodes.insert(self.scope.nodes.index(node), bias.node)
        return self.become(node, "Conv", [*conv.inputs, bias], **conv.attributes)

    def scaled(self, node: Node) -> bool:
        """``Conv * constant``."""
        return any(self._scaled(node, x, other, False) for x, other in (node.inputs, node.inputs[::-1]))

    def divided(self, node: Node) -> bool:
        """``Conv / constant``."""
        return self._scaled(node, node.inputs[0], node.inputs[1], True)

    def _scaled(self, node: Node, x: Tensor | None, other: Tensor | None, inverse: bool) -> bool:
        found = self.per_channel(x, other)
        if found is None or found[0].op != "Conv":
            return False
        conv, factor = found
        weights, bias = conv.inputs[1], self.bias(conv)
        factor = 1.0 / factor if inverse and factor.all() else factor
        if weights is None or weights.constant is None or bias is None or not np.isfinite(factor).all():
            return False
        if inverse and other is not None and other.constant is not None and not other.constant.all():
            return False
        hint = getattr(conv.inputs[2], "hint", "") if len(conv.inputs) > 2 else ""
        return self.rebuilt(node, conv, bias * factor, factor, hint)

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

    def padded(self, node: Node) -> bool:
        """A Conv or pooling of an image in a border that it makes itself."""
        image = node.inputs[0]
        view = self.single(image, "Reshape")
        border = self.single(image if view is None else view.inputs[0], "Pad")
        inner = None if border is None else border.inputs[0]
        if image is None or border is None or inner is None or image.rank != 4 or inner.rank < 3:
            return False
        pads = _image_border(border, node.op)
        window = node.attributes.get("kernel_shape")
        if pads is None or image.dims[2:] != border.outputs[0].dims[-2:] or not isinstance(window, tuple):
            return False
        own = node.attributes.get("pads", (0,) * 4)
        assert isinstance(own, tuple)
        pads = [int(a) + b for a, b in zip(own, pads)]
        pooling = node.op != "Conv"
        if pooling and any(pad >= int(size) for pad, size in zip(pads, window * 2)):
            return False
        if any(own) and node.op == "AveragePool" and not node.attributes.get("count_include_pad"):
            return False
        attributes = {**node.attributes, "pads": tuple(pads)}
        if node.op == "AveragePool":
            attributes["count_include_pad"] = 1
        shaped = self.viewed(inner, (*image.dims[:2], *inner.dims[-2:]), node)
        return shaped is not None and self.become(node, node.op, [shaped, *node.inputs[1:]], **attributes)

    def viewed(self, source: Tensor, dims: Dims, node: Node) -> Tensor | None:
        """Return a tensor with other dims, of a Reshape in front of `node`; None where sizes must be computed."""
        if source.dims == dims:
            return source
        if source.node is not None and source.node.op == "Reshape" and source.node.scope is self.scope:
            source = source.node.inputs[0] or source
        target = self.builder.target(source, dims)
        if target.constant is None:
            return None
        found = Tensor(source.kind, dims)
        found.node = Node("Reshape", (source, target), (found,), {}, node.place, self.scope)
        self.scope.nodes.insert(self.scope.nodes.index(node), found.node)
        return found

    def softmax(self, node: Node) -> bool:
        """``E / sum(E)`` along an axis, with ``E = exp(S - max(S))``."""
        powers, total = node.inputs
        if powers is None or powers.node is None or powers.node.op != "Exp":
            return False
        summed = self.single(total, "ReduceSum")
        if summed is None or summed.inputs[0] is not powers or self.uses[powers] != 2:
            return False
        scores, axis = powers.node.inputs[0], _only_axis(summed)
        lowered = None if scores is None else scores.node
        if axis is None or lowered is None or lowered.op != "Sub" or lowered.inputs[1] is None:
            return False
        highest = lowered.inputs[1].node
        if highest is None or highest.op != "ReduceMax" or highest.inputs[0] is not lowered.inputs[0]:
            return False
        if _only_axis(highest) != axis:
            return False
        if self.uses[lowered.outputs[0]] == self.uses[highest.outputs[0]] == 1 and lowered.inputs[0] is not None:
            self.uses[lowered.inputs[0]] -= 1  # once for both
        return self.become(node, "Softmax", [lowered.inputs[0]], axis=axis)

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


def _image_border(border: Node, op: str) -> list[int] | None:
    """Return top, left, bottom and right of what a Pad puts around images, if `op` may put the same there."""
    widths, number = border.inputs[1], border.inputs[2] if len(border.inputs) > 2 else None
    if widths is None or widths.constant is None or border.attributes:
        return None
    value = 0.0 if number is None else None if number.constant is None else float(number.constant)
    if value != (-np.inf if op == "MaxPool" else 0.0):
        return None
    before, after = np.split(widths.constant, 2)
    if before[:-2].any() or after[:-2].any():
        return None
    return [int(width) for width in (*before[-2:], *after[-2:])]


def _only_axis(node: Node) -> int | None:
    """Return the axis along which a Reduce node works, which it keeps; None for any other."""
    axes = reduced_axes(node)
    return axes[0] if axes is not None and len(axes) == 1 and node.attributes.get("keepdims") == 1 else None


def scaled_filters(node: Node) -> Array | None:
    """Return the filters of a Conv whose filters are multiplied, None for any other node."""
    scale = node.attributes.get(SCALE)
    weights = node.inputs[1] if scale is not None else None
    if weights is None or weights.constant is None or not isinstance(scale, np.ndarray):
        return None
    found: Array = weights.constant * scale.reshape(-1, *[1] * (weights.constant.ndim - 1))
    return found
