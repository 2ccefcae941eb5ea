"""What a model holds, and what stands against its conversion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_systemds.columns import aligned
from onnx_systemds.errors import MultipleErrors, TranspileError, counted, escaped
from onnx_systemds.importing.convert import TypedModel, Writing, script_of, typed_model
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.context import Context
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.memory import Memory, memory_of
from onnx_systemds.inference.onnx_inference import has_dims, unsupported
from onnx_systemds.inference.registry import operator_generators
from onnx_systemds.inference.service import Service, service_of
from onnx_systemds.inference.values import dims_words
from onnx_systemds.model.ir import (
    Array,
    MapType,
    Model,
    Node,
    OptionalType,
    SequenceType,
    SparseTensor,
    SparseTensorType,
    TensorType,
    Type,
    ValueInfo,
    operator_name,
)
from onnx_systemds.model.load import load_model
from onnx_systemds.model.walk import names_used, nodes_of_model, sub_graphs
from onnx_systemds.operators.rendering.equal_arrays import equal, sample

_ENGINE_BYTES = 8
_MOST_REASONS = 100
_WAYS = {
    Service.CONSTANT: "supported",
    Service.GENERATOR: "supported",
    Service.CHAIN_RULE: "replaced by the nodes of the derivative",
    Service.EXPANDER: "replaced by ONNX operators",
    Service.DEFINITION: "by ONNX's definition",
}


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """An operator of a model at one opset version. how: it is converted; "" when it is not, for ``reason``."""

    domain: str
    op_type: str
    version: int
    count: int
    how: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Weights:
    """The constants of a model. size: bytes in the model. equal: tensors that are stored once with another one.

    unread: tensors that nothing reads, which are not stored. stored: elements that are stored.
    """

    tensors: int
    numbers: int
    size: int
    equal: int
    unread: int
    stored: int

    @property
    def engine_size(self) -> int:
        """Bytes in the engine, which holds FP64 only."""
        return self.stored * _ENGINE_BYTES

    def line(self) -> str:
        """It as text."""
        alike = f"{self.equal} equal to others, and stored once with them" if self.equal else ""
        unread = f"{self.unread} read by nothing, and not stored" if self.unread else ""
        notes = f" ({'; '.join(filter(None, (alike, unread)))})" if alike or unread else ""
        return (f"weights: {counted(self.tensors, 'tensor')}{notes}, {counted(self.numbers, 'element')}: "
                f"{size_text(self.size)} in the model, {size_text(self.engine_size)} in the engine (FP64)")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a model holds. reasons: all that stands against its conversion; none when it can be converted.

    memory: of one call; None where sizes are open, by the symbols ``symbols``, or there is nothing to compute.
    """

    model: Model
    operators: tuple[OperatorUse, ...]
    weights: Weights
    reasons: tuple[str, ...]
    memory: Memory | None = None
    symbols: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """It as text."""
        yield from _heading(self.model)
        yield from _interface(self.model)
        yield f"operators: {counted(sum(use.count for use in self.operators), 'node')}"
        yield from _operator_lines(self.operators)
        if self.model.functions:
            names = [operator_name(domain, name) for domain, name, _ in self.model.functions]
            yield f"functions of the model: {', '.join(map(escaped, names))}"
        yield self.weights.line()
        if not self.reasons:
            yield from _memory_lines(self.memory, self.symbols)
            yield "can be converted"
            return
        yield "cannot be converted:"
        for reason in self.reasons[:_MOST_REASONS]:
            yield "- " + reason.replace("\n", "\n  ")
        if len(self.reasons) > _MOST_REASONS:
            yield f"- ... and {len(self.reasons) - _MOST_REASONS} more"

    def summary(self) -> dict[str, Any]:
        """It as data."""
        model, weights = self.model, self.weights
        return {
            "graph": model.graph.name,
            "producer": {"name": model.producer_name, "version": model.producer_version},
            "ir_version": model.ir_version,
            "opsets": dict(sorted(model.opset_imports.items())),
            "inputs": _ports(model.graph.inputs),
            "outputs": _ports(model.graph.outputs),
            "symbols": self.symbols,
            "operators": [
                {"domain": use.domain, "operator": use.op_type, "version": use.version, "count": use.count,
                 "imported": use.how or f"not supported: {use.reason}"}
                for use in self.operators
            ],
            "functions": [{"domain": domain, "name": name} for domain, name, _ in model.functions],
            "weights": {"tensors": weights.tensors, "elements": weights.numbers, "bytes": weights.size,
                        "equal_to_others": weights.equal, "read_by_nothing": weights.unread,
                        "engine_bytes": weights.engine_size},
            "memory": None if self.memory is None else {
                "bytes_at_once": self.memory.peak.alive, "in": _node(self.memory.peak.node),
                "bytes_of_largest": self.memory.largest.own, "largest": _node(self.memory.largest.node),
                "unknown_values": len(self.memory.unknown),
            },
            "can_be_converted": not self.reasons,
            "reasons": self.reasons,
        }


