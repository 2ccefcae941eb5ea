"""What callers give as inputs: what is converted to the declared type without a loss, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, TypeProto, helper

from onnx_systemds import backend, import_model
from onnx_systemds.model.given_inputs import InvalidInput, check_names, given_tensor, given_value
from onnx_systemds.model.ir import MapType, OptionalType, SequenceType, TensorType
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying.verify import verify_model

FLOATS = SequenceType(TensorType("float", None))

TAKEN: list[tuple[str, Any, Any]] = [
    ("int64", np.array([1, -2], np.int32), np.array([1, -2], np.int64)),
    ("int64", [1, 2], np.array([1, 2], np.int64)),
    ("int64", 7, np.array(7, np.int64)),
    ("int64", np.array([True, False]), np.array([1, 0], np.int64)),
    ("int64", np.array([5], np.uint64), np.array([5], np.int64)),
    ("int64", np.array([3, -4], ml_dtypes.int4), np.array([3, -4], np.int64)),
    ("int64", [], np.array([], np.int64)),
    ("int64", np.array([1, 2], ">i8"), np.array([1, 2], np.int64)),
    ("int8", np.array([-128, 127]), np.array([-128, 127], np.int8)),
    ("int4", np.array([-8, 7]), np.array([-8, 7], ml_dtypes.int4)),
    ("uint64", np.array([2**64 - 1], np.uint64), np.array([2**64 - 1], np.uint64)),
    ("bool", [0, 1], np.array([False, True])),
    ("float", np.array([0.1, np.nan, -np.inf]), np.array([0.1, np.nan, -np.inf], np.float32)),
    ("float", [1, 2], np.array([1, 2], np.float32)),
    ("float", [True], np.array([1], np.float32)),
    ("float", np.array([2**24]), np.array([2**24], np.float32)),
    ("float", np.array([1.5], np.float16), np.array([1.5], np.float32)),
    ("float", np.array([1.5], ">f4"), np.array([1.5], np.float32)),
    ("float16", np.array([0.1]), np.array([0.1], np.float16)),
    ("bfloat16", np.array([0.1]), np.array([0.1], ml_dtypes.bfloat16)),
    ("float8e4m3fn", np.array([0.5, np.nan]), np.array([0.5, np.nan], ml_dtypes.float8_e4m3fn)),
    ("double", np.array([1], np.float32), np.array([1.0])),
    ("string", np.array(["a", "é"]), np.array(["a", "é"], object)),
    ("string", [b"a", "\u00e9".encode()], np.array(["a", "é"], object)),
    ("string", np.array([b"a", "b"], object), np.array(["a", "b"], object)),
    ("string", "a", np.array("a", object)),
    ("string", [], np.array([], object)),
]

REFUSED: list[tuple[str, Any, list[str]]] = [
    ("int64", 0.5, ["declared as int64", "float64"]),
    ("int64", [1.0], ["int64", "float64"]),
    ("int64", np.array([1], np.float16), ["int64", "float16"]),
    ("int64", np.array([], np.float64), ["int64", "float64"]),
    ("int64", np.array([2**63], np.uint64), ["uint64 with the value 9223372036854775808"]),
    ("int8", np.array([1, 128]), ["int64 with the value 128"]),
    ("uint8", np.array([-1]), ["uint8", "-1"]),
    ("int4", np.array([8], np.int8), ["int4", "8"]),
    ("uint64", np.array([-1]), ["uint64", "-1"]),
    ("bool", [0, 2], ["bool", "2"]),
    ("bool", [1.0], ["bool", "float64"]),
    ("float", [1 + 2j], ["float", "complex128"]),
    ("float", np.array([1], np.complex64), ["complex64"]),
    ("float", [2**24 + 1], ["int64 with the value 16777217"]),
    ("float", [2**60], ["beyond 2^53"]),
    ("double", [2**53 + 1], ["beyond 2^53"]),
    ("double", [-(2**63)], ["beyond 2^53"]),
    ("float", [1.0, 1e39], ["float64 with the value 1e+39"]),
    ("float16", [70000], ["70000"]),
    ("float8e4m3fn", [0.3], ["0.3"]),
    ("float8e4m3fn", [1000.0], ["1000"]),
    ("float", None, ["is None"]),
    ("float", [None, 1.0], ["Python objects"]),
    ("float", [[1.0], [1.0, 2.0]], ["is no array"]),
    ("float", "1.5", ["text"]),
    ("float", np.array(["1"], object), ["Python objects"]),
    ("float", np.array(["2020-01-01"], "datetime64[D]"), ["datetime64"]),
    ("int64", np.array([1], "timedelta64[s]"), ["timedelta64"]),
    ("float", np.ma.array([1.0, 2.0], mask=[False, True]), ["masked"]),
    ("float", {"a": 1}, ["Python objects"]),
    ("string", [1.5], ["string", "float64"]),
    ("string", np.array(["a", None], object), ["element [1] is None"]),
    ("string", np.array([["a"], [float("nan")]], object), ["element [1, 0] is nan"]),
    ("string", [b"\xff"], ["not UTF-8"]),
    ("string", np.array([["a"], [np.nan]], object), ["element [1, 0] is nan", "hint: what is missing is no text"]),
]


@pytest.mark.parametrize(("dtype", "given", "expected"), TAKEN)
def test_taken(dtype: str, given: Any, expected: np.ndarray[Any, Any]) -> None:
    found = given_tensor("x", given, dtype)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert repr(found.tolist()) == repr(expected.tolist())


@pytest.mark.parametrize(("dtype", "given", "words"), REFUSED)
def test_refused(dtype: str, given: Any, words: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        given_tensor("x", given, dtype)
    for word in ['"x"', *words]:
        assert word in str(caught.value)


def test_the_declared_type_is_not_copied() -> None:
    array = np.ones((2, 3), np.float32)
    assert given_tensor("x", array, "float") is array


@pytest.mark.parametrize(("type_", "given", "word"), [
    (FLOATS, None, "list of tensors, got None"),
    (FLOATS, 1.5, "got float"),
    (FLOATS, [np.ones(2), 1j], '"x/1"'),
    (OptionalType(TensorType("int64", None)), 1.5, "float64"),
    (OptionalType(FLOATS), [1j], '"x/0"'),
    (MapType("string", TensorType("float", None)), [1.0], "is a map, got list"),
    (MapType("string", TensorType("float", None)), {1: 1.0}, '"x/keys"'),
    (MapType("int64", TensorType("int64", None)), {1: 0.5}, '"x/values"'),
])
def test_refused_lists_and_maps(type_: Any, given: Any, word: str) -> None:
    with pytest.raises(InvalidInput, match="input") as caught:
        given_value("x", given, type_)
    assert word in str(caught.value)


def double_of(kind: int, dims: list[Any]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, kind, dims) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("run", ["scoring", "specialised", "backend", "verify"])
def test_every_way_to_run_a_model_judges_its_inputs(run: str) -> None:
    model = double_of(TensorProto.INT64, ["N"])

    def run_model(inputs: dict[str, Any]) -> Any:
        if run == "backend":
            return backend.run_model(model, inputs)[0]
        if run == "verify":
            assert verify_model(model, inputs).passed
            return np.array([2, 4])
        with ScoringFunction(import_model(model), specialise_after=1 if run == "specialised" else 20) as function:
            return [function(inputs) for _ in range(3)][-1]["y"]

    np.testing.assert_array_equal(run_model({"x": np.array([1, 2], np.int32)}), [2, 4])
    for bad, word in (({"x": [0.5]}, "float64"), ({"x": [1j]}, "complex128"), ({"x": None}, "None"), ({}, "missing"),
                      ({"z": [1]}, '"x" is missing; given is "z"'), ({"x": [1], "z": [1]}, 'no input "z"')):
        with pytest.raises(InvalidInput) as caught:
            run_model(bad)
        assert word in str(caught.value)


def test_rounding_is_that_of_the_declared_type() -> None:
    """A double for a float input: what the model would have got in another runtime."""
    given = np.array([0.1, 1 / 3])
    with ScoringFunction(import_model(double_of(TensorProto.FLOAT, [2]))) as function:
        np.testing.assert_array_equal(function({"x": given})["y"], given.astype(np.float32) * 2)


def test_constants_of_a_conversion() -> None:
    model = double_of(TensorProto.INT64, [2])
    with pytest.raises(InvalidInput, match="float64"):
        import_model(model, constants={"x": np.array([0.5, 1.5])})
    assert not import_model(model, constants={"x": [1, 2]}).inputs


def test_items_of_lists_have_the_declared_sizes() -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3])
    given = helper.make_value_info("s", TypeProto(sequence_type=TypeProto.Sequence(elem_type=tensor)))
    graph = helper.make_graph(
        [helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)], "g", [given],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
    )
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    item = np.arange(6, dtype=np.float32).reshape(2, 3)
    with ScoringFunction(script) as function:
        assert function({"s": [item, item]})["y"].shape == (4, 3)
        for bad in (item[:, :2], item[0], item[None]):
            with pytest.raises(InvalidInput, match="s/1"):
                function({"s": [item, bad]})


@pytest.mark.parametrize("given", [np.ones(2), [np.ones(2)], None])
def test_inputs_without_names(given: Any) -> None:
    words = f"given by their names, {{NAME: array}}, not as {type(given).__name__}\n  hint: the inputs of the model: \"X\""
    with pytest.raises(InvalidInput, match=words):
        check_names(given, ["X"])


def test_a_model_that_is_no_script_yet() -> None:
    with pytest.raises(TypeError, match="takes a Script, which import_model makes, not str"):
        ScoringFunction("mlp.onnx")  # type: ignore[arg-type]
