"""Nodes of a random graph that follow one another become a function of the model."""

from __future__ import annotations

from onnx import ModelProto, NodeProto, helper

from tests.fuzz.drawing import Draw
from tests.fuzz.shrinking import names_read

_DOMAIN = "local"


def outline(model: ModelProto, draw: Draw) -> None:
    """Replace some nodes by a call of a function that has them; constants among them go along, weights are arguments."""
    nodes = list(model.graph.node)
    if len(nodes) < 3:
        return
    start = draw.int(0, len(nodes) - 2)
    inside = nodes[start : start + draw.int(1, min(8, len(nodes) - start))]
    if any(attribute.HasField("g") for node in inside for attribute in node.attribute):
        return  # what bodies take from around them is no argument
    made = [name for node in inside for name in node.output if name]
    read_after = {name for node in nodes[start + len(inside) :] for name in names_read(node)}
    read_after.update(output.name for output in model.graph.output)
    outputs = [name for name in made if name in read_after]
    inputs = list(dict.fromkeys(name for node in inside for name in node.input if name and name not in made))
    if not outputs or not inputs:
        return
    imports = [helper.make_opsetid("", model.opset_import[0].version)]
    function = helper.make_function(_DOMAIN, "Outlined", inputs, outputs, inside, imports)
    call = helper.make_node("Outlined", inputs, outputs, domain=_DOMAIN)
    kept = [*nodes[:start], call, *nodes[start + len(inside) :]]
    model.functions.append(function)
    copies = [NodeProto.FromString(node.SerializeToString()) for node in kept]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
