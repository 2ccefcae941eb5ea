"""A graph whose every value is known by dtype and dims: `TypedGraph`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx_systemds.inference.assumptions import Assumption
from onnx_systemds.inference.run_sizes import RunSizes
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import Graph, Node


@dataclass(frozen=True, slots=True, eq=False)
class TypedGraph:
    """A graph whose every value is known by dtype and dims.

    nodes: sorted topologically; operators without a generator are expanded by definition.
    own: values of this graph. values: these and, after them, those of the graphs around it.
    bodies: typed sub-graphs by (position of the node in ``nodes``, attribute name).
    sizes: the symbols that a node's run decides, by position: data-dependent dims.
    run_sizes: elements of integer tensors as symbols, and what is computed from them.
    assumptions: what a node's shape rule takes for granted of sizes, by position.
    """

    name: str
    doc_string: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    own: Mapping[str, Value]
    values: Mapping[str, Value]
    bodies: Mapping[tuple[int, str], TypedGraph]
    sizes: Mapping[int, tuple[str, ...]]
    run_sizes: RunSizes
    assumptions: Mapping[int, Sequence[Assumption]]
    source: Graph

    def bodies_at(self, position: int) -> list[TypedGraph]:
        """The typed sub-graphs of a node, and the body of the function that it calls."""
        return [body for (place, _), body in self.bodies.items() if place == position]

    @property
    def own_sizes(self) -> set[str]:
        """The symbols that nodes of this graph define."""
        return {name for names in self.sizes.values() for name in names} | self.run_sizes.names


def carried(node: Node, body: TypedGraph) -> list[tuple[str, str, str]]:
    """Inputs of a node that are inputs of its body: their names outside and inside, and that of the next state."""
    given = [name for name in node.inputs if name]
    if node.op_type == "Loop":
        states = len(node.inputs) - 2
        return list(zip(node.inputs[2:], body.inputs[2:], body.outputs[1 : 1 + states]))
    if node.op_type == "Scan":
        states = len(body.inputs) - node.integer("num_scan_inputs", 0)
        after = [*body.outputs[:states], *[""] * (len(body.inputs) - states)]
        return list(zip(node.inputs[-len(body.inputs) :], body.inputs, after)) if body.inputs else []
    return [(outer, name, "") for outer, name in zip(given, body.inputs)] if node.op_type != "If" else []


def given_back(node: Node, body: TypedGraph) -> list[tuple[str, str]]:
    """Outputs of a node that are outputs of its body: their names outside and inside; the last ones may be left out."""
    return list(zip(node.outputs, body.outputs[1 if node.op_type == "Loop" else 0 :]))
