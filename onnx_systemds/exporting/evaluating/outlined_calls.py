"""Functions of a script as functions of the model: a call is a node, its body is evaluated in a graph of its own.

What is known in a call (numbers, strings, sizes) shapes the body, as it does inline. The writer shares one function
among all calls with equal bodies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.evaluating.inlining import inline
from onnx_systemds.exporting.evaluating.modules import Module
from onnx_systemds.exporting.graph.liveness import captured
from onnx_systemds.exporting.graph.nodes import FunctionBody, SubGraph, Tensor, Unit
from onnx_systemds.exporting.limits import BudgetExceeded
from onnx_systemds.exporting.sources import BUILTIN_FOLDER, JAR_PREFIX
from onnx_systemds.exporting.values import ListValue, Matrix, Poison, Scalar, Value, sizes_in, with_tensors
from onnx_systemds.inference.dims import lone_symbol, symbol, symbols

_STEPS = 4  # that a body takes in a graph of its own


def outlined(
    evaluator: Evaluator, node: tree.Call, function: tree.Function, module: Module, given: Mapping[str, Value]
) -> tuple[Value, ...]:
    """Return the results of a call that is a node of the model; where it cannot be one, evaluate the body in place."""
    signature = (id(function), *((name, _signature(value)) for name, value in given.items()))
    outlinable = evaluator.outlinable.get(signature)
    if outlinable is False:
        return inline(evaluator, node, function, module, given)
    evaluator.step(node, _STEPS)
    before = evaluator.snapshot()
    try:
        results = _Call(evaluator, function, module).results(node, given)
        if tuple(evaluator.reasons.errors) != before.reasons:
            raise evaluator.reasons.errors[-1]
        poison = _poison_reasons(results)
        if not poison or outlinable:
            return results
        reason = poison[0].message
    except BudgetExceeded:
        raise
    except TranspileError as error:
        poison, reason = [], error.message
    evaluator.go_back(before)
    again = inline(evaluator, node, function, module, given)
    outlinable = evaluator.outlinable[signature] = 0 < len(poison) == len(_poison_reasons(again))
    if outlinable:
        return results
    evaluator.context.drop(f"{node.function} is inlined: {reason}")
    return again


def _poison_reasons(values: Iterable[Value]) -> list[TranspileError]:
    """Return why parts of values are poison, one reason for each part."""
    found = [value.errors[0] for value in values if isinstance(value, Poison) and value.errors]
    return found + [error for value in values if isinstance(value, ListValue) for error in _poison_reasons(value.items)]


def _signature(value: Value) -> Any:
    """Return the properties of an argument, without sizes, on which the body depends."""
    if isinstance(value, Scalar):
        return value.type, value.known
    if isinstance(value, ListValue):
        return tuple(map(_signature, value.items)), value.names
    return (type(value), value.tensor.rank) if isinstance(value, Matrix) else type(value)


class _Call:
    """Makes one call."""

    def __init__(self, evaluator: Evaluator, function: tree.Function, module: Module) -> None:
        self.evaluator, self.graph = evaluator, evaluator.graph
        self.function, self.module = function, module
        self.inputs: list[tuple[Tensor, Tensor]] = []
        """What the body sees and what the call gives for it."""

    def results(self, node: tree.Call, given: Mapping[str, Value]) -> tuple[Value, ...]:
        """Evaluate the body for the arguments and return the results of the node that calls it."""
        graph, place = self.graph, self.graph.place
        with graph.function() as unit:
            seen = {name: with_tensors(value, self.input(unit, name)) for name, value in given.items()}
            values = inline(self.evaluator, node, self.function, self.module, seen)
            computed = self.computed(values)
            sizes = self.own_sizes(unit, values, computed)
            self.evaluator.enter_line(self.function)
            outputs = graph.own([*computed, *(graph.size_tensor(symbol(name)) for name in sizes)])
        graph.place = place
        made = self.node(unit, tuple(outputs)) if outputs else ()
        for name, tensor in zip(sizes, made[len(computed) :]):
            graph.bind_size(name, tensor)
        for name, (tensor, axis) in unit.sources.items():
            if tensor.node is None:  # an input of the model that is read here
                graph.bind_size(name, tensor, axis)
        outside = {**dict(self.inputs), **dict(zip(computed, made))}

        def given_back(tensor: Tensor) -> Tensor:
            if tensor.constant is None:
                return outside.get(tensor, tensor)
            return graph.constant(tensor.constant, tensor.kind, tensor.hint)

        return tuple(with_tensors(value, given_back) for value in values)

    def input(self, unit: Unit, name: str) -> Callable[[Tensor], Tensor]:
        """Return a function that makes inputs of the body for the tensors of an argument."""

        def make(actual: Tensor) -> Tensor:
            tensor = self.graph.state(actual.kind, actual.dims, name)
            tensor.counts = actual.counts
            for axis, dim in enumerate(actual.dims):
                if not isinstance(dim, int) and lone_symbol(dim) is None:
                    unit.wholes.setdefault(dim, (tensor, axis))
            self.inputs.append((tensor, actual))
            return tensor

        return make

    def computed(self, values: tuple[Value, ...]) -> list[Tensor]:
        """Return the tensors of the results that the body computes, each one once."""
        inputs, found = dict(self.inputs), dict[Tensor, None]()

        def collect(tensor: Tensor) -> Tensor:
            if tensor.node is not None and tensor not in inputs:
                found[tensor] = None
            return tensor

        for value in values:
            with_tensors(value, collect)
        return list(found)

    def own_sizes(self, unit: Unit, values: tuple[Value, ...], computed: list[Tensor]) -> list[str]:
        """Return the symbols in the results that only the body can compute and that are no dim of an output."""
        shown = {lone_symbol(dim) for tensor in computed for dim in tensor.dims}
        needed = symbols(dim for value in values for dim in sizes_in(value))
        return [name for name in needed if name in unit.sources and name not in shown and unit.sources[name][0].node
                and unit.sources[name][0] not in [*dict(self.inputs), *unit.asked.values()]]

    def node(self, unit: Unit, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Write the call with all that the body uses; return its outputs. Raises UnsupportedCase."""
        graph = self.graph
        used = captured(SubGraph(unit.scope, (), outputs))
        pairs = [*self.inputs, *((seen, graph.size_tensor(symbol(name))) for name, seen in unit.asked.items()),
                 *((tensor, tensor) for tensor in (*graph.inputs, *graph.stored_weights.values()))]
        pairs = [pair for pair in pairs if pair[0] in used]
        if not pairs:
            raise UnsupportedCase("it has no inputs")
        domain, name = _names(self.function, self.module)
        position = self.function.position
        body = FunctionBody(unit.scope, tuple(seen for seen, _ in pairs), outputs,
                            domain, name, f"{position.file}:{position.line}")
        made = graph.nodes(f"{domain}::{name}", [given for _, given in pairs],
                           [(tensor.kind, tensor.dims) for tensor in outputs], body=body)
        for tensor in made:
            graph.bind_dims(tensor)
        return made


def _names(function: tree.Function, module: Module) -> tuple[str, str]:
    """Return domain and name of a function: its script and its own; the builtins of SystemDS are one domain."""
    file = module.script.file
    if file.startswith(f"{JAR_PREFIX}{BUILTIN_FOLDER}"):
        return "builtin", re.sub("^[ms]_", "", function.name)
    return "script" if file.startswith("<") else re.sub(r"\W", "_", PurePosixPath(file).stem), function.name
