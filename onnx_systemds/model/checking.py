"""Run the checker of onnx over a skeleton: the model with its large constants replaced by empty ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx
from onnx import TensorProto

from onnx_systemds.errors import InvalidModel, escaped
from onnx_systemds.model.from_protobuf import Trace
from onnx_systemds.model.ir import ML, ONNX_DOMAINS, Function, FunctionKey

_UNCHECKED_DOMAIN = "onnx_systemds.unchecked"
_LONGEST_COMPLAINT = 1500
_OLDEST_RULES = 4  # from this IR version on initializers need not be inputs; older ones are judged by it, if they
# import opsets at all


def newest_opset(domain: str) -> int | None:
    """Return the newest opset version of a domain that the installed onnx knows, None for foreign domains."""
    return {"": onnx.defs.onnx_opset_version(), ML: onnx.defs.onnx_ml_opset_version()}.get(domain)


def check_skeleton(
    model: onnx.ModelProto,
    trace: Trace,
    opsets: Mapping[str, int],
    functions: Mapping[FunctionKey, Function],
) -> None:
    """Run onnx.checker on `model`, which is changed on the way: it is worth nothing afterwards.

    Left out on purpose, because others judge them: operators that onnx does not know or has removed (the import
    lists all of them at once), the order of nodes (they have been sorted), IR versions newer than the checker,
    missing graph names and missing types and shapes of inputs and outputs (they are inferred), known domains that
    are not imported, initializers that IR version 3 wants among the inputs, and imports that older ones do not have
    (common, and accepted by onnxruntime).
    Raises InvalidModel with what the checker says.
    """
    for tensor_type in trace.shapeless:
        tensor_type.shape.SetInParent()
    for info in trace.untyped:
        info.type.tensor_type.elem_type = TensorProto.FLOAT  # takes the place of whatever else was there
        info.type.tensor_type.shape.SetInParent()
    for graph in trace.nameless:
        graph.name = "unnamed"
    if model.opset_import and model.HasField("ir_version"):
        model.ir_version = max(model.ir_version, _OLDEST_RULES)
    _import_again(model, opsets)
    for part, function in zip(model.functions, functions.values()):
        _import_again(part, function.opset_imports)
    _hide_constants(trace)
    hidden = _hide_unknown_operators(trace, functions)
    _sort(trace)
    if hidden:
        model.opset_import.add(domain=_UNCHECKED_DOMAIN, version=1)
        for part in model.functions:
            part.opset_import.add(domain=_UNCHECKED_DOMAIN, version=1)
    model.ir_version = min(model.ir_version, onnx.IR_VERSION)
    try:
        onnx.checker.check_model(model, skip_opset_compatibility_check=True)  # functions may import others
    except Exception as error:  # a foreign judge of hostile data: whatever it raises is its verdict
        complaint = escaped(" ".join(str(error).split()), _LONGEST_COMPLAINT)
        raise InvalidModel(f"the ONNX checker refuses the model: {complaint}") from None


def _import_again(part: onnx.ModelProto | onnx.FunctionProto, opsets: Mapping[str, int]) -> None:
    """Write the imports as they were understood: ai.onnx as "", known domains that were not imported added."""
    if part.opset_import:
        del part.opset_import[:]
        for domain, version in opsets.items():
            part.opset_import.add(domain=domain, version=version)


def _hide_constants(trace: Trace) -> None:
    for tensor in trace.tensors:
        _empty(tensor)
    for sparse in trace.sparse:
        _empty(sparse.values)
        _empty(sparse.indices)
    for graph in trace.sparse_owners:
        for sparse in graph.sparse_initializer:
            graph.initializer.add(name=sparse.values.name, data_type=TensorProto.FLOAT, dims=[0])
        del graph.sparse_initializer[:]


def _empty(tensor: TensorProto) -> None:
    name, data_type = tensor.name, tensor.data_type
    tensor.Clear()
    tensor.name, tensor.data_type = name, data_type
    tensor.dims.append(0)


def _hide_unknown_operators(trace: Trace, functions: Mapping[FunctionKey, Function]) -> bool:
    """Move the nodes whose operator the checker would refuse to a domain it does not look at."""
    hidden = False
    for proto, node in trace.nodes:
        if proto.domain != node.domain:
            proto.domain = node.domain  # the checker takes "ai.onnx" for another domain than ""
        if node.domain not in ONNX_DOMAINS or (node.domain, node.op_type, node.overload) in functions:
            continue
        if not _known(node.domain, node.op_type, node.version):
            proto.domain = _UNCHECKED_DOMAIN
            hidden = True
    return hidden


@cache
def _known(domain: str, op_type: str, version: int) -> bool:
    try:
        return not onnx.defs.get_schema(op_type, version, domain).deprecated
    except onnx.defs.SchemaError:
        return False


def _sort(trace: Trace) -> None:
    # Inner graphs come first in the list: sorting copies the nodes, and with them the inner graphs.
    for owner, order in trace.orders:
        copies = onnx.GraphProto()
        copies.node.extend(owner.node[position] for position in order)
        del owner.node[:]
        owner.node.extend(copies.node)


