"""Integers of 64 bits in numbers that hold 53: where they are exact, and what has to be looked at when the model runs.

Beyond 2^53 FP64 still holds some integers: those that are only moved, compared or chosen stay what they are. What is
computed may be rounded there. From the end of a graph to its start it is found out how large the users of a value
let it be, then from the start to the end how large it can get; where that is more, the script looks at the numbers
and stops (see docs/decisions/0020-integers-beyond-53-bits.md). The largest int64 is held as 2^63, the largest
uint64 as 2^64: numbers that no other integer of the type has, and that compare as it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.integer_spans import (
    EXACT,
    INDEX,
    LIMIT,
    Computes,
    IntegerUse,
    Moves,
    Reads,
    Span,
    Sums,
    Terms,
    joined,
    size_span,
    sum_bound,
    symmetric,
)
from onnx_systemds.inference.registry import find, integer_rules
from onnx_systemds.inference.typed_graph import TypedGraph, carried, given_back
from onnx_systemds.inference.values import Value
from onnx_systemds.model.ir import ML, Array, Node

TYPES = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}
"""Smallest and largest number of the types that this is about."""
EXACTLY = 1 << 66  # a need: of any size, but not rounded
NOWHERE = 1 << 70  # a need: the value only gets to outputs, where rounded ones are refused

_WHY = "DML computes in FP64, where integers are exact up to 2^53"


@dataclass(frozen=True, slots=True)
class GraphIntegers:
    """The 64-bit integers of one graph. graph: whose they are.

    needs: how large a value may be. spans: how large it can be. checks: values at which the script has to look, and
    between which numbers they must lie. sums: by node, sums at whose inputs it has to look.
    """

    graph: TypedGraph
    needs: Mapping[str, int]
    spans: dict[str, Span] = field(default_factory=dict)
    checks: dict[str, tuple[int, int]] = field(default_factory=dict)
    sums: dict[int, Terms] = field(default_factory=dict)

    def largest_input(self, name: str) -> int | None:
        """The largest magnitude that an input may have; None where all that FP64 holds will do."""
        need = self.needs.get(name, NOWHERE)
        return need if need <= LIMIT else None

    def largest_output(self, name: str) -> int | None:
        """The largest magnitude of an output that is not rounded; None where none is."""
        span = self.spans.get(name, EXACT)
        if span.doubtful:
            return LIMIT - 1
        return LIMIT if span.reach <= LIMIT else None


class WideIntegers:
    """The 64-bit integers of a graph and of all graphs in it."""

    def __init__(self, graph: TypedGraph) -> None:
        self._found: dict[int, GraphIntegers] = {}
        self._visit(graph, self._backward(graph, {}), {}, {})

    def of(self, graph: TypedGraph) -> GraphIntegers:
        """Those of a graph, which may be a copy with fewer outputs."""
        return self._found.get(id(graph.own)) or GraphIntegers(graph, {})

    # --- from the end to the start: how large may it be? -----------------------------------------------------------

    def _backward(self, graph: TypedGraph, outputs: Mapping[str, int]) -> dict[str, int]:
        """The needs of all values, from those of the outputs."""
        needs = dict(outputs)
        for position in reversed(range(len(graph.nodes))):
            node = graph.nodes[position]
            for name, need in self._node_needs(graph, node, graph.bodies_at(position), needs):
                needs[name] = min(needs.get(name, NOWHERE), need)
        return needs

    def _node_needs(
        self, graph: TypedGraph, node: Node, bodies: Sequence[TypedGraph], needs: Mapping[str, int]
    ) -> list[tuple[str, int]]:
        if bodies:
            return self._body_needs(node, bodies, needs)
        wide = [place for place, name in enumerate(node.inputs) if name and graph.values[name].dtype in TYPES]
        use = integer_use(NodeFacts(node, graph.values, graph.name)) if wide else None
        return [(node.inputs[place], _operand_need(use, node, place, needs)) for place in wide]

    def _body_needs(self, node: Node, bodies: Sequence[TypedGraph], needs: Mapping[str, int]) -> list[tuple[str, int]]:
        """What sub-graphs need of their captured values and of the node's inputs."""
        found = [(name, EXACTLY) for name in node.inputs if name]
        for body in bodies:
            inner = self._settled_needs(node, body, needs)
            inputs = set(body.inputs)
            found += [(name, need) for name, need in inner.items() if name not in body.own and name not in inputs]
            found += [(outer, inner.get(name, EXACTLY)) for outer, name, _ in carried(node, body)]
        return found

    def _settled_needs(self, node: Node, body: TypedGraph, needs: Mapping[str, int]) -> dict[str, int]:
        """The needs in a body. What it hands to its next run has to fit that, too."""
        wanted = dict.fromkeys(body.outputs, EXACTLY)
        for outer, name in given_back(node, body):
            wanted[name] = min(wanted[name], needs.get(outer, EXACTLY))
        while True:
            inner = self._backward(body, wanted)
            narrower = {
                after: inner[name]
                for _, name, after in carried(node, body)
                if after and inner.get(name, EXACTLY) < inner[after]
            }
            if not narrower:
                return inner
            wanted |= narrower

    # --- from the start to the end: how large can it be? -----------------------------------------------------------

    def _visit(
        self, graph: TypedGraph, needs: Mapping[str, int], outer: Mapping[str, Span], given: Mapping[str, Span]
    ) -> None:
        """Find the spans of a graph's values and of those in its sub-graphs; ``given``: of inputs, where known."""
        found = GraphIntegers(graph, needs)
        self._found[id(graph.own)] = found
        spans = _Spans(graph, found, outer)
        for name in graph.inputs:
            if graph.values[name].dtype in TYPES:
                span = given.get(name, Span(*TYPES[graph.values[name].dtype]))
                spans.settle(name, span, computed=False, given=True)
        for position, node in enumerate(graph.nodes):
            for body in graph.bodies_at(position):
                inner = self._settled_needs(node, body, needs)
                self._visit(body, inner, spans.around(), spans.given(node, body))
            spans.take(position, node)


