"""Random functions of a model: attributes by reference, through several levels, with defaults; inputs left out; overloads; other opsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper, numpy_helper

from onnx_systemds.engine import Session
from tests.fuzz.drawing import Draw
from tests.fuzz.finding import Finding
from tests.fuzz.judging import ModelCase, check_model

_DOMAINS = ("my", "other.domain")
_ATTRIBUTES: dict[str, Any] = {  # operators that keep a matrix's dims, and values of their attributes; FIRST: an attribute it needs
    "LeakyRelu": {"alpha": (0.2, -1.5, 0.0)},
    "Elu": {"alpha": (0.5, 2.0)},
    "Selu": {"alpha": (1.5,), "gamma": (0.5, 2.0)},
    "HardSigmoid": {"alpha": (0.1, 0.5), "beta": (0.0, 0.75)},
    "ThresholdedRelu": {"alpha": (0.0, 0.5, 2.0)},
    "Shrink": {"lambd": (0.0, 1.0), "bias": (0.5, -1.0)},
    "Softmax": {"axis": (0, 1, -1, -2)},
    "LogSoftmax": {"axis": (0, 1)},
    "Hardmax": {"axis": (0, -1)},
    "LpNormalization": {"axis": (0, 1), "p": (1, 2)},
    "Gelu": {"approximate": ("none", "tanh")},
}
_NEEDED: dict[str, Any] = {"to": (6, 7, 9, 1, 10, 11), "number": (0.5, 3.0, -2.0), "whole": (2, -1, 0), "numbers": ((0.5, 1.0, -2.0), (3.0,)),
                           "tensor": (np.array([[1, 2, 3]], np.float32), np.array(4, np.float32)), "perm": ((1, 0), (0, 1)),
                           "axis": (0, 1, -1)}


@dataclass
class _Function:
    """A function in the making. known: its attributes and their values, None where the operator has a default of its own."""

    draw: Draw
    name: str
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    known: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    values: list[str] = field(default_factory=list)
    count: int = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def add(self, op_type: str, inputs: Sequence[str], **attributes: Any) -> str:
        output = self.fresh("t")
        node = helper.make_node(op_type, list(inputs), [output], **{
            name: value for name, value in attributes.items() if not isinstance(value, AttributeProto)})
        node.attribute.extend(value for value in attributes.values() if isinstance(value, AttributeProto))
        self.nodes.append(node)
        return output

    def refer(self, name: str, choices: Sequence[Any], *, needed: bool = False) -> Any:
        """An attribute of a node: a value, or a reference to an attribute of the function."""
        if self.draw.chance(0.2):
            value = self.draw.one(*choices)
            return helper.make_attribute(name, numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value)
        own = self.fresh("attr") if self.draw.chance(0.7) or name in self.known else name
        self.known[own] = tuple(choices)
        if not needed:
            self.optional.add(own)
        return _reference(name, own, choices[0])


def _kind(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(AttributeProto.TENSOR)
    if isinstance(value, (tuple, list)):
        return int(AttributeProto.INTS if isinstance(value[0], int) else AttributeProto.FLOATS)
    return int({int: AttributeProto.INT, float: AttributeProto.FLOAT, str: AttributeProto.STRING}[type(value)])


def _reference(name: str, own: str, like: Any) -> AttributeProto:
    return AttributeProto(name=name, ref_attr_name=own, type=_kind(like))


def _value(name: str, value: Any) -> AttributeProto:
    return helper.make_attribute(name, numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value)


# --- steps: each takes a matrix of n x 3 and gives one ---------------------------------------------------------------


def _unary(f: _Function, x: str) -> str:
    names = [name for name in _ATTRIBUTES if name != "Gelu" or f.opset >= 20]
    op_type = f.draw.one(*names)
    return f.add(op_type, [x], **{name: f.refer(name, choices) for name, choices in _ATTRIBUTES[op_type].items() if f.draw.chance(0.8)})


def _constant(f: _Function, x: str) -> str:
    way = f.draw.one("number", "whole", "numbers", "tensor")
    attribute = f.refer({"number": "value_float", "whole": "value_int", "numbers": "value_floats", "tensor": "value"}[way],
                        _NEEDED[way], needed=True)
    found = f.add("Constant", [], value=attribute)
    if way == "whole":
        found = f.add("Cast", [found], to=1)
    return f.add(f.draw.one("Add", "Mul"), [x, found])


def _cast(f: _Function, x: str) -> str:
    return f.add("Cast", [f.add("Cast", [x], to=f.refer("to", _NEEDED["to"], needed=True))], to=1)


def _turn(f: _Function, x: str) -> str:
    perm = f.refer("perm", _NEEDED["perm"])
    turned = f.add("Relu", [f.add("Transpose", [x], perm=perm)])
    return f.add("Transpose", [turned], perm=perm)


def _reduce(f: _Function, x: str) -> str:
    keeps = f.refer("keepdims", (0, 1))
    if f.opset >= 13:
        total = f.add("ReduceSum", [x, f.add("Constant", [], value_ints=[0])], keepdims=keeps)
    else:
        total = f.add("ReduceSum", [x], keepdims=keeps, axes=[0])
    return f.add("Sub", [x, total])


def _cumulate(f: _Function, x: str) -> str:
    return f.add("CumSum", [x, f.add("Constant", [], value_int=f.draw.flag())], exclusive=f.refer("exclusive", (0, 1)),
                 reverse=f.refer("reverse", (0, 1)))


def _joined(f: _Function, x: str) -> str:
    found = f.add("Concat", [x, f.add("Neg", [x])], axis=f.refer("axis", _NEEDED["axis"], needed=True))
    return f.add("Add", [x, f.add("ReduceMax", [found], keepdims=0)])


def _product(f: _Function, x: str) -> str:
    w = f.add("Constant", [], value=numpy_helper.from_array(f.draw.rng.integers(-2, 3, (3, 3)).astype(np.float32)))
    given = [f.values[1]] if f.draw.chance(0.5) and len(f.values) > 1 and f.values[1] in ("lo", "hi") else []
    return f.add("Gemm", [x, w, *given], alpha=f.refer("alpha", (0.5, 2.0)), beta=f.refer("beta", (1.0, 0.5)),
                 transB=f.refer("transB", (0, 1)))


def _normalized(f: _Function, x: str) -> str:
    if f.opset < 17:
        return f.add("Identity", [x])
    scale = f.add("Constant", [], value_floats=[1.0, 0.5, 2.0])
    return f.add("LayerNormalization", [x, scale], epsilon=f.refer("epsilon", (1e-5, 0.1, 1.0)), axis=f.refer("axis", (-1, 1)))


def _clipped(f: _Function, x: str) -> str:
    if f.opset < 11:
        return f.add("Clip", [x], min=f.refer("min", (-1.0, 0.0)), max=f.refer("max", (0.5, 1.0)))
    return f.add("Clip", [x, f.draw.one("lo", ""), f.draw.one("hi", "")])


def _branch(f: _Function, x: str) -> str:
    op_type = f.draw.one("LeakyRelu", "Elu", "ThresholdedRelu")
    total = f.add("ReduceMax", [x], keepdims=0)
    condition = f.add("Greater", [total, f.add("Constant", [], value_float=f.refer("value_float", _NEEDED["number"], needed=True))])
    graphs = []
    for name, sign in (("then", 1), ("else", -1)):
        inner = _Function(f.draw, name, f.opset, known=f.known, optional=f.optional, count=f.count + 50)
        result = inner.add(op_type, [x], alpha=inner.refer("alpha", _ATTRIBUTES[op_type]["alpha"]))
        if sign < 0:
            result = inner.add("Neg", [result])
        f.count = inner.count
        graphs.append(_graph(inner, result))
    return f.add("If", [condition], then_branch=graphs[0], else_branch=graphs[1])


def _loop(f: _Function, x: str) -> str:
    trips = f.add("Constant", [], value_int=f.refer("value_int", (0, 1, 3), needed=True))
    inner = _Function(f.draw, "body", f.opset, known=f.known, optional=f.optional, count=f.count + 50)
    step = inner.add("Constant", [], value_float=inner.refer("value_float", _NEEDED["number"], needed=True))
    result = inner.add("Add", [f.draw.one("state", "state", x), inner.add("Mul", ["state", step])])
    kept = inner.add("Identity", ["go"])
    f.count = inner.count
    body = helper.make_graph(inner.nodes, "body", [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, []),
                                                   helper.make_tensor_value_info("state", 1, None)],
                             [helper.make_tensor_value_info(kept, 9, []), helper.make_tensor_value_info(result, 1, None)])
    return f.add("Loop", [trips, "", x], body=body)


def _graph(inner: _Function, result: str) -> GraphProto:
    return helper.make_graph(inner.nodes, inner.name, [], [helper.make_tensor_value_info(result, 1, None)])


_STEPS = (*[_unary] * 4, *[_constant] * 2, _cast, _turn, _reduce, _cumulate, _joined, _product, _normalized, _clipped, _clipped, _branch, _branch,
          _loop)


# --- functions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Made:
    proto: FunctionProto
    known: dict[str, tuple[Any, ...]]
    needed: frozenset[str]


def _function(draw: Draw, name: str, overload: str, opset: int, others: Sequence[_Made]) -> _Made:
    f = _Function(draw, name, opset)
    f.values = ["x", "lo", "hi"]
    x = "x"
    results = []
    for _ in range(draw.int(1, 6)):
        if others and draw.chance(0.35):
            x = _call(f, draw.one(*others), x)
        else:
            x = draw.one(*_STEPS)(f, x)
        results.append(x)
    outputs = [x] if draw.chance(0.6) else [x, f.add("Identity", [draw.one(*results)])]
    attributes, defaults = [], []
    needed = set()
    for own, choices in f.known.items():
        if draw.chance(0.5):
            defaults.append(_value(own, draw.one(*choices)))
        else:
            attributes.append(own)
            if own not in f.optional:
                needed.add(own)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in _DOMAINS)]
    proto = helper.make_function(draw.one(*_DOMAINS), name, ["x", "lo", "hi"], outputs, f.nodes, imports, attributes, defaults)
    proto.overload = overload
    return _Made(proto, f.known, frozenset(needed))


def _call(f: _Function, made: _Made, x: str) -> str:
    """A call from within a function: attributes left out, given, or handed on."""
    outputs = [f.fresh("t") for _ in made.proto.output]
    inputs = [x, *(f.draw.one(each, "") for each in ("lo", "hi"))]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node(made.proto.name, inputs, outputs, domain=made.proto.domain)
    node.overload = made.proto.overload
    for own, choices in made.known.items():
        if own in made.needed or f.draw.chance(0.6):
            node.attribute.append(f.refer(own, choices, needed=own in made.needed))
    f.nodes.append(node)
    return f.draw.one(*outputs)


# --- cases -----------------------------------------------------------------------------------------------------------


def case(seed: int) -> ModelCase:
    """The model of a seed, and its calls."""
    draw = Draw(seed)
    opset = draw.one(17, 20, 21, 22)
    functions: list[_Made] = []
    own = opset if draw.chance(0.7) else draw.one(12, 13, 16, 18, 20)
    for place in range(draw.int(1, 4)):
        overload = draw.one("", "", "one", "two")
        name = draw.one("F", "G", f"H{place}")
        made = _function(draw, name, overload, own, functions)
        if all((made.proto.domain, name, overload) != (each.proto.domain, each.proto.name, each.proto.overload) for each in functions):
            functions.append(made)
    nodes = []
    x, outputs = "x", []
    consts = [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("low", -0.75), ("high", 1.25))]
    for place in range(draw.int(1, 3)):
        made = functions[-1] if place == 0 else draw.one(*functions)
        found = [f"y{place}_{each}" for each in range(len(made.proto.output))]
        inputs = [x, draw.one("low", ""), draw.one("high", "", "h")]
        while not inputs[-1]:
            inputs.pop()
        node = helper.make_node(made.proto.name, inputs, found, domain=made.proto.domain)
        node.overload = made.proto.overload
        node.attribute.extend(_value(own, draw.one(*choices)) for own, choices in made.known.items()
                              if own in made.needed or draw.chance(0.5))
        nodes.append(node)
        outputs += found
        x = draw.one("x", *found)
    rows = draw.one(2, "N", 1)
    infos = [helper.make_tensor_value_info("x", 1, [rows, 3]), helper.make_tensor_value_info("h", 1, [])]
    graph = helper.make_graph(nodes, "functions", infos, [helper.make_tensor_value_info(name, 1, [None, None]) for name in outputs], consts)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in _DOMAINS)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=[made.proto for made in functions])
    calls = [{"x": (draw.rng.integers(-8, 9, (2 if rows == "N" else rows, 3)) / 4).astype(np.float32), "h": np.asarray(draw.one(0.5, 1.0), np.float32)}
             for _ in range(2)]
    return ModelCase(seed, model, (calls[0], calls[1], calls[0]), draw.one(1, 20), functions=draw.one(None, "flat", "keep", "blocks"))


def check(case: ModelCase, session: Session) -> Finding | None:
    """Judge a model by itself with its functions written out: judges leave out defaults of attributes, and refuse other opsets."""
    return check_model(case, session, judged=written_out(case.model))


# --- the model without functions -------------------------------------------------------------------------------------

_Key = tuple[str, str, str]


def written_out(model: ModelProto) -> ModelProto:
    """The model with the nodes of its functions, all of one opset, in the place of their calls."""
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    nodes: list[NodeProto] = []
    counter = [0]
    for node in model.graph.node:
        nodes += _expanded(node, functions, counter)
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:], copy.functions[:], copy.opset_import[:]
    copy.graph.node.extend(nodes)
    copy.opset_import.extend(each for each in model.functions[0].opset_import if not each.domain)
    return copy


def _expanded(node: NodeProto, functions: Mapping[_Key, FunctionProto], counter: list[int]) -> list[NodeProto]:
    function = functions.get((node.domain, node.op_type, node.overload))
    if function is None:
        return [node]
    counter[0] += 1
    given = {each.name: each for each in (*function.attribute_proto, *node.attribute)}
    names = {"": "", **dict(zip(function.input, [*node.input, *[""] * len(function.input)]))}
    names.update((inner, outer) for inner, outer in zip(function.output, node.output) if outer)
    found: list[NodeProto] = []
    for inner in function.node:
        found += _expanded(_bound(inner, names, given, f"{counter[0]}/"), functions, counter)
    return found


def _bound(node: NodeProto, names: dict[str, str], given: Mapping[str, AttributeProto], prefix: str) -> NodeProto:
    """A node of a function with the caller's names and attributes."""
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.setdefault(name, prefix + name) for name in node.input]
    copy.output[:] = [names.setdefault(name, prefix + name) for name in node.output]
    del copy.attribute[:]
    for attribute in node.attribute:
        bound = AttributeProto()
        bound.CopyFrom(given.get(attribute.ref_attr_name, attribute))
        bound.name = attribute.name
        if bound.HasField("g"):
            for value in (*bound.g.input, *bound.g.output):
                value.name = names.setdefault(value.name, prefix + value.name)
            inner = [_bound(each, names, given, prefix) for each in bound.g.node]
            del bound.g.node[:]
            bound.g.node.extend(inner)
        if not attribute.ref_attr_name or attribute.ref_attr_name in given:
            copy.attribute.append(bound)
    return copy
