"""Operators by definition: a node is replaced by the nodes of its function body.

That is exact, not a guess: the body is a model's own function, one of our expansions (see `expansion`), or the
definition that ONNX gives of an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from onnx_systemds.errors import Reasons, ShapeUnknown, UnsupportedCase, quoted
from onnx_systemds.inference.expansion import Expansion
from onnx_systemds.inference.facts import NodeFacts, default_attribute, find_schema
from onnx_systemds.inference.lists import item_type
from onnx_systemds.inference.registry import expanders, find
from onnx_systemds.model import protos
from onnx_systemds.model.from_protobuf import Converter, MissingInput
from onnx_systemds.model.ir import Attribute, AttributeReference, Function, Graph, Node, ValueInfo
from onnx_systemds.model.mapped_files import MappedFiles
from onnx_systemds.model.tensors import TensorReader


def expand(facts: NodeFacts, prefix: str) -> tuple[Node, ...] | None:
    """The nodes that define a node, with inner names prefixed; None if there is no definition."""
    expander = find(expanders, facts.node.identity, facts.node.version)
    if expander is not None:
        expansion = Expansion(facts, prefix)
        expander(expansion)
        return tuple(expansion.nodes)
    found = onnx_definition(facts)
    return None if found is None else inline(facts.node, found, prefix)


def onnx_definition(facts: NodeFacts) -> Function | None:
    """ONNX's definition of the node's operator for these input types; None if there is none."""
    node = facts.node
    schema = find_schema(node.domain, node.op_type, node.version)
    if schema is None:
        return None
    if schema.has_context_dependent_function:
        for position in range(facts.input_count):
            if facts.has(position) and not facts.value(position).dtype and facts.value(position).type is None:
                raise ShapeUnknown(f"the type of its input {position} is unknown")
        types = [protos.type_proto(item_type(facts.value(i))).SerializeToString() if facts.has(i) else b""
                 for i in range(facts.input_count)]
        body = schema.get_context_dependent_function_with_opset_version(
            _fitting(schema.context_dependent_function_opset_versions, node.version),
            protos.node_proto(node).SerializeToString(), types,
        )
    elif schema.has_function:
        body = schema.get_function_with_opset_version(_fitting(schema.function_opset_versions, node.version))
    else:
        return None
    if not body:
        return None
    proto = onnx.FunctionProto()
    proto.ParseFromString(body)
    imports = {imported.domain: imported.version for imported in proto.opset_import}
    imports.setdefault("", onnx.defs.onnx_opset_version())
    # a definition leaves out optional outputs that the node does not name: no reason against it
    reasons = Reasons()
    found = Converter(TensorReader(b"", (), None, MappedFiles()), reasons).function(proto, imports)
    # so ONNX answers attributes that it does not know; imports and the like, which it leaves out, are of no matter
    if any(isinstance(reason, MissingInput) for reason in reasons.errors):
        raise UnsupportedCase("ONNX gives no whole definition of it for these attributes and inputs")
    return found


def _fitting(versions: Sequence[int], version: int) -> int:
    """The last version of a definition that is not above the node's, else the first one."""
    return max([found for found in versions if found <= version] or list(versions)[:1])


def inline(node: Node, function: Function, prefix: str) -> tuple[Node, ...]:
    """The function's nodes with the node's inputs, outputs and attributes substituted. Raises UnsupportedCase."""
    attributes: dict[str, Attribute] = {}
    for name, default in function.attributes.items():
        # ONNX's own definitions leave the defaults to the schema
        known = default if default is not None else default_attribute(node.domain, node.op_type, node.version, name)
        if known is not None:
            attributes[name] = known
    attributes.update(node.attributes)
    names = {"": ""}
    names.update(zip(function.inputs, node.inputs + ("",) * len(function.inputs)))
    names.update({inner: outer for inner, outer in zip(function.outputs, node.outputs) if outer})
    produced = {name for inner in function.nodes for name in inner.outputs}
    for inner, outer in zip(function.outputs, node.outputs):
        if outer and inner not in produced:
            raise UnsupportedCase(f"the operator's definition does not give the output {quoted(inner)}")
    return tuple(_rename(inner, names, attributes, prefix, node) for inner in function.nodes)


