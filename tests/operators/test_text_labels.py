"""Texts as labels, keys and categories in ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from tests.operators.harness import Case, at_sizes, case_model, check_case, random
from tests.operators.test_linear_models import classifier as linear
from tests.operators.test_support_vectors import classifier as machine
from tests.operators.test_support_vectors import linear as linear_machine
from tests.operators.tree_models import FEATURES, data, listed

ML = "ai.onnx.ml"
NAMES = ["setosa", "", "Übung, \"x\" -> y", "virginica", "setosa "]
WORDS = np.array([["b", "a", "x"], ["", "c", "a"]], object)


def ml(op_type: str, opset: int, x: Any, dtype: str, expected: Any = None, **attributes: Any) -> Case:
    """A case of one input; the note tells the rows of an operator apart."""
    return Case(op_type, opset, {"x": x}, attributes, domain=ML, expected=expected, output_dtypes=(dtype,),
                note=str(list(attributes)))


def named(case: Case) -> Case:
    """A classifier with texts for its labels."""
    attributes = dict(case.attributes)
    key = "classlabels_ints" if "classlabels_ints" in attributes else "classlabels_int64s"
    count = len(attributes.pop(key))
    return Case(**{**vars(case), "attributes": {**attributes, "classlabels_strings": NAMES[:count]},
                   "output_dtypes": ("string", "float"), "note": f"{case.note} texts"})


def trees(classes: int, opset: int, **more: Any) -> Case:
    """A case of TreeEnsembleClassifier."""
    attributes = {**listed("class", 3, 3, classes, **more), "classlabels_int64s": list(range(classes))}
    return Case("TreeEnsembleClassifier", opset, {"x": data(20)}, attributes, outputs=2, domain=ML,
                note=f"{classes}-{list(more)}")


def tensor(values: Any, dtype: Any) -> onnx.TensorProto:
    """A tensor attribute."""
    return onnx.numpy_helper.from_array(np.array(values, dtype), "values")


CLASSIFIERS = [named(case) for case in [
    linear(random(6, 3), 1, [0, 1]),
    linear(random(6, 3), 2, [0, 1]),
    linear(random(6, 3), 5, [0, 1, 2, 3, 4], post_transform="SOFTMAX"),
    linear(random(1, 3), 3, [0, 1, 2]),
    machine([2, 2], [0, 1]),
    machine([2, 1, 3], [0, 1, 2], proba=True),
    linear_machine(random(3, 3).ravel().tolist(), [0, 1, 2]),
    *[trees(classes, opset) for classes in (2, 4) for opset in (1, 3)],
    trees(2, 3, only=[0]),
    trees(2, 3, only=[1], positive=True),
    trees(2, 3, complete=False),
]]
LOOKED_UP = [
    *[
        case
        for opset in (2, 4)
        for case in (
            ml("LabelEncoder", opset, WORDS, "int64", keys_strings=["a", "b", ""], values_int64s=[5, 6, 7]),
            ml("LabelEncoder", opset, WORDS, "int64", keys_strings=["a"], values_int64s=[5], default_int64=-9),
            ml("LabelEncoder", opset, WORDS, "float", keys_strings=["a", "b", "q"], values_floats=[0.5, np.nan, np.inf],
               default_float=2.5),
            ml("LabelEncoder", opset, WORDS, "string", keys_strings=["a", "b", "c"], values_strings=["A", "", "a"]),
            ml("LabelEncoder", opset, WORDS, "string", keys_strings=["a"], values_strings=["A"], default_string="?"),
            ml("LabelEncoder", opset, random(4, 5, dtype="int64"), "string", keys_int64s=[3, -1, 0],
               values_strings=NAMES[:3]),
            ml("LabelEncoder", opset, np.array([0.5, 1.5], np.float32), "string", keys_floats=[1.5, 7.0],
               values_strings=["x", "y"], default_string=""),
        )
    ],
    ml("LabelEncoder", 4, WORDS, "int64", lambda x, **_: np.where(x == "a", 3, -1),
       keys_strings=["a", "b", "a"], values_int64s=[1, -1, 3]),
    ml("LabelEncoder", 4, np.array("b", object), "int64", keys_strings=["a", "b"], values_int64s=[1, 3]),
    ml("LabelEncoder", 4, random(2, 2, 3, 2, dtype="int64"), "string", keys_int64s=[1, 2], values_strings=["", "b"]),
    ml("LabelEncoder", 4, WORDS, "int16", lambda x, **_: np.where(x == "a", 7, 42).astype(np.int16),
       keys_tensor=tensor(["a"], object), values_tensor=tensor([7], np.int16), default_tensor=tensor([42], np.int16)),
    ml("LabelEncoder", 4, np.arange(4, dtype=np.int64), "string",
       lambda x, **_: np.where(x == 1, "one", "none").astype(object), keys_tensor=tensor([1], np.int64),
       values_tensor=tensor(["one"], object), default_tensor=tensor(["none"], object)),
    ml("LabelEncoder", 1, WORDS, "int64", lambda x, **_: np.array([[2, 1, -1], [0, 3, 1]]),
       classes_strings=["", "a", "b", "c"]),
    ml("LabelEncoder", 1, np.arange(-2, 4), "string",
       lambda x, **_: np.array(["?", "?", "u", "v", "w", "?"], object), classes_strings=["u", "v", "w"],
       default_string="?"),
    ml("CategoryMapper", 1, WORDS, "int64", cats_strings=["a", "b", ""], cats_int64s=[5, -6, 7], default_int64=9),
    ml("CategoryMapper", 1, WORDS, "int64", cats_strings=["a", "b", "a"], cats_int64s=[5, 6, 7]),
    ml("CategoryMapper", 1, np.arange(8).reshape(2, 1, 4), "string", cats_strings=["a", "", "c"],
       cats_int64s=[5, 1, 7]),
    ml("CategoryMapper", 1, np.arange(8), "string", cats_strings=["a", "b", "c"], cats_int64s=[5, 6, 5],
       default_string="?"),
    ml("OneHotEncoder", 1, WORDS[:, 0], "float", cats_strings=["a", "", "b"]),
    ml("OneHotEncoder", 1, WORDS, "float", cats_strings=["c", "a", "q"]),
    ml("OneHotEncoder", 1, WORDS[:, :1], "float", cats_strings=["b", ""], zeros=0),
    ml("OneHotEncoder", 1, WORDS.reshape(1, 2, 3), "float", cats_strings=["a"]),
]
TAKEN = [
    Case("ArrayFeatureExtractor", 1, {"x": WORDS, "index": np.array([2, 0])}, domain=ML, constants=("index",),
         note="known"),
    Case("ArrayFeatureExtractor", 1, {"x": WORDS, "index": np.array([2, 0, 2])}, domain=ML, note="given"),
    Case("ArrayFeatureExtractor", 1, {"x": np.array(NAMES, object), "index": np.array([4, 1])}, domain=ML, note="row"),
]


ROWS = ("n", 3)
SIZES = [{"x": np.array([words], object)} for words in (["a", "z", "a"], ["", "b", "zz"])]
SIZED = [
    at_sizes(ml("LabelEncoder", 4, WORDS, "int64", keys_strings=["a", "b", ""], values_int64s=[5, 6, 7]),
             {"x": ROWS}, *SIZES),
    at_sizes(ml("CategoryMapper", 1, WORDS, "int64", cats_strings=["a", "b", ""], cats_int64s=[5, 6, 7]),
             {"x": ROWS}, *SIZES),
    at_sizes(ml("OneHotEncoder", 1, WORDS, "float", cats_strings=["c", "a", "q"]), {"x": ROWS}, *SIZES),
    at_sizes(Case("ArrayFeatureExtractor", 1, {"x": WORDS, "index": np.array([2, 0])}, domain=ML, constants=("index",)),
             {"x": ROWS}, *SIZES),
    at_sizes(named(linear(random(6, 3), 3, [0, 1, 2])), {"x": ROWS}, {"x": random(2, 3, seed=4)}),
    at_sizes(named(machine([2, 2], [0, 1])), {"x": ROWS}, {"x": random(2, 3, seed=4)}),
    at_sizes(named(trees(3, 3)), {"x": ("n", FEATURES)}, {"x": data(5)}),
]
CASES = [*CLASSIFIERS, *LOOKED_UP, *TAKEN, *SIZED]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    check_case(case)


@pytest.mark.parametrize(("op_type", "attributes", "reason"), [
    ("CategoryMapper", {"cats_strings": ["a"], "cats_int64s": [1, 2]}, "1 texts for 2 integers"),
    ("OneHotEncoder", {"cats_int64s": [1]}, "without categories of the input's type"),
    ("LabelEncoder", {"keys_int64s": [1], "values_int64s": [1]}, "keys of type int64 for string"),
])
def test_refused(op_type: str, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(case_model(ml(op_type, 2, WORDS, "int64", **attributes)))