def integer_use(node: NodeFacts) -> IntegerUse | None:
    """What a node makes of 64-bit integers, as its operator says; None where it says nothing."""
    rule = find(integer_rules, node.node.identity, node.version)
    return None if rule is None else rule(node)


def _operand_need(use: IntegerUse | None, node: Node, place: int, needs: Mapping[str, int]) -> int:
    """How large a node lets one of its inputs be."""
    if isinstance(use, Moves) and (use.inputs is None or place in use.inputs):
        outputs = node.outputs if use.is_parted else node.outputs[:1]
        need = min((needs.get(name, NOWHERE) for name in outputs if name), default=NOWHERE)
        return min(need, EXACTLY) if use.is_compared else need
    if isinstance(use, (Moves, Reads)) or (use is not None and place in use.read):
        return EXACTLY
    if isinstance(use, Sums):
        return use.largest.get(place, LIMIT)
    return use.largest if isinstance(use, Computes) else LIMIT


class _Spans:
    """The spans of one graph while they are found."""

    def __init__(self, graph: TypedGraph, found: GraphIntegers, outer: Mapping[str, Span]) -> None:
        self._graph = graph
        self._found = found
        self._outer = outer
        self._added: dict[str, int] = {}  # by sum: the magnitudes of its terms together

    def around(self) -> Mapping[str, Span]:
        """What a sub-graph sees."""
        return {**self._outer, **self._found.spans}

    def given(self, node: Node, body: TypedGraph) -> dict[str, Span]:
        """What is known of the inputs of a body that are the same in each of its runs, and of a loop's counter."""
        found = {name: self.span(outer) for outer, name, after in carried(node, body) if not after}
        return found | ({body.inputs[0]: INDEX} if node.op_type == "Loop" else {})

    def take(self, position: int, node: Node) -> None:
        """Find the spans of a node's outputs."""
        values = self._graph.values
        wide = [name for name in node.outputs if name and values[name].dtype in TYPES]
        if not wide:
            return
        if self._graph.bodies_at(position):
            for name in wide:
                self.settle(name, Span(*TYPES[values[name].dtype]), computed=False)
            return
        if all(_known(values[name]) is not None for name in wide):
            return
        use = integer_use(NodeFacts(node, values, self._graph.name))
        span, computed = self._result(position, node, use)
        for place, name in enumerate(node.outputs):
            if name in wide:
                is_index = place > 0 and isinstance(use, Moves) and not use.is_parted
                self.settle(name, INDEX if is_index else span, computed=computed)

    def settle(self, name: str, span: Span, *, computed: bool, given: bool = False) -> None:
        """Take a span for a value's; the script looks at it where it is more than is exact, or than is needed."""
        value, found = self._graph.values[name], self._found
        known = _known(value)
        if known is not None:
            found.spans[name] = known
            return
        low, high = TYPES[value.dtype]
        need = found.needs.get(name, NOWHERE)
        computed = computed or span.doubtful
        is_other = not span.within(low, high)  # in two's complement another number
        if given:
            reach = need if need <= LIMIT else high + 1
            found.spans[name] = Span(max(span.low, -reach), min(span.high, reach))
        elif span.within(max(low, -min(need, LIMIT)), min(need, LIMIT)) or (
            need >= EXACTLY and not computed and not is_other
        ):
            found.spans[name] = span
        elif need == NOWHERE:
            found.spans[name] = Span(max(low, span.low), min(high, span.high), doubtful=True)
        else:
            largest = min(need, LIMIT - 1 if computed else LIMIT)
            found.checks[name] = (max(low, -largest), largest)
            found.spans[name] = Span(max(low, -largest, span.low), min(largest, span.high))

    def span(self, name: str) -> Span:
        """Where a value lies."""
        if not name:
            return Span(0, 0)
        if name in self._found.spans:
            return self._found.spans[name]
        value = self._graph.values[name]
        known = _known(value)
        if known is not None:
            return known
        if value.dtype in TYPES:
            return self._outer.get(name, EXACT)
        return symmetric(2**32) if value.dtype != "bool" else Span(0, 1)

    def _result(self, position: int, node: Node, use: IntegerUse | None) -> tuple[Span, bool]:
        """Where a node's results lie, and whether they are computed."""
        spans = [self.span(name) for name in node.inputs]
        if isinstance(use, Moves):
            moved = [span for place, span in enumerate(spans)
                     if node.inputs[place] and (use.inputs is None or place in use.inputs)]
            return joined([*moved, Span(0, 0)] if use.has_zeros else moved), False
        if isinstance(use, Reads):
            return use.span, False
        if isinstance(use, Computes):
            if use.is_sum:
                self._part(node)
            return use.find(spans), use.is_rounded
        if isinstance(use, Sums):
            span = self._summed(position, use.terms(), spans)
            return (span, False) if use.total is None else (use.total(span, spans), True)
        return EXACT, False

    def _part(self, node: Node) -> None:
        """Have the script look at sums within a sum that would lose digits in another order of the terms.

        Of a + (b + c) the engine makes (a + b) + c (sums-of-numbers-in-another-order), but not across a statement
        that looks at b + c.
        """
        total = sum(self._added.get(name, self.span(name).reach) for name in node.inputs)
        if total > LIMIT:
            for name in filter(self._added.__contains__, node.inputs):
                span = self.span(name)
                self._found.checks.setdefault(name, (min(span.low, -1), span.high))
            total = sum(self.span(name).reach for name in node.inputs)
        self._added[node.outputs[0]] = total

    def _summed(self, position: int, terms: Terms, spans: Sequence[Span]) -> Span:
        bound = sum_bound(terms, spans)
        if bound <= LIMIT:
            return Span(0 if min(spans[place].low for place in terms.positions) >= 0 else -bound, bound)
        self._found.sums[position] = terms
        return EXACT


