"""x * (1 + Erf(x / sqrt(2))) / 2 becomes Gelu, and the same by Tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)).

So exporters write it before opset 20, and some still do. Factors may come in any order, and quotients be products.
Condition: no other node reads what is in between, and constants have rank 0: one of a higher rank might give the result
that rank. Reason: fewer passes over the elements, no power and no tanh, which take long, and small results keep their
digits.
"""

from __future__ import annotations

import math
from dataclasses import replace

from onnx_systemds.inference.notes import PassNotes
from onnx_systemds.model.graph_editor import GraphEditor, Product, product_of
from onnx_systemds.model.ir import Graph, Node

NEEDS = ("Erf", "Tanh")


def join_gelu(graph: Graph, notes: PassNotes) -> Graph:
    """x times 1 + Erf(x / sqrt(2)), or times the sum with that Tanh, and 0.5 is a Gelu."""
    editor = GraphEditor(graph)
    for position, node in enumerate(graph.nodes):
        product = product_of(editor, node)
        for x, other in product.pairs(0.5):
            approximate = _approximation(product, x, other)
            if approximate:
                attributes = {"approximate": approximate}
                gelu = replace(node, op_type="Gelu", inputs=(x,), attributes=attributes, version=20)
                editor.put(position, gelu, product.removed)
                notes.fired(node, f"with the {len(product.removed)} nodes before it")
                break
    for erf in filter(None, editor.nodes):
        _note_left(editor, erf, notes)
    return editor.graph()


def _note_left(editor: GraphEditor, erf: Node, notes: PassNotes) -> None:
    """Say why an Erf(x / sqrt(2)) did not become part of a Gelu."""
    scaled = editor.producer(erf.inputs[0]) if erf.identity == ("", "Erf") else None
    product = None if scaled is None else product_of(editor, scaled)
    if product is not None and product.is_close(product.number, math.sqrt(0.5)):
        is_shared = editor.is_shared(erf.inputs[0]) or editor.is_shared(erf.outputs[0])
        notes.left(erf, "other nodes also read an intermediate value" if is_shared
                   else "its sum with 1 is not multiplied by the same value and 0.5 next")


def _approximation(product: Product, x: str, other: str) -> str | None:
    """Which Gelu of ``x`` it is that multiplies ``x`` by ``other``; None where it is another function."""
    removed = list(product.removed)
    total = product.step(other, "Add")
    if total is not None:
        for name, one in (total.inputs, total.inputs[::-1]):
            if product.editor.number(one) != 1:
                continue
            erf = product.step(name, "Erf")
            if erf is not None and product.is_scaled(product.scaled(erf.inputs[0]), math.sqrt(0.5), [x]):
                return "none"
            tanh = product.step(name, "Tanh") if erf is None else None
            if tanh is not None and _is_bent(product, tanh.inputs[0], x):
                return "tanh"
    product.removed = removed
    return None


def _is_bent(product: Product, name: str, x: str) -> bool:
    """Whether a value is sqrt(2 / pi) (x + 0.044715 x^3), or that with x as a factor."""
    number, factors = product.scaled(name)
    if not product.is_close(number, math.sqrt(2 / math.pi)):
        return False
    if len(factors) == 2 and x in factors:
        total = product.step(factors[1 - factors.index(x)], "Add")
        curves = [] if total is None else [added for added in total.inputs if product.editor.number(added) != 1]
        return len(curves) == 1 and product.is_scaled(product.scaled(curves[0]), 0.044715, [x] * 2)
    total = product.step(factors[0], "Add") if len(factors) == 1 else None
    others = [] if total is None else [added for added in total.inputs if added != x]
    if len(others) != 1:
        return False
    number, factors = product.scaled(others[0])
    if len(factors) == 1:
        power = product.step(factors[0], "Pow")
        factors = [x] * 3 if power is not None and power.inputs[0] == x and _is_cube(product, power) else []
    return product.is_scaled((number, factors), 0.044715, [x] * 3)


def _is_cube(product: Product, power: Node) -> bool:
    return product.editor.number(power.inputs[1]) == 3
