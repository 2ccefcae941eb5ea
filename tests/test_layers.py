"""Imports point down the list of packages: none imports one that stands behind it, also for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import onnx_systemds

ROOT = Path(onnx_systemds.__file__).parent
LAYERS = ("dml", "engine", "model", "inference", "operators", "importing", "exporting", "runtime", "backend", "verifying",
          "cli")  # fmt: skip
BELOW = ("errors", "limits", "files", "array_files", "correspondence")
ABOVE = ("__init__", "__main__")


def test_every_module_has_a_layer() -> None:
    rooms = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert rooms == {*BELOW, *LAYERS, *ABOVE}


def test_imports_point_down() -> None:
    ranks = {room: rank for rank, room in enumerate(LAYERS, 1)} | dict.fromkeys(BELOW, 0)
    ranks |= dict.fromkeys(ABOVE, len(ranks))
    upward = [
        f"{path.relative_to(ROOT)}:{line} imports {room}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, room in _rooms_imported(path)
        if ranks[room] > ranks[path.relative_to(ROOT).with_suffix("").parts[0]]
    ]
    assert upward == []


def _rooms_imported(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from ((node.lineno, name.split(".")[1]) for name in names if name.startswith("onnx_systemds."))
