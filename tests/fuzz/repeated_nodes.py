"""Layers of a random graph: the same nodes again, with other weights, on what the layer before gave."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, NodeProto, numpy_helper

from tests.fuzz.graph_builder import Builder, Known

_MOST_SUMMED = 8
_WITHOUT_CONTROL_FLOW = 9
"""A depth at which no Ifs and loops are drawn: their bodies are functions, each with a name of its own."""


def repeat(b: Builder) -> list[Known]:
    """Write a layer several times, each on what the last one gave; what they give."""
    x = b.pick(lambda known: known.dtype == "float" and known.rank > 0)
    if x is None:
        return []
    start = len(b.nodes)
    layer = Builder(b.draw, b.sizes, [x], b.nodes, b.initializers, b.counter, _WITHOUT_CONTROL_FLOW)
    layer.grow(b.draw.int(8, 25))
    out = x
    for value in [value for value in layer.values[1:] if value.dtype == "float"][-_MOST_SUMMED:]:
        mean = b.add("ReduceMean", [value.name], "float", (), keepdims=0)
        bounded = b.add("Tanh", [mean.name], "float", ())
        out = b.add("Add", [out.name, bounded.name], "float", x.dims)
    if out is x:
        return []
    nodes, layers = b.nodes[start:], [out]
    for _ in range(b.draw.int(1, 4)):
        names = _written_again(b, nodes, {x.name: layers[-1].name})
        layers.append(Known(names[out.name], "float", x.dims))
    for value in layers:
        b.keep(value)
    return layers


def names_taken(node: NodeProto) -> list[str]:
    """The names that a node takes, with those of its bodies."""
    bodies = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [*node.input, *(name for body in bodies for inner in body.node for name in names_taken(inner)),
            *(info.name for body in bodies for info in body.output)]


def _written_again(b: Builder, nodes: list[NodeProto], following: Mapping[str, str]) -> dict[str, str]:
    """Add copies of the nodes that take other values; the names of what they give, by those of the nodes themselves."""
    names = dict(following)
    weights = {tensor.name: tensor for tensor in b.initializers}
    for node in nodes:
        for name in names_taken(node):
            if name in weights and name not in names:
                array = numpy_helper.to_array(weights[name])
                is_weight = array.dtype.kind == "f" and array.size > 1
                names[name] = b.constant(b.draw.rng.standard_normal(array.shape), array.dtype) if is_weight else name
        copy = NodeProto()
        copy.CopyFrom(node)
        rename(copy, names, b)
        b.nodes.append(copy)
    return names


def rename(node: NodeProto, names: dict[str, str], b: Builder) -> None:
    """Give a node other names: what it takes by ``names``, what it makes new ones."""
    node.input[:] = [names.get(name, name) for name in node.input]
    for attribute in node.attribute:
        if attribute.HasField("g"):
            _rename_body(attribute.g, names, b)
    for place, name in enumerate(node.output):
        names[name] = b.name("v")
        node.output[place] = names[name]


def _rename_body(body: GraphProto, outer: Mapping[str, str], b: Builder) -> None:
    names = dict(outer)
    body.name = b.name("body")
    for info in (*body.input, *body.initializer):
        names[info.name] = b.name("v")
        info.name = names[info.name]
    for node in body.node:
        rename(node, names, b)
    for info in body.output:
        info.name = names.get(info.name, info.name)
