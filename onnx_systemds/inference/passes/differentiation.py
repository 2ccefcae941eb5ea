"""Gradient of ai.onnx.preview.training becomes nodes that compute it: reverse-mode differentiation of those before it.

The graph between ``xs`` and ``y`` is what the nodes before the Gradient node say. Where these have no rule in
`registry.gradients` but a definition by ONNX, or where the values given differ from those named, the Gradient node is
replaced by a copy of that graph (with definitions put in) and by a Gradient node of the copy. Else it is replaced
by the nodes that compute the derivatives; these have rules again, so that derivatives can be derived.

ONNX's node has one ``y``, and starts from a derivative of 1. That of a `gradient_node` has several, and values that
hold the derivatives of what comes after them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.backward import OPSET, Backward, Run, flat
from onnx_systemds.inference.definitions import inline, onnx_definition
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.inference.node_writer import NodeWriter
from onnx_systemds.inference.registry import batch_rules, find, gradients
from onnx_systemds.inference.values import FLOAT_DTYPES, Value
from onnx_systemds.model.ir import TRAINING, Function, Node
from onnx_systemds.model.walk import names_read, sub_graphs

GRADIENT = (TRAINING, "Gradient")
NEEDS = (GRADIENT,)

Rule = Callable[[Backward], Sequence[str | Run]]

_HINT = "--gradient may name weights after it, and --to results that do not depend on it"

_OF_SEVERAL = ("GRU", "If", "LSTM", "LinearClassifier", "Loop", "RNN", "Scan", "Split")
"""Operators whose rules take derivatives by further outputs."""
_DERIVATIVE = "d"
_MADE = re.compile(rf"(?:Gradient\d+/(?P<derivative>{_DERIVATIVE}/)?)+(?P<value>.+)", re.DOTALL)
_NUMBER = re.compile(r"(?<=/)([A-Z][A-Za-z]*)\d+$")


def differentiate(facts: InferenceFacts) -> Rewriting:
    """The nodes that stand for a Gradient node.

    Raises InvalidModel for a node that names no values, UnsupportedCase for operators without a rule.
    """
    node = facts.node
    prefix = f"Gradient{facts.context.next_expansion()}"
    wanted, fixed = tuple(facts.attribute("xs") or ()), tuple(facts.attribute("zs") or ())
    names = (*wanted, *fixed)
    seeds = _seeds(facts)
    for name in (*seeds, *names):
        if name not in facts.values:
            raise InvalidModel(f"{quoted(str(name))} is no value known before the Gradient node")
    if len(names) != len(node.inputs):
        raise InvalidModel(f"{len(names)} tensors are named in xs and zs, {len(node.inputs)} are given")
    for y in seeds:
        if facts.values[y].dtype not in FLOAT_DTYPES:
            raise UnsupportedCase(f"{quoted(y)} is no tensor of floating-point numbers")
        if y not in wanted and y not in facts.makers:
            raise UnsupportedCase(f"{quoted(y)} is not computed in the graph of the Gradient node")
    path = _between(tuple(dict.fromkeys(facts.makers.values())), names, seeds)
    definitions = _definitions(_between(path, wanted, seeds), facts)
    if definitions or names != node.inputs:
        copy = _copied(facts, path, definitions, dict(zip(names, node.inputs)), prefix)
        return copy, "a copy of the nodes before it, with definitions"
    return _differentiated(facts, _between(path, wanted, seeds), wanted, seeds, prefix), "the chain rule"


def gradient_node(xs: Sequence[str], outputs: Sequence[str], seeds: Mapping[str, str]) -> Node:
    """A Gradient node that gives derivatives by ``xs``. seeds: by value that depends on them what holds its own."""
    attributes = {"xs": tuple(xs), "y": tuple(seeds), "seeds": tuple(seeds.values())}
    return Node("Gradient", TRAINING, tuple(xs), tuple(outputs), attributes, "", "", 0, 1)


def with_definitions(
    nodes: Sequence[Node], values: Mapping[str, Value], sources: Sequence[str], derived: Collection[str]
) -> tuple[Node, ...]:
    """The nodes, of which those that have no rule are replaced by ONNX's definitions of them.

    derived: what depends on the sources. So derivatives are those of the nodes, and there is no copy of all. Nodes
    without a definition stay, as do those of whose inputs nothing is known.
    """
    path = {id(node) for node in _between(nodes, sources, derived)}
    return tuple(it for node in nodes for it in (_defined(node, values) if id(node) in path else (node,)))


def _defined(node: Node, values: Mapping[str, Value]) -> Sequence[Node]:
    """The nodes of the definition of a node that has no rule, and of those of these; else the node."""
    if not names_read(node) <= values.keys() or not _lacks_rule(node, values):
        return (node,)
    definition = onnx_definition(NodeFacts(node, values))
    if definition is None:
        return (node,)
    inner = inline(node, definition, next(filter(None, node.outputs)))
    return [it for each in inner for it in _defined(each, values)]


def _seeds(facts: NodeFacts) -> dict[str, str]:
    """By value that is derived what holds its derivative; "": it is 1."""
    y, seeds = facts.attribute("y"), facts.attribute("seeds")
    return {y: ""} if seeds is None else dict(zip(y, seeds))


def _between(nodes: Sequence[Node], sources: Sequence[str], derived: Collection[str]) -> list[Node]:
    """The nodes through which what is derived depends on the sources, which stand for themselves.

    Random numbers depend on nothing: a copy of the nodes is to have the same ones.
    """
    own = set(sources)
    reached = set(own)
    forward = []
    for node in nodes:
        if own.isdisjoint(node.outputs) and not reached.isdisjoint(names_read(node)) and not draws(node):
            reached.update(name for name in node.outputs if name)
            forward.append(node)
    needed = set(derived) - own
    path = []
    for node in reversed(forward):
        if not needed.isdisjoint(node.outputs):
            needed.update(names_read(node))
            path.append(node)
    return path[::-1]


def draws(node: Node) -> bool:
    """Whether a node draws random numbers."""
    rule = find(batch_rules, node.identity, node.version)
    return rule is not None and rule.draws


def _definitions(path: Sequence[Node], facts: NodeFacts) -> Mapping[int, Function]:
    """ONNX's definitions of the nodes that have no rule, by position. Raises UnsupportedCase where there is none."""
    found: dict[int, Function] = {}
    for node in path:
        if not _lacks_rule(node, facts.values):
            continue
        has_body = any(True for _ in sub_graphs(node))
        definition = None if has_body else onnx_definition(NodeFacts(node, facts.values))
        if definition is None:
            raise UnsupportedCase(
                f"the derivative of {node.op_type} (node {quoted(node.label)}) is not supported yet", hint=_hint(facts))
        found[node.index] = definition
    return found


