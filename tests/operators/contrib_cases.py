"""Case rows of onnxruntime's own operators."""

from __future__ import annotations

from tests.operators.harness import Array, Case


def contrib(op_type: str, inputs: dict[str, Array | None], **others: object) -> Case:
    """A row of domain com.microsoft."""
    return Case(op_type, 1, inputs, domain="com.microsoft", **others)  # type: ignore[arg-type]
