"""RNN, GRU and LSTM: calls of a DML function that runs one direction over time, see `recurrent_steps`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.dims import Dim, Dims
from onnx_systemds.inference.passes.direction_joining import JOINED
from onnx_systemds.inference.registry import batch_rule, generator, shape_rule
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value, View, bind
from onnx_systemds.operators.onnx.recurrent_steps import (
    GATES,
    Variant,
    activations_of,
    has_bias,
    is_linear_before_reset,
)
from onnx_systemds.operators.support.empty_outputs import empty
from onnx_systemds.operators.support.products import single_product
from onnx_systemds.operators.support.selection_products import gather_rows_text, is_finite

_X, _W, _R, _B, _LENS, _H, _C, _P = range(8)
# Two threads for two directions cost 5 ms to start: from here on (known sizes) they gain more.
_PARALLEL_STEPS = 32
_PARALLEL_HIDDEN = 64


@dataclass(frozen=True)
class Shape:
    """Sizes of a layer: steps, sequences, inputs, hidden units, directions; whether sequences come first.

    joined: whether the directions of all hidden states are after the sequences.
    """

    steps: Dim
    batch: Dim
    inputs: Dim
    hidden: int
    directions: int
    batch_first: bool
    joined: bool


def shape_of(node: NodeFacts) -> Shape:
    """The sizes, which opset 14 can also give with the sequences in front. Raises InvalidModel, UnsupportedCase."""
    batch_first = bool(node.attribute("layout"))
    if node.rank(_X) != 3:
        raise UnsupportedCase(f"the input has rank {node.rank(_X)}, the operator takes rank 3")
    for position in (_W, _R):
        if node.rank(position) != 3:
            raise InvalidModel(f"weights of rank {node.rank(position)}, the operator takes rank 3")
    first, second, inputs = node.dims(_X)
    steps, batch = (second, first) if batch_first else (first, second)
    hidden = node.dims(_R)[2]
    if not isinstance(hidden, int):
        hidden = int(node.attribute("hidden_size") or 0)
    if not hidden:
        raise UnsupportedCase("the hidden size is unknown")
    return Shape(steps, batch, inputs, hidden, directions_of(node), batch_first, bool(node.attribute(JOINED)))


def direction_of(node: NodeFacts) -> str:
    """forward, reverse or bidirectional, in lower case; forward where the oldest models leave it empty."""
    return str(node.attribute("direction") or "forward").lower()


def directions_of(node: NodeFacts) -> int:
    """How many directions a layer has."""
    return 2 if direction_of(node) == "bidirectional" else 1


@shape_rule("RNN", "GRU", "LSTM")
def recurrent_rule(node: NodeFacts) -> tuple[Value, ...]:
    """All hidden states, the last one, and the last cell state of an LSTM."""
    shape = shape_of(node)
    _check_sizes(node, shape)
    every: Dims
    last: Dims
    if shape.batch_first:
        every = (shape.batch, shape.steps, shape.directions, shape.hidden)
        last = (shape.batch, shape.directions, shape.hidden)
    else:
        inner = (shape.batch, shape.directions) if shape.joined else (shape.directions, shape.batch)
        every = (shape.steps, *inner, shape.hidden)
        last = (shape.directions, shape.batch, shape.hidden)
    return (node.tensor(every), node.tensor(last), *([node.tensor(last)] if node.node.op_type == "LSTM" else []))


def _check_sizes(node: NodeFacts, shape: Shape) -> None:
    """Raise UnsupportedCase where weights or initial states are known not to be of these sizes."""
    rows = GATES[node.node.op_type] * shape.hidden
    written = node.attribute("hidden_size")
    node.assume_equal(written or shape.hidden, shape.hidden, "hidden_size", f"the last axis of {quoted(node.name(_R))}")
    directions = (shape.directions, "the number of directions")
    gates, units = "that of hidden units and their gates", (shape.hidden, "that of hidden units")
    batch = (shape.batch, "that of sequences")
    states = (batch, directions, units) if shape.batch_first else (directions, batch, units)
    sizes = {_W: (directions, (rows, gates), (shape.inputs, "that of inputs")), _R: (directions, (rows, gates), units),
             _B: (directions, (2 * rows, gates)), _LENS: (batch,), _H: states, _C: states,
             _P: (directions, (3 * shape.hidden, gates))}
    for position, wanted in sizes.items():
        if not node.has(position):
            continue
        if node.rank(position) != len(wanted):
            raise InvalidModel(f"{quoted(node.name(position))} of rank {node.rank(position)}, not {len(wanted)}")
        for axis, (size, words) in enumerate(wanted):
            node.assume_equal(node.dims(position)[axis], size, node.axis_words(position, axis), words)


@batch_rule("RNN", "GRU", "LSTM")
def _recurrent_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """X [steps, batch, features], lengths of sequences, initial states [directions, batch, units]; or batch first."""
    batch, size = 0 if node.attribute("layout") else 1, node.dims(position)[axis]
    alike = [(0, batch), (4, 0), (5, batch), (6, batch)]
    return (position, axis) not in alike or any(
        node.dims(other)[its] != size for other, its in alike if node.has(other)
    )


@generator("RNN", since=(1, 7, 14))
@generator("GRU", since=(1, 3, 7, 14))
@generator("LSTM", since=(1, 7, 14))
def recurrent(node: NodeView) -> Fragment:
    """A call for each direction. Opset 7 removed output_sequence, opset 14 added layout."""
    return Layer(node, node.node.op_type, shape_of(node)).fragment()


class Layer:
    """The statements of one node."""

    @property
    def variant(self) -> type[Variant]:
        """What writes the function of one direction."""
        return Variant

    def __init__(self, node: NodeView, kind: str, shape: Shape) -> None:
        self.node = node
        self.kind = kind
        self.shape = shape
        self.states = ["h", "c"] if self.kind == "LSTM" else ["h"]
        self.activations = activations_of(node, self.kind, self.shape.directions)

    def fragment(self) -> Fragment:
        """The calls of all directions, and the outputs from them."""
        node, shape = self.node, self.shape
        if shape.steps * shape.batch == 0:
            return self._unchanged()
        x = self.input()
        backward = [direction_of(node) == "reverse"] if shape.directions == 1 else [False, True]
        calls = []
        for direction, is_backward in enumerate(backward):
            function = self.variant(node, self.kind, self.activations[direction])
            weights = self.weights(direction, function.is_doubled)
            way = f"as.matrix({-1 if is_backward else 1})"
            arguments = [*self._gates(x, weights), *self._states(direction), *self._extras(direction), way]
            calls.append(f"{function.register()}({', '.join(arguments)})")
        results = self._in_parallel(calls) if self._is_worth_threads() else self._in_turn(calls)
        fragment = node.fragment()
        for position, per_direction in enumerate(zip(*results)):
            if node.wants(position):
                text, view = self._last(per_direction) if position else self._every(per_direction)
                fragment += node.result(text, view, position)
        return fragment

    def _gates(self, x: str, weights: Sequence[str]) -> list[str]:
        """What the inputs add to the gates, then the weights of the states and their bias.

        The product is not in the function: layers with inputs of several sizes share one.
        """
        rows, count = self.shape.steps * self.shape.batch, GATES[self.kind] * self.shape.hidden
        of_inputs, of_states, *biases = weights
        product = single_product(self.node, x, of_inputs, (rows, self.shape.inputs, count))
        added = " + ".join([product, *biases[:1]])
        return [self.node.reshape(added, View(rows, count)), of_states, *biases[1:]]

    def _in_turn(self, calls: Sequence[str]) -> list[list[str]]:
        """Write the call of each direction; return for each its results: all states, the last ones."""
        suffixes = ["_forward", "_backward"] if len(calls) == 2 else [""]
        results = [[self.node.temporary(hint + suffix) for hint in ["all", *self.states]] for suffix in suffixes]
        self.node.write(*(f"[{', '.join(names)}] = {call}" for names, call in zip(results, calls)))
        return results

    def _in_parallel(self, calls: Sequence[str]) -> list[list[str]]:
        """As `_in_turn`, each direction in a thread of its own; its results are a row of those of both."""
        node, shape = self.node, self.shape
        states = View(shape.batch, shape.hidden)
        views = [View(shape.steps * shape.batch, shape.hidden), *(states for _ in self.states)]
        hints = ["all", *self.states]
        names = [node.temporary(hint) for hint in hints]
        both = [node.temporary(f"both_{hint}") for hint in hints]
        rows = [View(1, view.rows * view.cols) for view in views]
        wanted = [position for position in range(len(hints)) if node.wants(position)]
        direction = node.temporary("direction")
        node.write(*(f"{both[i]} = {node.filled(0, View(2, rows[i].cols))}" for i in wanted),
                   f"parfor ({direction} in 1:2, check=0, par=2, mode=LOCAL, opt=CONSTRAINED) {{")
        for opening, call in zip((f"if ({direction} == 1) {{", "} else {"), calls):
            node.write(f"  {opening}", f"    [{', '.join(names)}] = {call}")
        node.write("  }", *(f"  {both[i]}[{direction}, ] = {node.reshape(names[i], rows[i])}" for i in wanted), "}")
        results = [[node.reshape(f"{name}[{which}, ]", view) for name, view in zip(both, views)] for which in (1, 2)]
        if not (shape.batch_first or shape.joined):  # all states are read by whole steps, which are reshaped anyway
            results = [[f"{both[0]}[{which}, ]", *last] for which, (_, *last) in enumerate(results, 1)]
        return results

    def _is_worth_threads(self) -> bool:
        shape = self.shape
        is_short = isinstance(shape.steps, int) and shape.steps < _PARALLEL_STEPS
        return shape.directions == 2 and shape.hidden >= _PARALLEL_HIDDEN and not is_short

    def _unchanged(self) -> Fragment:
        """No step is taken: the states stay as they are."""
        node, fragment = self.node, self.node.fragment()
        for output, position in enumerate((_X, _H, _C)[: 1 + len(self.states)]):
            if not node.wants(output):
                continue
            if output == 0 or self.shape.batch == 0:
                fragment += empty(node, output)
            else:
                states = [self._state(position, direction) for direction in range(self.shape.directions)]
                fragment += node.result(*self._last(states), output)
        return fragment

    def input(self) -> str:
        """X with a row for each step and sequence, the steps outermost."""
        node, shape = self.node, self.shape
        rows = shape.steps * shape.batch
        x = node.view(_X, View(rows, shape.inputs))
        if not shape.batch_first or shape.batch == 1:
            return x
        return _swapped(node, x, shape.batch, shape.steps, shape.inputs, finite=is_finite(node, _X))

    def weights(self, direction: int, is_doubled: bool) -> list[str]:
        """W and R as the products read them, and the bias as a row (two for GRUs that need them apart).

        is_doubled: whether those of the candidate are doubled; then all of them are known.
        """
        node, count = self.node, GATES[self.kind] * self.shape.hidden
        texts = []
        for position, hint, inner in ((_W, "input_weight", self.shape.inputs), (_R, "weight", self.shape.hidden)):
            known = node.constant(position)
            if known is not None:
                columns = self._with_candidate(known[direction].T, is_doubled=is_doubled)
                texts.append(node.constant_matrix(columns, f"{hint}{direction}"))
                continue
            whole = node.view(position, View(self.shape.directions * count, inner))
            texts.append(f"t({_rows(whole, direction, count, self.shape.directions)})")
        return [*texts, *self.bias(direction, count, is_doubled)]

    def _with_candidate(self, columns: Array, *, is_doubled: bool) -> Array:
        """Weights with a column per gate and unit; those of the candidate, which are the last ones, doubled."""
        if not is_doubled:
            return columns
        doubled = columns.astype(np.promote_types(columns.dtype, np.float32))
        doubled[:, -self.shape.hidden :] *= 2
        return doubled

    def bias(self, direction: int, count: int, is_doubled: bool) -> list[str]:
        """The bias of a direction as rows, where there is one."""
        node = self.node
        if not has_bias(node):
            return []
        apart = 2 * self.shape.hidden if is_linear_before_reset(node) else count
        known = node.constant(_B)
        if known is not None:
            given, recurrent_ = known[direction, :count].copy(), known[direction, count:]
            given[:apart] += recurrent_[:apart]
            rows = [self._with_candidate(given[None, :], is_doubled=is_doubled), recurrent_[None, apart:]]
            return [node.constant_matrix(row, f"bias{direction}{'_of_state' if index else ''}")
                    for index, row in enumerate(rows) if row.size]
        whole = node.view(_B, View(self.shape.directions, 2 * count))
        name = f"{whole}[{direction + 1}, "
        both = f"{name}1:{apart}] + {name}{count + 1}:{count + apart}]"
        if apart == count:
            return [both]
        return [f"cbind({both}, {name}{apart + 1}:{count}])", f"{name}{count + apart + 1}:{2 * count}]"]

    def _states(self, direction: int) -> list[str]:
        return [self._state(position, direction) for position in (_H, _C)[: len(self.states)]]

    def _state(self, position: int, direction: int) -> str:
        node, shape = self.node, self.shape
        if not node.has(position):
            return node.filled(0, View(shape.batch, shape.hidden))
        if shape.directions == 1:
            return node.view(position, View(shape.batch, shape.hidden))
        if shape.batch_first:
            whole = node.view(position, View(shape.batch, 2 * shape.hidden))
            return f"{whole}[, {direction * shape.hidden + 1}:{(direction + 1) * shape.hidden}]"
        whole = node.view(position, View(2 * shape.batch, shape.hidden))
        first, last = node.dim(shape.batch * direction + 1), node.dim(shape.batch * (direction + 1))
        return node.reshape(f"{whole}[({first}):({last}), ]", View(shape.batch, shape.hidden))

    def _extras(self, direction: int) -> list[str]:
        """Peepholes and lengths, where they are given."""
        node, shape = self.node, self.shape
        extras = []
        if self.kind == "LSTM" and node.has(_P):
            whole = node.view(_P, View(3 * shape.directions, shape.hidden))
            extras.append(_rows(whole, direction, 3, shape.directions))
        if node.has(_LENS):
            extras.append(node.view(_LENS, View(shape.batch, 1)))
        return extras

    def _every(self, directions: Sequence[str]) -> tuple[str, View]:
        node, shape = self.node, self.shape
        rows = shape.steps * shape.batch
        if shape.batch_first:
            texts = [
                text if shape.batch == 1
                else _swapped(node, text, shape.steps, shape.batch, shape.hidden, finite=False)
                for text in directions
            ]
            return bind("cbind", texts), View(rows, shape.directions * shape.hidden)
        if shape.directions == 1 or shape.joined:
            return bind("cbind", directions), View(rows, shape.directions * shape.hidden)
        wide = View(shape.steps, shape.batch * shape.hidden)
        return bind("cbind", [node.reshape(text, wide) for text in directions]), View(wide.rows, 2 * wide.cols)

    def _last(self, directions: Sequence[str]) -> tuple[str, View]:
        shape = self.shape
        if shape.batch_first:
            return bind("cbind", directions), View(shape.batch, shape.directions * shape.hidden)
        return bind("rbind", directions), View(shape.directions * shape.batch, shape.hidden)


def _rows(whole: str, direction: int, count: int, directions: int) -> str:
    return whole if directions == 1 else f"{whole}[{direction * count + 1}:{(direction + 1) * count}, ]"


def _swapped(node: NodeView, text: str, outer: Dim, inner: Dim, cols: Dim, *, finite: bool) -> str:
    """Rows that run over (outer, inner) in the order (inner, outer)."""
    rows = outer * inner
    count = f"seq(0, {node.dim(rows - 1)})"
    index = f"({count} %% {node.factor(outer)}) * {node.factor(inner)} + ({count} %/% {node.factor(outer)}) + 1"
    return gather_rows_text(node, text, index, rows, rows, cols, finite=finite)