def function_graph(node: Node, function: Function) -> Graph:
    """The function's body as a graph with the node's attributes substituted, without omitted inputs."""
    attributes: dict[str, Attribute] = {name: known for name, known in function.attributes.items() if known is not None}
    attributes.update(node.attributes)
    given = dict(zip(function.inputs, node.inputs))
    names = _Outer({"": "", **{name: "" for name in function.inputs if not given.get(name)}})
    nodes = tuple(_rename(inner, names, attributes, function.name, node) for inner in function.nodes)
    inputs = tuple(ValueInfo(name, None) for name in function.inputs if given.get(name))
    outputs = tuple(ValueInfo(name, None) for name in function.outputs)
    return Graph(function.name, function.doc_string, inputs, outputs, {}, nodes, {})


def inline_body(
    node: Node, graph: Graph, prefix: str, inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[Node, ...]:
    """The nodes of a node's sub-graph for the given names of inputs and outputs ("": not wanted).

    They are put where the node stands; names made inside are prefixed.
    """
    own = [name for inner in graph.nodes for name in inner.outputs] + list(graph.initializers)
    names = {name: f"{prefix}/{name}" if name else "" for name in own}
    names.update({given.name: name for given, name in zip(graph.inputs, inputs)})
    produced = {name for inner in graph.nodes for name in inner.outputs}
    copies: list[Node] = []
    for output, outer in zip(graph.outputs, outputs):
        if output.name in produced and names[output.name].startswith(f"{prefix}/") and outer:
            names[output.name] = outer
        elif outer:
            copies.append(node.inner("Identity", (names.get(output.name, output.name),), (outer,), {}))
    constants = [node.inner("Constant", (), (names[name],), {"value": array})
                 for name, array in graph.initializers.items()]
    scope = _Outer(names)
    nodes = [_rename(inner, scope, {}, prefix, node) for inner in graph.nodes]
    return (*constants, *nodes, *copies)


class _Outer(dict[str, str]):
    """The names of a sub-graph; names that it does not define are those of enclosing graphs."""

    def setdefault(self, name: str, default: str = "") -> str:
        """The name in the enclosing graph."""
        return self.get(name, name)


def _rename(node: Node, names: dict[str, str], attributes: Mapping[str, Attribute], prefix: str, caller: Node) -> Node:
    def renamed(name: str) -> str:
        return names.setdefault(name, f"{prefix}/{name}")

    bound: dict[str, Attribute] = {}
    for name, content in node.attributes.items():
        if isinstance(content, AttributeReference):
            if content.name in attributes:
                bound[name] = attributes[content.name]
        elif isinstance(content, Graph):
            bound[name] = _rename_graph(content, names, attributes, prefix, caller)
        else:
            bound[name] = content
    return Node(
        node.op_type, node.domain, tuple(map(renamed, node.inputs)), tuple(map(renamed, node.outputs)), bound,
        f"{caller.name or caller.op_type}/{node.name or node.op_type}", "", node.index, node.version, node.overload,
    )


def _rename_graph(
    graph: Graph, names: dict[str, str], attributes: Mapping[str, Attribute], prefix: str, caller: Node
) -> Graph:
    inner = type(names)(names)
    for own in [value.name for value in graph.inputs] + list(graph.initializers):
        inner[own] = f"{prefix}/{graph.name}/{own}"
    for node in graph.nodes:
        for own in node.outputs:
            inner[own] = f"{prefix}/{graph.name}/{own}" if own else ""
    nodes = tuple(_rename(node, inner, attributes, prefix, caller) for node in graph.nodes)

    def values(infos: tuple[ValueInfo, ...]) -> tuple[ValueInfo, ...]:
        return tuple(replace(info, name=inner[info.name]) for info in infos)

    initializers = {inner[name]: array for name, array in graph.initializers.items()}
    return Graph(graph.name, graph.doc_string, values(graph.inputs), values(graph.outputs), initializers, nodes, {})

