"""Products of one input by constant weights become one product where heads of an attention are taken from them.

``(MatMul(X, Wq) + bq) * s``, ``MatMul(X, Wk) + bk`` and ``MatMul(X, Wv) + bv`` become a Split of ``MatMul(X, W) + b``,
with the weights side by side; those of a product that is scaled are scaled.
Condition: weights of one type that nothing else reads, 4 million numbers at most in all, and each result is read by a
Reshape and a Transpose alone that move heads before tokens. Queries stay apart of which a Gather takes one place in the
end: only these are multiplied then (see `gather_hoisting`).
Reason: heads are taken from columns in any case, so that nothing more is copied. A script has a third of the statements
and weights, and the engine is faster with a product of more columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from onnx_systemds.correspondence import ACTIVATIONS, ELEMENTWISE
from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.inference.passes.product_folding import MOST_NUMBERS
from onnx_systemds.model.graph_editor import narrowed, readers_of
from onnx_systemds.model.ir import Array, Graph, Node

NEEDS = ("MatMul",)
_OF_ALL = frozenset((*ELEMENTWISE, *ACTIVATIONS))
_OF_FIRST = frozenset(("MatMul", "Softmax", "LayerNormalization", "RMSNormalization", "Reshape", "Transpose"))
"""Operators that need one place of all their inputs, or of the first one, where one place of the result is read."""
_HEADS_FIRST = (0, 2)
"""The first two axes that such a Transpose moves to the front: samples, and heads."""
_SPLIT_VERSION = 13
_OTHERS = "other products of its input are not read as heads, or their weights are read elsewhere, too"
_UNLIKE = "the weights have other types or rows than each other, and the model is not valid"
_ONE_PLACE = "one place alone is read of what comes of it"
_TOO_MANY = "the weights have more than 4 million numbers"


class _Product(NamedTuple):
    """A MatMul, the Add of a row and the Mul by a number after it, by their positions; and what is read as heads."""

    positions: tuple[int, ...]
    weights: Array
    bias: Array | None
    result: str


class _After(NamedTuple):
    """A node with two operands, of which one is known: its position, the other one, and its result."""

    position: int
    operand: str
    result: str


@dataclass(frozen=True)
class _Reading:
    """A graph, and the positions of the nodes that read a value alone, of those that are no outputs."""

    graph: Graph
    readers: Mapping[str, Sequence[int]]

    def only_reader(self, name: str) -> int | None:
        found = self.readers.get(name, ())
        return found[0] if len(found) == 1 else None

    def constant(self, name: str, rank: int) -> Array | None:
        """The content of a constant of floats of this rank."""
        content = self.graph.initializers.get(name)
        return content if content is not None and content.ndim == rank and content.dtype.kind == "f" else None

    def is_number(self, name: str) -> bool:
        content = self.graph.initializers.get(name)
        return content is not None and not content.ndim

    def product(self, position: int) -> _Product | None:
        """The product that a node is, if heads are taken from it."""
        node = self.graph.nodes[position]
        weights = self.constant(node.inputs[1], 2)
        if weights is None or self.only_reader(node.inputs[1]) is None or node.inputs[0] == node.inputs[1]:
            return None
        result, bias, positions = node.outputs[0], None, [position]
        after = self._operand_after(result, "Add")
        if after is not None:
            bias = self.constant(after.operand, 1)
            if bias is None or bias.shape != weights.shape[1:] or bias.dtype != weights.dtype:
                return None
            result = after.result
            positions.append(after.position)
        after = self._operand_after(result, "Mul")
        if after is not None:
            factor = self.constant(after.operand, 0)
            scaled = None if factor is None else narrowed(weights * factor.astype(np.float64), weights.dtype)
            if factor is None or scaled is None:
                return None
            weights, bias = scaled, None if bias is None else (bias * factor).astype(bias.dtype)
            result = after.result
            positions.append(after.position)
        return _Product(tuple(positions), weights, bias, result) if self._is_read_as_heads(result) else None

    def _operand_after(self, name: str, op_type: str) -> _After | None:
        """The node of this type that alone reads a value."""
        position = self.only_reader(name)
        node = None if position is None else self.graph.nodes[position]
        if position is None or node is None or node.identity != ("", op_type):
            return None
        return _After(position, node.inputs[1 - node.inputs.index(name)], node.outputs[0])

    def _is_read_as_heads(self, name: str) -> bool:
        reshape = self.only_reader(name)
        if reshape is None or self.graph.nodes[reshape].identity != ("", "Reshape"):
            return False
        transpose = self.only_reader(self.graph.nodes[reshape].outputs[0])
        if transpose is None or self.graph.nodes[transpose].identity != ("", "Transpose"):
            return False
        order = self.graph.nodes[transpose].integers("perm") or ()
        return len(order) == 4 and order[:2] == _HEADS_FIRST


def fuse_products(graph: Graph, notes: PassNotes) -> Graph:
    """Fuse the products that make heads of one input."""
    reading = _Reading(graph, readers_of(graph))
    alike: dict[str, list[int]] = {}
    single = _read_for_one_place(reading)
    for position, node in enumerate(graph.nodes):
        if node.identity == ("", "MatMul"):
            alike.setdefault(node.inputs[0], []).append(position)
    put: dict[int, tuple[Node, ...]] = {}
    initializers: dict[str, Array] = {}
    for positions in alike.values():
        products = [found for position in positions if (found := reading.product(position)) is not None]
        if not products or len(positions) < 2:
            continue
        fused = [product for product in products if product.result not in single]
        if fused:
            for product in products:
                if product.result in single:
                    notes.left(graph.nodes[product.positions[0]], _ONE_PLACE)
            products = fused
        first = graph.nodes[products[0].positions[0]]
        refusal = _refusal(products)
        if refusal is not None:
            notes.left(first, refusal)
            continue
        nodes, constants = _fused(first, products)
        initializers |= constants
        put |= {position: () for product in products for position in product.positions}
        put[products[0].positions[0]] = nodes
        notes.fired(first, f"{len(products)} products into one")
    if not put:
        return graph
    nodes = tuple(made for position, node in enumerate(graph.nodes) for made in put.get(position, (node,)))
    return replace(graph, nodes=nodes, initializers={**graph.initializers, **initializers})


def _read_for_one_place(reading: _Reading) -> set[str]:
    """The values of which a Gather of one place is all that is read in the end, whatever is computed in between."""
    graph, found = reading.graph, set[str]()
    approved: Counter[str] = Counter()  # readers of a value that need one place of it
    for node in reversed(graph.nodes):
        found.update(name for name in node.outputs if 0 < len(reading.readers.get(name, ())) == approved[name])
        if node.identity == ("", "Gather"):
            approved.update(node.inputs[:1] if reading.is_number(node.inputs[1]) else ())
        elif found.issuperset(node.outputs) and not node.domain:
            approved.update(node.inputs if node.op_type in _OF_ALL else node.inputs[: int(node.op_type in _OF_FIRST)])
    return found


def _refusal(products: Sequence[_Product]) -> str | None:
    """Why the products of an input that heads are taken from are not fused."""
    if len(products) < 2:
        return _OTHERS
    if len({(product.weights.dtype, len(product.weights)) for product in products}) > 1:
        return _UNLIKE
    return _TOO_MANY if sum(product.weights.size for product in products) > MOST_NUMBERS else None


def _fused(first: Node, products: Sequence[_Product]) -> tuple[tuple[Node, ...], dict[str, Array]]:
    """The nodes in the place of all products, and their constants. first: the node of the first product."""
    weights = [product.weights for product in products]
    sizes = [it.shape[1] for it in weights]
    name, sum_name, parts = (f"{first.outputs[0]}/{word}" for word in ("fused", "fused_sum", "fused_parts"))
    constants = {f"{first.inputs[1]}/fused": np.concatenate(weights, axis=1), parts: np.array(sizes, np.int64)}
    nodes = [replace(first, inputs=(first.inputs[0], f"{first.inputs[1]}/fused"), outputs=(name,))]
    if any(product.bias is not None for product in products):
        rows = [np.zeros(size, weights[0].dtype) if product.bias is None else product.bias
                for product, size in zip(products, sizes)]
        bias = f"{first.outputs[0]}/fused_bias"
        constants[bias] = np.concatenate(rows)
        nodes.append(replace(first, op_type="Add", inputs=(name, bias), outputs=(sum_name,)))
        name = sum_name
    results = tuple(product.result for product in products)
    nodes.append(replace(first, op_type="Split", inputs=(name, parts), outputs=results, attributes={"axis": -1},
                         version=_SPLIT_VERSION))
    return tuple(nodes), constants
