"""Samples that are divided among the processors: texts and maps, too, come back whole and in their order."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import results_of_all_forms

TEXTS = """<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
texts (string[n, 1] city, float[n, 2] x) => (string[n, 1] label, float[n, 3] y) {
  code = ai.onnx.ml.LabelEncoder<keys_strings=["Graz", "Linz"], values_floats=[1.0, 2.0], default_float=-1.0>(city)
  y = Concat<axis=1>(x, code)
  best = ArgMax<axis=1>(y)
  label = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1, 2], values_strings=["first", "second", "city"]>(best)
}"""


def test_texts_in_parts() -> None:
    model = onnx.parser.parse_model(TEXTS)
    cities = np.array([["Linz"], ["Wien"], ["Graz"], ["Graz"], [""]], object)
    x = np.array([[0, 1], [2, 3], [3, -1], [0.5, 0], [-2, -2]], np.float32)
    with ScoringFunction(import_model(model), specialise_after=1, parts=2) as function:
        assert function.script.batch is not None
        for results in results_of_all_forms(function, {"city": cities, "x": x}):
            np.testing.assert_array_equal(results["y"], np.column_stack([x, [2, -1, 1, 1, -1]]))
            assert results["label"].ravel().tolist() == ["city", "second", "first", "city", "city"]


def test_maps_in_parts() -> None:
    node = helper.make_node("ZipMap", ["x"], ["maps"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"])
    infos = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 2]), onnx.ValueInfoProto(name="maps")]
    graph = helper.make_graph([node], "maps", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=9)
    x = np.array([[0, 1], [0.25, 0.75], [1, 0]], np.float32)
    with ScoringFunction(import_model(model), specialise_after=1, parts=2) as function:
        for results in results_of_all_forms(function, {"x": x}):
            assert results["maps"] == [{"no": 0, "yes": 1}, {"no": 0.25, "yes": 0.75}, {"no": 1, "yes": 0}]
