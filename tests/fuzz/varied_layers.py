"""Graphs of layers that are almost alike: other numbers, attributes, operators or values from around, some within Ifs and loops.

What is repeated becomes a function of its own, if its parts are equal but for what the function can take. Sizes of the run
are 1 or many, and those that other dims of the graph have.
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper, numpy_helper

from tests.fuzz import graphs  # noqa: F401 - its steps are registered
from tests.fuzz.drawing import Draw
from tests.fuzz.graph_builder import Builder, Known
from tests.fuzz.graph_steps import array_of
from tests.fuzz.judging import ModelCase
from tests.fuzz.repeated_nodes import names_taken, rename

Case = ModelCase

_ALIKE = (
    ("Relu", "Tanh", "Sigmoid", "Abs", "Neg"), ("Add", "Sub", "Mul", "Max", "Min"),
    ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"), ("Softmax", "LogSoftmax"), ("Less", "Greater"), ("And", "Or", "Xor"),
)
"""Operators that take and give the same."""
_NUMBERS = {"alpha": (0.2, 0.5), "epsilon": (1e-5, 0.1), "beta": (0.3, 0.6), "lambd": (0.5, 1.0)}
_MOST_SUMMED = 6


def case(seed: int) -> Case:
    """The graph of a seed, called with sizes A, B and A, each twice."""
    draw = Draw(seed)
    sizes = [{"N": draw.one(1, 1, 2, 3, 4, 1001 if draw.chance(0.1) else 5, 0 if draw.chance(0.2) else 1),
              "S": draw.one(1, 1, 2, 3, 4, 6)} for _ in range(2)]
    if draw.chance(0.3):  # two symbols of one size
        sizes[1]["S"] = sizes[1]["N"] = draw.one(1, 3)
    b = Builder(draw, sizes)
    inputs = [_input(draw, place) for place in range(draw.int(1, 3))]
    flag = [Known("flag", "bool", ())] if draw.chance(0.4) else []
    b.values += [*inputs, *flag]
    b.grow(draw.int(0, 4))
    made: list[Known] = []
    for _ in range(draw.one(1, 1, 2)):
        made += layers(b, draw.chance(0.4))
    b.grow(draw.int(0, 3))
    if not made:
        made = [b.add("Identity", [inputs[0].name], inputs[0].dtype, inputs[0].dims)]
    others = [known for known in b.values if known not in inputs and known not in flag]
    chosen = {known.name: known for known in [*made[-2:], *(draw.one(*(others or made)) for _ in range(draw.int(0, 2)))]}
    graph = b.body("graph", [*inputs, *flag], list(chosen.values()))
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", draw.one(18, 20, 21, 22))])
    dims = {name: size for name, size in sizes[0].items() if draw.chance(0.7)} if draw.chance(0.2) else {}
    dims = {name: size for name, size in dims.items() if any(name in known.dims for known in inputs)}
    calls = [{known.name: array_of(known, each, draw) if known.rank else np.asarray(draw.flag() == 1) for known in (*inputs, *flag)}
             for each in sizes]
    calls = [call for call, each in zip(calls, sizes) if dims.items() <= each.items()]
    order = [calls[place] for place in (0, 1, 0) if place < len(calls)]
    return ModelCase(seed, model, tuple(call for call in order for _ in range(2)), 1,
                     functions=draw.one("blocks", "blocks", "blocks", None, "flat"), dims=dims, parts=draw.one(None, 1, 2, 3))


def _input(draw: Draw, place: int) -> Known:
    dims: list[int | str] = ["N", *(draw.one(1, 2, 3, 4, 6) for _ in range(draw.int(1, 3)))]
    if draw.chance(0.4):
        dims[draw.int(1, len(dims) - 1)] = "S"
    return Known(f"x{place}", draw.one("float", "float", "float", "double"), tuple(dims))


def layers(b: Builder, has_bodies: bool) -> list[Known]:
    """Write a layer several times, each a little different; what they give."""
    x = b.pick(lambda known: known.dtype in ("float", "double") and known.rank > 0)
    if x is None:
        return []
    start = len(b.nodes)
    around = [known for known in b.values if known is not x][-3:]
    layer = Builder(b.draw, b.sizes, [*around, x], b.nodes, b.initializers, b.counter, 0 if has_bodies else 9)
    layer.grow(b.draw.int(3, 9))
    own = layer.values[len(around) + 1 :]
    out = x
    for value in [value for value in own if value.dtype == x.dtype][-_MOST_SUMMED:]:
        same = value.dims == x.dims
        part = value if same else b.add("ReduceMean", [value.name], x.dtype, (), keepdims=0)
        out = b.add("Add", [out.name, b.add("Tanh", [part.name], x.dtype, part.dims).name], x.dtype, x.dims)
    if out is x:
        return []
    nodes, given = b.nodes[start:], [out]
    alike = _alike(b, x, own)
    share = b.draw.one(0.0, 0.05, 0.15, 0.4)
    for _ in range(b.draw.int(1, 3)):
        names = {x.name: given[-1 if b.draw.chance(0.7) else 0].name}
        _written_again(b, nodes, names, share, alike)
        given.append(Known(names[out.name], x.dtype, x.dims))
        for value in own:
            if b.draw.chance(0.1):  # read from outside, too
                b.keep(Known(names[value.name], value.dtype, value.dims))
    for value in given:
        b.keep(value)
    return given


def _alike(b: Builder, x: Known, own: list[Known]) -> dict[str, list[str]]:
    """By the name of a value from around the layers those that may stand in its place."""
    around = [known for known in b.values if known is not x and known not in own]
    return {known.name: [other.name for other in around if (other.dtype, other.dims) == (known.dtype, known.dims)]
            for known in around}


def _written_again(b: Builder, nodes: list[NodeProto], names: dict[str, str], share: float, alike: dict[str, list[str]]) -> None:
    """Add copies of the nodes, of which a share is changed. names: what to call what they take, and then what they give."""
    weights = {tensor.name: tensor for tensor in b.initializers}
    given = dict(names)
    for node in nodes:
        copy = NodeProto()
        copy.CopyFrom(node)
        for name in names_taken(copy):
            if name in weights and name not in names:
                array = numpy_helper.to_array(weights[name])
                is_weight = array.dtype.kind == "f" and array.size > 1
                if is_weight or (array.dtype.kind == "f" and b.draw.chance(share)):
                    factor = b.draw.one(1, 1, 2, 0.5, 0)
                    other = array if array.size == 1 else b.draw.rng.standard_normal(array.shape)
                    names[name] = b.constant(other * factor, array.dtype)
                else:
                    names[name] = name
        if b.draw.chance(share):
            _change(b, copy, alike, given)
        rename(copy, names, b)
        b.nodes.append(copy)


def _change(b: Builder, node: NodeProto, alike: dict[str, list[str]], given: dict[str, str]) -> None:
    """Another operator, attribute, order of inputs, or another value from around."""
    way = b.draw.one("operator", "attribute", "order", "around")
    for group in _ALIKE if way == "operator" else ():
        if node.op_type in group:
            node.op_type = b.draw.one(*group)
            if node.op_type not in ("Softmax", "LogSoftmax", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean"):
                del node.attribute[:]
    for attribute in node.attribute if way == "attribute" else ():
        if attribute.name in _NUMBERS:
            attribute.f = b.draw.one(*_NUMBERS[attribute.name])
        elif attribute.name in ("reverse", "exclusive", "upper"):
            attribute.i = 1 - attribute.i
    if way == "order" and node.op_type in ("Add", "Sub", "Mul", "Max", "Min") and len(node.input) == 2:
        node.input[:] = node.input[::-1]
    for place, name in enumerate(node.input if way == "around" else ()):
        if name in alike and name not in given:
            node.input[place] = b.draw.one(*alike[name])


