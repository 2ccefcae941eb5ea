"""What is known of a node while its graph is typed: `InferenceFacts`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from onnx_systemds.inference.context import Context
from onnx_systemds.inference.dims import Dims
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node

InferBody: TypeAlias = Callable[[Graph, Sequence[Value], Mapping[str, Value], Context], TypedGraph]
Rewriting: TypeAlias = tuple[tuple[Node, ...], str] | str | None
"""What a pass makes of a node: the nodes that stand for it, and what was done; why it stays; None for other nodes."""
Finding: TypeAlias = tuple[tuple[Value, ...], str] | str | None
"""The same of a pass that finds out what the outputs of a node hold."""


class InferenceFacts(NodeFacts):
    """Facts for passes, and for shape rules of operators with sub-graphs: these type their bodies through `body`.

    makers: the nodes before, by what they give. remembered: what passes keep of values of this graph, by name.
    """

    def __init__(
        self, node: Node, values: Mapping[str, Value], graph_name: str, context: Context, infer_body: InferBody,
        makers: Mapping[str, Node], remembered: dict[str, object],
    ) -> None:
        super().__init__(node, values, graph_name)
        self._infer_body = infer_body
        self.context = context
        self.bodies: dict[str, TypedGraph] = {}
        self.makers = makers
        self.remembered = remembered

    def body(self, name: str, inputs: Sequence[Value] = ()) -> TypedGraph:
        """Type the sub-graph in attribute ``name`` for the given inputs."""
        typed = self._infer_body(self.graph_attribute(name), inputs, self.values, self.context)
        self.bodies[name] = typed
        return typed

    def type_graph(self, graph: Graph, inputs: Sequence[Value]) -> TypedGraph:
        """Type the body of a function, which sees nothing of the graphs around it."""
        return self._infer_body(graph, inputs, {}, self.context)

    def dims_of(self, name: str) -> Dims:
        """Dims of a value, which are known."""
        return self.values[name].dims or ()

    def made_by(self, name: str, *op_types: str) -> Node | None:
        """The node before that gives a value, if it is one of these operators of ONNX."""
        return made_by(self.makers, name, *op_types)


def made_by(makers: Mapping[str, Node], name: str, *op_types: str) -> Node | None:
    """The node that gives a value, if it is one of these operators of ONNX."""
    made = makers.get(name)
    return made if made is not None and not made.domain and made.op_type in op_types else None
