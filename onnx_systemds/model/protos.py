"""Back to protobuf, for the few things that only the onnx library itself can say of a single node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnx_systemds.model.ir import (
    Array,
    Graph,
    MapType,
    Node,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Type,
)


def element_type(dtype: str) -> int:
    """The number of an element type: "float" gives 1. Raises ValueError for names ONNX does not have."""
    return int(onnx.TensorProto.DataType.Value(dtype.upper()))


def element_name(number: int) -> str:
    """The element type of a number: 1 gives "float". Raises ValueError for numbers ONNX does not have."""
    return str(onnx.TensorProto.DataType.Name(number)).lower()


def bit_width(dtype: str) -> int:
    """Number of bits of an integer type."""
    return int(dtype.lstrip("uint"))


def integer_range(dtype: str) -> tuple[int, int]:
    """Smallest and largest integer of a type; booleans are 0 and 1."""
    if dtype == "bool":
        return 0, 1
    bits = bit_width(dtype)
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) dtype of an element type; strings are objects."""
    return np.dtype(object) if dtype == "string" else helper.tensor_dtype_to_np_dtype(element_type(dtype))


def dtype_of(array: Array) -> str:
    """The element type of an array: float32 gives "float"."""
    if array.dtype.kind in "OUS":
        return "string"
    return element_name(helper.np_dtype_to_tensor_dtype(array.dtype))


def held(array: Array, dtype: str) -> Array:
    """Numbers in another type, if that holds all of them; else as they are."""
    with np.errstate(over="ignore"):
        found = array.astype(numpy_dtype(dtype))
    is_same = np.array_equal(found.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")
    return found if is_same else array


def dtype_text(array: Array) -> str:
    """The type of an array's elements in numpy's words: "float32", but "string" for texts."""
    return "string" if array.dtype.kind in "OU" else str(array.dtype)


def type_proto(type_: Type) -> onnx.TypeProto:
    """The protobuf of a type; unknown dims stay unset, symbols become dim_params."""
    if isinstance(type_, TensorType):
        return helper.make_tensor_type_proto(element_type(type_.dtype), type_.dims)
    if isinstance(type_, SparseTensorType):
        return helper.make_sparse_tensor_type_proto(element_type(type_.dtype), type_.dims)
    if isinstance(type_, SequenceType):
        return helper.make_sequence_type_proto(type_proto(type_.element))
    if isinstance(type_, OptionalType):
        return helper.make_optional_type_proto(type_proto(type_.element))
    return helper.make_map_type_proto(element_type(type_.key), type_proto(type_.value))


def type_from_proto(proto: onnx.TypeProto) -> Type | None:
    """The type that a protobuf describes; None where it says nothing."""
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        if tensor.elem_type == 0:
            return None
        dims: tuple[int | str | None, ...] | None = None
        if tensor.HasField("shape"):
            dims = tuple(
                dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in tensor.shape.dim
            )
        dtype = element_name(tensor.elem_type)
        return TensorType(dtype, dims) if kind == "tensor_type" else SparseTensorType(dtype, dims)
    if kind in ("sequence_type", "optional_type"):
        element = type_from_proto(getattr(proto, kind).elem_type)
        if element is None:
            return None
        return SequenceType(element) if kind == "sequence_type" else OptionalType(element)
    if kind == "map_type":
        value = type_from_proto(proto.map_type.value_type)
        key = element_name(proto.map_type.key_type)
        return None if value is None else MapType(key, value)
    return None


def graph_proto(graph: Graph) -> onnx.GraphProto:
    """The protobuf of a sub-graph."""
    inputs, outputs = (
        [onnx.ValueInfoProto(name=value.name) if value.type is None
         else helper.make_value_info(value.name, type_proto(value.type)) for value in values]
        for values in (graph.inputs, graph.outputs)
    )
    constants = [tensor_proto(array, name) for name, array in graph.initializers.items()]
    nodes = [node_proto(node) for node in graph.nodes]
    return helper.make_graph(nodes, graph.name, inputs, outputs, constants)


def node_proto(node: Node) -> onnx.NodeProto:
    """A node with its attributes, sub-graphs among them, as protobuf."""
    proto = helper.make_node(node.op_type, node.inputs, node.outputs, name=node.name, domain=node.domain)
    for name, content in node.attributes.items():
        proto.attribute.append(_attribute_proto(node, name, content))
    return proto


def tensor_proto(array: Array, name: str) -> onnx.TensorProto:
    """The protobuf of an array."""
    return numpy_helper.from_array(np.asarray(array), name)


def single_node_model(node: Node, types: Mapping[str, TensorType], outputs: Sequence[str]) -> onnx.ModelProto:
    """A model of one node, its given inputs being the graph inputs."""
    given = [name for name in dict.fromkeys(node.inputs) if name]
    graph = helper.make_graph(
        [node_proto(node)],
        "node",
        [helper.make_value_info(name, type_proto(types[name])) for name in given],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    imports = [helper.make_opsetid(node.domain, node.version)]
    return helper.make_model(graph, opset_imports=imports)


def _attribute_proto(node: Node, name: str, content: Any) -> onnx.AttributeProto:
    if isinstance(content, np.ndarray):
        content = tensor_proto(content, name)
    elif isinstance(content, Graph):
        content = graph_proto(content)
    elif isinstance(content, (TensorType, SparseTensorType, SequenceType, OptionalType, MapType)):
        content = type_proto(content)
    elif content == ():
        # an empty list has no type of its own: the schema knows it
        schema: Any = onnx.defs.get_schema(node.op_type, node.version, node.domain)
        return helper.make_attribute(name, [], attr_type=schema.attributes[name].type.value)
    elif isinstance(content, tuple) and isinstance(content[0], np.ndarray):
        content = [tensor_proto(array, name) for array in content]
    return helper.make_attribute(name, content)
