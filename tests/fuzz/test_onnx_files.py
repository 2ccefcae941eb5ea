"""Mutated ONNX files: a few of fixed seeds, and that a worker keeps its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnx_systemds.dml import syntax as tree
from tests.fuzz import onnx_files
from tests.fuzz.bounded_worker import BoundedWorker, Crashed, Exceeded
from tests.fuzz.finding import Finding


def test_cases_of_fixed_seeds() -> None:
    for case in map(onnx_files.case, range(60)):
        finding = onnx_files.check(case)
        assert finding is None, f"{finding.detail}\n{finding.text}"


def test_a_seed_makes_the_same_case_again() -> None:
    for seed in (3, 4):
        assert onnx_files.case(seed) == onnx_files.case(seed)
    assert len({case.data for case in map(onnx_files.case, range(20))}) == 20


def test_a_finding_can_be_kept(tmp_path: Path) -> None:
    case = onnx_files.case(7)
    path = onnx_files.written("onnx_files", case, Finding("error", 7, case.text, "KeyError"), tmp_path)
    assert onnx_files.read(path) == case


def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain exception, and a script that does not parse."""
    data = next(data for name, data in sorted(onnx_files._models().items()) if name == "test_relu")
    assert onnx_files._judged(data) == ("", "")
    with monkeypatch.context() as patch:
        patch.setattr("onnx_systemds.importing.convert.WideIntegers", lambda typed: {}["missing"])
        kind, detail = onnx_files._judged(data)
        assert kind == "error" and "KeyError" in detail
    with monkeypatch.context() as patch:
        patch.setattr("onnx_systemds.importing.assemble._function", lambda name, *_: tree.Function(name, (), (), ()))
        assert onnx_files._judged(data)[0] == "error"


def test_a_worker_keeps_its_bounds() -> None:
    worker = BoundedWorker("tests.fuzz.hungry_worker", 1.0, 1 << 30)
    try:
        assert worker(b"a task") == b"a task"
        with pytest.raises(Exceeded, match="more than 1 s"):
            worker(b"spin")
        assert worker(b"eat") == b"no memory"
        with pytest.raises(Crashed):
            worker(b"die")
        assert worker(b"another") == b"another"
    finally:
        worker.close()
