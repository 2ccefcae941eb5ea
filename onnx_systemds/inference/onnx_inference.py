"""ONNX's own inference of a single node, and the error for a node of which nobody knows anything.

Our dims go in as named dims and come back by name.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx.shape_inference

from onnx_systemds.errors import ShapeUnknown, UnsupportedOperator, quoted_list
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.facts import NodeFacts, find_schema, unknown_size
from onnx_systemds.inference.lists import declared_list
from onnx_systemds.inference.registry import Identity, find, operator_generators, refused_operators, shape_rules
from onnx_systemds.inference.values import Value
from onnx_systemds.model import protos
from onnx_systemds.model.contrib_schemas import CONTRIB, REFUSED
from onnx_systemds.model.ir import ONNX_DOMAINS, OptionalType, SequenceType, TensorType, Type


def unsupported(facts: NodeFacts) -> UnsupportedOperator:
    """The error for an operator that can neither be generated nor expanded."""
    node = facts.node
    if node.domain == "com.microsoft.nchwc":
        return UnsupportedOperator(
            "its tensors lie in blocks for the processor on which onnxruntime optimised the model",
            hint="let onnxruntime optimise for export at most at the level ORT_ENABLE_EXTENDED",
        )
    if node.identity in refused_operators:
        return UnsupportedOperator(refused_operators[node.identity], hint="do its work before the model")
    known = sorted(operator_generators.get(node.identity, {}))
    if node.domain == CONTRIB and node.op_type in REFUSED:
        return UnsupportedOperator(REFUSED[node.op_type])
    if known and node.version < known[0]:
        return UnsupportedOperator(f"the operator is supported from opset {known[0]} on")
    if known:
        return UnsupportedOperator("the operator has no shape rule, and ONNX does not infer its outputs",
                                   hint="register a rule beside its generator, by @shape_rule")
    if node.domain in ONNX_DOMAINS:
        if find_schema(node.domain, node.op_type, node.version) is None:
            return UnsupportedOperator("ONNX has no such operator in this opset version")
        return UnsupportedOperator("the operator is not supported yet", hint="see: onnx-systemds operators")
    if node.domain == CONTRIB:
        return UnsupportedOperator("the operator of onnxruntime is not supported", hint="see: onnx-systemds operators")
    if others := sorted(op_type for domain, op_type in operator_generators if domain == node.domain):
        return UnsupportedOperator("the operator has no generator", hint=f"its domain has: {quoted_list(others)}")
    return UnsupportedOperator("the operator's domain is unknown", hint="register a generator for it by --plugin")


def has_dims(identity: Identity, version: int) -> bool:
    """Whether dims and dtypes of an operator's outputs can be inferred, by a rule of ours or a plugin's, or by ONNX."""
    return find(shape_rules, identity, version) is not None or find_schema(*identity, version) is not None


def infer_by_onnx(facts: NodeFacts) -> tuple[Value, ...]:
    """ONNX's inference for one node. Our dims go in as named dims and come back by name.

    Raises ShapeUnknown when ONNX refuses the inputs.
    """
    node = facts.node
    schema = find_schema(node.domain, node.op_type, node.version)
    if schema is None:
        raise unsupported(facts)
    named: dict[str, Dim] = {}
    types: dict[str, onnx.TypeProto] = {}
    contents: dict[str, onnx.TensorProto] = {}
    for position, name in enumerate(node.inputs):
        if not name:
            continue
        value = facts.value(position)
        if value.type is not None:
            types[name] = protos.type_proto(value.type)
        elif value.dtype:
            types[name] = protos.type_proto(TensorType(value.dtype, _encode(value.dims, named)))
        if value.constant is not None and value.constant.size <= 1024:
            contents[name] = protos.tensor_proto(value.constant, name)
    imports = [onnx.helper.make_opsetid(node.domain, node.version)]
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            schema, protos.node_proto(node), types, contents, None, imports
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError) as error:
        raise ShapeUnknown(f"ONNX's shape inference refuses it: {str(error).splitlines()[0]}") from error
    outputs = []
    for position, name in enumerate(node.outputs):
        type_ = protos.type_from_proto(inferred[name]) if name in inferred else None
        outputs.append(_decode(facts, position, type_, named))
    return tuple(outputs)


def _encode(dims: Dims | None, named: dict[str, Dim]) -> tuple[int | str | None, ...] | None:
    if dims is None:
        return None
    encoded: list[int | str | None] = []
    for dim in dims:
        if isinstance(dim, int):
            encoded.append(dim)
        else:
            name = f"dim{len(named)}" if dim not in named.values() else next(k for k, v in named.items() if v == dim)
            named[name] = dim
            encoded.append(name)
    return tuple(encoded)


def _decode(facts: NodeFacts, position: int, type_: Type | None, named: Mapping[str, Dim]) -> Value:
    if isinstance(type_, (SequenceType, OptionalType)):
        return declared_list(type_)
    if not isinstance(type_, TensorType):
        return Value("", None, type=type_)
    if type_.dims is None:
        return Value(type_.dtype, None)
    dims = tuple(
        dim if isinstance(dim, int) else named.get(str(dim), unknown_size(facts, position, axis))
        for axis, dim in enumerate(type_.dims)
    )
    return Value(type_.dtype, dims)
