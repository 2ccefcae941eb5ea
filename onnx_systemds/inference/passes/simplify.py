"""Simplifications of the graph before it is typed: a visible list of functions Graph -> Graph.

Dead nodes, identities, inference-mode Dropout, reshapes, constant folding and shape arithmetic need no pass here:
inference computes what is known, and the reverse walk writes only what is demanded (see `scope`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from onnx_systemds.inference.passes.activation_patterns import join_hard_swish
from onnx_systemds.inference.passes.convolution_folding import fold_into_convolutions
from onnx_systemds.inference.passes.direction_joining import join_directions
from onnx_systemds.model.ir import Array, Graph, Node

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


PASSES: tuple[Pass, ...] = (constants_to_initializers, join_hard_swish, fold_into_convolutions, join_directions)


def simplify(graph: Graph) -> Graph:
    """Apply all passes in their order; the results of the graph stay equal."""
    for apply in PASSES:
        graph = apply(graph)
    return graph
