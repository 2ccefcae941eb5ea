"""Simplifications of the graph before it is typed: a visible list of functions Graph -> Graph."""

from __future__ import annotations

from collections.abc import Callable

from onnx_systemds.importing.ir import Graph

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = ()


def simplify(graph: Graph) -> Graph:
    """Apply all passes in their order; the results of the graph stay equal."""
    for apply in PASSES:
        graph = apply(graph)
    return graph
