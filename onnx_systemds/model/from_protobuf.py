"""Protobuf -> the dataclasses of `ir`, collecting everything that is wrong on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import onnx
from onnx import AttributeProto

from onnx_systemds.errors import InvalidModel, NodePlace, Reasons, escaped, quoted, quoted_list
from onnx_systemds.model import ir
from onnx_systemds.model.node_scopes import scope_of
from onnx_systemds.model.tensors import TensorReader, known_element_name
from onnx_systemds.model.wiring import sort_nodes

DEEPEST_GRAPH = 100
_MOST_ELEMENTS = 2**63 - 1
_AI_ONNX = "ai.onnx"

implied_imports: Mapping[str, int] = {
    "com.microsoft": 1,
    "com.microsoft.nchwc": 1,
    ir.ML: onnx.defs.onnx_ml_opset_version(),
    "ai.onnx.training": 1,
    "ai.onnx.preview": 1,
    ir.TRAINING: 1,
}
"""The versions that onnxruntime takes for domains that a model uses without importing them.

Not that of ai.onnx, whose operators do not mean the same in all versions.
"""

Captured = dict[str, NodePlace]


@dataclass(slots=True)
class Trace:
    """What the conversion saw and the check of the skeleton needs; all protobufs are parts of the skeleton."""

    tensors: list[onnx.TensorProto] = field(default_factory=list)  # with their data elsewhere
    sparse: list[onnx.SparseTensorProto] = field(default_factory=list)
    sparse_owners: list[onnx.GraphProto] = field(default_factory=list)  # graphs with sparse initializers
    orders: list[tuple[Any, list[int]]] = field(default_factory=list)  # a graph or function, its new node order
    nodes: list[tuple[onnx.NodeProto, ir.Node]] = field(default_factory=list)
    shapeless: list[Any] = field(default_factory=list)  # tensor types without a shape
    untyped: list[onnx.ValueInfoProto] = field(default_factory=list)  # those whose type is missing or undefined
    nameless: list[onnx.GraphProto] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """What the nodes of the main graph, or of one function, share. missing: users of domains without import.

    versions: the imports; those that are missing and can only be meant in one way are added where they are used.
    """

    versions: dict[str, int]
    missing: dict[str, list[str]] = field(default_factory=dict)
    is_function: bool = False


def domain_of(domain: str) -> str:
    """Return the domain as `ir` writes it: "" for ai.onnx."""
    return "" if domain == _AI_ONNX else name_of(domain)


def name_of(text: str) -> str:
    """Return a name as protobuf gives it. Raises InvalidModel when it is not UTF-8: protobuf then gives bytes."""
    if isinstance(text, str):
        return text
    raise InvalidModel(f"a name is not UTF-8: {escaped(bytes(text).decode('utf-8', 'backslashreplace'))}")


def prose_of(text: str) -> str:
    """Return a doc string or the like, what is not UTF-8 in it replaced."""
    return text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")


class MissingInput(InvalidModel):
    """Nothing produces an input of a node."""


class Converter:
    """Converts the graphs and functions of one model; faults go to `reasons`."""

    def __init__(self, reader: TensorReader, reasons: Reasons) -> None:
        self.reader = reader
        self.reasons = reasons
        self.trace = Trace()

    def main_graph(self, proto: onnx.GraphProto, versions: dict[str, int]) -> ir.Graph:
        """Return the main graph; undefined names are added to the reasons. `versions` are the model's imports."""
        scope = Scope(versions)
        graph, free = self._graph(proto, scope, 1)
        self._report_free(free, f"graph {quoted(graph.name)}")
        self._report_missing(scope, f"graph {quoted(graph.name)}")
        return graph

    def function(self, proto: onnx.FunctionProto, versions: dict[str, int]) -> ir.Function:
        """Return a model function; `versions` are its own imports."""
        name, domain = name_of(proto.name), domain_of(proto.domain)
        label = f"function {quoted(name)}"
        scope = Scope(versions, is_function=True)
        nodes, captured = self._nodes(proto.node, scope, name, 1)
        inputs, outputs = tuple(map(name_of, proto.input)), tuple(map(name_of, proto.output))
        self._report_repeated(inputs, f"{label}: input")
        order, free = sort_nodes(nodes, captured, outputs, inputs, name, self.reasons)
        self._report_free(free, label)
        self._report_missing(scope, label)
        place = NodePlace(name, "attributes", name, domain, 0)
        attributes: dict[str, ir.Attribute | None] = dict.fromkeys(map(name_of, proto.attribute))
        for attribute in proto.attribute_proto:
            attributes[name_of(attribute.name)] = self._attribute(attribute, scope, 1, place, {})
        return ir.Function(
            domain, name, name_of(proto.overload), inputs, outputs, attributes,
            self._reordered(proto, nodes, order), prose_of(proto.doc_string), versions,
        )

    def _graph(self, proto: onnx.GraphProto, scope: Scope, depth: int) -> tuple[ir.Graph, dict[str, NodePlace | None]]:
        if depth > DEEPEST_GRAPH:
            raise InvalidModel(f"sub-graphs are nested more than {DEEPEST_GRAPH} deep")
        graph_name = name_of(proto.name)
        if not graph_name:
            self.trace.nameless.append(proto)
        label = f"graph {quoted(graph_name)}"
        initializers = self._initializers(proto, label)
        inputs = self._value_infos(proto.input, f"{label}: input")
        self._report_repeated((info.name for info in inputs), f"{label}: input")
        outputs = self._value_infos(proto.output, f"{label}: output")
        inner = self._value_infos(proto.value_info, f"{label}: value")
        nodes, captured = self._nodes(proto.node, scope, graph_name, depth)
        given = {info.name: None for info in inputs} | dict.fromkeys(initializers)
        order, free = sort_nodes(nodes, captured, (info.name for info in outputs), given, graph_name, self.reasons)
        graph = ir.Graph(
            name=graph_name,
            doc_string=prose_of(proto.doc_string),
            inputs=tuple(info for info in inputs if info.name not in initializers),
            outputs=outputs,
            initializers=initializers,
            nodes=self._reordered(proto, nodes, order),
            value_info={info.name: info for info in inner},
        )
        return graph, free

    def _reordered(self, proto: Any, nodes: list[ir.Node], order: list[int]) -> tuple[ir.Node, ...]:
        if all(position == old for position, old in enumerate(order)):
            return tuple(nodes)
        self.trace.orders.append((proto, order))
        return tuple(replace(nodes[old], index=position) for position, old in enumerate(order))

    def _initializers(self, proto: onnx.GraphProto, label: str) -> dict[str, ir.Array]:
        found: dict[str, ir.Array] = {}
        empty = None
        dense = [(tensor.name, tensor, self.reader.array, "initializer") for tensor in proto.initializer]
        sparse = [(tensor.values.name, tensor, self.reader.dense, "sparse initializer")
                  for tensor in proto.sparse_initializer]
        for given, tensor, read, what in (*dense, *sparse):
            name = name_of(given)
            if name in found:
                self.reasons.add(InvalidModel(f"{label} has two initializers named {quoted(name)}"))
            value = self._tensor(tensor, read, f"{label}: {what} {quoted(name)}")
            found[name] = empty if value is None else value  # type: ignore[assignment]  # None: an error is raised
        if len(proto.sparse_initializer):
            self.trace.sparse_owners.append(proto)
        return found

    def _tensor(self, proto: Any, read: Callable[[Any], Any], label: str, place: NodePlace | None = None) -> Any:
        """Return what `read` makes of a tensor, None with a reason when it is faulty."""
        if isinstance(proto, onnx.SparseTensorProto):
            self.trace.sparse.append(proto)
        elif len(proto.external_data) or proto.data_location:
            self.trace.tensors.append(proto)
        try:
            return read(proto)
        except InvalidModel as error:
            self.reasons.add(InvalidModel(f"{label}: {error.message}", place, error.hint))
            return None

    def _nodes(
        self, protos: Iterable[onnx.NodeProto], scope: Scope, graph: str, depth: int
    ) -> tuple[list[ir.Node], dict[int, Captured]]:
        """Return the nodes in the model's order, and what the sub-graphs of each take from outside."""
        nodes: list[ir.Node] = []
        captured: dict[int, Captured] = {}
        versions, trace = scope.versions, self.trace.nodes
        for index, proto in enumerate(protos):
            op_type, domain, name = name_of(proto.op_type), domain_of(proto.domain), name_of(proto.name)
            version = versions.get(domain, 0)
            if not version and domain not in versions and domain in implied_imports:
                version = versions[domain] = implied_imports[domain]
            if domain not in versions:  # one of a wrong version is told where it is imported
                scope.missing.setdefault(domain, []).append(name or f"#{index}")
            attributes: dict[str, ir.Attribute] = {}
            if len(proto.attribute):
                place = NodePlace(graph, name or f"#{index}", op_type, domain, version)
                taken: Captured = {}
                for attribute in proto.attribute:
                    key = name_of(attribute.name)
                    value = self._attribute(attribute, scope, depth, place, taken)
                    if key in attributes:
                        self.reasons.add(InvalidModel(f"two attributes named {quoted(key)}", place))
                    if value is not None:
                        attributes[key] = value
                if taken:
                    captured[index] = taken
            inputs, outputs = tuple(map(name_of, proto.input)), tuple(map(name_of, proto.output))
            node = ir.Node(
                op_type, domain, inputs, outputs, attributes, name, prose_of(proto.doc_string), index, version,
                name_of(proto.overload), scope_of(name, proto.metadata_props),
            )
            nodes.append(node)
            trace.append((proto, node))
        return nodes, captured

    def _attribute(
        self, proto: AttributeProto, scope: Scope, depth: int, place: NodePlace, taken: Captured
    ) -> ir.Attribute | None:
        """Return the value of an attribute; None with a reason when it has none. Captured names go to `taken`."""
        if proto.ref_attr_name:
            if not scope.is_function:
                label = f"attribute {quoted(name_of(proto.name))}"
                self.reasons.add(InvalidModel(f"{label} refers to an attribute of a function, outside of any", place))
                return None
            return ir.AttributeReference(name_of(proto.ref_attr_name))
        kind = proto.type or _kind_by_content(proto)
        read = _PLAIN.get(kind)
        if read is not None:
            return read(proto)
        label = f"attribute {quoted(name_of(proto.name))}"

        def value_of(part: onnx.GraphProto | onnx.TypeProto | onnx.SparseTensorProto | onnx.TensorProto) -> Any:
            if isinstance(part, onnx.GraphProto):
                value, free = self._graph(part, scope, depth + 1)
                for name, user in free.items():
                    taken.setdefault(name, user or place)
                return value
            if isinstance(part, onnx.TypeProto):
                return self._type(part, f"{label} of {place}")
            is_sparse = isinstance(part, onnx.SparseTensorProto)
            return self._tensor(part, self.reader.sparse if is_sparse else self.reader.array, label, place)

        if kind in _PART_LISTS:
            return tuple(map(value_of, getattr(proto, _PART_LISTS[kind])))
        if kind not in _PART_FIELDS:
            self.reasons.add(InvalidModel(f"{label} has no known type ({kind})", place))
            return None
        if not proto.HasField(_PART_FIELDS[kind]):
            self.reasons.add(InvalidModel(f"{label} has no value", place))
            return None
        found: ir.Attribute | None = value_of(getattr(proto, _PART_FIELDS[kind]))
        return found

    def _value_infos(self, protos: Iterable[onnx.ValueInfoProto], label: str) -> tuple[ir.ValueInfo, ...]:
        found = []
        for proto in protos:
            name = name_of(proto.name)
            type_ = self._type(proto.type, f"{label} {quoted(name)}") if proto.HasField("type") else None
            if type_ is None:
                self.trace.untyped.append(proto)
            found.append(ir.ValueInfo(name, type_, prose_of(proto.doc_string)))
        return tuple(found)

    def _type(self, proto: onnx.TypeProto, label: str) -> ir.Type | None:
        """Return a type, None when it or a part of it is undefined. `label` names its owner."""
        kind = proto.WhichOneof("value")
        if kind == "tensor_type" or kind == "sparse_tensor_type":
            part = getattr(proto, kind)
            dims = self._dims(part.shape, label) if part.HasField("shape") else None
            if dims is None:
                self.trace.shapeless.append(part)
            dtype = self._element(part.elem_type, label)
            if dtype is None:
                return None
            return ir.TensorType(dtype, dims) if kind == "tensor_type" else ir.SparseTensorType(dtype, dims)
        if kind == "sequence_type" or kind == "optional_type":
            element = self._type(getattr(proto, kind).elem_type, label)
            if element is None:
                return None
            return ir.SequenceType(element) if kind == "sequence_type" else ir.OptionalType(element)
        if kind == "map_type":
            key = self._element(proto.map_type.key_type, label)
            value = self._type(proto.map_type.value_type, label)
            return None if key is None or value is None else ir.MapType(key, value)
        return None

    def _element(self, number: int, label: str) -> str | None:
        name = known_element_name(number)
        if name is None and number != 0:
            self.reasons.add(InvalidModel(f"{label}: unknown element type {number}"))
        return name

    def _dims(self, proto: onnx.TensorShapeProto, label: str) -> ir.Dims:
        dims: list[int | str | None] = []
        for dim in proto.dim:
            kind = dim.WhichOneof("value")
            if kind == "dim_param":
                dims.append(name_of(dim.dim_param).strip() or None)
            elif kind == "dim_value" and dim.dim_value != -1:  # -1 stands for "unknown" in many exporters
                dims.append(dim.dim_value)
            else:
                dims.append(None)
        known = [dim for dim in dims if isinstance(dim, int)]
        if known and min(known) < 0:
            self.reasons.add(InvalidModel(f"{label}: negative dimension {min(known)}"))
        elif prod(known) > _MOST_ELEMENTS:
            self.reasons.add(InvalidModel(f"{label}: the declared dimensions have more than 2^63 elements"))
        return tuple(dims)

    def _report_free(self, free: Mapping[str, NodePlace | None], label: str) -> None:
        for name, user in free.items():
            if user is None:
                self.reasons.add(InvalidModel(f"{label}: nothing produces the output {quoted(name)}"))
            else:
                self.reasons.add(MissingInput(f"nothing produces the input {quoted(name)}", user))

    def _report_missing(self, scope: Scope, label: str) -> None:
        for domain, users in scope.missing.items():
            self.reasons.add(InvalidModel(
                f"{label}: no opset import for the domain {quoted(domain or _AI_ONNX)}, used by {quoted_list(users)}"
            ))

    def _report_repeated(self, names: Iterable[str], label: str) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                self.reasons.add(InvalidModel(f"{label} {quoted(name)} is declared twice"))
            seen.add(name)


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


