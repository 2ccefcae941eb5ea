"""Operators whose result is sliced while the number of rows is only known to the run.

The engine infers 0 x 0 for a choice of a scalar (ifelse) where it does not know the rows, and then slices nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import compare, random, run_reference

ML = "ai.onnx.ml"
X = random(7, 6)
NAN = np.where(X > 1, np.nan, X).astype(np.float32)
SUPPORT: dict[str, Any] = {
    "coefficients": random(8, seed=1).tolist(), "support_vectors": random(24, seed=2).tolist(), "vectors_per_class": [2, 1, 1],
    "rho": [1.0, 2.0, 3.0], "classlabels_ints": [1, 2, 9], "kernel_params": [0.5, 0.0, 0.0], "kernel_type": "RBF",
}


def ml(op_type: str, inputs: str = "x", outputs: str = "t", **attributes: Any) -> NodeProto:
    """A node of ai.onnx.ml."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), domain=ML, **attributes)


def node(op_type: str, inputs: str, outputs: str = "t", **attributes: Any) -> NodeProto:
    """A node of ai.onnx."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


CHAINS: dict[str, list[NodeProto]] = {
    "scaler": [ml("Scaler", offset=[0.5], scale=[2.0])],
    "largest": [ml("Normalizer", norm="MAX")],
    "length": [ml("Normalizer", norm="L2")],
    "imputer": [ml("Imputer", imputed_value_floats=[-7.0], replaced_value_float=float("nan"))],
    "imputer by feature": [ml("Imputer", imputed_value_floats=[1.0, 2, 3, 4, 5, 6], replaced_value_float=float("nan"))],
    "extractor": [ml("ArrayFeatureExtractor", "x picked")],
    "vectorizer": [ml("FeatureVectorizer", "x x", inputdimensions=[6, 6])],
    "one hot": [node("Abs", "x", "a"), ml("OneHotEncoder", "a", "hot", cats_int64s=[0, 1, 2]), node("Flatten", "hot")],
    "labels": [node("Cast", "x", "i", to=7), ml("LabelEncoder", "i", keys_int64s=[0, 1], values_floats=[3.0, 5.0])],
    **{transform: [ml("LinearRegressor", coefficients=random(24).tolist(), targets=4, post_transform=transform)]
       for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")},
    "classifier": [ml("LinearClassifier", "x", "label t", coefficients=random(18).tolist(), intercepts=[1.0, 2, 3],
                      classlabels_ints=[1, 2, 9])],
    "pairs": [ml("SVMClassifier", "x", "label t", **SUPPORT)],
    "probabilities": [ml("SVMClassifier", "x", "label t", prob_a=[-1.0] * 3, prob_b=[0.1, 0.2, 0.3], **SUPPORT)],
    "top": [node("TopK", "x three", "t places")],
    "all sorted": [node("TopK", "x six", "t places")],
}


@pytest.mark.parametrize("name", CHAINS)
def test_slice(name: str) -> None:
    constants = {"picked": [5, 4, 3, 0], "three": [3], "six": [6], "start": [1], "end": [3], "axis": [1]}
    nodes = [*CHAINS[name], helper.make_node("Slice", ["t", "start", "end", "axis"], ["y"])]
    graph = helper.make_graph(
        nodes, "chain", [helper.make_tensor_value_info("x", 1, ["n", 6])], [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.array(content), key) for key, content in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(ML, 3)], ir_version=9)
    x = NAN if name in ("imputer", "imputer by feature", "largest") else X
    with ScoringFunction(import_model(model)) as function:
        compare(function({"x": x})["y"], run_reference(model, {"x": x})[0], 1e-4, name)
