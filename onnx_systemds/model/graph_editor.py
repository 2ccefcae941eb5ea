"""Edits of a graph before it is typed."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from onnx_systemds.model.ir import Array, Graph, Node
from onnx_systemds.model.walk import names_read


class Producer(NamedTuple):
    """The node that makes a value, and its position."""

    position: int
    node: Node


class GraphEditor:
    """A graph whose nodes are replaced one by one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.nodes: list[Node | None] = list(graph.nodes)
        self.initializers = dict(graph.initializers)
        self._uses = Counter(name for node in graph.nodes for name in names_read(node))
        self._uses.update(output.name for output in graph.outputs)
        self._producer = {name: position for position, node in enumerate(graph.nodes) for name in node.outputs if name}

    def made_for(self, name: str, *op_types: str, readers: int = 1) -> Producer | None:
        """What makes a value for one other node (or so many) alone, if it is one of these operators of ONNX, or any."""
        position = self._producer.get(name)
        node = None if position is None or self._uses[name] != readers else self.nodes[position]
        if position is None or node is None or (op_types and (node.domain or node.op_type not in op_types)):
            return None
        return Producer(position, node)

    def producer(self, name: str) -> Node | None:
        """The node that makes a value, whoever reads it."""
        position = self._producer.get(name)
        return None if position is None else self.nodes[position]

    def is_shared(self, name: str) -> bool:
        """Whether a value is read more than once, or is also an output."""
        return self._uses[name] > 1

    def put(self, position: int, node: Node, removed: Iterable[int]) -> None:
        """Put a node in the place of another, while the nodes at other positions go."""
        for other in removed:
            self.nodes[other] = None
        self.nodes[position] = node

    def number(self, name: str) -> float | None:
        """A constant of rank 0, None for other values: one of a higher rank might give a result that rank."""
        content = self.initializers.get(name)
        if content is None or content.shape != () or content.dtype.kind != "f":
            return None
        return float(content.item())

    def tolerance(self, name: str) -> float:
        """By what part of it such a constant may be off from what it is meant to be, by the digits of its type."""
        return min(1e-6, 8 * float(np.finfo(self.initializers[name].dtype).eps))

    def with_weights(self, conv: Node, filters: Array, bias: Array, **changes: Any) -> Node | None:
        """A Conv with other weights; None where its type is too narrow for these."""
        dtype = self.initializers[conv.inputs[1]].dtype
        node = replace(conv, **changes)
        names = f"{node.outputs[0]}/filters", f"{node.outputs[0]}/bias"
        held = narrowed(filters, dtype)
        with np.errstate(over="ignore"):
            added = bias.astype(dtype)
        if held is None or not np.isfinite(added).all():
            return None
        self.initializers |= dict(zip(names, (held, added)))
        return replace(node, inputs=(node.inputs[0], *names))

    def graph(self) -> Graph:
        """The graph as it is now."""
        left = tuple(node for node in self.nodes if node is not None)
        if len(left) == len(self.nodes) and all(map(operator.is_, left, self._graph.nodes)):
            return self._graph
        return replace(self._graph, nodes=left, initializers=self.initializers)


def readers_of(graph: Graph) -> dict[str, list[int]]:
    """The positions of the nodes that read each value, of those that are no outputs."""
    found: dict[str, list[int]] = {}
    for position, node in enumerate(graph.nodes):
        for name in names_read(node):
            found.setdefault(name, []).append(position)
    for output in graph.outputs:
        found.pop(output.name, None)
    return found


def narrowed(weights: Array, dtype: np.dtype[Any]) -> Array | None:
    """Weights in a narrower type; None where one loses more than the largest of its row in the first axis may."""
    with np.errstate(all="ignore"):
        held = weights.astype(dtype)
        errors = np.abs(held - weights).reshape(len(weights), -1).max(1, initial=0)
        most = np.finfo(dtype).eps * np.abs(weights).reshape(len(weights), -1).max(1, initial=0)
    return held if np.all(errors <= most) else None


_PRODUCTS = ("Mul", "Div")
_MOST_STEPS = 4  # of the products that make one value


@dataclass
class Product:
    """A number times values, with the positions of the nodes that make it for one other node alone.

    tolerance: of the constants in it, all of one type.
    """

    editor: GraphEditor
    number: float = 1.0
    tolerance: float = 0.0
    factors: list[str] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)

    def take(self, node: Node) -> None:
        """Multiply by what a Mul or a Div gives; by NaN, which nobody looks for, where the divisor is no number."""
        x, other = node.inputs
        self.take_value(x)
        if node.op_type == "Mul":
            self.take_value(other)
        else:
            number = self.editor.number(other)
            self.number /= number or math.nan
            self.tolerance = self.editor.tolerance(other) if number else self.tolerance

    def take_value(self, name: str) -> None:
        """Multiply by a value, or by the factors of which it is made."""
        number = self.editor.number(name)
        made = self.editor.made_for(name, *_PRODUCTS)
        if number is not None:
            self.number *= number
            self.tolerance = self.editor.tolerance(name)
        elif made is not None and len(self.removed) < _MOST_STEPS:
            self.removed.append(made.position)
            self.take(made.node)
        else:
            self.factors.append(name)

    def step(self, name: str, op_type: str) -> Node | None:
        """The node of that operator that makes a value for one other node alone, which goes."""
        made = self.editor.made_for(name, op_type)
        if made is None:
            return None
        self.removed.append(made.position)
        return made.node

    def pairs(self, number: float) -> tuple[list[str], ...]:
        """The two factors in both orders, where it is such a number times them."""
        if len(self.factors) != 2 or not self.is_close(self.number, number):
            return ()
        return self.factors, self.factors[::-1]

    def is_close(self, number: float, other: float) -> bool:
        """Whether a number is another one in the type of the constants."""
        return math.isclose(number, other, rel_tol=self.tolerance)

    def is_scaled(self, scaled: tuple[float, list[str]], number: float, factors: list[str]) -> bool:
        """Whether a value is such a number times these values."""
        return scaled[1] == factors and self.is_close(scaled[0], number)

    def scaled(self, name: str) -> tuple[float, list[str]]:
        """A value as a number times other values; the nodes that multiply them go."""
        inner = Product(self.editor)
        inner.take_value(name)
        self.removed += inner.removed
        return inner.number, inner.factors


def product_of(editor: GraphEditor, node: Node) -> Product:
    """What a Mul or a Div gives, as a product; that of no factors for other nodes."""
    product = Product(editor)
    if not node.domain and node.op_type in _PRODUCTS:
        product.take(node)
    return product