_PART_FIELDS: dict[int, Literal["t", "g", "sparse_tensor", "tp"]] = {
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
}
"""Fields of what is read by a `Converter`, by the type of the attribute."""
_PART_LISTS: dict[int, str] = {
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
"""The same for lists."""
_PLAIN: dict[int, Callable[[AttributeProto], ir.Attribute]] = {
    AttributeProto.INT: lambda proto: proto.i,
    AttributeProto.FLOAT: lambda proto: proto.f,
    AttributeProto.STRING: lambda proto: _text(proto.s),
    AttributeProto.INTS: lambda proto: tuple(proto.ints),
    AttributeProto.FLOATS: lambda proto: tuple(proto.floats),
    AttributeProto.STRINGS: lambda proto: tuple(map(_text, proto.strings)),
}
_SINGLE_FIELDS = (
    ("f", AttributeProto.FLOAT), ("i", AttributeProto.INT), ("s", AttributeProto.STRING),
    ("t", AttributeProto.TENSOR), ("g", AttributeProto.GRAPH),
)
_REPEATED_FIELDS = (
    ("floats", AttributeProto.FLOATS), ("ints", AttributeProto.INTS), ("strings", AttributeProto.STRINGS),
    ("tensors", AttributeProto.TENSORS), ("graphs", AttributeProto.GRAPHS),
)


def _kind_by_content(proto: AttributeProto) -> int:
    """Return the type of an attribute that states none, as models of IR version 1 do; 0 when it is empty."""
    for name, kind in _SINGLE_FIELDS:
        if proto.HasField(name):
            return kind
    return next((kind for name, kind in _REPEATED_FIELDS if len(getattr(proto, name))), 0)
