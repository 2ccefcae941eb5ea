"""Puts Casts into a graph in which some floats are of another type than float32: `Retyping`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import TensorProto

from onnx_systemds.exporting.graph.nodes import FLOAT, Node, Scope, SubGraph, Tensor, source_of


class Retyping(ABC):
    """Puts Casts where an operator gets or gives another kind than its neighbours: float, or `kind` of `type`."""

    def __init__(self, kind: str, type_: int) -> None:
        self.kind = kind
        self.type = type_
        self.kinds = (FLOAT, kind)
        self.converted: dict[Tensor, Tensor] = {}

    @abstractmethod
    def choose(self, node: Node) -> tuple[Sequence[bool], str] | None:
        """Return which inputs are float whatever the kind is, and the kind in which an operator works.

        None: it is as it should be.
        """

    def visit(self, scope: Scope) -> None:
        """Put the Casts into a graph and those within."""
        nodes, scope.nodes = scope.nodes, []
        known: dict[Tensor, Tensor] = {}
        for node in nodes:
            if node.subgraphs():
                self._around_bodies(node, scope, known)
            else:
                self._around_operator(node, scope, known)

    def _around_bodies(self, node: Node, scope: Scope, known: dict[Tensor, Tensor]) -> None:
        """Make the kinds equal on both sides of the edges of bodies."""
        for body in node.subgraphs():
            if body.inputs:
                kinds = [tensor.kind for tensor in body.inputs]
                node.inputs = tuple(self._of_kind(*pair, node, scope, known) for pair in zip(node.inputs, kinds))
        scope.nodes.append(node)
        for body in node.subgraphs():
            self.visit(body.scope)
            first = len(body.outputs) - len(node.outputs)
            made: dict[Tensor, Tensor] = {}
            body.outputs = (*body.outputs[:first],
                            *(self._as_result(tensor, to.kind, node, body, made)
                              for tensor, to in zip(body.outputs[first:], node.outputs)))

    def _as_result(self, tensor: Tensor, kind: str, node: Node, body: SubGraph, made: dict[Tensor, Tensor]) -> Tensor:
        found = self._of_kind(tensor, kind, node, body.scope, made)
        assert found is not None
        return found

    def _around_operator(self, node: Node, scope: Scope, known: dict[Tensor, Tensor]) -> None:
        if node.op == "Cast":
            if node.outputs[0].kind == self.kind:
                node.attributes = {**node.attributes, "to": self.type}
            scope.nodes.append(node)
            return
        chosen = self.choose(node)
        if chosen is None:
            scope.nodes.append(node)
            return
        fixed, kind = chosen
        node.inputs = tuple(
            tensor if tensor is None or tensor.kind not in self.kinds
            else self._of_kind(tensor, FLOAT if fixed[position] else kind, node, scope, known)
            for position, tensor in enumerate(node.inputs)
        )
        results = node.outputs
        node.outputs = tuple(_in_kind(tensor, kind) if tensor.kind in self.kinds and tensor.kind != kind else tensor
                             for tensor in results)
        scope.nodes.append(node)
        for tensor, result in zip(node.outputs, results):
            if tensor is not result:
                tensor.node = node
                self._cast(tensor, result, node, scope)

    def _of_kind(
        self, tensor: Tensor | None, kind: str, node: Node, scope: Scope, known: dict[Tensor, Tensor]
    ) -> Tensor | None:
        """Return a tensor in another float kind: a constant again, what was cast as it was before, else by a Cast."""
        if tensor is None or tensor.kind == kind or {tensor.kind, kind} != set(self.kinds):
            return tensor
        if tensor.is_constant:
            converted = self.converted.get(tensor)
            if converted is None:
                converted = self.converted[tensor] = _in_kind(tensor, kind)
            return converted
        before = source_of(tensor, "Cast")
        if before is not None and before.kind == kind:
            return before
        if tensor not in known:
            known[tensor] = _in_kind(tensor, kind)
            self._cast(tensor, known[tensor], node, scope)
        return known[tensor]

    def _cast(self, tensor: Tensor, result: Tensor, node: Node, scope: Scope) -> None:
        to: Mapping[str, Any] = {"to": self.type if result.kind == self.kind else TensorProto.FLOAT}
        result.node = Node("Cast", (tensor,), (result,), to, node.place, scope)
        scope.nodes.append(result.node)


def _in_kind(tensor: Tensor, kind: str) -> Tensor:
    """Return a tensor with the content of another one, in another kind."""
    found = Tensor(kind, tensor.dims, tensor.hint if tensor.node is None else "", tensor.constant)
    found.stored = tensor.stored
    return found
