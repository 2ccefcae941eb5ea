"""Models after onnxruntime's optimisers, which write operators of its own: they agree with the stored vectors, too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.scoring import ScoringFunction
from tests.model_zoo import MODELS, needs_models
from tests.operators.harness import compare

WRITTEN = {
    "generated/bert_tiny.dynamo": {"BiasGelu", "FusedGemm", "FusedMatMul", "SkipLayerNormalization"},
    "generated/bert_tiny.ts": {"BiasGelu", "FusedGemm", "FusedMatMul"},
    "generated/whisper_enc_tiny.ts": {"Gelu", "SkipLayerNormalization"},
    "generated/resnet_tiny.ts": {"FusedConv"},
    "real/onnxruntime-inference-examples__mnist": {"FusedConv"},
}


def optimised(path: Path, target: Path) -> onnx.ModelProto:
    """The model as onnxruntime's optimisers leave it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return onnx.load(target)


@needs_models
@pytest.mark.parametrize("name", WRITTEN)
def test_optimised_model_agrees(name: str, tmp_path: Path) -> None:
    assert MODELS is not None
    model = optimised(MODELS / f"{name}.onnx", tmp_path / "optimised.onnx")
    assert {node.op_type for node in model.graph.node if node.domain == "com.microsoft"} >= WRITTEN[name]
    vectors = np.load(MODELS / f"{name}.npz")
    with ScoringFunction(import_model(model)) as function:
        outputs = function({key[3:]: vectors[key] for key in vectors.files if key.startswith("in_")})
    for key in vectors.files:
        if key.startswith("out_"):
            compare(outputs[key[4:]], vectors[key], 1e-5, f"{name} {key}")
