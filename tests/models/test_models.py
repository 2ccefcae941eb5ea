"""Real and generated models: convert, run on the engine, agree with their stored vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying import judging
from tests.all_failures import all_failures
from tests.double_precision import in_double
from tests.model_zoo import MODELS, groups_by_size, model_paths, needs_models
from tests.operators.harness import Array, compare
from tests.plain_engine import scored_together

PASSING = [
    line.strip()
    for line in Path(__file__).with_name("passing.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]

# Where the stored float32 numbers of onnxruntime are further than 1e-5 from the exact ones: how far absolutely, and why.
# Each has a sharper test of its own below.
STEP = 1.0001 / 255
ALLOWED = {
    ("real/emx-onnx-cgen__micro_kws_m_static_qdq", "StatefulPartitionedCall:0"): (
        STEP,
        "means of four quantised numbers lie exactly between two steps; float32 rounding decides which one is taken, "
        "and onnxruntime without optimisations differs from the stored numbers by one step, too",
    ),
    ("real/rapidocr-onnxruntime__ch_PP-OCRv4_det_infer", "sigmoid_0.tmp_0"): (
        1.2e-7,
        "the whole output is below 3e-6, and onnxruntime's Sigmoid is right to 1.2e-7 absolutely",
    ),
    ("real/silero-vad__silero_vad_16k_sequence", "speech_probs"): (
        5e-8,
        "the output is below 3e-3, and onnxruntime's Sigmoid is right to 1.2e-7 absolutely",
    ),
}


def test_every_model_is_listed_once() -> None:
    assert len(PASSING) == len(set(PASSING)) and {name for name, _ in ALLOWED} <= set(PASSING)


@needs_models
def test_every_model_is_listed() -> None:
    assert set(PASSING) == {f"{path.parent.name}/{path.stem}" for path in model_paths("real", "generated")}


def _vectors(name: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """The stored inputs and outputs of a model."""
    assert MODELS is not None
    vectors = np.load(MODELS / f"{name}.npz", allow_pickle=True)
    inputs = {key[3:]: vectors[key] for key in vectors.files if key.startswith("in_")}
    return inputs, {key[4:]: vectors[key] for key in vectors.files if key.startswith("out_")}


def _compare(name: str, outputs: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Compare outputs of a model with its stored ones."""
    assert expected
    for output, judge in expected.items():
        actual, what = outputs[output], f"{name} {output}"
        if (name, output) not in ALLOWED:
            compare(actual, judge, 1e-9 if judge.dtype == np.float64 else 1e-5, what)
            continue
        allowed, reason = ALLOWED[name, output]
        assert actual.dtype == judge.dtype and actual.shape == judge.shape
        distance = float(np.abs(actual.astype(float) - judge).max())
        assert distance <= allowed, f"{what}: {distance} ({reason})"


@needs_models
@pytest.mark.parametrize("name", PASSING)
def test_agrees(name: str) -> None:
    assert MODELS is not None
    inputs, expected = _vectors(name)
    with ScoringFunction(import_model(MODELS / f"{name}.onnx")) as function:
        outputs = function(inputs)
    _compare(name, outputs, expected)


@needs_models
@pytest.mark.parametrize("paths", groups_by_size(model_paths("real", "generated")), ids=lambda paths: paths[0].stem)
def test_agree_on_the_plain_command_line(paths: list[Path]) -> None:
    vectors = {path: _vectors(f"{path.parent.name}/{path.stem}") for path in paths}
    cases = {f"{path.parent.name}/{path.stem}": (import_model(path), [vectors[path][0]]) for path in paths}
    with all_failures() as case:
        for path, (name, (outputs,)) in zip(paths, scored_together(cases).items(), strict=True):
            with case(name):
                _compare(name, outputs, vectors[path][1])


def _run(name: str) -> tuple[Path, dict[str, Array], dict[str, Array]]:
    """The path of a model, its stored inputs, and what the engine makes of them."""
    assert MODELS is not None
    path = MODELS / f"{name}.onnx"
    inputs, _ = _vectors(name)
    with ScoringFunction(import_model(path)) as function:
        return path, inputs, function(inputs)


@needs_models
@pytest.mark.parametrize(
    "name", ["real/rapidocr-onnxruntime__ch_PP-OCRv4_det_infer", "real/silero-vad__silero_vad_16k_sequence"]
)
def test_agrees_with_an_exact_sigmoid(name: str) -> None:
    path, inputs, outputs = _run(name)
    for output, exact in judging.judge(path, inputs).items():
        compare(outputs[output], exact, 1e-5, f"{name} {output}")


@needs_models
def test_agrees_with_double_precision() -> None:
    name = "real/silero-vad__silero_vad_16k_sequence"
    path, inputs, outputs = _run(name)
    for output, exact in in_double(path, inputs).items():
        compare(outputs[output].astype(np.float64), exact, 1e-6, f"{name} {output}")


@needs_models
def test_steps_differ_as_onnxruntime_differs_from_itself() -> None:
    path, inputs, _ = _run("real/emx-onnx-cgen__micro_kws_m_static_qdq")
    optimized, plain = judging.run(path, inputs), judging.run(path, inputs, optimized=False)
    assert all(np.abs(optimized[name] - plain[name]).max() > 0.9 / 255 for name in plain)
