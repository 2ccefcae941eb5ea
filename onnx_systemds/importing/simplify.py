"""Simplifications of the graph before it is typed: a visible list of functions Graph -> Graph.

Dead nodes, identities, inference-mode Dropout, reshapes, constant folding and shape arithmetic need no pass here:
inference computes what is known, and the reverse walk writes only what is demanded (see `scope`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from onnx_systemds.importing.facts import default_attribute
from onnx_systemds.importing.ir import Array, Graph, Node
from onnx_systemds.importing.walk import names_read

Pass = Callable[[Graph], Graph]


def constants_to_initializers(graph: Graph) -> Graph:
    """Tensor-valued Constant nodes become initializers, where the passes below look for weights."""
    found: dict[str, Array] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        content = node.attributes.get("value")
        if node.identity == ("", "Constant") and isinstance(content, np.ndarray):
            found[node.outputs[0]] = content
        else:
            kept.append(node)
    return replace(graph, nodes=tuple(kept), initializers={**graph.initializers, **found}) if found else graph


def fold_batch_normalization(graph: Graph) -> Graph:
    """Conv, then BatchNormalization in inference mode: the scale goes into the filters, the shift into the bias."""
    uses = Counter(name for node in graph.nodes for name in names_read(node))
    uses.update(output.name for output in graph.outputs)
    producer = {name: position for position, node in enumerate(graph.nodes) for name in node.outputs if name}
    nodes: list[Node | None] = list(graph.nodes)
    initializers = dict(graph.initializers)
    for position, norm in enumerate(graph.nodes):
        source = producer.get(norm.inputs[0]) if norm.identity == ("", "BatchNormalization") else None
        conv = None if source is None else nodes[source]
        if source is None or conv is None or conv.identity != ("", "Conv") or uses[norm.inputs[0]] != 1:
            continue
        folded = _folded(conv, norm, initializers)
        if folded is None:
            continue
        filters, bias = f"{norm.outputs[0]}/filters", f"{norm.outputs[0]}/bias"
        initializers[filters], initializers[bias] = folded
        nodes[source] = None
        nodes[position] = replace(conv, inputs=(conv.inputs[0], filters, bias), outputs=norm.outputs[:1])
    left = tuple(node for node in nodes if node is not None)
    return graph if len(left) == len(graph.nodes) else replace(graph, nodes=left, initializers=initializers)


def _folded(conv: Node, norm: Node, initializers: dict[str, Array]) -> tuple[Array, Array] | None:
    """Filters and bias of both together; None where something is not constant or it trains."""
    names = [*conv.inputs[1:], *norm.inputs[1:]]
    if norm.version < 7 or any(norm.outputs[1:]) or norm.attributes.get("training_mode") or not all(names):
        return None
    if norm.attributes.get("spatial", 1) != 1 or any(name not in initializers for name in names):
        return None
    filters = initializers[conv.inputs[1]]
    scale, shift, mean, variance = (initializers[name].astype(np.float64) for name in norm.inputs[1:])
    bias = initializers[conv.inputs[2]].astype(np.float64) if len(conv.inputs) > 2 else np.zeros_like(shift)
    epsilon = norm.attributes.get("epsilon", default_attribute("", "BatchNormalization", norm.version, "epsilon"))
    factor = scale / np.sqrt(variance + epsilon)
    folded = filters * factor.reshape(-1, *[1] * (filters.ndim - 1))
    return folded.astype(filters.dtype), ((bias - mean) * factor + shift).astype(filters.dtype)


PASSES: tuple[Pass, ...] = (constants_to_initializers, fold_batch_normalization)


def simplify(graph: Graph) -> Graph:
    """Apply all passes in their order; the results of the graph stay equal."""
    for apply in PASSES:
        graph = apply(graph)
    return graph
