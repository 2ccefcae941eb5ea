"""The smallest case that still fails in the same way: fewer calls, outputs and nodes, smaller dims, plainer numbers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from onnx_systemds.verifying.judging import run
from tests.fuzz.finding import Finding
from tests.fuzz.judging import ModelCase

Check = Callable[[ModelCase], Finding | None]


def shrunk(case: ModelCase, finding: Finding, check: Check, seconds: float = 60.0) -> tuple[ModelCase, Finding]:
    """The smallest case found in that time, and its finding."""
    end = time.perf_counter() + seconds
    mark = signature(finding)
    smaller = True
    while smaller:
        smaller = False
        for ways in (_fewer_calls, _fewer_outputs, _earlier_outputs, _cut_inputs, _smaller_dims, _plainer, _fewer_attributes,
                     _live_bodies):
            for other in ways(case):
                if time.perf_counter() > end:
                    return case, finding
                found = _checked(other, check)
                if found is not None and signature(found) == mark:
                    case, finding, smaller = other, found, True
                    break
    return case, finding


def signature(finding: Finding) -> str:
    """What two findings of one fault have in common: the kind, of errors the words, of numbers what sort they are."""
    if finding.kind == "slow":
        return finding.kind
    if finding.kind == "wrong":
        said = re.search(r"is (\S+), expected (\S+?):", finding.detail)
        if said is None:
            return "wrong shape or type"
        special = any(word in said[0] for word in ("nan", "inf"))
        large = any(len(digits) >= 16 for digits in re.findall(r"\d+", re.sub(r"\.\d+", "", said[0])))
        return f"wrong {'special ' if special else ''}{'large ' if large else ''}number"
    words = re.sub(r"call -?\d+: |graph \"[^:]*: |\d+|_mVar\w*|_Var\w*", "", finding.detail)
    return f"error {words[:50]}"


def _checked(case: ModelCase, check: Check) -> Finding | None:
    try:
        return check(case)
    except Exception:  # a case that is none
        return None


def _fewer_calls(case: ModelCase) -> Iterator[ModelCase]:
    for feeds in case.calls:
        if len(case.calls) > 1:
            yield replace(case, calls=(feeds,), specialise_after=20)
    for feeds in case.calls:
        if len(case.calls) > 2:
            yield replace(case, calls=(feeds, feeds), specialise_after=2)
    for place in range(len(case.calls)):
        if len(case.calls) > 2:
            yield replace(case, calls=case.calls[:place] + case.calls[place + 1 :])


def _fewer_outputs(case: ModelCase) -> Iterator[ModelCase]:
    if len(case.model.graph.output) > 1:
        for output in case.model.graph.output:
            yield pruned(case, [output])


def _earlier_outputs(case: ModelCase) -> Iterator[ModelCase]:
    """With the output of one of the first nodes as the only one."""
    nodes = case.model.graph.node
    if len(nodes) < 2:
        return
    types = _types(case)
    last = {output.name for output in case.model.graph.output}
    for node in nodes:
        for name in node.output if node.op_type != "Constant" else ():
            if name in types and name not in last:
                yield pruned(case, [types[name]])


def _cut_inputs(case: ModelCase) -> Iterator[ModelCase]:
    """With the values of some nodes given instead of computed, many at first."""
    nodes = list(case.model.graph.node)
    if len(nodes) < 2:
        return
    types = _types(case)
    size = len(nodes) // 2
    while size:
        for start in range(0, len(nodes), size):
            names = [name for node in nodes[start : start + size] for name in node.output if name in types]
            outputs = {output.name for output in case.model.graph.output}
            given = _values(case, [name for name in names if name not in outputs], types)
            if given is not None and names and not outputs.intersection(names):
                yield _given(case, {name: types[name] for name in names}, given)
        size //= 2


def _types(case: ModelCase) -> dict[str, ValueInfoProto]:
    """The tensors that nodes of the graph itself give, declared with a rank and open dims."""
    calls = list(case.calls[:1])
    names = [name for node in case.model.graph.node for name in node.output if name]
    try:
        values = _all_values(case.model, calls[0], names)
    except Exception:
        return {}
    found = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype != object:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            found[name] = helper.make_tensor_value_info(name, kind, [None] * value.ndim)
    return found


def _all_values(model: ModelProto, feeds: Any, names: list[str]) -> dict[str, Any]:
    copy = ModelProto()
    copy.CopyFrom(model)
    have = {output.name for output in model.graph.output}
    copy.graph.output.extend(ValueInfoProto(name=name) for name in names if name not in have)
    return run(copy, feeds, optimized=False)


def _values(case: ModelCase, names: list[str], types: dict[str, ValueInfoProto]) -> list[dict[str, Any]] | None:
    try:
        found = [_all_values(case.model, feeds, names) for feeds in case.calls]
    except Exception:
        return None
    return [{name: values[name] for name in names} for values in found]


def _given(case: ModelCase, infos: dict[str, ValueInfoProto], values: list[dict[str, Any]]) -> ModelCase:
    model = ModelProto()
    model.CopyFrom(case.model)
    model.graph.input.extend(_declared(name, [each[name] for each in values]) for name in infos)
    calls = tuple({**feeds, **more} for feeds, more in zip(case.calls, values))
    for node in model.graph.node:
        for place, name in enumerate(node.output):
            if name in infos:
                node.output[place] = f"{name}_before"
    return pruned(replace(case, model=model, calls=calls), list(model.graph.output))


def _declared(name: str, arrays: list[Any]) -> ValueInfoProto:
    """An input: dims that are the same in all calls are fixed."""
    shapes = [array.shape for array in arrays]
    dims = [sizes[0] if len(set(sizes)) == 1 else f"{name}_{axis}" for axis, sizes in enumerate(zip(*shapes))]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), dims)


def pruned(case: ModelCase, outputs: list[ValueInfoProto]) -> ModelCase:
    """The case with these outputs, without what they do not need."""
    model = ModelProto()
    model.CopyFrom(case.model)
    kept = [ValueInfoProto.FromString(output.SerializeToString()) for output in outputs]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    needed = {output.name for output in kept}
    nodes = []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(names_read(node))
    copies = [type(node).FromString(node.SerializeToString()) for node in reversed(nodes)]
    del model.graph.node[:]
    model.graph.node.extend(copies)
    for field in (model.graph.initializer, model.graph.input):
        left = [item for item in field if item.name in needed]
        copied = [type(item).FromString(item.SerializeToString()) for item in left]
        del field[:]
        field.extend(copied)
    names = {item.name for item in model.graph.input}
    calls = tuple({name: value for name, value in feeds.items() if name in names} for feeds in case.calls)
    return replace(case, model=model, calls=calls)


def names_read(node: Any) -> set[str]:
    """The names that a node and its bodies read; those of the bodies' own values do no harm."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found.update(*(names_read(inner) for inner in attribute.g.node))
            found.update(output.name for output in attribute.g.output)
    return found


