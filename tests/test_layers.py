"""Imports point down the list of packages, and modules import each other in no circle; also for types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx_systemds

ROOT = Path(onnx_systemds.__file__).parent
LAYERS = ("tables", "dml", "engine", "model", "inference", "operators", "importing", "exporting", "runtime", "backend", "verifying",
          "cli")
BELOW = ("errors", "limits", "files", "array_files", "correspondence", "version", "registration", "plugins", "stages", "columns")
ABOVE = ("__init__", "__main__")


def test_every_module_has_a_layer() -> None:
    rooms = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert rooms == {*BELOW, *LAYERS, *ABOVE}


def test_no_module_has_more_than_400_lines() -> None:
    lengths = {_module(path): len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.rglob("*.py")}
    assert {module: length for module, length in lengths.items() if length > 400} == {}


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


def test_generators_see_nothing_of_the_function_around_them() -> None:
    """What the author of an operator needs is in `operators.api`."""
    generators = [path for room in ("onnx", "ml", "contrib", "support") for path in (ROOT / "operators" / room).glob("*.py")]
    rendering = {f"{_module(path)}:{line}" for path in generators for line, name in _imported(path) if ".rendering" in name}
    hidden = {f"{_module(path)}:{node.lineno}" for path in generators
              for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
              if isinstance(node, ast.Attribute) and node.attr == "_scope"}
    assert len(generators) > 50
    assert rendering | hidden == set()


def test_modules_import_each_other_in_no_circle() -> None:
    """Where an algorithm is mutually recursive, the function to call is handed down (`Rules` of exporting)."""
    paths = {_module(path): path for path in ROOT.rglob("*.py")}
    imports = {name: {_known(found, paths) for _, found in _imported(path)} & paths.keys() - {name}
               for name, path in paths.items()}
    assert sorted(name for name in paths if name in _reached(imports, name)) == []


def _reached(imports: Mapping[str, set[str]], start: str) -> set[str]:
    """The modules that one imports, directly or through others."""
    found: set[str] = set()
    waiting = list(imports[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imports[name]
    return found


def _module(path: Path) -> str:
    return ".".join((ROOT.name, *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def _known(name: str, paths: Mapping[str, Path]) -> str:
    """The module of an imported name, which may stand in it."""
    return name if name in paths else name.rpartition(".")[0]


def _rooms_imported(path: Path) -> Iterator[tuple[int, str]]:
    yield from ((line, name.split(".")[1]) for line, name in _imported(path))


def _imported(path: Path) -> Iterator[tuple[int, str]]:
    """The lines and names of what a module imports of the package."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from ((node.lineno, name) for name in names if name.startswith(f"{ROOT.name}."))
