"""Whole programs in a JVM of their own: what they print."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import pytest

from onnx_systemds.engine import jvm, programs
from onnx_systemds.engine.errors import EngineError, ScriptCompileError
from onnx_systemds.engine.jvm import Jvm
from onnx_systemds.engine.launcher import start_jvm
from onnx_systemds.engine.programs import run_program


class _Slow:
    """A stream whose lines come late, as to a thread of a busy machine."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        line = self._stream.readline()
        if line.startswith(b"line "):
            time.sleep(0.1)
        return line

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


@pytest.fixture(autouse=True)
def _own_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "start_jvm", start_jvm)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    drain = Jvm._drain
    monkeypatch.setattr(Jvm, "_drain", lambda each, stream: drain(each, _Slow(stream)))  # type: ignore[arg-type]
    yield


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("fails", [False, True])
def test_what_is_printed_last_is_told_where_it_is_read_late(fails: bool, tmp_path: Path) -> None:
    program, printed = tmp_path / "program.dml", list[str]()
    end = 'if (sum(rand(rows=2, cols=2)) > -1) { stop("enough") }' if fails else ""
    program.write_text(f'for (i in 1:10) {{ print("line " + i) }}\n{end}')
    with pytest.raises(EngineError, match="enough") if fails else nullcontext():
        run_program(program, {}, printed.append)
    assert [line for line in printed if line.startswith("line")] == [f"line {number}" for number in range(1, 11)]


def test_all_lines_are_told(tmp_path: Path) -> None:
    """More than are kept for messages, faster than anybody looks."""
    program, printed = tmp_path / "program.dml", list[str]()
    program.write_text('for (i in 1:3000) { print("line " + i) }')
    run_program(program, {}, printed.append)
    assert [line for line in printed if line.startswith("line")] == [f"line {number}" for number in range(1, 3001)]


def test_a_reader_that_takes_its_time_gets_all_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, printed = tmp_path / "program.dml", list[str]()
    program.write_text('for (i in 1:30) { print("line " + i) }')
    monkeypatch.setattr(jvm, "_SECONDS_TO_READ", 0.05)

    def read(line: str) -> None:
        time.sleep(1.0 if line == "line 2" else 0.01)
        printed.append(line)

    run_program(program, {}, read)
    assert [line for line in printed if line.startswith("line")] == [f"line {number}" for number in range(1, 31)]


def test_dropped_characters_are_told_whatever_is_printed_after_them(tmp_path: Path) -> None:
    program = tmp_path / "program.dml"
    program.write_text('a = 1\na.b = 2\nfor (i in 1:1000) { print("line " + i) }')
    with pytest.raises(ScriptCompileError, match="line 2:1: token recognition error at: '.b'"):
        run_program(program, {})


def test_a_long_line_is_told_whole(tmp_path: Path) -> None:
    program, printed = tmp_path / "program.dml", list[str]()
    program.write_text('line = "line "\nfor (i in 1:14) { line = line + line }\nprint(line)')
    run_program(program, {}, printed.append)
    assert "line " * 2**14 in printed


def test_a_program_goes_on_where_nobody_listens_any_more(tmp_path: Path) -> None:
    program = tmp_path / "program.dml"
    program.write_text('for (i in 1:3) { print("line " + i) }\nX = matrix(1, rows=1, cols=1)\nwrite(X, $X, format="csv")')
    run_program(program, {"X": tmp_path / "X"}, {}.__getitem__)
    assert (tmp_path / "X").read_text() == "1.0\n"
