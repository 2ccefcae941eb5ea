"""What is known of a node while its graph is typed: `InferenceFacts`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from onnx_systemds.inference.context import Context
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node

_NEAR = 64  # nodes before a node among which the one that makes its input is looked for
InferBody: TypeAlias = Callable[[Graph, Sequence[Value], Mapping[str, Value], Context], TypedGraph]


class InferenceFacts(NodeFacts):
    """Facts for shape rules of operators with sub-graphs: these type their bodies through `body`."""

    def __init__(
        self, node: Node, values: Mapping[str, Value], graph_name: str, context: Context, infer_body: InferBody
    ) -> None:
        super().__init__(node, values, graph_name)
        self._infer_body = infer_body
        self.context = context
        self.bodies: dict[str, TypedGraph] = {}
        self.makers: Mapping[str, Node] = {}  # of what the nodes before give, however far away they are

    def body(self, name: str, inputs: Sequence[Value] = ()) -> TypedGraph:
        """Type the sub-graph in attribute ``name`` for the given inputs."""
        typed = self._infer_body(self.graph_attribute(name), inputs, self.values, self.context)
        self.bodies[name] = typed
        return typed

    def type_graph(self, graph: Graph, inputs: Sequence[Value]) -> TypedGraph:
        """Type the body of a function, which sees nothing of the graphs around it."""
        return self._infer_body(graph, inputs, {}, self.context)


def producer_of(name: str, before: Sequence[Node]) -> Node | None:
    """The node that gives a value, among the last ones before."""
    return next((made for made in reversed(before[-_NEAR:]) if name in made.outputs), None)


def made_by(name: str, before: Sequence[Node], *op_types: str) -> Node | None:
    """As `producer_of`, if it is one of these operators of ONNX."""
    made = producer_of(name, before)
    return made if made is not None and not made.domain and made.op_type in op_types else None
