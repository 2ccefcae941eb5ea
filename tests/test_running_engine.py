"""Scripts one after the other in a JVM that stays see their own folders alone, as each would in a JVM of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import run_dml

READS = 'X = read("X", format="csv", header=FALSE)\nX = X + 1\nprint("sum é " + sum(X))\nwrite(X, "./Y", format="csv")'


def _printed(script: str, folder: Path, **arguments: str) -> str:
    """The first line of what a script prints."""
    return run_dml(script, folder, arguments=arguments).splitlines()[0]


def _folder(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "X").write_text(text)
    return path


def test_folders(tmp_path: Path) -> None:
    first, second = _folder(tmp_path / "first", "1,2\n"), _folder(tmp_path / "second", "5\n6\n7\n")
    assert _printed(READS, first) == "sum é 5.0"
    assert _printed(READS, second) == "sum é 21.0"
    assert [(folder / "Y").read_text() for folder in (first, second)] == ["2.0,3.0\n", "6.0\n7.0\n8.0\n"]
    assert not (first / "Y").is_symlink() and (first / "X").read_text() == "1,2\n"
    assert _printed(READS.replace('"./Y"', '"./X"'), first) == "sum é 5.0"  # what a script writes again is its folder's
    assert (first / "X").read_text() == "2.0,3.0\n"
    with pytest.raises(AssertionError, match="Y"):
        run_dml('Z = read("Y")', _folder(tmp_path / "third", "1\n"))  # files of the other folders are gone


def test_what_fails_says_why_and_stops_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="(?s)before.*no such luck"):
        run_dml('print("before")\nif (sum(rand(rows=2, cols=2)) > -1) { stop("no such luck") }', tmp_path)
    with pytest.raises(AssertionError, match="Undefined Variable"):
        run_dml("X = Y + 1", tmp_path)
    script = 'a = ifdef($a, "none")\nprint(a)'
    assert [_printed(script, tmp_path), _printed(script, tmp_path, a="one"), _printed(script, tmp_path)] == ["none", "one", "none"]
