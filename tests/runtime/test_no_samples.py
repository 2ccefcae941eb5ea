"""Batches of no samples: results without samples where these do not depend on each other, else a refusal in words."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import compare, random, run_reference

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>'
ROWS = "g (float[n, 3] x)"
IMAGES = "g (float[n, 2, 4, 4] x)"
MODELS = {
    "layers": f"{ROWS} => (float[n, 2] y, int64[n] label) <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}, float[2] b = {{1, -1}}>"
    " { p = Gemm(x, w, b) r = Relu(p) y = Softmax<axis = 1>(r) label = ArgMax<axis = 1, keepdims = 0>(y) }",
    "sums": f"{ROWS} => (float[n, 3] y) <float[3] w = {{1, 2, 3}}, float two = {{2.0}}>"
    " { a = Add(x, w) m = Mul(a, two) s = Sub(x, m) e = ReduceMean<axes = [1], keepdims = 1>(s) y = Sub(s, e) }",
    "normalised": f"{ROWS} => (float[n, 3] y) <float[3] w = {{1, 2, 3}}, float[3] b = {{1, 1, 1}}>"
    " { y = LayerNormalization(x, w, b) }",
    "scaled": f"{ROWS} => (float[n, 3] y)"
    " { y = ai.onnx.ml.Scaler<offset = [1.0, 2.0, 3.0], scale = [2.0, 2.0, 0.5]>(x) }",
    "tree": f"{ROWS} => (float[n, 1] y) {{ y = ai.onnx.ml.TreeEnsembleRegressor<n_targets = 1, nodes_treeids = [0, 0, 0],"
    ' nodes_nodeids = [0, 1, 2], nodes_featureids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0], nodes_modes = ["BRANCH_LEQ",'
    ' "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0], target_treeids = [0, 0],'
    " target_nodeids = [1, 2], target_ids = [0, 0], target_weights = [1.0, 2.0]>(x) }",
    "images": f"{IMAGES} => (float[n, 3] y) <float[3, 2, 1, 1] w = {{1, 2, 3, 4, 5, 6}}, float[3] one = {{1, 2, 3}}>"
    " { c = Conv(x, w) b = BatchNormalization(c, one, one, one, one) m = MaxPool<kernel_shape = [2, 2]>(b)"
    " g = GlobalAveragePool(m) y = Flatten(g) }",
}


@pytest.mark.parametrize("name", MODELS)
def test_no_samples_have_no_results(name: str) -> None:
    model = parser.parse_model(HEAD + MODELS[name])
    dims = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    with ScoringFunction(import_model(model)) as score:
        for samples in (2, 0, 3):
            x = random(samples, *dims)
            expected = run_reference(model, {"x": x})
            for output, array in zip(model.graph.output, expected, strict=True):
                compare(score({"x": x})[output.name], array, 1e-5, f"{name} of {samples}")


def test_what_mixes_samples_is_refused() -> None:
    model = parser.parse_model(HEAD + f"{ROWS} => (float[1, 3] y) {{ y = ReduceMax<axes = [0], keepdims = 1>(x) }}")
    with ScoringFunction(import_model(model)) as score, pytest.raises(InvalidInput, match="is 0; the script takes it"):
        score({"x": np.zeros((0, 3), np.float32)})
