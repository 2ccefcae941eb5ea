"""What joins nodes of a finished graph: `Fusing`, which rules ask and tell, and how they look at nodes.

A rule is given the last node of a pattern, makes it the operator that the pattern is, and returns whether it did.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from onnx_systemds.exporting.graph.nodes import Attribute, Node, Scope, Tensor, made_by, pairs
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.inference.dims import Dims, product


class Fusing:
    """The nodes of one scope on their way to fewer. uses: how often each tensor is used."""

    def __init__(self, builder: Operators, scope: Scope, uses: Counter[Tensor]) -> None:
        self.builder, self.scope, self.uses = builder, scope, uses

    def single(self, tensor: Tensor | None, *ops: str) -> Node | None:
        """Return the node that makes a tensor that only one node uses.

        ops: what it is; of several, each is made so by the first input of the one before it, and the last is returned.
        """
        node: Node | None = None
        for op in ops:
            tensor = tensor if node is None else node.inputs[0]
            node = made_by(tensor, op)
            if node is None or tensor is None or self.uses[tensor] != 1 or node.scope is not self.scope:
                return None
        return node

    def source(self, tensor: Tensor | None, *ops: str) -> Tensor | None:
        """Return the first input of the node that `single` gives, None for none."""
        node = self.single(tensor, *ops)
        return None if node is None else node.inputs[0]

    def become(self, node: Node, op: str, inputs: Iterable[Tensor | None], **attributes: object) -> bool:
        """Make `node` another one with the same result, and return True."""
        node.op, node.inputs, node.attributes = op, tuple(inputs), attributes  # type: ignore[assignment]
        return True

    def become_reshaped(
        self, node: Node, op: str, inputs: Iterable[Tensor | None], whole: Tensor,
        attributes: Mapping[str, Attribute] = MappingProxyType({}),
    ) -> bool:
        """Make `node` the Reshape of what a new node gives, `whole`; not where sizes must be computed for that."""
        target = self.builder.target(whole, node.outputs[0].dims)
        if target.constant is None:
            return False
        self.uses[whole] = 1
        return self.become(node, "Reshape", [self.inserted(node, op, inputs, whole, attributes), target])

    def become_along(self, node: Node, op: str, x: Tensor, axes: tuple[int, ...]) -> bool:
        """Make `node` what `op` gives along axes (`kept_axes`) of a tensor with the dims of the result."""
        if len(axes) == 1:
            return self.become(node, op, [x], axis=axes[0])
        rows = (x.dims[0], product(x.dims[1:]))
        view = self.viewed(x, rows, node)
        return view is not None and self.become_reshaped(node, op, [view], Tensor(x.kind, rows), {"axis": 1})

    def inserted(
        self, place: Node, op: str, inputs: Iterable[Tensor | None], output: Tensor,
        attributes: Mapping[str, Attribute] = MappingProxyType({}),
    ) -> Tensor:
        """Put a new node before another one; returns its output."""
        output.node = Node(op, tuple(inputs), (output,), attributes, place.place, self.scope)
        self.scope.nodes.insert(self.scope.nodes.index(place), output.node)
        return output

    def viewed(self, source: Tensor, dims: Dims, node: Node) -> Tensor | None:
        """Return a tensor with other dims, of a Reshape before `node`; None where sizes must be computed."""
        if source.dims == dims:
            return source
        before = made_by(source, "Reshape")
        if before is not None and before.scope is self.scope:
            source = before.operand()
        target = self.builder.target(source, dims)
        if target.constant is None:
            return None
        return self.inserted(node, "Reshape", (source, target), Tensor(source.kind, dims))

    def beside_number(self, tensor: Tensor | None, op: str, number: float) -> Tensor | None:
        """Return what a node of its own combines with a number, None for anything else."""
        return next((x for x, other in pairs(self.single(tensor, op)) if is_number(other, number)), None)


Rule = Callable[[Fusing, Node], bool]


def number_of(tensor: Tensor | None) -> float | None:
    """Return the only known number of a float tensor that is no NaN, None for others."""
    known = None if tensor is None else tensor.only_element
    return known if isinstance(known, float) and not math.isnan(known) else None


def is_number(tensor: Tensor | None, number: float) -> bool:
    """Whether a tensor is one known number."""
    known = None if tensor is None else tensor.only_element
    return known is not None and math.isclose(known, number, rel_tol=1e-12)


def reduced_axes(node: Node | None) -> tuple[int, ...] | None:
    """Return the axes of a Reduce node, None where they are not known."""
    if node is None:
        return None
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1] is not None and node.inputs[1].constant is not None:
        axes = tuple(node.inputs[1].constant.ravel().tolist())
    return tuple(int(axis) % node.operand().rank for axis in axes) if isinstance(axes, tuple) else None


def kept_axes(node: Node | None) -> tuple[int, ...]:
    """Return the axes along which a Reduce node works, which it keeps: one, or all behind the first; else none."""
    axes = reduced_axes(node)
    if node is None or axes is None or node.attributes.get("keepdims") != 1:
        return ()
    axes = tuple(sorted(axes))
    return axes if len(axes) == 1 or axes == tuple(range(1, node.operand().rank)) else ()


def only_axis(node: Node | None) -> int | None:
    """Return the axis along which a Reduce node works, which it keeps; None for any other."""
    axes = kept_axes(node)
    return axes[0] if len(axes) == 1 else None