def _smaller_dims(case: ModelCase) -> Iterator[ModelCase]:
    """One size smaller wherever it is, in inputs and initializers."""
    arrays = [value for feeds in case.calls for value in feeds.values() if isinstance(value, np.ndarray)]
    arrays += [numpy_helper.to_array(tensor) for tensor in case.model.graph.initializer]
    for size in sorted({size for array in arrays for size in array.shape if size > 1}, reverse=True):
        for target in (1, 2, size // 2, size - 1):
            if 0 < target < size:
                yield _resized(case, size, target)


def _resized(case: ModelCase, size: int, target: int) -> ModelCase:
    def smaller(array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        return array[tuple(slice(target) if dim == size else slice(None) for dim in array.shape)]

    model = ModelProto()
    model.CopyFrom(case.model)
    for info in model.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value == size:
                dim.dim_value = target
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(smaller(numpy_helper.to_array(tensor))), tensor.name))
    calls = tuple({name: smaller(value) for name, value in feeds.items()} for feeds in case.calls)
    return replace(case, model=model, calls=calls)


def _plainer(case: ModelCase) -> Iterator[ModelCase]:
    """One input or initializer of zeros, ones, small integers, or fewer digits."""
    ways: list[Callable[[Any], Any]] = [
        np.zeros_like,
        np.ones_like,
        lambda array: np.resize(np.arange(1, 4), array.shape).astype(array.dtype),
        lambda array: np.round(array.astype(np.float64)).astype(array.dtype),
        lambda array: np.round(array.astype(np.float64), 1).astype(array.dtype),
    ]
    for name in case.calls[0]:
        for way in ways:
            calls = tuple({**feeds, name: _by(way, feeds[name])} for feeds in case.calls)
            is_other = any(_differ(one[name], other[name]) for one, other in zip(calls, case.calls))
            if is_other and not _is_plain(case.calls[0][name]):
                yield replace(case, calls=calls)
    for place, tensor in enumerate(case.model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        for way in ways:
            if array.dtype.kind == "f" and not _is_plain(array):
                model = ModelProto()
                model.CopyFrom(case.model)
                model.graph.initializer[place].CopyFrom(numpy_helper.from_array(_by(way, array), tensor.name))
                yield replace(case, model=model)


def _is_plain(array: Any) -> bool:
    """Whether all elements are small integers already."""
    if not isinstance(array, np.ndarray) or array.dtype.kind in "bOU":
        return True
    wide = array.astype(np.float64)
    return bool((np.isfinite(wide) & (np.abs(wide) <= 3) & (wide == np.round(wide))).all())


def _by(way: Callable[[Any], Any], value: Any) -> Any:
    with np.errstate(all="ignore"):
        return way(value) if isinstance(value, np.ndarray) and value.dtype.kind not in "bOU" else value


def _differ(one: Any, other: Any) -> bool:
    return isinstance(one, np.ndarray) and one.tobytes() != other.tobytes()


def _fewer_attributes(case: ModelCase) -> Iterator[ModelCase]:
    for place, node in enumerate(case.model.graph.node):
        for attribute in node.attribute:
            if not attribute.HasField("g"):
                model = ModelProto()
                model.CopyFrom(case.model)
                kept = [other for other in node.attribute if other.name != attribute.name]
                del model.graph.node[place].attribute[:]
                model.graph.node[place].attribute.extend(kept)
                yield replace(case, model=model)


def _live_bodies(case: ModelCase) -> Iterator[ModelCase]:
    """Without the nodes of bodies whose results nobody reads."""
    model = ModelProto()
    model.CopyFrom(case.model)
    if sum([_without_dead(attribute.g) for node in model.graph.node for attribute in node.attribute]):
        yield replace(case, model=model)


def _without_dead(graph: GraphProto) -> int:
    """Take dead nodes out of a body and the bodies in it; how many there were."""
    removed = 0
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(NodeProto.FromString(node.SerializeToString()))
            needed.update(names_read(node))
        else:
            removed += 1
    del graph.node[:]
    graph.node.extend(reversed(kept))
    return removed + sum(_without_dead(attribute.g) for node in graph.node for attribute in node.attribute)
