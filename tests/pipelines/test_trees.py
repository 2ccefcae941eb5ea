"""Fitted tree models of scikit-learn, XGBoost, LightGBM and CatBoost: converted ones on rows they have not seen.

The judges are onnxruntime, with the same ONNX model, and the library itself.
"""

from __future__ import annotations

import importlib
import io
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import catboost
import lightgbm
import numpy as np
import onnx
import onnxmltools
import onnxruntime
import pytest
import skl2onnx
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn import ensemble, tree

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import compare

Array = np.ndarray[Any, np.dtype[Any]]
OPSETS = {"": 17, "ai.onnx.ml": 3}


def rows(classes: int, count: int = 400) -> tuple[Array, Array]:
    """Features and a goal: a number (0 classes) or a class."""
    generator = np.random.default_rng(classes)
    x = generator.normal(size=(count, 6)).astype(np.float32)
    signal = x[:, 0] * 2 + np.sin(2 * x[:, 1]) - x[:, 2] * x[:, 3] + 0.3 * generator.normal(size=count)
    if not classes:
        return x, signal.astype(np.float32)
    edges = np.quantile(signal, np.arange(1, classes) / classes)
    return x, np.digitize(signal, edges).astype(np.int64)


def scored(model: onnx.ModelProto, x: Array) -> Mapping[str, Array]:
    """Our outputs, which are onnxruntime's, too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {model.graph.input[0].name: x}
    with ScoringFunction(import_model(model)) as function:
        actual = function(feeds)
    for output, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        compare(actual[output.name], np.asarray(expected), 1e-5, output.name)
    return actual


def same_labels(actual: Array, expected: Array) -> None:
    """Equal labels, but for the few rows where the library's doubles fall to the other side of a float."""
    assert np.mean(actual.ravel() == np.asarray(expected).ravel()) > 0.98


def close(actual: Array, expected: Any) -> None:
    """Equal numbers in 98 of 100 rows."""
    expected = np.asarray(expected, dtype=np.float64).reshape(actual.shape)
    near = np.isclose(actual, expected, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(expected).max())))
    assert near.all(axis=-1).mean() > 0.98


SKLEARN = [
    ("tree:DecisionTreeClassifier", {"max_depth": 6}, 3),
    ("tree:DecisionTreeClassifier", {}, 2),
    ("tree:DecisionTreeRegressor", {}, 0),
    ("tree:ExtraTreeRegressor", {"max_depth": 5}, 0),
    ("ensemble:RandomForestClassifier", {"n_estimators": 10}, 2),
    ("ensemble:RandomForestClassifier", {"n_estimators": 11}, 4),
    ("ensemble:RandomForestRegressor", {"n_estimators": 10}, 0),
    ("ensemble:ExtraTreesClassifier", {"n_estimators": 10, "max_depth": 7}, 3),
    ("ensemble:ExtraTreesRegressor", {"n_estimators": 10}, 0),
    ("ensemble:GradientBoostingClassifier", {"n_estimators": 12}, 2),
    ("ensemble:GradientBoostingClassifier", {"n_estimators": 12}, 3),
    ("ensemble:GradientBoostingRegressor", {"n_estimators": 12}, 0),
    ("ensemble:HistGradientBoostingClassifier", {"max_iter": 12}, 2),
    ("ensemble:HistGradientBoostingClassifier", {"max_iter": 12}, 3),
    ("ensemble:HistGradientBoostingRegressor", {"max_iter": 12}, 0),
    ("ensemble:BaggingClassifier", {"n_estimators": 4}, 3),
    ("ensemble:BaggingRegressor", {"n_estimators": 4}, 0),
    ("ensemble:AdaBoostClassifier", {"n_estimators": 4}, 2),
    ("ensemble:AdaBoostRegressor", {"n_estimators": 4}, 0),
    ("ensemble:IsolationForest", {"n_estimators": 10}, 2),
]