def _ports(infos: Sequence[ValueInfo]) -> list[dict[str, str]]:
    context = Context()
    return [{"name": info.name, "type": _type_text(info.type, info.name, context)} for info in infos]


def inspect_model(
    source: str | Path | bytes | onnx.ModelProto | Model, dims: Mapping[str, int] | None = None,
    typed: TypedModel | None = None,
) -> Inspection:
    """Look at a model and try its conversion, with ``dims`` as sizes for its symbols.

    typed: the model with these sizes, where its types are known already. Raises TranspileError when it is no model.
    """
    model = source if isinstance(source, Model) else load_model(source)
    memory: Memory | None = None
    symbols: tuple[str, ...] = ()
    try:
        typed = typed_model(model, dims) if typed is None else typed
        script = script_of(typed, writing=Writing(functions="keep"))
        reasons: tuple[str, ...] = ()
        symbols = script.symbols
        memory = None if symbols else memory_of(typed.graph)
    except MultipleErrors as error:
        reasons = tuple(map(str, error.reasons))
    except TranspileError as error:
        reasons = (str(error),)
    return Inspection(model, tuple(_uses(model)), _weights(model), reasons, memory, symbols)


def _uses(model: Model) -> Iterator[OperatorUse]:
    counts: dict[tuple[str, str, int, str], list[Node]] = {}
    for node in nodes_of_model(model.graph, model.functions):
        counts.setdefault((node.domain, node.op_type, node.version, node.overload), []).append(node)
    for key in sorted(counts):
        nodes = counts[key]
        how, reason = _support(nodes[0], model)
        yield OperatorUse(*key[:3], len(nodes), how, reason)


def _support(node: Node, model: Model) -> tuple[str, str]:
    """How an operator is converted, or "" and why it is not."""
    if node.function_key in model.functions:
        return "function of the model", ""
    service = service_of(node.identity, node.version)
    if service is None or (service is Service.GENERATOR and not has_dims(node.identity, node.version)):
        return "", unsupported(NodeFacts(node, {})).message
    first = min(operator_generators[node.identity]) if service is Service.GENERATOR else 1
    return _WAYS[service] + (f" from opset {first}" if first > 1 else ""), ""


def _weights(model: Model) -> Weights:
    """All initializers, and the tensors that nodes have as attributes."""
    graph = model.graph
    read = names_used(graph)
    unread = [array for name, array in graph.initializers.items() if name not in read]
    arrays: list[Any] = [array for name, array in graph.initializers.items() if name in read]
    for node in nodes_of_model(graph, model.functions):
        arrays += [array for inner in sub_graphs(node) for array in inner.initializers.values()]
        for content in node.attributes.values():
            items = content if isinstance(content, tuple) else (content,)
            arrays += [item.values if isinstance(item, SparseTensor) else item
                       for item in items if isinstance(item, (np.ndarray, SparseTensor))]
    compared = [array for array in arrays if array.size and array.dtype.kind not in "cO"]
    equal_ones = _equal_to_others(compared, model.release)
    return Weights(
        tensors=len(arrays) + len(unread),
        numbers=sum(array.size for array in [*arrays, *unread]),
        size=sum(array.nbytes for array in [*arrays, *unread] if array.dtype != object),
        equal=len(equal_ones),
        unread=len(unread),
        stored=sum(array.size for array in arrays) - sum(array.size for array in equal_ones),
    )