def _hint(facts: NodeFacts) -> str:
    """What may help where a node cannot be derived, unless the model has the Gradient node itself."""
    return "" if facts.attribute("seeds") is None else _HINT


def _lacks_rule(node: Node, values: Mapping[str, Value]) -> bool:
    """Whether a derivative passes a node that has no rule."""
    return find(gradients, node.identity, node.version) is None and _is_smooth(node, values)


def _is_smooth(node: Node, values: Mapping[str, Value]) -> bool:
    """Whether a derivative may pass: from a floating-point input to such an output, or by a list of them."""
    given = any(_is_real(values[name]) for name in names_read(node))
    return given and any(name not in values or _is_real(values[name]) for name in node.outputs if name)


def _is_real(value: Value) -> bool:
    """Whether a value is of floating-point numbers, as far as is known."""
    if not value.is_list:
        return value.dtype in FLOAT_DTYPES
    return value.element is None or _is_real(value.element)


def _copied(
    facts: NodeFacts, path: Sequence[Node], definitions: Mapping[int, Function], names: dict[str, str], prefix: str
) -> tuple[Node, ...]:
    """A copy of the path from the values given, and the Gradient node of the copy."""
    node = facts.node
    copies: list[Node] = []
    for number, original in enumerate(path):
        outputs = tuple(f"{prefix}/{name}" if name else "" for name in original.outputs)
        copy = replace(original, inputs=tuple(names.get(name, name) for name in original.inputs), outputs=outputs)
        names.update(zip(original.outputs, outputs))
        if original.index in definitions:
            copies += inline(copy, definitions[original.index], f"{prefix}/{original.op_type}{number}")
        else:
            copies.append(copy)
    seeds = {names.get(y, y): seed for y, seed in _seeds(facts).items()}
    count = len(facts.attribute("xs"))
    attributes = {"xs": node.inputs[:count], "zs": node.inputs[count:], "y": tuple(seeds),
                  "seeds": tuple(seeds.values())}
    return (*copies, replace(node, attributes=attributes))


