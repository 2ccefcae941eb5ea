"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx_systemds.cli.inspecting import size_text
from onnx_systemds.columns import aligned
from onnx_systemds.errors import counted, escaped
from onnx_systemds.importing.plan import HEAP, Plan, PlanRow

_WORDS = {"local": "in this process", "spark": "on Spark", "federated": "at federated sites"}


def plan_lines(plan: Plan) -> Iterator[str]:
    """A plan for people."""
    yield f"scored {_WORDS[plan.place]}, with a heap of {size_text(HEAP)}"
    if plan.refusal:
        yield f"not divided: {plan.refusal}" if plan.place == "local" else f"refused: {plan.refusal}"
    if plan.symbol is not None:
        yield _block_line(plan)
    header = ("operator", "of", "where", "result", *(["a block"] if plan.symbol is not None else []), "what to do")
    yield from aligned([header, *(_cells(plan, row) for row in plan.rows)])


def plan_summary(plan: Plan) -> dict[str, Any]:
    """A plan for other programs: bytes where people read kilobytes, None where a size is unknown."""
    return {
        "place": plan.place, "heap_bytes": HEAP, "refusal": plan.refusal or None, "symbol": plan.symbol,
        "rows": plan.count, "block_rows": plan.block_rows,
        "operators": [
            {"operator": row.node.op_type, "of": next(filter(None, row.node.outputs)), "where": row.where,
             "bytes": row.size, "block_bytes": row.block, "what_to_do": row.advice or None}
            for row in plan.rows
        ],
    }


def _block_line(plan: Plan) -> str:
    symbol, rows = escaped(plan.symbol or ""), plan.block_rows
    if rows is None:
        return "blocks of as many rows as other sizes allow; --dim says them"
    if plan.count is None:
        return f"blocks of {rows:,} rows; --dim {symbol}=ROWS says how many rows there are"
    return f"{plan.count:,} rows ({symbol}) in {counted(-(-plan.count // rows), 'block')} of {rows:,}"


def _cells(plan: Plan, row: PlanRow) -> tuple[str, ...]:
    name = next(filter(None, row.node.outputs))
    sizes = [row.size, *([row.block] if plan.symbol is not None else [])]
    return escaped(row.node.op_type), escaped(name), row.where, *(_size(size) for size in sizes), row.advice


def _size(size: int | None) -> str:
    return "?" if size is None else size_text(size)
