"""Pipelines of SparkML, converted by onnxmltools, against onnxruntime. Spark is large, and installed on demand only:
``pip install pyspark==3.5.7``. (With a StringIndexer the converter imports two versions of one domain, which is refused.)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction

pytest.importorskip("pyspark", reason="pyspark is not installed (a download of 317 MB)")

NUMBERS = ["f1", "f2", "f3"]
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 3))
LABELS = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(float)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


def stages() -> dict[str, list[Any]]:
    from pyspark.ml import classification, feature, regression

    def assembled(columns: list[str] = NUMBERS, output: str = "features") -> Any:
        return feature.VectorAssembler(inputCols=columns, outputCol=output)

    def scaled(scaler: Any, model: Any) -> list[Any]:
        return [assembled(output="raw"), scaler.setInputCol("raw").setOutputCol("features"), model]

    return {
        "logistic regression": [assembled(), classification.LogisticRegression(maxIter=5)],
        "random forest": [assembled(), classification.RandomForestClassifier(numTrees=5, seed=1)],
        "decision tree": [assembled(), classification.DecisionTreeClassifier()],
        "linear support vectors": [assembled(), classification.LinearSVC(maxIter=5)],
        "linear regression": [assembled(), regression.LinearRegression()],
        "forest regression": [assembled(), regression.RandomForestRegressor(numTrees=4, seed=1)],
        "boosted regression": [assembled(), regression.GBTRegressor(maxIter=3)],
        "standard scaler": scaled(feature.StandardScaler(withMean=True), classification.LogisticRegression(maxIter=5)),
        "range scaler": scaled(feature.MinMaxScaler(), regression.LinearRegression()),
        "normalizer": scaled(feature.Normalizer(p=1.0), regression.LinearRegression()),
        "components": scaled(feature.PCA(k=2), regression.LinearRegression()),
    }


NAMES = ["logistic regression", "random forest", "decision tree", "linear support vectors",
         "linear regression", "forest regression", "boosted regression", "standard scaler", "range scaler", "normalizer",
         "components"]


@pytest.mark.parametrize("name", NAMES)
def test_pipeline(spark: Any, name: str) -> None:
    from onnxmltools import convert_sparkml
    from onnxmltools.convert.common.data_types import FloatTensorType
    from pyspark.ml import Pipeline

    rows = [(*map(float, x), float(label)) for x, label in zip(X, LABELS)]
    fitted = Pipeline(stages=stages()[name]).fit(spark.createDataFrame(rows, [*NUMBERS, "label"]))
    types = [(column, FloatTensorType([None, 1])) for column in NUMBERS]
    model = convert_sparkml(fitted, "pipeline", types, spark_session=spark, target_opset=15)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {column: X[:, [position]].astype(np.float32) for position, column in enumerate(NUMBERS)}
    outputs = [output.name for output in session.get_outputs()]
    with ScoringFunction(import_model(model)) as function:
        results = function(feeds)
    for output, expected in zip(outputs, session.run(None, feeds), strict=True):
        np.testing.assert_allclose(results[output], expected, rtol=1e-4, atol=1e-5)
