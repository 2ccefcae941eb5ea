"""BatchNormalizations of training: the main function normalizes by the statistics that the model holds, the passes of
the derivatives by those of the batch, and the forward pass moves the former towards these.

PyTorch calls these ``eval`` and ``train``. Nodes stay as they are where nothing could keep their statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from onnx_systemds.errors import quoted
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import Graph, Model, Node, ValueInfo
from onnx_systemds.model.protos import dtype_of
from onnx_systemds.model.walk import all_nodes, names_read, names_used, nodes_of_model

_OPSET = 15
"""In which an attribute tells a node to train, and its outputs are the statistics that it moves."""
_STATISTICS = (3, 4)
"""The inputs that are statistics: means and variances."""
_MOMENTUM = 0.9


def trains(node: Node) -> bool:
    """Whether a node is a BatchNormalization by the statistics of batches."""
    if node.identity != ("", "BatchNormalization") or len(node.inputs) <= _STATISTICS[-1] or not node.outputs[0]:
        return False
    if node.version < 14:  # where further outputs say so
        return any(node.outputs[1:]) and not node.integer("is_test", 0)
    return bool(node.integer("training_mode", 0))


def statistics_of(graph: Graph) -> tuple[str, ...]:
    """The initializers that are statistics which the nodes of a graph move, in the order of these."""
    moved = _moved(graph)
    return tuple(dict.fromkeys(name for node in graph.nodes if trains(node) and not _obstacle(node, graph, moved)
                               for name in _names(node)))


def obstacles(model: Model) -> Iterator[tuple[Node, str]]:
    """The nodes whose statistics nothing keeps, and why."""
    moved, own = _moved(model.graph), {id(node) for node in model.graph.nodes}
    for node in nodes_of_model(model.graph, model.functions):
        if trains(node):
            reason = _obstacle(node, model.graph, moved) if id(node) in own else "it stands in a sub-graph or function"
            if reason:
                yield node, reason


def _names(node: Node) -> tuple[str, ...]:
    return tuple(node.inputs[place] for place in _STATISTICS)


def _moved(graph: Graph) -> set[str]:
    """The statistics that only BatchNormalizations of a graph read, those that train, and as nothing else."""
    found: set[str] = set()
    others = {output.name for output in graph.outputs}
    for node in graph.nodes:
        if trains(node) and len({*_names(node)}) == len(_STATISTICS):
            found.update(_names(node))
            others.update(node.inputs[: _STATISTICS[0]])
        else:
            others |= names_read(node)
    return found - others


def _obstacle(node: Node, graph: Graph, moved: Collection[str]) -> str:
    """Why the statistics of a node are not kept, "" where they are."""
    names = _names(node)
    if any(name not in graph.initializers for name in names):
        return "they are no initializers"
    is_of_elements = node.version < 9 and not node.integer("spatial", 1)
    if is_of_elements or any(graph.initializers[name].ndim != 1 for name in names):
        return "they are not one number for each channel"
    used = names_used(graph)
    if given := [name for name in node.outputs[1:] if name in used]:
        return f"{quoted(given[0])} is read"
    if left := [name for name in names if name not in moved]:
        return f"{quoted(left[0])} is read as something else, too"
    return ""


def with_given_statistics(model: Model, statistics: Collection[str]) -> Model:
    """The model as one that infers: nodes normalize by these statistics."""

    def inferring(node: Node) -> Sequence[Node]:
        attributes = {name: value for name, value in node.attributes.items() if name != "training_mode"}
        attributes |= {"is_test": 1} if node.version < 7 else {}
        return (replace(node, attributes=attributes, outputs=node.outputs[:1]),)

    return _with_nodes(model, statistics, inferring)


def with_moved_statistics(model: Model, statistics: Collection[str]) -> tuple[Model, str]:
    """The model whose last output is these statistics, one below the other, as a step of training moves them; its name.

    Where several nodes have the same ones, each moves them on from where the one before it has. The model itself, and
    "", without any.
    """
    if not statistics:
        return model, ""
    graph, now = model.graph, {name: name for name in statistics}
    taken = {*graph.initializers, *(name for node in all_nodes(graph.nodes) for name in (*node.inputs, *node.outputs))}

    def moving(node: Node) -> Sequence[Node]:
        prefix = node.outputs[0].removesuffix("_output_0")
        writer = NodeWriter(node, prefix, _OPSET)
        of_batch = tuple(f"{prefix}/{words}" for words in ("batch_mean", "batch_variance"))
        momentum = node.attributes.get("momentum", _MOMENTUM)
        assert isinstance(momentum, float)
        attributes = {name: value for name, value in node.attributes.items() if name == "epsilon"}
        attributes |= {"momentum": 0.0, "training_mode": 1}  # so its outputs are the statistics of the batch
        writer.nodes.append(replace(node, attributes=attributes, outputs=(node.outputs[0], *of_batch), version=_OPSET))
        for name, own in zip(_names(node), of_batch):
            dtype = dtype_of(graph.initializers[name])
            kept, share = (writer.known(factor, dtype) for factor in (momentum, 1 - momentum))
            parts = writer.emit("Mul", now[name], kept), writer.emit("Mul", own, share)
            now[name] = writer.emit("Add", *parts, to=fresh(f"new_{name}", taken))
        return writer.nodes

    changed, result = _with_nodes(model, statistics, moving), fresh("new_statistics", taken)
    writer = NodeWriter(graph.nodes[-1], result, _OPSET)
    of_one_type = [now[name] if dtype_of(graph.initializers[name]) == "float" else writer.cast(now[name], "float")
                   for name in statistics]
    writer.emit("Concat", *of_one_type, to=result, axis=0)
    nodes, outputs = (*changed.graph.nodes, *writer.nodes), (*graph.outputs, ValueInfo(result, None))
    return replace(changed, graph=replace(changed.graph, nodes=nodes, outputs=outputs)), result


def compare_rows(graph: TypedGraph) -> bool:
    """Whether a node that trains has one number of each sample for a statistic, as those after a Gemm do."""
    return any(trains(node) and dim.product((graph.values[node.inputs[0]].dims or ())[2:]) == 1 for node in graph.nodes)


def fresh(name: str, taken: set[str]) -> str:
    """A name that is none of those that are taken, and is now one of them."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _with_nodes(model: Model, statistics: Collection[str], rewritten: Callable[[Node], Iterable[Node]]) -> Model:
    """The model with others in place of the nodes that move these statistics."""
    if not statistics:
        return model

    def is_moving(node: Node) -> bool:
        return trains(node) and node.inputs[_STATISTICS[0]] in statistics

    nodes = tuple(it for node in model.graph.nodes for it in (rewritten(node) if is_moving(node) else (node,)))
    return replace(model, graph=replace(model.graph, nodes=nodes))
