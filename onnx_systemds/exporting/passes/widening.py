"""Puts integers that float32 does not hold into float64: `widen`.

Hashes, moduli and words of bits are calculated with integers beyond 2^24, of which float32 holds some alone. What
is only an output, or goes on as a float, may be rounded. What is rounded to an integer, divided with a remainder or
made an int must be exact, and so must all that it is calculated from; so must a difference of such numbers, of whole
numbers that are made of them, and of a single one in another unit, and what is compared or put in order. Inputs that
are no integers, and weights, are what float32 holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from onnx import TensorProto

from onnx_systemds.exporting.graph.builder import GraphBuilder
from onnx_systemds.exporting.graph.nodes import FLOAT, INT, WIDE, Node, Tensor, made_by
from onnx_systemds.exporting.passes.dataflow import Edge, all_nodes, edges_of, fed_back, reached
from onnx_systemds.exporting.passes.magnitudes import (
    KEEPING,
    RULES,
    Magnitude,
    magnitudes,
    remainder_divisor,
    sum_before_division,
    whole_quotient,
)
from onnx_systemds.exporting.passes.retyping import Retyping

_EXACT = 2.0**24
"""Up to here float32 holds every integer."""
_LARGEST = 2.0**53
_GROWING = frozenset(("Add", "Cast", "CumSum", "Gemm", "MatMul", "Mul", "Pow", "ReduceSum", "Sub"))
"""What may give a larger number than it takes; the others choose one, or make it smaller."""
_SCALING = frozenset(("Div", "Mul"))
"""What makes other units of a number, as days of seconds. A difference of single ones is not too dear in float64."""
_ROUNDING = frozenset(("Ceil", "Floor", "Mod", "Round"))
_COMPARING = frozenset(("ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "TopK",
                        "Unique"))
_OF_ANY_FLOAT = frozenset((*_COMPARING, "Cast", "IsInf", "IsNaN"))
"""What takes float64 as well, and has results of other kinds."""


def widen(builder: GraphBuilder) -> None:
    """Calculate integers beyond 2^24 in float64 where they must be exact; notes those that are rounded even so."""
    if builder.dtype != "float32":
        return
    outputs = [tensor for _, tensor in builder.outputs]
    nodes = list(all_nodes(builder))
    edges = [edge for node in nodes if node.op in RULES or node.subgraphs() for edge in edges_of(node)]
    keeping = [edge for node in nodes if node.op in KEEPING for edge in edges_of(node)]
    sizes = magnitudes(builder.main, outputs, _EXACT - 1)
    wide: set[Tensor] = set()
    _demand(edges, _beyond(nodes, edges, magnitudes(builder.main, outputs, 1.0)), filter(_rounds, nodes), wide)
    _demand(edges, _beyond(nodes, edges, sizes), filter(_divides_whole, nodes), wide)
    counts = _of_integers(nodes)
    shares = {tensor for tensor in counts if tensor in sizes and not sizes[tensor].whole}
    decided = (node for node in nodes if _rounds(node) or node.op in _COMPARING)
    _demand(edges, counts, (node for node in decided if any(tensor in shares for tensor in node.inputs)), wide)
    words = _words(nodes, sizes)
    keeping += [(given, to) for given, to in edges if made_by(to, *_GROWING) is not None and _is_beyond(to, sizes)]
    single = [*keeping, *((given, to) for given, to in edges if made_by(to, *_SCALING) is not None and to.is_single)]
    before = -1
    while before != len(wide):
        before = len(wide)
        touched, kept, scaled = (reached(every, wide | words, (FLOAT,)) for every in (edges, keeping, single))
        compared = (node for node in nodes if node.op in _COMPARING
                    or (node.op in ("Add", "Sub") and any(tensor in (scaled if node.outputs[0].is_single else kept)
                                                          for tensor in node.inputs)))
        _demand(edges, touched, compared, wide)
    in_float = [node for node in nodes if not any(tensor in wide for tensor in node.inputs)]
    if any(tensor.kind == INT for tensor in builder.inputs):
        sizes = magnitudes(builder.main, outputs, _EXACT - 1, _EXACT - 1)  # that an input may be large is no news
        touched = reached(edges, wide | _words(nodes, sizes), (FLOAT,))
    builder.notes += _notes(builder, in_float, {tensor for tensor in touched if _is_beyond(tensor, sizes)})
    if wide:
        wide.update(_carried(nodes, wide))
        _retype(builder, wide)


def _rounds(node: Node) -> bool:
    """Whether a node makes integers of others, or takes them for exact."""
    return node.op in _ROUNDING or (node.op == "Cast" and node.outputs[0].kind in (INT, WIDE))


def _divides_whole(node: Node) -> bool:
    """Whether a node is certainly about integers, of inputs, too: a quotient or remainder of such, or bits."""
    if node.op == "Cast" and node.outputs[0].kind == INT:
        return made_by(node.inputs[0], "Clip") is not None
    return node.op == "Mod" or whole_quotient(node) is not None or (
        node.op == "Sub" and remainder_divisor(node) is not None)


def _of_integers(nodes: Iterable[Node]) -> set[Tensor]:
    """Return the floats that follow from integers and constants alone, such as ``0.29 * nrow(X)``.

    Of 100 rows that is less than 29 in float64, and 29 in float32.
    """
    found: set[Tensor] = set()
    for node in nodes:
        floats = [x for x in node.given() if x.kind == FLOAT and x.constant is None]
        of_integers = node.op == "Cast" and node.operand().kind == INT
        if node.op in RULES and (of_integers or (floats and all(x in found for x in floats))):
            found.update(tensor for tensor in node.outputs if tensor.kind == FLOAT)
    return found


def _is_beyond(tensor: Tensor, sizes: Mapping[Tensor, Magnitude]) -> bool:
    found = sizes.get(tensor)
    return tensor.kind == FLOAT and found is not None and found.whole and found.largest > _EXACT


def _words(nodes: Iterable[Node], sizes: Mapping[Tensor, Magnitude]) -> set[Tensor]:
    """Return the floats beyond 2^24 that integers are cast to."""
    return {node.outputs[0] for node in nodes if node.op == "Cast" and _is_beyond(node.outputs[0], sizes)}


def _beyond(nodes: Iterable[Node], edges: Sequence[Edge], sizes: Mapping[Tensor, Magnitude]) -> set[Tensor]:
    """Return the floats in whose calculation an integer beyond 2^24 has a part."""
    found = {tensor for node in nodes for tensor in node.outputs
             if (node.op in _GROWING and _is_beyond(tensor, sizes))
             or (node.op == "Div" and node.inputs[1] is not None and _is_beyond(node.inputs[1], sizes))
             or (node.op == "ReduceMean" and _sums_beyond(node, sizes))}
    return reached(edges, found, (FLOAT,))


def _sums_beyond(node: Node, sizes: Mapping[Tensor, Magnitude]) -> bool:
    found = sizes.get(node.operand())
    total = None if found is None else sum_before_division(node, found)
    return total is not None and total.whole and total.largest > _EXACT


def _demand(edges: Sequence[Edge], beyond: set[Tensor], starts: Iterable[Node], wide: set[Tensor]) -> None:
    """Add to `wide` what nodes that need exact numbers are calculated from, as far as it is `beyond`."""
    for node in starts:
        if any(tensor in beyond for tensor in node.inputs):
            wide.update(tensor for tensor in node.inputs if tensor in beyond)
            wide.update(tensor for tensor in node.outputs if tensor.kind == FLOAT)
    before = -1
    while before != len(wide):
        before = len(wide)
        for given, to in reversed(edges):
            if to in wide:
                wide.update(tensor for tensor in given if tensor in beyond)


def _carried(nodes: Iterable[Node], wide: set[Tensor]) -> set[Tensor]:
    """Return what loops carry and give in the end where either is wide: both are of one type."""
    pairs = (pair for node in nodes for body in node.subgraphs() for pair in zip(fed_back(node, body), node.outputs))
    return {tensor for pair in pairs if wide & set(pair) for tensor in pair}


def _notes(builder: GraphBuilder, nodes: Iterable[Node], beyond: Collection[Tensor]) -> Iterator[str]:
    """Yield where float32 rounds an integer that may matter: in an output, and beside what is compared."""
    advice = "--dtype float64 has them exact"
    for name, tensor in builder.outputs:
        if tensor in beyond:
            yield f"the output {name} has whole numbers beyond 2^24, which float32 rounds; {advice}"
    for node in nodes:
        if node.op in _COMPARING and any(_is_rounded(tensor) for tensor in node.inputs):
            yield f"{node.place}: compares whole numbers beyond 2^24, which float32 rounds; {advice}"


def _is_rounded(tensor: Tensor | None) -> bool:
    if tensor is None or tensor.kind != FLOAT or tensor.constant is None:
        return False
    content = tensor.constant[np.abs(tensor.constant) < _LARGEST]
    return bool(((np.floor(content) == content) & (content.astype(np.float32) != content)).any())


def _retype(builder: GraphBuilder, wide: set[Tensor]) -> None:
    outputs = [(name, _as_float(builder, tensor) if tensor in wide else tensor) for name, tensor in builder.outputs]
    for tensor in wide:
        tensor.kind = WIDE
    _Widening(wide).visit(builder.main)
    builder.outputs[:] = outputs


def _as_float(builder: GraphBuilder, tensor: Tensor) -> Tensor:
    found = Tensor(FLOAT, tensor.dims, tensor.hint)
    found.node = Node("Cast", (tensor,), (found,), {"to": TensorProto.FLOAT}, builder.place, builder.main)
    builder.main.nodes.append(found.node)
    return found


class _Widening(Retyping):
    """Lets what has a result in `wide` work in float64."""

    def __init__(self, wide: Collection[Tensor]) -> None:
        super().__init__(WIDE, TensorProto.DOUBLE)
        self.wide = wide

    def choose(self, node: Node) -> tuple[Sequence[bool], str] | None:
        if not any(tensor in self.wide for tensor in (*node.inputs, *node.outputs)):
            return None
        is_wide = node.op in _OF_ANY_FLOAT or any(tensor in self.wide for tensor in node.outputs)
        return [False] * len(node.inputs), WIDE if is_wide else FLOAT
