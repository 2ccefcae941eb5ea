"""Makes a finished graph one of float16 or bfloat16: `narrow`.

What is calculated from inputs and weights is held in 16 bits. What only counts (sizes, positions, booleans, integers)
stays in float32, as 16 bits would round it; so does an operation in which a count meets a number, which has a constant
that 16 bits cannot hold, or which ONNX does not have for the type. Casts stand around those.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, defs, helper

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import DOMAINS, FLOAT, NARROW, WIDE, Array, Node, Tensor
from onnx_systemds.exporting.passes.convolution_joins import put_scaled_filters
from onnx_systemds.exporting.passes.dataflow import all_nodes, edges_of, reached
from onnx_systemds.exporting.passes.retyping import Retyping

TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
"""The types of 16 bits, by their names."""
_FLOATS = (FLOAT, NARROW)
_ROUNDING = 2.0**-8
"""By how much of it a number may be rounded: more than 16 bits round numbers that are not almost 0."""


def narrow(builder: GraphBuilder) -> None:
    """Put the numbers of a graph into the type `builder.narrow`; does nothing where that is None."""
    if builder.narrow is None:
        return
    for tensor in builder.inputs:
        if tensor.kind == FLOAT:
            tensor.kind = NARROW
    for tensor in _numbers(builder):
        if tensor.kind == FLOAT:
            tensor.kind = NARROW
    _Narrowing(builder, TYPES[builder.narrow]).visit(builder.main)


def _numbers(builder: GraphBuilder) -> set[Tensor]:
    """Return the tensors, of float and wide kind, that inputs or weights have a part in."""
    nodes = (node for node in all_nodes(builder) if node.op not in _CONTROL or _allows(builder, node.op))
    edges = [edge for node in nodes for edge in edges_of(node)]
    weights = {tensor for given, _ in edges for tensor in given if tensor is not None and _is_weight(tensor)}
    inputs = {tensor for tensor in builder.inputs if tensor.kind == NARROW}
    return reached(edges, inputs | weights, (FLOAT, NARROW, WIDE)) - weights


def _is_weight(tensor: Tensor) -> bool:
    """Whether a tensor is stored, or a constant of numbers that do not only count: not all of it are whole."""
    content = tensor.constant
    if content is None or tensor.kind not in (FLOAT, WIDE):
        return tensor.stored is not None
    return content.size > 1 and not _is_whole(content)


_CONTROL = ("If", "Loop", "Scan")


def _allows(builder: GraphBuilder, op: str) -> bool:
    """Whether a branch or loop may pass on the 16 bits: bfloat16 since opset 16 alone."""
    schema = defs.get_schema(op, builder.opset, "")
    return all(_type_name(builder) in each.allowed_type_strs for each in schema.type_constraints
               if each.type_param_str == "V")


def _type_name(builder: GraphBuilder) -> str:
    return f"tensor({builder.narrow})"


class _Narrowing(Retyping):
    """Puts Casts where an operator gets or gives another kind than its neighbours."""

    def __init__(self, builder: GraphBuilder, narrow_type: int) -> None:
        super().__init__(NARROW, narrow_type)
        self.builder = builder
        self.name = _type_name(builder)
        self.dtype = helper.tensor_dtype_to_np_dtype(narrow_type)

    def choose(self, node: Node) -> tuple[Sequence[bool], str]:
        """Let an operator work in 16 bits where it can, else in float32."""
        put_scaled_filters(node)
        fixed, possible = self.types(node)
        return fixed, NARROW if possible else FLOAT

    def types(self, node: Node) -> tuple[list[bool], bool]:
        """Return of which inputs the type is fixed, and whether the operator can work in 16 bits here."""
        domain = str(node.attributes.get("_domain", ""))
        if domain and not defs.has(node.op, domain):  # an operator of a plugin
            return [False] * len(node.inputs), False
        schema = defs.get_schema(node.op, DOMAINS.get(domain, self.builder.opset), domain)
        allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
        formal = [schema.inputs[min(i, len(schema.inputs) - 1)].type_str for i in range(len(node.inputs))]
        results = [schema.outputs[min(i, len(schema.outputs) - 1)].type_str for i in range(len(node.outputs))]
        fixed = [type_ not in allowed for type_ in formal]
        floats = [(tensor, type_) for tensor, type_ in zip((*node.inputs, *node.outputs), (*formal, *results))
                  if tensor is not None and tensor.kind in _FLOATS and type_ in allowed]
        adds = node.attributes.get("reduction", "none") != "none"  # for which onnxruntime 1.31 has no kernel in 16 bits
        possible = not adds and any(tensor.kind == NARROW for tensor, _ in floats)
        for tensor, type_ in floats:
            fits = self.fits(tensor) if tensor.is_constant else tensor.kind == NARROW
            possible &= fits and self.name in allowed[type_]
        return fixed, possible

    def fits(self, tensor: Tensor) -> bool:
        """Whether 16 bits hold a constant but for rounding; a stored one is looked at when it is written."""
        content = tensor.constant
        if content is None:
            return True
        with np.errstate(over="ignore", under="ignore"):
            held: Array = content.astype(self.dtype).astype(np.float64)
        if content.size == 1 and np.isfinite(content).all() and not np.allclose(held, content, rtol=_ROUNDING, atol=0):
            return False  # float16 holds 2e-7 as 2.4e-7
        return bool((np.isfinite(held) == np.isfinite(content)).all() and ((held == 0) == (content == 0)).all()
                    and (not _is_whole(content) or (held == content).all()))


def _is_whole(content: Array) -> bool:
    return bool((np.floor(content) == content).all())
