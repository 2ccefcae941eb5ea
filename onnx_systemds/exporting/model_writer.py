"""Turns a finished graph into an ONNX model: drops what nothing needs, settles names, writes and checks it."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.errors import InternalError, TranspileError
from onnx_systemds.exporting.external_data import SMALLEST, ExternalData
from onnx_systemds.exporting.float_rounding import rounded
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import (
    BOOL,
    DOMAINS,
    FLOAT,
    INT,
    NARROW,
    TEXT,
    WIDE,
    FunctionBody,
    Node,
    SubGraph,
    Tensor,
)
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.passes.convolution_joins import put_scaled_filters
from onnx_systemds.exporting.passes.dead_results import drop_dead_results
from onnx_systemds.exporting.passes.decimal_bounds import put_decimal_bounds
from onnx_systemds.exporting.passes.graph_passes import fuse
from onnx_systemds.exporting.passes.hoisting import hoist
from onnx_systemds.exporting.passes.if_conversion import convert_ifs
from onnx_systemds.exporting.passes.missing_extremes import keep_missing
from onnx_systemds.exporting.passes.narrowing import TYPES, narrow
from onnx_systemds.exporting.passes.widening import widen
from onnx_systemds.exporting.provenance import Provenance
from onnx_systemds.inference.dims import RUN_SIZE_PREFIX, SIGNED_PREFIX, Dim, symbols

_OLDEST_IR_OF_FUNCTIONS = 8
_LARGEST_WEIGHTS = onnx.checker.MAXIMUM_PROTOBUF - (100 << 20)
"""Bytes of weights in the file of a model, which protobuf limits; some are left for nodes and names."""


def write_model(
    builder: Operators, name: str, origin: Provenance, external: ExternalData | None
) -> onnx.ModelProto:
    """Return the model of the outputs of `builder`; weights may go into `external`, and only the file is whole then.

    Raises InternalError when ONNX finds fault with it, TranspileError when it is too large for one file.
    """
    drop_dead_results(builder)
    convert_ifs(builder)
    hoist(builder)
    fuse(builder)
    widen(builder)
    put_decimal_bounds(builder)
    keep_missing(builder)
    narrow(builder)
    model = _Writer(builder, origin, external).model(name)
    origin.describe(model)
    if external is None or not external.weights:
        check(model)
    return model


def check(model: onnx.ModelProto | str) -> None:
    """Raise InternalError when ONNX finds fault with a model or, where its weights are beside it, with its file."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        raise InternalError(f"the exported model is not valid: {error}") from error


