"""Models after onnxruntime's optimisers, which write operators of its own: they agree with the stored vectors, too."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_failures import all_failures
from tests.model_zoo import MODELS, needs_models
from tests.models.test_models import ALLOWED, PASSING
from tests.operators.harness import Array, compare
from tests.plain_engine import scored_together

BASIC = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
EXTENDED = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED  # what BASIC does, and fused operators

WRITTEN = {
    "generated/bert_tiny.dynamo": {"BiasGelu", "FusedGemm", "FusedMatMul", "SkipLayerNormalization"},
    "generated/bert_tiny.ts": {"BiasGelu", "FusedGemm", "FusedMatMul"},
    "generated/gpt2_tiny.dynamo": {"FastGelu", "FusedMatMul", "SkipLayerNormalization"},
    "generated/mlp_tabular.ts": {"Gelu", "QuickGelu"},
    "generated/whisper_enc_tiny.ts": {"Gelu", "SkipLayerNormalization"},
    "generated/resnet_tiny.ts": {"FusedConv"},
    "generated/resnet_tiny.qdq": {"QGemm", "QLinearGlobalAveragePool"},
    "real/emx-onnx-cgen__micro_kws_m_static_qdq": {"QLinearAveragePool", "QLinearSoftmax"},
    "real/onnxruntime-inference-examples__mnist": {"FusedConv"},
}
"""Operators of com.microsoft that must be in what is tested."""

INVALID = {"real/tract__qlstm_3-2-3_T3_S1": "a name stands for two values: onnxruntime refuses what it has written"}


def optimised(path: Path, target: Path, level: onnxruntime.GraphOptimizationLevel) -> Path:
    """The file of the model as onnxruntime's optimisers leave it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    weights = path.with_name(f"{path.name}.data")
    if weights.exists():
        shutil.copy(weights, target.parent)
    return target


def optimised_case(name: str, folder: Path, level: onnxruntime.GraphOptimizationLevel) -> tuple[Script, dict[str, Array]]:
    """The script of the optimised model, written into the folder, and the stored inputs."""
    assert MODELS is not None
    model = optimised(MODELS / f"{name}.onnx", folder / "optimised.onnx", level)
    if level == EXTENDED and name in WRITTEN:
        nodes = onnx.load(model, load_external_data=False).graph.node
        assert {node.op_type for node in nodes if node.domain == "com.microsoft"} >= WRITTEN[name]
    return import_model(model), stored(name, "in_")


def stored(name: str, start: str) -> dict[str, Array]:
    """The stored inputs (in_) or outputs (out_) of a model."""
    assert MODELS is not None
    vectors = np.load(MODELS / f"{name}.npz", allow_pickle=True)
    return {key.removeprefix(start): vectors[key] for key in vectors.files if key.startswith(start)}


def agree(name: str, outputs: Mapping[str, Array]) -> None:
    """The outputs agree with the stored ones."""
    for key, judge in stored(name, "out_").items():
        actual = outputs[key]
        if (name, key) in ALLOWED:
            allowed, _ = ALLOWED[name, key]
            assert float(np.abs(actual.astype(float) - judge).max()) <= allowed
        else:
            compare(actual, judge, 1e-5, f"{name} {key}")


def check(name: str, folder: Path, level: onnxruntime.GraphOptimizationLevel) -> None:
    """The optimised model agrees with the stored vectors."""
    script, inputs = optimised_case(name, folder, level)
    with ScoringFunction(script) as function:
        agree(name, function(inputs))


@needs_models
@pytest.mark.parametrize("name", [name for name in PASSING if name not in INVALID])
def test_optimised_model_agrees(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, EXTENDED)


@needs_models
def test_optimised_models_agree_on_the_plain_command_line(tmp_path: Path) -> None:
    cases = {}
    for place, name in enumerate(WRITTEN):
        folder = tmp_path / str(place)
        folder.mkdir()
        script, inputs = optimised_case(name, folder, EXTENDED)
        cases[name] = script, [inputs]
    with all_failures() as case:
        for name, (outputs,) in scored_together(cases).items():
            with case(name):
                agree(name, outputs)


@needs_models
@pytest.mark.parametrize("name", WRITTEN)
def test_simplified_model_agrees(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, BASIC)


@needs_models
@pytest.mark.parametrize("name", INVALID)
def test_what_onnxruntime_refuses_itself(name: str, tmp_path: Path) -> None:
    assert MODELS is not None
    model = optimised(MODELS / f"{name}.onnx", tmp_path / "optimised.onnx", EXTENDED)
    with pytest.raises(Exception, match="single static assignment"):
        onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