def _differentiated(
    facts: NodeFacts, path: Sequence[Node], wanted: Sequence[str], seeds: Mapping[str, str], prefix: str
) -> tuple[Node, ...]:
    """The nodes that compute dy/dx for each x: the chain rule from the last node of the path to the first."""
    writer = NodeWriter(facts.node, prefix, OPSET)
    known: dict[str, list[str | Run]] = {
        y: [seed or writer.filled_like(y, facts.values[y].dtype, 1.0)] for y, seed in seeds.items()
    }
    inner = {name for node in path for name in node.outputs if name}
    active = {name for name in inner.union(wanted) if _has_derivative(facts.values[name])}
    for node in reversed(path):
        rule = find(gradients, node.identity, node.version)
        if rule is None or rule is flat or not _is_smooth(node, facts.values):
            continue
        given = [_sum(writer, known, name, facts.values) if name in active and name in known else ""
                 for name in node.outputs]
        if not any(given):
            continue
        if any(given[1:]) and node.op_type not in _OF_SEVERAL:
            raise UnsupportedCase(f"the derivative of an output of {node.op_type} other than the first")
        writer.prefix = f"{prefix}/{_DERIVATIVE}/{next(filter(None, node.outputs))}"
        step = Backward(facts, node, writer, given, active)
        for name, derivative in zip((*node.inputs, *step.captured), _derivatives(rule, step, _hint(facts))):
            if derivative and name in active:
                known.setdefault(name, []).append(derivative)
    for x, output in zip(wanted, facts.node.outputs):
        if output:
            zero = functools.partial(writer.filled_like, x, facts.values[x].dtype, 0.0)
            writer.emit("Identity", _sum(writer, known, x, facts.values) if x in known else zero(), to=output)
    names = {name: f"{prefix}/{_DERIVATIVE}/{x}" for x, (name, *_) in known.items() if isinstance(name, str)}
    return _named(writer.nodes, names)


def _has_derivative(value: Value) -> bool:
    """Whether a value has floating-point numbers."""
    return value.dtype in FLOAT_DTYPES and not value.is_empty


def _derivatives(rule: Rule, step: Backward, hint: str) -> Sequence[str | Run]:
    """What a rule gives. Raises UnsupportedCase, which names the node."""
    try:
        return rule(step)
    except UnsupportedCase as error:
        where = f"node {quoted(step.node.label)}"
        if where not in error.message:
            error.message = f"{error.message} ({where})"
        error.hint = error.hint or hint
        raise


def _named(nodes: Sequence[Node], values: Mapping[str, str]) -> tuple[Node, ...]:
    """The nodes with derivatives called after the values that they are of, by what they were called."""
    made = {name for node in nodes for name in node.outputs}
    names = {old: new for old, new in values.items() if old in made}
    return tuple(
        replace(node, inputs=tuple(names.get(name, name) for name in node.inputs),
                outputs=tuple(names.get(name, name) for name in node.outputs))
        for node in nodes
    )


def words_of(name: str) -> tuple[str, str]:
    """Of a value that was made for a Gradient: ``d_`` if it is of a derivative, and the value it is after; else "", "".

    Nodes of one rule are numbered; the number is no part of it.
    """
    found = _MADE.fullmatch(name)
    if found is None:
        return "", ""
    is_derivative = bool(found["derivative"])
    return "d_" if is_derivative else "", _NUMBER.sub(r"\1", found["value"]) if is_derivative else found["value"]


def _sum(writer: NodeWriter, known: dict[str, list[str | Run]], name: str, values: Mapping[str, Value]) -> str:
    """All derivatives that reach a value, added up once."""
    given = known[name]
    runs = [it for it in given if isinstance(it, Run)]
    joined = _joined(writer, runs, values[name].dims)
    of_runs = [joined] if joined else [run.whole() for run in runs]
    found = _added(writer, [*(it for it in given if isinstance(it, str)), *of_runs])
    known[name] = [found]
    return found


def _joined(writer: NodeWriter, runs: Sequence[Run], dims: Dims | None) -> str | None:
    """The derivatives by runs of elements side by side, if these are all elements along one axis; else None."""
    if len({run.axis for run in runs}) != 1 or dims is None:
        return None
    axis, left = runs[0].axis, [*runs]
    end: Dim = 0
    parts = []
    while same := [run for run in left if run.start == end]:
        if any(run.count != same[0].count for run in same):
            return None
        parts.append(same)
        left = [run for run in left if run.start != end]
        end = end + same[0].count
    if left or end != dims[axis] or len(parts) == 1:
        return None
    return writer.emit("Concat", *(_added(writer, [run.derivative for run in same]) for same in parts), axis=axis)


def _added(writer: NodeWriter, derivatives: Sequence[str]) -> str:
    """The sum of derivatives."""
    return writer.emit("Sum", *derivatives) if len(derivatives) > 1 else derivatives[0]
