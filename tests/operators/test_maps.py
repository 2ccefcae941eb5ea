"""ZipMap, DictVectorizer and CastMap: maps are dicts for the caller, matrices or frames in DML."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds import backend, import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.runtime.list_transfer import flat_results, nested_inputs
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array, Covered, compare, random, run_reference

ML = "ai.onnx.ml"
COVERED = [Covered(op_type, [1], symbolic=True, domain=ML) for op_type in ("ZipMap", "DictVectorizer", "CastMap")]
TYPES = {"string": TensorProto.STRING, "int64": TensorProto.INT64, "float": TensorProto.FLOAT,
         "double": TensorProto.DOUBLE}
X = random(4, 3)


def model(op_type: str, given: onnx.ValueInfoProto, output: onnx.ValueInfoProto, **attributes: Any) -> onnx.ModelProto:
    """A model of one node of ai.onnx.ml."""
    node = helper.make_node(op_type, [given.name], [output.name], domain=ML, **attributes)
    graph = helper.make_graph([node], "maps", [given], [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 1)], ir_version=10)


def map_type(key: str, value: str) -> onnx.TypeProto:
    """The type of a map."""
    return helper.make_map_type_proto(TYPES[key], helper.make_tensor_type_proto(TYPES[value], []))


def zip_map(dims: Any, **attributes: Any) -> onnx.ModelProto:
    """A model of ZipMap."""
    key = "string" if "classlabels_strings" in attributes else "int64"
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    output = helper.make_value_info("z", helper.make_sequence_type_proto(map_type(key, "float")))
    return model("ZipMap", given, output, **attributes)


def on_map(op_type: str, key: str, value: str, output: str, **attributes: Any) -> onnx.ModelProto:
    """A model of an operator on a map."""
    given = helper.make_value_info("x", map_type(key, value))
    return model(op_type, given, helper.make_tensor_value_info("y", TYPES[output], None), **attributes)


def scored(onnx_model: onnx.ModelProto, inputs: dict[str, Any]) -> Any:
    """The only output."""
    with ScoringFunction(import_model(onnx_model)) as function:
        return next(iter(function(inputs).values()))


@pytest.mark.parametrize(("x", "attributes"), [
    (X, {"classlabels_strings": ["a", "", "Ü"]}),
    (X, {"classlabels_int64s": [5, -2, 7]}),
    (X, {"classlabels_strings": ["a", "b", "a"]}),
    (X[:1], {"classlabels_int64s": [0, 1, 2]}),
    (X[0], {"classlabels_int64s": [5, 2, 3]}),
], ids=str)
def test_zip_map(x: Array, attributes: dict[str, Any]) -> None:
    onnx_model = zip_map(x.shape, **attributes)
    assert scored(onnx_model, {"x": x}) == run_reference(onnx_model, {"x": x})[0]


def test_zip_map_of_any_number_of_rows() -> None:
    onnx_model = zip_map(["n", 3], classlabels_strings=["a", "b", "c"])
    script = import_model(onnx_model)
    assert "columns are the keys 'a', 'b', 'c'" in script.text
    with ScoringFunction(script) as function:
        for rows in (4, 2):
            assert function({"x": X[:rows]})["z"] == run_reference(onnx_model, {"x": X[:rows]})[0]
        assert flat_results(function({"x": X}))["z/b"].tolist() == X[:, 1].tolist()
    assert backend.run_model(onnx_model, [X])[0] == run_reference(onnx_model, {"x": X})[0]


WORDS = {"a": 1.5, "q": 2, "c": np.nan, "": -0.1}
NUMBERS = {3: 1.5, 1: -2.75, 2: 1e10, 0: 0.1}
VOCABULARY = {"string_vocabulary": ["c", "a", "", "z", "a"]}
INTEGERS = {"int64_vocabulary": [2, 7, 3, 0]}


@pytest.mark.parametrize(("key", "value", "given", "attributes", "expected"), [
    ("string", "float", WORDS, VOCABULARY, None),
    ("string", "double", WORDS, VOCABULARY, [np.nan, 1.5, -0.1, 0, 1.5]),
    ("string", "float", {}, VOCABULARY, [0, 0, 0, 0, 0]),
    ("string", "int64", {"z": 7, "a": 2**40 + 1}, VOCABULARY, [0, 2**40 + 1, 0, 7, 2**40 + 1]),
    ("int64", "float", NUMBERS, INTEGERS, None),
    ("int64", "float", {}, INTEGERS, [0, 0, 0, 0]),
    ("int64", "double", NUMBERS, INTEGERS, [1e10, 0, 1.5, 0.1]),
    ("int64", "string", {3: "x", 7: "y", 5: "1"}, INTEGERS, ["", "y", "x", ""]),
])
def test_dict_vectorizer(key: str, value: str, given: Any, attributes: Any, expected: Any) -> None:
    onnx_model = on_map("DictVectorizer", key, value, value, **attributes)
    judge = np.array([expected], helper.tensor_dtype_to_np_dtype(TYPES[value])) if expected is not None else (
        run_reference(onnx_model, {"x": given})[0])
    compare(scored(onnx_model, {"x": given}), judge, 1e-9, f"{key} {value}")


@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
@pytest.mark.parametrize("target", ["float", "string", "int64"])
def test_cast_map(form: str, target: str) -> None:
    onnx_model = on_map("CastMap", "int64", "float", target, map_form=form, max_map=6, cast_to=f"TO_{target.upper()}")
    given = {**NUMBERS, **({9: 5.0, 4: np.inf, 5: -1e-9} if target != "int64" else {})}
    compare(scored(onnx_model, {"x": given}), run_reference(onnx_model, {"x": given})[0], 1e-6, form)


@pytest.mark.parametrize(("form", "target", "expected"), [
    ("DENSE", "float", [-2.75, 7, 1.5]),
    ("DENSE", "int64", [-2, 7, 1]),
    ("DENSE", "string", ["-2.75", "7", "1.5"]),
    ("SPARSE", "float", [0, -2.75, 7, 1.5, 0]),
    ("SPARSE", "string", ["0.f", "-2.75", "7", "1.5", "0.f"]),
])
def test_cast_map_of_texts(form: str, target: str, expected: Any) -> None:
    onnx_model = on_map("CastMap", "int64", "string", target, map_form=form, max_map=5, cast_to=f"TO_{target.upper()}")
    judge = np.array([expected], helper.tensor_dtype_to_np_dtype(TYPES[target]))
    given = {3: "1.5", 1: "-2.75", 2: "7"}
    compare(scored(onnx_model, {"x": given}), judge, 1e-9, form)
    arrays = {"x/keys": np.array(list(given)), "x/values": np.array(list(given.values()))}
    assert nested_inputs(import_model(onnx_model).inputs, arrays) == {"x": given}


@pytest.mark.parametrize(("onnx_model", "reason"), [
    (zip_map([2, 3], classlabels_int64s=[1, 2]), "3 columns with 2 keys"),
    (zip_map([2, 3, 1], classlabels_int64s=[1]), "rank 3"),
    (on_map("DictVectorizer", "int64", "float", "float", **VOCABULARY), "without a vocabulary of type int64"),
    (on_map("CastMap", "int64", "float", "float", map_form="ROUND"), "map_form 'ROUND'"),
])
def test_refused(onnx_model: onnx.ModelProto, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(onnx_model)
