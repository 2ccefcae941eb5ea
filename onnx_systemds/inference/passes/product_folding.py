"""MatMul and Gemm take into their weights what scales and shifts the columns of their input.

That is the scale and the bias of LayerNormalization and RMSNormalization, and before a Gemm of BatchNormalization:
instead of ``(X * s + b) %*% W + c`` the script computes ``X %*% (s * W) + (b %*% W + c)``, where X is normalized.
Condition: all that read the normalized values are such products, with constant weights that nothing else reads and
whose type holds the new ones; a shift needs a constant that is added to each product. Weights of more than 4 million
numbers stay: their products take so long that one pass over the elements does not count.
Reason: the script computes nothing for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.inference.passes.convolution_folding import normalization_row
from onnx_systemds.model.graph_editor import GraphEditor, narrowed, readers_of
from onnx_systemds.model.ir import Array, Graph, Node

NEEDS = ("LayerNormalization", "RMSNormalization", "BatchNormalization")
MOST_NUMBERS = 1 << 22
_MOST_DEVIATIONS = 16
"""From 0 to the mean of a channel: so many times more do rounded weights lose where products take it away later."""
_OTHERS = "something else reads it than products by constant weights of their own"
_NO_CONSTANT = "a product that reads it has no constant added to it"
_TOO_NARROW = "a product that reads it has too narrow a type for such weights"


def fold_into_products(graph: Graph, notes: PassNotes) -> Graph:
    """Fold the scales and biases of normalizations into the products that read them."""
    editor = GraphEditor(graph)
    readers = readers_of(graph)
    for position, node in enumerate(graph.nodes):
        row = _row(editor, node) if node.op_type in NEEDS and not node.domain else None
        if row is None:
            continue
        folding = _Folding(editor, readers, node, *row)
        refusal = folding.refusal(node.outputs[0])
        if refusal is not None:
            notes.left(node, refusal)
            continue
        editor.initializers |= folding.initializers
        for at, product in folding.nodes.items():
            editor.put(at, product, [])
        editor.put(position, _without_row(editor, node), [])
        notes.fired(node, "its scale and bias into the products after it")
    return editor.graph()


def _row(editor: GraphEditor, node: Node) -> tuple[Array, Array] | None:
    """By what a normalization scales and shifts the columns, in float64; None if it is not constant, or does not.

    A factor of 0 stays: the engine leaves out products by zeros of weights, which may be those of infinities.
    """
    contents = [editor.initializers.get(name) for name in node.inputs[1:] if name]
    if not contents or any(content is None or content.dtype not in (np.float32, np.float64) for content in contents):
        return None
    if node.op_type == "BatchNormalization":
        row = normalization_row(editor, node)
        scale, _, mean, _ = (np.asarray(content, np.float64) for content in contents)
        if row is None or np.any(np.abs(mean * row[0]) > _MOST_DEVIATIONS * np.abs(scale)):
            return None
    else:
        scale, *shifts = (np.asarray(content, np.float64) for content in contents)
        row = scale, shifts[0] if shifts else np.zeros_like(scale)
    if row is None or row[0].ndim != 1 or row[0].shape != row[1].shape or not np.isfinite(row).all():
        return None
    return row if row[0].all() and (np.any(row[0] != 1) or row[1].any()) else None


def _without_row(editor: GraphEditor, node: Node) -> Node:
    """A normalization that neither scales nor shifts."""
    if node.op_type == "BatchNormalization":
        return replace(node, op_type="Identity", inputs=node.inputs[:1], attributes={}, version=1)
    ones = f"{node.outputs[0]}/ones"
    editor.initializers[ones] = np.ones_like(editor.initializers[node.inputs[1]])
    return replace(node, inputs=(node.inputs[0], ones))


@dataclass
class _Folding:
    """The products, by their positions, and their constants, after they took the scale and shift of a normalization.

    readers: positions of the nodes that read a value, of those that are no outputs.
    """

    editor: GraphEditor
    readers: Mapping[str, Sequence[int]]
    normalization: Node
    scale: Array
    shift: Array
    nodes: dict[int, Node] = field(default_factory=dict)
    initializers: dict[str, Array] = field(default_factory=dict)

    def refusal(self, name: str) -> str | None:
        """Fold into all that read a value, also through reshapes that keep its columns; why it cannot be, if so."""
        products = self._products(name)
        return _OTHERS if products is None else next(filter(None, map(self._refusal_of_product, products)), None)

    def _products(self, name: str) -> list[int] | None:
        """The positions of the products that read a value; None if something else reads it, or they have no weights."""
        found: list[int] = []
        for position in self.readers.get(name, ()):
            products = self._products_at(position, name)
            if products is None:
                return None
            found += products
        return found or None

    def _products_at(self, position: int, name: str) -> list[int] | None:
        reader = self.editor.nodes[position]
        has_columns = self.normalization.op_type != "BatchNormalization"  # its channels are columns of matrices alone
        if reader is None or reader.inputs[0] != name or reader.domain:
            return None
        if reader.op_type == "Reshape" and has_columns:
            shape = self.editor.initializers.get(reader.inputs[1])
            if shape is not None and shape.size > 0 and shape[-1] == len(self.scale):
                return self._products(reader.outputs[0])
        is_product = reader.op_type == "Gemm" or (reader.op_type == "MatMul" and has_columns)
        return [position] if is_product and self._has_own_weights(reader) else None

    def _has_own_weights(self, product: Node) -> bool:
        weights = self.editor.initializers.get(product.inputs[1])
        is_scaled = any(product.attributes.get(name, 1) != 1 for name in ("alpha", "beta"))
        if weights is None or weights.ndim != 2 or is_scaled or product.attributes.get("transA"):
            return False
        columns = weights.shape[1 if product.attributes.get("transB") else 0]
        is_taken = weights.size > MOST_NUMBERS or self.editor.is_shared(product.inputs[1])
        return columns == len(self.scale) and not is_taken

    def _refusal_of_product(self, position: int) -> str | None:
        product = self.editor.nodes[position]
        assert product is not None
        weights = self.editor.initializers[product.inputs[1]]
        by_rows = bool(product.attributes.get("transB"))
        rows = weights if by_rows else weights.T  # a row of them for each column of the result
        scaled = narrowed(rows * self.scale, weights.dtype)
        if scaled is None:
            return _TOO_NARROW
        name = f"{product.inputs[1]}/scaled"
        self.initializers[name] = scaled if by_rows else np.ascontiguousarray(scaled.T)
        self.nodes[position] = replace(product, inputs=(product.inputs[0], name, *product.inputs[2:]))
        return self._refusal_of_sum(position, rows @ self.shift) if self.shift.any() else None

    def _refusal_of_sum(self, position: int, summand: Array) -> str | None:
        """Add a row to the constant that is added to a product, by itself or by the Add that alone reads it."""
        total, place = self.nodes[position], 2
        dtype = self.initializers[total.inputs[1]].dtype
        if total.op_type == "MatMul":
            name = total.outputs[0]
            position, *others = self.readers.get(name, (position, position))
            add = self.editor.nodes[position]
            if others or add is None or add.identity != ("", "Add") or add.inputs.count(name) != 1:
                return _NO_CONSTANT
            total, place = add, 1 - add.inputs.index(name)
        old = total.inputs[place] if place < len(total.inputs) else ""
        constant = self.editor.initializers.get(old) if old else np.zeros(len(summand))
        if constant is None or constant.shape != summand.shape:
            return _NO_CONSTANT
        with np.errstate(over="ignore"):
            added = (constant + summand).astype(dtype)
        if not np.isfinite(added).all():
            return _TOO_NARROW
        name = f"{total.outputs[0]}/bias"
        self.initializers[name] = added
        self.nodes[position] = replace(total, inputs=(*total.inputs[:place], name, *total.inputs[place + 1 :]))
        return None