def _known(value: Value) -> Span | None:
    """The span of a content that is known at conversion, or made of sizes."""
    if value.constant is not None:
        return content_span(value.constant)
    if value.elements is None:
        return None
    return joined([Span(0, 0), *map(size_span, value.elements.ravel().tolist())])


def content_span(array: Array) -> Span:
    """Where the elements of an array lie."""
    if array.size == 0 or array.dtype.kind not in "biu":
        return Span(0, 0)
    return Span(int(array.min()), int(array.max()))


def is_held(array: Array) -> bool:
    """Whether FP64 holds all numbers of an array of integers, the largest of its type (see above) among them."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or array.size == 0:
        return True
    if max(-int(array.min()), int(array.max())) <= LIMIT:
        return True
    numbers = array.astype(np.float64)
    largest = np.iinfo(array.dtype).max
    below = numbers < float(largest)
    return bool(np.all((array == largest) | (below & (np.where(below, numbers, 0).astype(array.dtype) == array))))


def check_held(name: str, array: Array) -> None:
    """Raise UnsupportedCase where the script would hold a constant by other numbers."""
    if not is_held(array):
        raise UnsupportedCase(f"{quoted(name)} holds {_farthest(array)}: {_WHY}")


def check_constants(node: NodeFacts) -> None:
    """Raise UnsupportedCase where an operator computes with a constant beyond 2^53, or has one for an attribute."""
    op_type = node.node.op_type
    if node.node.domain == ML or op_type in ("ConstantOfShape", "TfIdfVectorizer"):
        for name, attribute in node.node.attributes.items():
            numbers = attribute if isinstance(attribute, np.ndarray) else _integers(attribute)
            if not is_held(numbers) or (op_type != "ConstantOfShape" and content_span(numbers).reach > LIMIT):
                raise UnsupportedCase(f"attribute {name} holds {_farthest(numbers)}: {_WHY}")
    for position, name in enumerate(node.node.inputs):
        content = node.values[name].constant if name else None
        if content is None or content.dtype.kind not in "iu" or content_span(content).reach <= LIMIT:
            continue
        if isinstance(integer_use(node), (Computes, Sums)):
            raise UnsupportedCase(f"input {position} holds {_farthest(content)}: {_WHY}")


def _integers(attribute: object) -> Array:
    """An attribute of several integers as an array; an empty one for others."""
    if not isinstance(attribute, tuple) or not attribute or not isinstance(attribute[0], int):
        return np.zeros(0, np.int64)
    return np.array(attribute, np.int64)


def _farthest(array: Array) -> int:
    low, high = int(array.min()), int(array.max())
    return low if -low > high else high
