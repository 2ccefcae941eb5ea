"""Tutorials and the page of messages are followed to their end, as a reader does it."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import Block, agrees, blocks_of, follow, is_excerpt

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = ("tutorials/scikit_learn", "tutorials/boosted_trees", "tutorials/from_systemds", "tutorials/training_on", "tutorials/explaining",
         "tutorials/combining",
         "troubleshooting", "looking_inside", "speed")
BY_JAVA = "java"
BY_PYTORCH = ("tutorials/pytorch", "tutorials/keras")


def test_every_tutorial_is_followed() -> None:
    tutorials = {f"tutorials/{path.stem}" for path in (DOCS / "tutorials").glob("*.md")}
    assert tutorials <= {*PAGES, *BY_PYTORCH}


BROUGHT = {"numpy", "onnx", "onnx_systemds", "systemds"}  # by onnx-systemds[engine]
DISTRIBUTIONS = {"sklearn": "scikit-learn", "xgboost": "xgboost-cpu"}  # of modules of other names


def used_packages(page: str) -> Iterator[str]:
    """What the Python files of a page import, and what its outputs show at work."""
    for block in blocks_of(page):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.text)):
                modules = [name.name for name in node.names] if isinstance(node, ast.Import) else []
                modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                yield from (DISTRIBUTIONS.get(name.partition(".")[0], name.partition(".")[0]) for name in modules)
        elif block.language == "text" and "judge: onnxruntime" in block.text:
            yield "onnxruntime"


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_a_tutorial_installs_what_it_uses(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    first = next(block for block in blocks_of(text) if block.language == "sh")
    installed = set(re.findall(r"[\w.-]+", first.text))
    assert {*used_packages(text)} - BROUGHT - set(sys.stdlib_module_names) <= installed


@pytest.mark.engine
@pytest.mark.parametrize("page", [*PAGES, *(pytest.param(page, marks=pytest.mark.pytorch) for page in BY_PYTORCH)])
def test_a_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert follow(DOCS / f"{page}.md", tmp_path, Path(sys.executable).parent) >= 3


@pytest.mark.engine
@pytest.mark.skipif(shutil.which("javac") is None, reason="Java has no compiler here")
def test_the_page_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert follow(DOCS / f"{BY_JAVA}.md", tmp_path, Path(sys.executable).parent) == 2


def test_blocks_of_a_page() -> None:
    page = 'Words\n```python title="a.py"\nprint(1)\n```\n\n```text\n1\n```\n'
    assert list(blocks_of(page)) == [Block("python", "a.py", "print(1)\n", 2), Block("text", "", "1\n", 6)]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [("a 1...\nb\n", "a 123\nb  \n", True), ("a\n...\nd", "a\nb\nc\nd\n", True), ("a\n", "a\nb\n", False), ("a.c", "abc", False)],
)
def test_what_a_page_shows_of_output(shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) is same


def test_an_excerpt_is_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.dml").write_text("f = function()\n{\n  x = 1\n}\n", encoding="utf-8")
    assert is_excerpt("f = function()\n...\n  x = 1\n", tmp_path)
    assert not is_excerpt("x = 1\nf = function()\n", tmp_path)


@pytest.mark.parametrize(
    ("page", "message"),
    [("```bash\nfalse\n```\n", "page.md:1"), ("```bash\necho 1\n```\n```text\n2\n```\n", "printed is\n1"),
     ("```r\nx = 1\n```\n", "no file holds this")],
)
def test_a_page_that_is_not_true(page: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    with pytest.raises(AssertionError, match=message):
        follow(tmp_path / "page.md", tmp_path, Path(sys.executable).parent)
