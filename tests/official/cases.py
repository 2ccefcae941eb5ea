"""ONNX's own backend test cases, and how one is run and judged: as strictly as ONNX's runner does."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from onnx_systemds import backend

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")


@lru_cache(maxsize=1)
def official_cases() -> dict[str, TestCase]:
    """All cases by ``kind/name``."""
    return {f"{kind}/{case.name}": case for kind in KINDS for case in load_model_tests(kind=kind)}


def run_case(case: TestCase, judgement: Callable[[list[Any], list[Any], TestCase], None] | None = None) -> None:
    """Run every data set of a case on the engine, and judge it as ONNX does, or by ``judgement``.

    Raises AssertionError, TranspileError or EngineError.
    """
    model = model_of(case)
    prepared = backend.prepare(model)
    try:
        for inputs, expected in data_sets(case, model):
            outputs = list(prepared.run(inputs))
            (judgement or judge)(expected, outputs, case)
    finally:
        prepared.close()


def model_of(case: TestCase) -> onnx.ModelProto:
    """The model of a case."""
    return case.model if case.model is not None else onnx.load(os.path.join(case.model_dir, "model.onnx"))


def judge(expected: list[Any], outputs: list[Any], case: TestCase) -> None:
    """ONNX's own judgement, item by item in lists: of an item of rank 0 it would ask the length."""
    assert len(expected) == len(outputs)
    for wanted, output in zip(expected, outputs):
        if isinstance(wanted, (list, tuple)):
            assert isinstance(output, (list, tuple)), f"expected a list, got {type(output)}"
            judge(list(wanted), list(output), case)
        else:
            Runner.assert_similar_outputs([wanted], [output], rtol=case.rtol, atol=case.atol, model_dir=case.model_dir)


def as_drawn(expected: list[Any], outputs: list[Any], case: TestCase) -> None:
    """Types and shapes of random numbers, which are 0 or 1 here: numpy's own, which the case expects, say no more."""
    assert len(expected) == len(outputs)
    for wanted, output in zip(expected, outputs):
        assert (output.dtype, output.shape) == (wanted.dtype, wanted.shape)
        assert np.isin(output, (0, 1)).all(), f"{case.name}: {output}"


def data_sets(case: TestCase, model: onnx.ModelProto) -> list[tuple[list[Any], list[Any]]]:
    """The inputs of each data set, and what is expected of them."""
    if case.data_sets is not None:
        return [([_array(item) for item in given], [_array(item) for item in expected])
                for given, expected in case.data_sets]
    sets = []
    for folder in sorted(glob.glob(os.path.join(case.model_dir, "test_data_set_*"))):
        sets.append((_read(folder, "input", model.graph.input), _read(folder, "output", model.graph.output)))
    for archive in sorted(glob.glob(os.path.join(case.model_dir, "test_data_*.npz"))):
        data = np.load(archive, encoding="bytes")
        sets.append((list(data["inputs"]), list(data["outputs"])))
    return sets


def _array(item: Any) -> Any:
    """Small element types are given as protobufs."""
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else item


def _read(folder: str, prefix: str, infos: Any) -> list[Any]:
    values = []
    for position, info in enumerate(infos):
        path = os.path.join(folder, f"{prefix}_{position}.pb")
        if not os.path.exists(path):
            break
        with open(path, "rb") as stream:
            content = stream.read()
        kind = info.type.WhichOneof("value")
        proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(kind, onnx.TensorProto)()
        proto.ParseFromString(content)
        read = {"sequence_type": numpy_helper.to_list, "optional_type": numpy_helper.to_optional}
        values.append(read.get(kind, numpy_helper.to_array)(proto))
    return values
