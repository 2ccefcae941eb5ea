"""Weights that a program may train, as inputs: what does not know them computes nothing of them."""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.model.ir import Graph, TensorType, ValueInfo
from onnx_systemds.model.protos import dtype_of


def with_weights_as_inputs(graph: Graph) -> Graph:
    """The graph whose weights that may be trained are its last inputs."""
    weights = [(name, graph.initializers[name]) for name in sorted(graph.trainable)]
    added = tuple(ValueInfo(name, TensorType(dtype_of(array), array.shape)) for name, array in weights)
    others = {name: array for name, array in graph.initializers.items() if name not in graph.trainable}
    return replace(graph, inputs=graph.inputs + added, initializers=others, trainable=frozenset())


def with_weights_of(graph: Graph, source: Graph) -> Graph:
    """A graph that was made of `with_weights_as_inputs`, whose weights are again those of the source."""
    inputs = tuple(given for given in graph.inputs if given.name not in source.trainable)
    weights = {name: array for name, array in source.initializers.items() if name in source.trainable}
    return replace(
        graph, inputs=inputs, initializers={**graph.initializers, **weights}, trainable=source.trainable
    )