def _equal_to_others(arrays: Sequence[Array], release: Callable[[Array], None]) -> list[Array]:
    """Those that have the dims and bits of one before them, with which the script stores them."""
    first: dict[Hashable, list[Array]] = {}
    found: list[Array] = []
    for array in arrays:
        matrix = array.reshape(array.shape[0] if array.ndim else 1, -1)
        alike = first.setdefault((array.shape, sample(matrix)), [])
        (found if any(equal(known, matrix) for known in alike) else alike).append(matrix)
        release(array)
    return found


def _heading(model: Model) -> Iterator[str]:
    yield f"graph: {escaped(model.graph.name) or '(no name)'}"
    if model.producer:
        yield f"producer: {escaped(model.producer)}"
    yield f"IR version: {model.ir_version}"
    opsets = [f"{escaped(domain) or 'ai.onnx'} {version}" for domain, version in sorted(model.opset_imports.items())]
    yield f"opsets: {', '.join(opsets)}"


def _interface(model: Model) -> Iterator[str]:
    context = Context()
    for title, infos in (("inputs", model.graph.inputs), ("outputs", model.graph.outputs)):
        yield f"{title}:"
        for info in infos:
            yield f"  {escaped(info.name)}: {_type_text(info.type, info.name, context)}"
    found: dict[str, None] = {}
    for given in model.graph.inputs:
        if isinstance(given.type, TensorType):
            found |= dict.fromkeys(dim.symbols(context.dims(given.type.dims, given.name) or ()))
    if found:
        yield f"symbols, which --dim fixes: {', '.join(map(escaped, found))}"


def _type_text(type_: Type | None, name: str, context: Context) -> str:
    if isinstance(type_, (TensorType, SparseTensorType)):
        kind = "sparse " if isinstance(type_, SparseTensorType) else ""
        return f"{kind}{type_.dtype} {dims_words(context.dims(type_.dims, name))}"
    if isinstance(type_, SequenceType):
        return f"sequence of {_type_text(type_.element, name, context)}"
    if isinstance(type_, OptionalType):
        return f"optional {_type_text(type_.element, name, context)}"
    if isinstance(type_, MapType):
        return f"map from {type_.key} to {_type_text(type_.value, name, context)}"
    return "of unknown type"


def _memory_lines(memory: Memory | None, symbols: tuple[str, ...]) -> Iterator[str]:
    if symbols:
        yield f"memory of a call: depends on {', '.join(map(escaped, symbols))}; --dim gives sizes"
    if memory is None:
        return
    least = "at least " if memory.unknown else ""
    yield f"memory of a call, besides weights: {least}{size_text(memory.peak.alive)} at once, "\
          f"in {_node(memory.peak.node)}"
    yield f"  the largest operation: {least}{size_text(memory.largest.own)}, {_node(memory.largest.node)}"
    if memory.unknown:
        yield f"  without {len(memory.unknown)} values whose sizes only the run knows"


def _node(node: Node) -> str:
    return f"{escaped(node.op_type)} of {escaped(next((name for name in node.outputs if name), node.name))}"


def _operator_lines(uses: tuple[OperatorUse, ...]) -> Iterator[str]:
    digits = len(str(max((use.count for use in uses), default=0)))
    rows = [
        (escaped(operator_name(use.domain, use.op_type)), f"opset {use.version}", f"{use.count:{digits}}x",
         use.how or f"NOT SUPPORTED: {use.reason}")
        for use in uses
    ]
    yield from (f"  {line}" for line in aligned(rows))


def size_text(size: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
