"""The collector of cycles during a conversion, and after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.garbage_collection import rare_garbage_collection


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(600, 9, 8)
    yield
    gc.set_threshold(*before)


def test_thresholds_come_back_after_the_last_of_several() -> None:
    with rare_garbage_collection():
        with rare_garbage_collection():
            assert gc.get_threshold()[0] > 600
        assert gc.get_threshold()[0] > 600
    assert gc.get_threshold() == (600, 9, 8)


def test_thresholds_come_back_after_an_error() -> None:
    with pytest.raises(TranspileError), rare_garbage_collection():
        raise TranspileError("broken")
    assert gc.get_threshold() == (600, 9, 8)


def test_a_collector_that_is_off_stays_off() -> None:
    gc.set_threshold(0, 9, 8)
    with rare_garbage_collection():
        assert gc.get_threshold() == (0, 9, 8)
