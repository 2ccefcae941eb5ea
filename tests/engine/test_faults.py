"""Every known fault of the engine is still there; one that is not may lose its workaround."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds.engine import EngineError, Session
from onnx_systemds.engine.faults import FAULTS, FEDERATED, SPARK, Fault
from onnx_systemds.engine.matrix_files import Weight, write_list
from tests.part_files import divide_file


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(max_heap="1g") as opened:
        yield opened


def test_identifiers_are_unique() -> None:
    known = (*FAULTS, *FEDERATED, *SPARK)
    assert len({fault.identifier for fault in known}) == len(known)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.identifier)
def test_fault_is_still_there(fault: Fault, session: Session, tmp_path: Path) -> None:
    script = fault.script
    if "{folder}" in script:
        script = script.replace("{folder}", str(tmp_path))
        write_list(tmp_path, "parts", [Weight("ones", np.ones((2, 1))), Weight("more", np.ones((3, 1)))], block_size=1)
        divide_file(tmp_path / "parts" / "0_ones")
    inputs = {"X": np.array(fault.inputs)} if fault.inputs else {}
    reading = 'X = read("./X")\n' if fault.inputs else ""
    try:
        prepared = session.prepare(f'{reading}{script}\nwrite(result, "./result")', list(inputs), ["result"])
        result = prepared(inputs)["result"]
    except EngineError as error:
        assert fault.raises and fault.raises in str(error), str(error)
        return
    is_right = np.array_equal(result, np.array(fault.right), equal_nan=True)
    assert not is_right, f"the engine is right now: {fault.identifier} and {fault.workaround} may go"
    assert not fault.raises, f"the engine gives {result} without an error"
