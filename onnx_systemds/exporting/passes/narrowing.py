"""Makes a finished graph one of float16 or bfloat16: `narrow`.

What is calculated from inputs and weights is held in 16 bits. What only counts (sizes, places, truths, whole numbers)
stays in float32, as 16 bits would round it; so does an operation in which a count meets a number, which has a constant
that 16 bits cannot hold, or which ONNX does not have for the type. Casts stand around those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import DOMAINS, FLOAT, NARROW, WIDE, Array, Node, Scope, SubGraph, Tensor
from onnx_systemds.exporting.passes.graph_passes import SCALE, scaled_filters

TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
"""The types of 16 bits, by their names."""
_FLOATS = (FLOAT, NARROW)


def narrow(builder: GraphBuilder) -> None:
    """Put the numbers of a graph into the type `builder.narrow`; does nothing where that is None."""
    if builder.narrow is None:
        return
    for tensor in builder.inputs:
        if tensor.kind == FLOAT:
            tensor.kind = NARROW
    numbers = _Numbers(builder, {tensor for tensor in builder.inputs if tensor.kind == NARROW})
    numbers.visit(builder.main)
    for tensor in numbers.found:
        if tensor.kind == FLOAT:
            tensor.kind = NARROW
    _Narrowing(builder, TYPES[builder.narrow]).visit(builder.main)


class _Numbers:
    """Finds the tensors, of float and wide kind, that inputs or weights have a part in."""

    def __init__(self, builder: GraphBuilder, found: set[Tensor]) -> None:
        self.builder = builder
        self.found = found

    def visit(self, scope: Scope) -> None:
        for node in scope.nodes:
            bodies = [body for _, body in node.subgraphs()]
            if not bodies:
                if any(map(self.is_number, node.inputs)):
                    self.add(node.outputs)
                continue
            if node.op in _CONTROL and not _allows(self.builder, node.op):
                for body in bodies:
                    self.visit(body.scope)
                continue
            before = -1
            while before != len(self.found):  # what a loop hands on may become a number in its body
                before = len(self.found)
                for body in bodies:
                    self.hand_on(node.inputs, body.inputs)
                    self.visit(body.scope)
                    outputs = body.outputs[len(body.outputs) - len(node.outputs) :]
                    self.hand_on(outputs, node.outputs)
                    self.hand_on(outputs, _fed_back(node, body))

    def is_number(self, tensor: Tensor | None) -> bool:
        """Whether it holds more than counts; a constant does where not all of it are whole numbers."""
        if tensor is None or tensor.constant is None or tensor.kind not in (FLOAT, WIDE):
            return tensor in self.found or (tensor is not None and tensor.stored is not None)
        return tensor.constant.size > 1 and not _is_whole(tensor.constant)

    def hand_on(self, given: Sequence[Tensor | None], taken: Sequence[Tensor]) -> None:
        self.add(to for tensor, to in zip(given, taken) if self.is_number(tensor))

    def add(self, tensors: Iterable[Tensor]) -> None:
        self.found.update(tensor for tensor in tensors if tensor.kind in (FLOAT, NARROW, WIDE))


_CONTROL = ("If", "Loop", "Scan")


def _allows(builder: GraphBuilder, op: str) -> bool:
    """Whether a branch or loop may hand on the 16 bits: bfloat16 since opset 16 alone."""
    schema = defs.get_schema(op, builder.opset, "")
    return all(_type_name(builder) in each.allowed_type_strs for each in schema.type_constraints
               if each.type_param_str == "V")  # fmt: skip


def _type_name(builder: GraphBuilder) -> str:
    return f"tensor({builder.narrow})"


def _fed_back(node: Node, body: SubGraph) -> Sequence[Tensor]:
    """Return the inputs of a body that are what it gave the time before."""
    if node.op == "Scan":
        scanned = node.attributes["num_scan_inputs"]
        assert isinstance(scanned, int)
        return body.inputs[: len(body.inputs) - scanned]
    return body.inputs[2:] if node.op == "Loop" else ()


class _Narrowing:
    """Puts Casts where an operator gets or gives another kind than its neighbours."""

    def __init__(self, builder: GraphBuilder, narrow_type: int) -> None:
        self.builder = builder
        self.type = narrow_type
        self.name = _type_name(builder)
        self.dtype = helper.tensor_dtype_to_np_dtype(narrow_type)
        self.twins: dict[Tensor, Tensor] = {}

    def visit(self, scope: Scope) -> None:
        nodes, scope.nodes = scope.nodes, []
        known: dict[Tensor, Tensor] = {}
        for node in nodes:
            if any(node.subgraphs()):
                self.around_bodies(node, scope, known)
            else:
                self.around_operator(node, scope, known)

    def around_bodies(self, node: Node, scope: Scope, known: dict[Tensor, Tensor]) -> None:
        """Make the kinds equal on both sides of the edges of bodies."""
        for _, body in node.subgraphs():
            if body.inputs:
                kinds = [tensor.kind for tensor in body.inputs]
                node.inputs = tuple(self.of_kind(*pair, node, scope, known) for pair in zip(node.inputs, kinds))
        scope.nodes.append(node)
        for _, body in node.subgraphs():
            self.visit(body.scope)
            first = len(body.outputs) - len(node.outputs)
            made: dict[Tensor, Tensor] = {}
            body.outputs = (*body.outputs[:first],
                            *(self.as_result(tensor, to.kind, node, body, made)
                              for tensor, to in zip(body.outputs[first:], node.outputs)))  # fmt: skip

    def as_result(self, tensor: Tensor, kind: str, node: Node, body: SubGraph, made: dict[Tensor, Tensor]) -> Tensor:
        found = self.of_kind(tensor, kind, node, body.scope, made)
        assert found is not None
        return found

    def around_operator(self, node: Node, scope: Scope, known: dict[Tensor, Tensor]) -> None:
        """Let an operator work in 16 bits where it can, else in float32 between Casts."""
        filters = scaled_filters(node)
        if filters is not None:
            own = Tensor(FLOAT, filters.shape, node.inputs[1].hint if node.inputs[1] else "", filters)
            node.inputs = (node.inputs[0], own, *node.inputs[2:])
            node.attributes = {name: value for name, value in node.attributes.items() if name != SCALE}
        if node.op == "Cast":
            if node.outputs[0].kind == NARROW:
                node.attributes = {**node.attributes, "to": self.type}
            scope.nodes.append(node)
            return
        fixed, possible = self.types(node)
        kind = NARROW if possible else FLOAT
        node.inputs = tuple(
            tensor if tensor is None or tensor.kind not in _FLOATS
            else self.of_kind(tensor, FLOAT if fixed[place] else kind, node, scope, known)
            for place, tensor in enumerate(node.inputs)
        )  # fmt: skip
        results = node.outputs
        node.outputs = tuple(_in_kind(tensor, kind) if tensor.kind in _FLOATS and tensor.kind != kind else tensor
                             for tensor in results)  # fmt: skip
        scope.nodes.append(node)
        for tensor, result in zip(node.outputs, results):
            if tensor is not result:
                tensor.node = node
                self.cast(tensor, result, node, scope)

    def types(self, node: Node) -> tuple[list[bool], bool]:
        """Return of which inputs the type is fixed, and whether the operator can work in 16 bits here."""
        domain = str(node.attributes.get("_domain", ""))
        if domain and not defs.has(node.op, domain):  # an operator of a plugin
            return [False] * len(node.inputs), False
        schema = defs.get_schema(node.op, DOMAINS.get(domain, self.builder.opset), domain)
        allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
        formal = [schema.inputs[min(place, len(schema.inputs) - 1)].type_str for place in range(len(node.inputs))]
        results = [schema.outputs[min(place, len(schema.outputs) - 1)].type_str for place in range(len(node.outputs))]
        fixed = [type_ not in allowed for type_ in formal]
        floats = [(tensor, type_) for tensor, type_ in zip((*node.inputs, *node.outputs), (*formal, *results))
                  if tensor is not None and tensor.kind in _FLOATS and type_ in allowed]  # fmt: skip
        adds = node.attributes.get("reduction", "none") != "none"  # for which onnxruntime 1.31 has no kernel in 16 bits
        possible = not adds and any(tensor.kind == NARROW for tensor, _ in floats)
        for tensor, type_ in floats:
            is_constant = tensor.constant is not None or tensor.stored is not None
            possible &= self.name in allowed[type_] and (self.fits(tensor) if is_constant else tensor.kind == NARROW)
        return fixed, possible

    def fits(self, tensor: Tensor) -> bool:
        """Whether 16 bits hold a constant but for rounding; a stored one is looked at when it is written."""
        content = tensor.constant
        if content is None:
            return True
        with np.errstate(over="ignore", under="ignore"):
            held: Array = content.astype(self.dtype).astype(np.float64)
        return bool((np.isfinite(held) == np.isfinite(content)).all() and ((held == 0) == (content == 0)).all()
                    and (not _is_whole(content) or (held == content).all()))  # fmt: skip

    def of_kind(
        self, tensor: Tensor | None, kind: str, node: Node, scope: Scope, known: dict[Tensor, Tensor]
    ) -> Tensor | None:
        """Return a tensor in another float kind: a constant again, what was cast as it was before, else by a Cast."""
        if tensor is None or tensor.kind == kind or {tensor.kind, kind} != {FLOAT, NARROW}:
            return tensor
        if tensor.constant is not None or tensor.stored is not None:
            twin = self.twins.get(tensor)
            if twin is None:
                twin = self.twins[tensor] = _in_kind(tensor, kind)
            return twin
        before = tensor.node.inputs[0] if tensor.node is not None and tensor.node.op == "Cast" else None
        if before is not None and before.kind == kind:
            return before
        if tensor not in known:
            known[tensor] = _in_kind(tensor, kind)
            self.cast(tensor, known[tensor], node, scope)
        return known[tensor]

    def cast(self, tensor: Tensor, result: Tensor, node: Node, scope: Scope) -> None:
        to: Mapping[str, Any] = {"to": self.type if result.kind == NARROW else TensorProto.FLOAT}
        result.node = Node("Cast", (tensor,), (result,), to, node.place, scope)
        scope.nodes.append(result.node)


def _in_kind(tensor: Tensor, kind: str) -> Tensor:
    """Return a tensor with the content of another one, in another kind."""
    found = Tensor(kind, tensor.dims, tensor.hint if tensor.node is None else "", tensor.constant)
    found.stored = tensor.stored
    return found


def _is_whole(content: Array) -> bool:
    return bool((np.floor(content) == content).all())
