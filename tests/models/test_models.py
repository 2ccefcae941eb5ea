"""Real and generated models: convert, run on the engine, agree with their stored vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.scoring import ScoringFunction
from tests.model_zoo import MODELS, needs_models
from tests.operators.harness import compare

PASSING = [
    line.strip()
    for line in Path(__file__).with_name("passing.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]


def test_model_is_listed_once() -> None:
    assert len(PASSING) == len(set(PASSING)) and len(PASSING) >= 20


@needs_models
@pytest.mark.parametrize("name", PASSING)
def test_agrees(name: str) -> None:
    assert MODELS is not None
    vectors = np.load(MODELS / f"{name}.npz", allow_pickle=True)
    inputs = {key[3:]: vectors[key] for key in vectors.files if key.startswith("in_")}
    with ScoringFunction(import_model(MODELS / f"{name}.onnx")) as function:
        outputs = function(inputs)
    expected = [key for key in vectors.files if key.startswith("out_")]
    assert expected
    for key in expected:
        judge = vectors[key]
        compare(outputs[key[4:]], judge, 1e-9 if judge.dtype == np.float64 else 1e-5, f"{name} {key}")


def _sized(name: str, batch: int, length: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(batch * 100 + length)
    vectors = np.load(MODELS / f"{name}.npz") if MODELS else {}
    inputs = {}
    for key in vectors:
        if key.startswith("in_"):
            like = vectors[key]
            shape = (batch, length, *like.shape[2:]) if like.ndim > 1 else like.shape
            if like.dtype.kind in "iu":
                high = 2 if "mask" in key else max(int(like.max()), 2)
                inputs[key[3:]] = generator.integers(1 if "mask" in key else 0, high, shape).astype(like.dtype)
            else:
                inputs[key[3:]] = generator.standard_normal(shape).astype(like.dtype)
    return inputs


DYNAMIC = ["real/sample-apps__transformer", "generated/bert_tiny.ts", "generated/bert_tiny.dynamo"]


@needs_models
@pytest.mark.parametrize("name", DYNAMIC)
def test_one_script_serves_every_size(name: str) -> None:
    """Batch and tokens are dynamic: three sizes of each through one prepared script."""
    assert MODELS is not None
    session = onnxruntime.InferenceSession(MODELS / f"{name}.onnx", providers=["CPUExecutionProvider"])
    with ScoringFunction(import_model(MODELS / f"{name}.onnx")) as function:
        for batch in (1, 2, 5):
            for length in (3, 8, 17):
                inputs = _sized(name, batch, length)
                outputs = function(inputs)
                judges = session.run(None, inputs)
                for output, judge in zip(session.get_outputs(), judges):
                    compare(outputs[output.name], judge, 1e-5, f"{name} {batch} x {length} {output.name}")
