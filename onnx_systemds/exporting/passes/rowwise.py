"""The body of a loop over ranges of rows for all rows at once, where each row of its results comes from the same row.

A script that scores 64 rows at a time gives the same numbers when it scores them all; `Rowwise` shows that of a body,
operator by operator, and makes its nodes again for the whole matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.correspondence import ELEMENTWISE, REDUCTIONS
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.graph.liveness import needed_nodes
from onnx_systemds.exporting.graph.nodes import Node, Range, Scope, Tensor, first_found
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.passes.batching_rules import OF_IMAGES
from onnx_systemds.exporting.passes.fusing import reduced_axes
from onnx_systemds.inference.dims import Dim, Dims, Expression, Operation, maximum, minimum, substitute, symbol

_ALONG_AXIS = ("Softmax", "LogSoftmax", "ArgMax", "ArgMin", "Concat", "Gather")


def ranges_cover(rows: Range, height: Dim, trip: str, trips: Dim) -> bool:
    """Whether ranges of equal size, the last one shorter, are all rows from the first to the last, each one once."""
    start = rows.start
    match start:
        case Expression(terms=(((Operation(operator="mod", left=left, right=right),), 1),)) if (
            right in (height, maximum(height, 1))  # by 0 rows the remainder is 0, and there are no iterations
        ):
            start = left  # which is less, as long as the iterations do not reach beyond the last row
    size = substitute(start, {trip: symbol(trip) + 1}) - start
    if not isinstance(size, int) or size < 1 or substitute(start, {trip: 0}) != 0:
        return False
    if rows.size != minimum(height, rows.start + size) - rows.start:
        return False
    return trips == (height + size - 1) // size


class Rowwise:
    """Makes the nodes of a loop's body again, outside of it, for all rows."""

    def __init__(self, graph: Operators, scope: Scope, rows: Range, height: Dim) -> None:
        """`scope` is the body, which reads and writes `rows` of matrices of `height` rows."""
        self.graph, self.scope, self.rows, self.height = graph, scope, rows, height
        self.whole: dict[Tensor, Tensor] = {}
        self.invariant: dict[Tensor, Tensor] = {}

    def of(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the body for all rows. Raises UnsupportedCase where a row may depend on others."""
        for node in needed_nodes(self.scope, [tensor]):
            if len(node.outputs) == 1 and node.outputs[0] not in self.whole:
                self._make(node)
        if tensor not in self.whole:
            raise UnsupportedCase("the rows of this loop's results do not come from its rows")
        return self.whole[tensor]

    def _make(self, node: Node) -> None:
        graph, result = self.graph, node.outputs[0]
        graph.place = node.place or graph.place
        if not result.dims or result.dims[0] != self.rows.size:
            self._make_once(node)
        elif node.op == "Slice" and self._is_range(node):
            source = self._outside(node.operand())
            if source is not None:
                self.whole[result] = source
        elif node.op == "Expand":
            source = self._outside(node.operand())
            if source is not None and (source.rank < result.rank or source.dims[0] == 1):
                self.whole[result] = graph.expand(source, self._dims(result))
        elif node.op == "Reshape" and node.operand() in self.whole:
            self.whole[result] = graph.reshape(self.whole[node.operand()], self._dims(result))
        else:
            self._make_anew(node)

    def _make_anew(self, node: Node) -> None:
        """Make an operator that treats each row by itself; leave out any other."""
        result, operands = node.outputs[0], []
        for tensor in node.inputs:
            operand = None if tensor is None else first_found(of(tensor) for of in (self.whole.get, self._outside))
            if tensor is not None and operand is None:
                return
            operands.append(operand)
        if self._is_rowwise(node):
            self.whole[result] = self.graph.node(node.op, operands, self._dims(result), result.kind, **node.attributes)

    def _make_once(self, node: Node) -> None:
        """Make a node that is the same in all iterations."""
        operands = [None if tensor is None else self._outside(tensor) for tensor in node.inputs]
        missing = any(a is not None and b is None for a, b in zip(node.inputs, operands))
        if not missing and not node.subgraphs():
            result = node.outputs[0]
            self.invariant[result] = self.graph.node(node.op, operands, result.dims, result.kind, **node.attributes)

    def _outside(self, tensor: Tensor) -> Tensor | None:
        """Return a tensor that is the same in all iterations, None for others."""
        return self.invariant.get(tensor, tensor if self.graph.visible(tensor) else None)

    def _dims(self, tensor: Tensor) -> Dims:
        return (self.height, *tensor.dims[1:])

    def _is_range(self, node: Node) -> bool:
        """Whether a Slice reads the rows of the iteration, of a matrix with just the rows that are written."""
        source, start, axes = (node.operand(place) for place in (0, 1, 3))
        if axes.only_element != 0 or len(node.inputs) > 4:
            return False
        return source.dims[0] == self.height and self.graph.size_of(start) == self.rows.start

    def _is_rowwise(self, node: Node) -> bool:
        """Whether each row of a result depends on the same row of operands for all rows alone."""
        result, op = node.outputs[0], node.op
        rows = [tensor for tensor in node.given() if tensor in self.whole]
        others = [tensor for tensor in node.given() if tensor not in self.whole]
        if not rows or any(tensor.dims[0] != self.rows.size for tensor in rows):
            return False
        if op in ELEMENTWISE:
            return all(tensor.rank == result.rank for tensor in rows) and all(
                tensor.rank < result.rank or tensor.dims[0] == 1 for tensor in others)
        if op in _ALONG_AXIS:
            alone = not others or (op == "Gather" and node.inputs[0] in rows and len(rows) == 1)
            return node.integer("axis") % rows[0].rank != 0 and alone
        if rows != [node.inputs[0]]:
            return False
        return self._is_rowwise_alone(node)

    def _is_rowwise_alone(self, node: Node) -> bool:
        """The same for operators of which only the first operand has rows."""
        if node.op in REDUCTIONS:
            axes = reduced_axes(node)
            return axes is not None and 0 not in axes
        if node.op == "Transpose":
            return node.integers("perm")[0] == 0
        known = node.further_contents()
        if node.op == "Pad":
            widths = known[0]
            return widths is not None and not widths[0] and not widths[len(widths) // 2]
        if node.op == "Slice":
            return known[2] is not None and 0 not in known[2].ravel().tolist()
        if node.op == "CumSum":
            return known[0] is not None and known[0].item() not in (0, -node.outputs[0].rank)
        return node.op == "MatMul" or node.op in OF_IMAGES


def all_rows(
    graph: Operators, scope: Scope, trip: str, trips: Dim, writes: Sequence[tuple[Tensor, Range, Dim]]
) -> list[Tensor]:
    """Return the matrices of all rows. writes: what iterations write into ranges of them (part, rows, height)."""
    made: list[Tensor] = []
    for part, rows, height in writes:
        if not ranges_cover(rows, height, trip, trips):
            raise UnsupportedCase("the ranges that this loop writes are not known to be all rows")
        made.append(Rowwise(graph, scope, rows, height).of(part))
    return made
