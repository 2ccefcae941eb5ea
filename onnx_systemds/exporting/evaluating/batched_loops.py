"""Vectorises loops with independent iterations: `results`.

An iteration may update its states in these ways, also in one branch of an if only:
* it writes rows or columns of its own into a matrix,
* it adds to a sum, multiplies a product, or updates an extreme,
* a branch sets a state, or searches for an extreme (`conditional_states`),
* it joins rows or columns to the end of a matrix,
* it sets a state that only matters after the last iteration.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.scalar_operators import compared_sizes
from onnx_systemds.exporting.evaluating.conditional_states import ConditionalStates, underlying
from onnx_systemds.exporting.evaluating.indexing import replaced
from onnx_systemds.exporting.evaluating.writes import Writes, replaced_ranges
from onnx_systemds.exporting.graph.liveness import captured
from onnx_systemds.exporting.graph.nodes import FLOAT, Range, Replacement, SubGraph, Tensor, first_found, made_by, pairs
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.passes.batching import Batched, Batching, Block
from onnx_systemds.exporting.passes.rowwise import all_rows
from onnx_systemds.inference.dims import Dim, Dims, maximum, multiply

_GATHERED = {"Add": "ReduceSum", "Mul": "ReduceProd", "Max": "ReduceMax", "Min": "ReduceMin"}
_NEUTRAL = {"Add": 0.0, "Mul": 1.0}
"""What an iteration combines with a state where it leaves it as it is."""


def may_not_run(trips: Dim) -> bool:
    """Whether a loop may have no iteration. trips: the length of its range, which may be negative."""
    return compared_sizes(">=", trips, 1) is not True


def iterations(trips: Dim) -> Dim:
    """How often a loop runs, of the length of its range."""
    return trips if compared_sizes(">=", trips, 0) is True else maximum(trips, 0)


def results(batching: Batching, initial: Mapping[Tensor, Tensor], ends: Sequence[Tensor]) -> list[Tensor]:
    """Return the values of the states after a loop.

    initial: what they hold before it. ends: what an iteration leaves of each. Raises UnsupportedCase where an iteration
    needs what another one has left.
    """
    chains = [Writes(batching.graph, state) for state in initial]
    made = [chain.of(end) for chain, end in zip(chains, ends)]
    blocks = [_common_block(batching, writes) if writes else None for writes in made]
    for chain, block in zip(chains, blocks):
        if block is not None:
            _check_partial(batching, chain, block)
    for (state, start), block in zip(initial.items(), blocks):
        if block is not None:
            batching.add_block_state(state, start, block)
    found = []
    conditional = ConditionalStates(batching, initial, ends)
    for (state, start), end, writes, block in zip(initial.items(), ends, made, blocks):
        if end is state:
            found.append(start)
        elif writes and block is not None:
            found.append(_written(batching, start, writes, block))
        else:
            found.append(_handed_on(batching, conditional, state, start, end))
    return found


def _handed_on(
    batching: Batching, conditional: ConditionalStates, state: Tensor, initial: Tensor, end: Tensor
) -> Tensor:
    """Return the final value of a state without block writes."""
    forms = (_gathered, lambda *_: conditional.of(state), _grown, _grown_by_some)
    found = first_found(form(batching, state, initial, end) for form in forms)
    return _last(batching, end) if found is None else found


def of_all_rows(batching: Batching, initial: Mapping[Tensor, Tensor], ends: Sequence[Tensor]) -> list[Tensor]:
    """Return the same for a loop over ranges that cover all rows, each row depending on the same row only."""
    found, writes = [], []
    for (state, start), end in zip(initial.items(), ends):
        made = replaced_ranges(end, state) or []
        found.append(start)
        if end is state:
            continue
        if len(made) != 1 or made[0].cols != Range(0, state.dims[1]):
            raise UnsupportedCase("the iterations of this loop do not write ranges of whole rows")
        writes.append((len(found) - 1, (made[0].part, made[0].rows, state.dims[0])))
    whole = all_rows(batching.graph, batching.scope, batching.trip, batching.trips, [write for _, write in writes])
    for (position, _), rows in zip(writes, whole):
        found[position] = rows
    return found


def _check_partial(batching: Batching, chain: Writes, block: Block) -> None:
    """Raise UnsupportedCase if a range that only some iterations write may be outside of the matrix."""
    for write in chain.partial:
        if not block.is_inside(batching.trips, chain.state.dims[block.axis]):
            raise UnsupportedCase("an iteration of this loop may write outside of a matrix")
        other, size = ((write.cols, write.rows)[block.axis], chain.state.dims[1 - block.axis])
        if not isinstance(other.start, int) or other.start < 0 or not _known_at_most(other.stop, size):
            raise UnsupportedCase("an iteration of this loop may write outside of a matrix")


def _known_at_most(stop: Dim, size: Dim) -> bool:
    beyond = stop - size
    return isinstance(beyond, int) and beyond <= 0


def _common_block(batching: Batching, writes: Sequence[Replacement]) -> Block:
    """Return the rows or columns that contain all writes of one iteration, and of no other iteration."""
    for axis in (0, 1):
        ranges = [(write.rows, write.cols)[axis] for write in writes]
        others = [(write.rows, write.cols)[1 - axis] for write in writes]
        if any(range_ != ranges[0] for range_ in ranges[1:]):
            continue
        block = batching.block_of(axis, ranges[0].start, ranges[0].size)
        if block is None or block.step != block.size:
            continue
        if all(batching.graph.computable(bound) for other in others for bound in (other.start, other.size)):
            return block
    raise UnsupportedCase("the iterations of this loop do not write a block of rows or columns each")


def _written(batching: Batching, initial: Tensor, writes: Sequence[Replacement], block: Block) -> Tensor:
    """Return a matrix with the blocks that the iterations write."""
    for write in writes:
        initial = _with_blocks(batching, initial, write, block, batching.of(write.part))
    return initial


def _with_blocks(batching: Batching, initial: Tensor, write: Replacement, block: Block, found: Batched) -> Tensor:
    """Return a matrix in which the blocks of all iterations hold what the iterations write, `found`."""
    graph = batching.graph
    block.check_inside(batching.trips, initial.dims[block.axis])
    own = Range(block.first, batching.trips * block.size)
    rows, cols = (own, write.cols) if block.axis == 0 else (write.rows, own)
    if block.size == 1 and not found.is_invariant:
        part = batching.in_place(found, write.part.dims, block.axis)
    else:
        part = batching.repeated(found, write.part.dims)
        part = part if block.axis == 0 else graph.transpose(part, (1, 0, 2))
    return replaced(graph, initial, graph.reshape(part, (rows.size, cols.size)), rows, cols)


def _gathered(batching: Batching, state: Tensor, initial: Tensor, end: Tensor) -> Tensor | None:
    """Return the final value of a sum, product or extreme; None for other states."""
    graph = batching.graph
    found = ((op, _operands(graph, op, end, state)) for op in _GATHERED)
    op, parts = next(((op, parts) for op, parts in found if parts is not None), ("", None))
    if parts is None or (op in ("Max", "Min") and may_not_run(batching.trips)):
        return None
    if not all(map(graph.computable, state.dims)):  # a row that becomes several by what is added
        return None
    for part in parts:
        every = batching.repeated(batching.of(part), part.dims)
        reduced = graph.reduce(_GATHERED[op], every, (0,), keepdims=False)
        if op in ("Max", "Min") and every.kind == FLOAT:  # ONNX leaves open what a reduction makes of NaN
            missing = graph.where(every.apply("IsNaN"), graph.number(math.nan), graph.number(0.0))
            reduced = reduced + graph.reduce("ReduceSum", missing, (0,), keepdims=False)
        initial = graph.binary(op, initial, reduced)
    return graph.reshape(initial, state.dims)


def _operands(graph: Operators, op: str, end: Tensor, state: Tensor) -> list[Tensor] | None:
    """Return what nodes `op` on the way from a state to its end combine it with; None where something else is there."""
    node = end.node
    if end is state:
        return []
    is_number = end.is_single and state.is_single
    if node is None or not (end.dims == state.dims or is_number):
        return None
    if node.op == "Identity" or (node.op == "Reshape" and is_number):
        return _operands(graph, op, node.operand(), state)
    if node.op == "If":
        return _operands_of_branches(graph, op, end, state)
    if op == "Add" and node.op == "Sub":
        found = _operands(graph, op, node.operand(), state)
        if found is None:
            return None
        with graph.subgraph(node.scope):
            return [*found, -node.operand(1)]
    if node.op != op or len(node.inputs) != 2:
        return None
    for one, other in pairs(node):
        found = _operands(graph, op, one, state)
        if found is not None:
            return [*found, other]
    return None


def _operands_of_branches(graph: Operators, op: str, end: Tensor, state: Tensor) -> list[Tensor] | None:
    """Return what an If gives that chooses between the operands of its branches; what has none changes nothing."""
    node = end.node
    assert node is not None
    bodies = node.subgraphs()
    chains = [_operands(graph, op, body.outputs[list(node.outputs).index(end)], state) for body in bodies]
    every = [part for chain in chains for part in chain or ()]
    if None in chains or not every:
        return None if None in chains else []
    kinds, forms = {part.kind for part in every}, {part.dims for part in every}
    kind, whole = every[0].kind, every[0] if len(forms) == 1 else end
    if op not in _NEUTRAL or len(kinds) > 1 or not (kind == FLOAT or whole.is_single):
        return None
    ends = []
    for body, chain in zip(bodies, chains):
        with graph.subgraph(body.scope):
            neutral = graph.constant(_NEUTRAL[op], kind)
            part = functools.reduce(functools.partial(graph.binary, op), chain) if chain else neutral
            ends.append((body.scope, [graph.expand(part, whole.dims)]))
    with graph.subgraph(node.scope):
        return list(graph.branches(node.operand(), ends, [(kind, whole.dims)]))


def _grown(batching: Batching, state: Tensor, initial: Tensor, end: Tensor) -> Tensor | None:
    """Return the final value of a matrix to whose end all iterations join something; None for others."""
    graph = batching.graph
    found = _joined(graph, state, end) if state.rank == 2 else None
    if found is None:
        return None
    axis, own = found
    if len(own) == 1 and own[0].dims[axis] == 1 and not (part := batching.of(own[0])).is_invariant:
        joined = batching.in_place(part, own[0].dims, axis)
    else:
        every = graph.concat([batching.repeated(batching.of(part), part.dims) for part in own], axis + 1)
        every = every if axis == 0 else graph.transpose(every, (1, 0, 2))
        sizes = multiply(batching.trips, every.dims[-2 if axis == 0 else -1])
        joined = graph.reshape(every, (sizes, every.dims[-1]) if axis == 0 else (every.dims[0], sizes))
    return joined if initial.dims[axis] == 0 else graph.concat([initial, joined], axis)


def _joined(graph: Operators, state: Tensor, end: Tensor) -> tuple[int, list[Tensor]] | None:
    """Return along which axis an iteration joins which parts to a state; None for anything else.

    For an If whose branches join parts of equal size there is one part, the result of the If.
    """
    node = underlying(end).node
    if node is not None and node.op == "Concat" and underlying(node.operand()) is state:
        return node.integer("axis"), [part for part in node.inputs[1:] if part is not None]
    if node is None or node.op != "If":
        return None
    position, bodies = list(node.outputs).index(underlying(end)), node.subgraphs()
    found = [_joined(graph, state, body.outputs[position]) for body in bodies]
    both = [each for each in found if each is not None]
    if len(both) < len(bodies) or both[0][0] != both[1][0]:
        return None
    axis, ends = both[0][0], []
    for body, (_, parts) in zip(bodies, both):
        with graph.subgraph(body.scope):
            ends.append(graph.concat(parts, axis))
    if ends[0].dims != ends[1].dims or ends[0].kind != ends[1].kind:
        return None
    chosen = [(body.scope, [part]) for body, part in zip(bodies, ends)]
    with graph.subgraph(node.scope):
        return axis, list(graph.branches(node.operand(), chosen, [(ends[0].kind, ends[0].dims)]))


def _grown_by_some(batching: Batching, state: Tensor, initial: Tensor, end: Tensor) -> Tensor | None:
    """Return the same if only the iterations of one branch join a row or a column."""
    graph, node = batching.graph, made_by(end, "If")
    if node is None or state.rank != 2:
        return None
    position, (then, otherwise) = list(node.outputs).index(end), node.subgraphs()
    for wanted, body, other in ((True, then, otherwise), (False, otherwise, then)):
        joined, unchanged = made_by(underlying(body.outputs[position]), "Concat"), other.outputs[position]
        if joined is None or underlying(joined.operand()) is not state or underlying(unchanged) is not state:
            continue
        axis, part = joined.integer("axis"), joined.operand(1)
        if len(joined.inputs) > 2 or part.dims[axis] != 1:
            return None
        batching.enter(batching.scope, body.scope, node.operand(), wanted)
        every = batching.in_place(Batched(batching.repeated(batching.of(part), part.dims)), part.dims, axis)
        taken = graph.reshape(batching.holds(node.operand(), wanted), (batching.trips,))
        dims = part.dims_with(axis, graph.size_symbol("joined"))
        chosen = graph.node("Compress", [every, taken], dims, part.kind, axis=axis)
        graph.bind_dims(chosen)
        return chosen if initial.dims[axis] == 0 else graph.concat([initial, chosen], axis)
    return None


def _last(batching: Batching, end: Tensor) -> Tensor:
    """Return the value of a state that the last iteration sets."""
    if may_not_run(batching.trips):
        raise UnsupportedCase("only the run knows whether this loop runs at all")
    found: Batched = batching.of(end)
    if found.is_invariant:
        return found.tensor
    every = batching.stacked(found, end.dims)
    last = batching.graph.slice(every, 0, batching.trips - 1, batching.trips, size=1)
    return batching.graph.reshape(last, end.dims)


class Collected:
    """States of a loop that it need not pass on: each iteration writes a block of its own, and nothing else reads them.

    The blocks are collected by the Loop (scan outputs) and put into the matrix after it.
    """

    def __init__(
        self, batching: Batching, states: Sequence[Tensor], ends: Sequence[Tensor], condition: Tensor
    ) -> None:
        self.batching = batching
        self.blocks: dict[int, tuple[Replacement, Block]] = {}
        if may_not_run(batching.trips):
            return
        for position, (state, end) in enumerate(zip(states, ends)):
            writes = replaced_ranges(end, state) or []
            with suppress(UnsupportedCase):
                if len(writes) == 1 and all(map(batching.graph.computable, writes[0].part.dims)):
                    self.blocks[position] = writes[0], _common_block(batching, writes)
        while True:
            others = [end for position, end in enumerate(ends) if position not in self.blocks]
            used = captured(SubGraph(batching.scope, (), (condition, *others, *self.parts())))
            read = [position for position in self.blocks if states[position] in used]
            if not read:
                return
            for position in read:
                del self.blocks[position]

    def parts(self) -> list[Tensor]:
        """Return the part that an iteration writes into each of them."""
        return [write.part for write, _ in self.blocks.values()]

    def kinds(self) -> list[tuple[str, Dims]]:
        """Return kind and dims of what the Loop collects."""
        return [(part.kind, (self.batching.trips, *part.dims)) for part in self.parts()]

    def matrices(self, made: Sequence[Tensor], initial: Sequence[Tensor]) -> dict[int, Tensor]:
        """Return the states after the loop, by their position, from what it has collected."""
        return {position: _with_blocks(self.batching, initial[position], write, block, Batched(tensor))
                for (position, (write, block)), tensor in zip(self.blocks.items(), made)}
