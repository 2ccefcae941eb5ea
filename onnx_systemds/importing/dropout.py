"""Dropouts of training: the main function drops nothing, the passes of the derivatives draw what they drop.

PyTorch calls these ``eval`` and ``train``. Nodes that only infer stay as they are, as do those whose ``training_mode``
is known when the model runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from onnx_systemds.inference.backward import OPSET
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.model.ir import Model, Node
from onnx_systemds.model.protos import element_type

_MODE = 2
"""The input ``training_mode``, since opset 12."""
_DEFAULT_RATIO = 0.5


def without_dropout(model: Model) -> Model:
    """The model as one that infers: no Dropout drops anything."""
    return _with_dropouts(model, _inferring)


def with_drawn_dropout(model: Model) -> Model:
    """The model whose Dropouts that train are products with a mask that is drawn; the same one where it has none.

    So both passes take the same mask, and a copy of the nodes between draws no other one.
    """
    return _with_dropouts(model, _drawing)


def _with_dropouts(model: Model, rewritten: Callable[[Node, Collection[str]], Sequence[Node]]) -> Model:
    """The model with other nodes for Dropouts that train, in its graph and functions."""
    if not any(map(may_train, model.graph.nodes)) and not any(
            map(may_train, (node for function in model.functions.values() for node in function.nodes))):
        return model

    def changed(nodes: Iterable[Node], known: Collection[str]) -> tuple[Node, ...]:
        return tuple(it for node in nodes for it in (rewritten(node, known) if may_train(node) else (node,)))

    functions = {key: replace(function, nodes=changed(function.nodes, _constants(function.nodes)))
                 for key, function in model.functions.items()}
    graph = model.graph
    known = {*graph.initializers, *_constants(graph.nodes)}
    return replace(model, functions=functions, graph=replace(graph, nodes=changed(graph.nodes, known)))


def may_train(node: Node) -> bool:
    """Whether a node is a Dropout that is told to train, or may be."""
    if node.identity != ("", "Dropout"):
        return False
    if node.version < 12:
        return node.version < 7 and not node.integer("is_test", 0)
    return len(node.inputs) > _MODE and bool(node.inputs[_MODE])


def _constants(nodes: Iterable[Node]) -> set[str]:
    """What Constant nodes give."""
    return {node.outputs[0] for node in nodes if node.identity == ("", "Constant")}


def _inferring(node: Node, known: Collection[str]) -> Sequence[Node]:
    """The node without the mode in which it trains."""
    if node.version < 12:
        return (replace(node, attributes={**node.attributes, "is_test": 1}),)
    return (replace(node, inputs=node.inputs[:_MODE]) if node.inputs[_MODE] in known else node,)


def _drawing(node: Node, known: Collection[str]) -> Sequence[Node]:
    """A product of the input and a mask of numbers that are drawn: 0, or the reciprocal of the share that is kept."""
    x, result, *rest = node.inputs[0], *node.outputs
    words = (result or x).removesuffix("_output_0")
    writer = NodeWriter(node, words, OPSET)
    seed: dict[str, Any] = {name: content for name, content in node.attributes.items() if name == "seed"}
    noise = writer.emit("RandomUniformLike", x, dtype=element_type("float"), **seed)
    if node.version < 12 or len(node.inputs) < 2 or not node.inputs[1]:
        ratio = writer.known(node.attributes.get("ratio", _DEFAULT_RATIO), "float")
    else:
        ratio = writer.cast(node.inputs[1], "float")
    if node.version >= 12 and node.inputs[_MODE] not in known:
        ratio = writer.emit("Mul", ratio, writer.cast(node.inputs[_MODE], "float"))
    mask = rest[0] if rest and rest[0] and node.version >= 12 else f"{words}/kept"
    writer.emit("GreaterOrEqual", noise, ratio, to=mask)
    kept = writer.emit("Sub", writer.known(1.0, "float"), ratio)
    factor = writer.emit("Div", writer.cast(mask, "float"), kept)
    if result:
        writer.emit("Mul", x, writer.emit("CastLike", factor, x, to=f"{words}/mask"), to=result)
    if rest and rest[0] and node.version < 12:
        writer.emit("CastLike", mask, x, to=rest[0])
    return writer.nodes