def plain_lists(make: Any) -> Any:
    """onnx's ``make_attribute`` that takes numpy's booleans in lists of integers, which skl2onnx gives it."""
    def made(key: str, value: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(value, list) and any(isinstance(item, (bool, np.bool_)) for item in value):
            value = [int(item) for item in value]
        return make(key, value, *arguments, **options)

    return made


@pytest.mark.parametrize(("name", "options", "classes"), SKLEARN)
def test_sklearn(name: str, options: dict[str, Any], classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.helper, "make_attribute", plain_lists(onnx.helper.make_attribute))
    module, kind = name.split(":")
    estimator = getattr(importlib.import_module(f"sklearn.{module}"), kind)(random_state=0, **options)
    x, y = rows(classes)
    estimator.fit(x[:300], y[:300])
    zipmap = {"options": {"zipmap": False}} if hasattr(estimator, "predict_proba") else {}
    opsets = {**OPSETS, "": 15} if kind == "IsolationForest" else OPSETS
    held_out = x[300:]
    model = skl2onnx.to_onnx(estimator, x[:1], target_opset=opsets, **zipmap)
    actual = list(scored(model, held_out).values())
    if not classes:
        close(actual[0], estimator.predict(held_out))
        return
    same_labels(actual[0], estimator.predict(held_out))
    if zipmap:
        close(actual[1], estimator.predict_proba(held_out))


@pytest.mark.parametrize("kind", [tree.DecisionTreeClassifier, tree.DecisionTreeRegressor, ensemble.RandomForestClassifier])
@pytest.mark.parametrize("classes", [2, 3])
def test_leaves(kind: Any, classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaf of each tree that a row comes to, and the way there as text."""
    monkeypatch.setattr(onnx.helper, "make_attribute", plain_lists(onnx.helper.make_attribute))
    x, y = rows(classes)
    forest = {"n_estimators": 3} if kind is ensemble.RandomForestClassifier else {}
    estimator = kind(max_depth=4, random_state=0, **forest).fit(x[:300], y[:300])
    options = {"decision_path": True, "decision_leaf": True, **({"zipmap": False} if hasattr(estimator, "predict_proba") else {})}
    model = skl2onnx.to_onnx(estimator, x[:1], target_opset=OPSETS, options={id(estimator): options})
    leaves = scored(model, x[300:])["decision_leaf"]
    assert (leaves.squeeze() == estimator.apply(x[300:])).all()


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_xgboost(classes: int) -> None:
    kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    check_boosted(kind(n_estimators=15, max_depth=4), onnxmltools.convert_xgboost, classes)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_lightgbm(classes: int) -> None:
    kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
    estimator = kind(n_estimators=15, num_leaves=12, verbose=-1)
    check_boosted(estimator, onnxmltools.convert_lightgbm, classes, zipmap=False)


def check_boosted(estimator: Any, convert: Callable[..., onnx.ModelProto], classes: int, **options: Any) -> None:
    """Fit trees that know missing values, convert them and compare on rows they have not seen."""
    x, y = rows(classes)
    x[::7, 1] = np.nan
    estimator.fit(x[:300], y[:300])
    types = [("X", FloatTensorType([None, x.shape[1]]))]
    compare_library(convert(estimator, initial_types=types, target_opset=15, **options), estimator, x[300:], classes)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_catboost(classes: int) -> None:
    x, y = rows(classes)
    kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
    estimator = kind(iterations=15, depth=4, verbose=False, allow_writing_files=False).fit(x[:300], y[:300])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        estimator.save_model(str(path), format="onnx")
        model = onnx.load(io.BytesIO(path.read_bytes()))
    compare_library(without_zipmap(model), estimator, x[300:], classes)


def without_zipmap(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the scores that a final ZipMap would put into maps."""
    for node in [node for node in model.graph.node if node.op_type == "ZipMap"]:
        output = next(output for output in model.graph.output if output.name == node.output[0])
        shape = onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ["N", "C"])
        output.name = node.input[0]
        output.type.CopyFrom(shape)
        model.graph.node.remove(node)
    return model


def compare_library(model: onnx.ModelProto, estimator: Any, x: Array, classes: int) -> None:
    """Labels and probabilities of a classifier, or numbers of a regressor."""
    actual = list(scored(model, x).values())
    if not classes:
        close(actual[0], estimator.predict(x))
        return
    same_labels(actual[0], estimator.predict(x))
    close(actual[1], estimator.predict_proba(x))
