"""The plan of the program that scores files: where it would compute each node of a model.

What can be tasks, blocks and sites, and how many rows a block has, `score_program` decides; which functions a node
calls the script tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from onnx_systemds.dml.call_graph import callers, calls
from onnx_systemds.engine.placing import BUDGET_SHARE, IN_DRIVER
from onnx_systemds.importing.block_sizes import BLOCK_BYTES
from onnx_systemds.importing.convert import import_model, typed_model
from onnx_systemds.importing.declared_inputs import with_types
from onnx_systemds.importing.score_program import Places, places_of
from onnx_systemds.importing.script import Script
from onnx_systemds.inference.memory import bytes_of, steps_of
from onnx_systemds.inference.typed_graph import TypedGraph
from onnx_systemds.model.ir import Model, Node, Type

PLACES = ("local", "spark", "federated")
HEAP = 2 << 30
"""Of the process, driver or coordinator that a plan is made for."""
BUDGET = int(HEAP * BUDGET_SHARE)
_IN_ONE_PLACE = "the engine computes with texts in one place only"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A node that the script computes. where: process (blocks or one call), task, spark, driver, site or refused.

    size: bytes of its results for all rows. block: for one block. None where sizes are open. advice: what to do where
    it does not scale, else "".
    """

    node: Node
    where: str
    size: int | None
    block: int | None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows of a plan. symbol: the dim that counts the rows, if these are scored in blocks of ``block_rows``.

    count: the number of rows, None if not said. refusal: why the place that was asked for has no blocks; "" if it has.
    """

    place: str
    symbol: str | None
    count: int | None
    block_rows: int | None
    refusal: str
    rows: tuple[PlanRow, ...]


def plan_of(model: Model, sizes: Mapping[str, int], types: Mapping[str, Type], place: str) -> Plan:
    """The plan for one of `PLACES`. sizes: of dims, the number of rows among them. types: those of inputs.

    Raises TranspileError where the model cannot be converted or has no program that scores files.
    """
    script, fixed = _script_for_rows(model, sizes, types)
    if script.batch is None and len(types) > 1:  # as `script_for_rows`
        types = {}
        script, fixed = _script_for_rows(model, sizes, types)
    places, batch = places_of(script), script.batch
    refusal = _refusal(place, places)
    is_whole = batch is None or places.rows is None or (place == "federated" and bool(refusal))
    symbol = None if is_whole or batch is None else batch.symbol
    graph = typed_model(replace(model, graph=with_types(model.graph, types)), fixed).graph
    count = None if symbol is None else sizes.get(symbol)
    block_rows = places.task_rows if place == "spark" else places.rows_of_block(sizes)
    block_rows = None if symbol is None else block_rows
    if block_rows is not None and count is not None:
        block_rows = min(block_rows, max(count, 1))
    made = Plan(place, symbol, count, block_rows, refusal, ())
    return replace(made, rows=tuple(_Rows(made, graph, script, sizes).rows()))


def _script_for_rows(
    model: Model, sizes: Mapping[str, int], types: Mapping[str, Type]
) -> tuple[Script, dict[str, int]]:
    """The script whose rows are open, as for a program that scores any number of them, and the sizes that it fixes."""
    for name in sizes:
        fixed = {other: size for other, size in sizes.items() if other != name}
        script = import_model(model, dims=fixed, types=types, functions="keep")
        if script.batch is not None and script.batch.symbol == name:
            return script, fixed
    return import_model(model, dims=sizes, types=types, functions="keep"), dict(sizes)


def _refusal(place: str, places: Places) -> str:
    """Why rows are not divided as the place asks for."""
    if place == "federated":
        return places.no_sites
    if places.one_call:
        return places.one_call
    return places.no_tasks if place == "spark" else ""


class _Rows:
    """Makes the rows of a plan that has none yet. sizes: of dims."""

    def __init__(self, plan: Plan, graph: TypedGraph, script: Script, sizes: Mapping[str, int]) -> None:
        self.graph, self.script, self.place, self.refusal = graph, script, plan.place, plan.refusal
        self.sizes, self.in_blocks = dict(sizes), plan.symbol is not None
        self.block = {name: size for name, size in sizes.items() if name != plan.symbol}
        if plan.symbol is not None and plan.block_rows is not None:
            self.block[plan.symbol] = plan.block_rows
        called = script.unspecialised
        self.driver_functions = callers((*called.library, *called.functions), IN_DRIVER)

    def rows(self) -> Iterator[PlanRow]:
        """One for each node that the script computes, in their order."""
        for step, _ in steps_of(self.graph):
            node = step.node
            name = next(filter(None, node.outputs))
            if name in self.script.written:
                where, advice = self._where(node, step.own)
                size, block = (self._bytes(node, sizes) for sizes in (self.sizes, self.block))
                if self.in_blocks and not advice and block is not None and block > BLOCK_BYTES:
                    advice = "a row alone is larger than a block: more memory for each thread"
                is_result = not set(node.outputs).isdisjoint(self.graph.outputs)
                if not advice and is_result and size is not None and size > BUDGET:
                    advice = f"all rows of the result come together in one process: {_heap(size)}"
                yield PlanRow(node, where, size, block if self.in_blocks else None, advice)

    def _bytes(self, node: Node, sizes: Mapping[str, int]) -> int | None:
        found = [bytes_of(self.graph.values[name], sizes) for name in node.outputs if name]
        return sum(size for size in found if size is not None) if None not in found else None

    def _where(self, node: Node, own: int) -> tuple[str, str]:
        """Where a node is computed, and what to do where that does not scale. own: bytes that it takes in one call."""
        if self.place == "federated":
            return ("refused", "pull=TRUE: the coordinator fetches rows") if self.refusal else ("site", "")
        if self.in_blocks:
            if self.place == "local":
                return "process", ""
            return ("refused", "place=local: blocks in one process") if self.refusal else ("task", "")
        here = "process" if self.place == "local" else "driver"
        values = [self.graph.values[name] for name in (*node.inputs, *node.outputs) if name]
        is_known = all(bytes_of(value) is not None for value in values)
        if is_known and own <= BUDGET:
            return here, ""
        more = f"it takes {own / 1e9:.1f} GB at once: {_heap(own)}" if is_known else "its size shows in the run only"
        if self.place == "local":
            return here, more
        if any(value.is_text for value in values):
            return here, f"{_IN_ONE_PLACE}; {more}"
        written = self.script.written[next(filter(None, node.outputs))]
        only = self.driver_functions.intersection(name for statement in written for name in calls(statement))
        if only:
            return here, f"{min(only)} has no form on Spark; {more}"
        return ("spark", "") if is_known else ("driver or spark", more)


def _heap(size: int) -> str:
    return f"a heap above {size / BUDGET_SHARE / 1e9:.1f} GB, or fewer rows a call"