class _Writer:
    """Writes one model, or one of its functions (`sized`: whether dims of inner graphs are written)."""

    def __init__(
        self, builder: Operators, origin: Provenance, external: ExternalData | None,
        functions: list[onnx.FunctionProto] | None = None,
    ) -> None:
        self.builder = builder
        self.origin = origin
        self.external = external
        self.sized = functions is None
        self.functions: list[onnx.FunctionProto] = [] if functions is None else functions
        self.domains = {"": builder.opset}
        self.names: dict[Tensor, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}
        self.used_constants: dict[Tensor, None] = {}
        self.types = {FLOAT: TensorProto.FLOAT if builder.dtype == "float32" else TensorProto.DOUBLE,
                      WIDE: TensorProto.DOUBLE, NARROW: TYPES.get(builder.narrow or "", TensorProto.UNDEFINED),
                      INT: TensorProto.INT64, BOOL: TensorProto.BOOL, TEXT: TensorProto.STRING}

    def model(self, name: str) -> onnx.ModelProto:
        builder = self.builder
        for tensor in builder.inputs:
            self.names[tensor] = self.unique(tensor.hint)
        results: list[Tensor] = []
        extra: list[Node] = []
        for output, tensor in builder.outputs:
            if tensor in self.names or tensor.constant is not None or tensor.node is None:
                copy = Tensor(tensor.kind, tensor.dims, output)
                extra.append(Node("Identity", (tensor,), (copy,), {}, builder.place, builder.main))
                tensor = copy
            self.names[tensor] = self.unique(output)
            results.append(tensor)
        needed = needed_nodes(builder.main, results, extra)
        nodes = [self.node(node) for node in needed]
        graph = helper.make_graph(
            nodes,
            name,
            [self.info(tensor) for tensor in builder.inputs],
            [self.info(tensor) for tensor in results],
            self.initializers(),
            value_info=[self.info(t) for node in needed for t in node.outputs if t not in results and t.kind != TEXT],
        )
        version = helper.find_min_ir_version_for([helper.make_opsetid("", builder.opset)])
        domains = self.domains | {function.domain: 1 for function in self.functions}
        domains |= {used.domain: used.version for function in self.functions for used in function.opset_import}
        return helper.make_model(
            graph,
            ir_version=max(version, _OLDEST_IR_OF_FUNCTIONS) if self.functions else version,
            opset_imports=[helper.make_opsetid(*item) for item in domains.items()],
            functions=self.functions,
        )

    def function(self, body: FunctionBody) -> str:
        """Return the name of the function of the model with this body: one that is there, or a new one."""
        writer = _Writer(self.builder, self.origin, None, self.functions)
        writer.names = {tensor: writer.unique(tensor.hint or "value") for tensor in body.inputs if tensor.stored}
        inputs = [writer.name(tensor) for tensor in body.inputs]
        outputs = [writer.name(tensor) for tensor in body.outputs]
        nodes = [writer.node(node) for node in needed_nodes(body.scope, body.outputs)]
        constants = [helper.make_node("Constant", [], [writer.name(tensor)], value=writer.initializer(tensor))
                     for tensor in writer.used_constants]
        made = helper.make_function(
            body.domain, body.name, inputs, outputs, constants + nodes,
            [helper.make_opsetid(*item) for item in writer.domains.items()], doc_string=self.origin.place(body.place),
        )
        self.domains[body.domain] = 1
        taken = {function.name: function for function in self.functions if function.domain == body.domain}
        for count in itertools.count(1):
            made.name = body.name if count == 1 else f"{body.name}_{count}"
            if made.name not in taken:
                self.functions.append(made)
                return made.name
            if taken[made.name] == made:
                return made.name
        raise AssertionError

    def node(self, node: Node) -> onnx.NodeProto:
        put_scaled_filters(node)
        inputs = [self.name(tensor) for tensor in node.inputs]
        outputs = [self.name(tensor) for tensor in node.outputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        plain: dict[str, Any] = {n: list(v) if isinstance(v, tuple) else v for n, v in node.attributes.items()
                 if not isinstance(v, (SubGraph, np.ndarray)) and n[0] != "_"}
        op, called = node.op, node.attributes.get("body")
        if "_domain" in node.attributes:
            plain["domain"] = domain = str(node.attributes["_domain"])
            self.domains[domain] = DOMAINS[domain]
        if isinstance(called, FunctionBody):
            op, plain["domain"] = self.function(called), called.domain
        made = helper.make_node(op, inputs, outputs, name=self.unique(f"{outputs[0]}/{op}"), **plain)
        for attribute, value in node.attributes.items():
            if isinstance(value, np.ndarray) and attribute[0] != "_":
                made.attribute.append(helper.make_attribute(attribute, numpy_helper.from_array(self.narrowed(value))))
            elif isinstance(value, SubGraph) and op == node.op:
                made.attribute.append(helper.make_attribute(attribute, self.graph(value, f"{outputs[0]}_{attribute}")))
        made.doc_string = self.origin.place(node.place)
        return made

    def graph(self, body: SubGraph, name: str) -> onnx.GraphProto:
        needed = needed_nodes(body.scope, body.outputs)
        infos = [self.info(tensor) for tensor in body.inputs]
        nodes = [self.node(node) for node in needed]
        return helper.make_graph(nodes, name, infos, [self.info(tensor, False) for tensor in body.outputs])

    def info(self, tensor: Tensor, sized: bool = True) -> onnx.ValueInfoProto:
        sized = sized and self.sized
        dims = [dim if isinstance(dim, int) else _dim_text(dim) if sized else None for dim in tensor.dims]
        return helper.make_tensor_value_info(self.name(tensor), self.types[tensor.kind], dims)

    def initializers(self) -> list[onnx.TensorProto]:
        """Return those of the model; the large ones outside of it, if that is wanted or has to be."""
        sizes = {tensor: self.bytes(tensor) for tensor in self.used_constants}
        external, total = self.external, sum(sizes.values())
        smallest = None if external is None else external.smallest(total > _LARGEST_WEIGHTS)
        least = {INT: SMALLEST, TEXT: math.inf}  # shape inference reads the sizes and axes that operators take
        outside = {tensor for tensor in self.used_constants
                   if smallest is not None and sizes[tensor] >= max(smallest, least.get(tensor.kind, 0))}
        inside = total - sum(sizes[tensor] for tensor in outside)
        if inside > _LARGEST_WEIGHTS:
            raise TranspileError(f"weights of {inside} bytes, and one file can hold {_LARGEST_WEIGHTS}",
                                 hint="have a file with those from 1024 bytes on beside the model: export_file, "
                                      "or on the command line --external-data 1024")
        return [self.external_initializer(tensor, sizes[tensor]) if tensor in outside else self.initializer(tensor)
                for tensor in self.used_constants]

    def bytes(self, tensor: Tensor) -> int:
        """Return how many bytes a constant of numbers takes in the model."""
        if tensor.kind == TEXT:
            return 0
        return math.prod(_shape(tensor)) * helper.tensor_dtype_to_np_dtype(self.types[tensor.kind]).itemsize

    def external_initializer(self, tensor: Tensor, size: int) -> onnx.TensorProto:
        assert self.external is not None
        made = onnx.TensorProto(name=self.name(tensor), data_type=self.types[tensor.kind], dims=_shape(tensor))
        return self.external.take(made, tensor.stored or tensor.constant, size)

    def initializer(self, tensor: Tensor) -> onnx.TensorProto:
        if tensor.stored is not None:
            content = tensor.stored.read(helper.tensor_dtype_to_np_dtype(self.types[tensor.kind]))
            return numpy_helper.from_array(content.reshape(_shape(tensor)), self.name(tensor))
        assert tensor.constant is not None
        if tensor.kind == TEXT:
            texts: Any = [str(item).encode() for item in tensor.constant.ravel().tolist()]
            return helper.make_tensor(self.name(tensor), TensorProto.STRING, tensor.constant.shape, texts)
        if tensor.kind == NARROW:
            array = rounded(tensor.constant, helper.tensor_dtype_to_np_dtype(self.types[NARROW]))
        else:
            array = tensor.constant if tensor.kind == WIDE else self.narrowed(tensor.constant)
        return numpy_helper.from_array(array, self.name(tensor))

    def narrowed(self, array: np.ndarray) -> np.ndarray:
        if array.dtype == np.float64 and self.builder.dtype == "float32":
            return rounded(array, np.dtype(np.float32))
        return array

    def name(self, tensor: Tensor | None) -> str:
        if tensor is None:
            return ""
        if tensor not in self.names:
            if tensor.is_constant:
                self.used_constants[tensor] = None
                base = tensor.hint or _constant_name(tensor)
            else:
                base = tensor.hint or _computed_name(tensor)
            self.names[tensor] = self.unique(base)
        return self.names[tensor]

    def unique(self, base: str) -> str:
        found = base
        while found in self.taken:
            self.counts[base] = count = self.counts.get(base, 1) + 1
            found = f"{base}_{count}"
        self.taken.add(found)
        return found


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the sizes of a constant."""
    return tuple(dim for dim in tensor.dims if isinstance(dim, int))


def _computed_name(tensor: Tensor) -> str:
    """Return a name for what a node makes: that of the operator, or that of the result of a function."""
    if tensor.node is None or not tensor.node.op:
        return "value"
    body = tensor.node.attributes.get("body")
    hint = body.outputs[tensor.node.outputs.index(tensor)].hint if isinstance(body, FunctionBody) else ""
    return hint or tensor.node.op.rpartition("::")[2].lower()


def _constant_name(tensor: Tensor) -> str:
    array = tensor.constant
    assert array is not None
    if 0 < array.size <= 4 and tensor.kind in (FLOAT, NARROW, INT):
        text = "_".join(str(item) if tensor.kind == INT else f"{item:g}" for item in array.ravel().tolist())
        return re.sub(r"[^A-Za-z0-9_.]", "m", f"sizes_{text}" if tensor.kind == INT else f"const_{text}")
    return "const"


def _dim_text(dim: Dim) -> str:
    """Return the name of a symbolic dim: that of the size itself, or of the expression."""
    return str(dim).replace(RUN_SIZE_PREFIX, "").replace(SIGNED_PREFIX, "") if symbols(dim) else str(dim)

