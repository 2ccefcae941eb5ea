"""Generated documents are fresh: rewritten by ``python -m tests.test_docs``."""

from __future__ import annotations

from pathlib import Path

from onnx_systemds.support_table import document

OPERATORS = Path(__file__).parent.parent / "docs" / "operators.md"


def test_operators_document_is_fresh() -> None:
    assert OPERATORS.read_text(encoding="utf-8") == document()


if __name__ == "__main__":
    OPERATORS.write_text(document(), encoding="utf-8")
