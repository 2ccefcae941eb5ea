"""The notebook is run cell by cell: what it shows is what its cells print."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parent.parent.parent / "docs" / "tutorials" / "notebook.ipynb"
CONTENT = json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def shown(cell: dict[str, Any]) -> str:
    """The text that a cell printed when the notebook was saved."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


@pytest.mark.engine
def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = [cell for cell in CONTENT["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        assert printed.getvalue() == shown(cell), f"cell {number}"
    assert len(cells) >= 8


def test_the_notebook_is_saved_as_it_was_run() -> None:
    """Format 4.5: cells have names, code is numbered as it was run, and nothing failed."""
    assert (CONTENT["nbformat"], CONTENT["nbformat_minor"]) == (4, 5)
    cells = CONTENT["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    assert {output["output_type"] for cell in code for output in cell["outputs"]} == {"stream"}
