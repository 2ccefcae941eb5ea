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
