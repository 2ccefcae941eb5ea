"""scikit-learn pipelines with text: labels, categories, documents, and columns of several types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
import skl2onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn import (
    compose,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    impute,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import compare, run_reference
from tests.pipelines.scikit import samples

LOGISTIC = linear_model.LogisticRegression
SIZES = (40, 1)
NAMES = np.array(["low", "Mitte, \"x\"", "high"], object)
Inputs = dict[str, Any]


def check(model: Any, inputs: Inputs, sizes: Any = SIZES) -> list[Any]:
    """Run one script at several sizes; compare with onnxruntime. Returns the outputs of the first size."""
    script = import_model(model)
    first: list[Any] = []
    with ScoringFunction(script) as function:
        for size in sizes:
            held_out = {name: column[-size:] for name, column in inputs.items()}
            actual = function(held_out)
            for port, judge in zip(script.outputs, run_reference(model, held_out), strict=True):
                if isinstance(judge, list):
                    assert [list(item) for item in map(sorted, actual[port.name])] == [sorted(item) for item in judge]
                    for mine, theirs in zip(actual[port.name], judge, strict=True):
                        assert mine == pytest.approx(theirs, abs=1e-5)
                else:
                    compare(actual[port.name], np.asarray(judge), 1e-4, port.name)
            first = first or list(actual.values())
    return first


CLASSIFIERS = [
    LOGISTIC(), svm.LinearSVC(), svm.SVC(), svm.SVC(probability=True, random_state=0), naive_bayes.GaussianNB(),
    neighbors.KNeighborsClassifier(3), tree.DecisionTreeClassifier(random_state=0), neural_network.MLPClassifier((4,), random_state=0, max_iter=300),
    ensemble.RandomForestClassifier(3, random_state=0), ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0),
    discriminant_analysis.LinearDiscriminantAnalysis(),
    multiclass.OneVsRestClassifier(LOGISTIC()), linear_model.SGDClassifier(random_state=0), linear_model.RidgeClassifier(),
    ensemble.VotingClassifier([("a", LOGISTIC()), ("b", naive_bayes.GaussianNB())], flatten_transform=False),
]


WITH_ZIPMAP = [LOGISTIC(), tree.DecisionTreeClassifier(random_state=0)]  # it is the same node after all of them


@pytest.mark.parametrize("kind", ["binary", "classes"])
@pytest.mark.parametrize(
    ("estimator", "zipmap"),
    [*((one, False) for one in CLASSIFIERS), *((one, True) for one in WITH_ZIPMAP)],
    ids=lambda given: given if isinstance(given, bool) else type(given).__name__,
)
def test_labels(estimator: Any, zipmap: bool, kind: str) -> None:
    x, y = samples(kind)
    labels = NAMES[np.unique(y, return_inverse=True)[1]]
    estimator.fit(x[:80], labels[:80])
    try:
        model = skl2onnx.to_onnx(estimator, x[:1], options={id(estimator): {"zipmap": zipmap}})
    except NameError:  # an estimator without this option
        model = skl2onnx.to_onnx(estimator, x[:1])
    outputs = check(model, {"X": x})
    assert (outputs[0] == estimator.predict(x[-SIZES[0]:])).mean() > 0.95


# --- columns -----------------------------------------------------------------------------------------------------

GENERATOR = np.random.default_rng(3)
COLOURS = GENERATOR.choice(np.array(["red", "grün", "blue", ""], object), (120, 2))
SIZED = np.column_stack([COLOURS[:, :1], GENERATOR.choice(np.array(["s", "m", "l"], object), (120, 1))])


@pytest.mark.parametrize("encoder", [
    preprocessing.OneHotEncoder(handle_unknown="ignore"),
    preprocessing.OneHotEncoder(drop="first"),
    preprocessing.OneHotEncoder(sparse_output=False),
    preprocessing.OrdinalEncoder(),
    preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    impute.SimpleImputer(strategy="most_frequent", missing_values=""),
], ids=lambda encoder: "".join(repr(encoder).split())[:60])
def test_encoders(encoder: Any) -> None:
    encoder.fit(SIZED[:80])
    model = skl2onnx.to_onnx(encoder, initial_types=[("X", StringTensorType([None, 2]))])
    given = SIZED.copy()
    if getattr(encoder, "handle_unknown", "error") != "error":
        given[-3:, 0] = "unknown"
    check(model, {"X": given})


@pytest.mark.parametrize("zipmap", [False, True])
@pytest.mark.parametrize("estimator", [LOGISTIC(), ensemble.RandomForestClassifier(5, random_state=0)], ids=repr)
def test_mixed_columns(estimator: Any, zipmap: bool) -> None:
    """A frame with columns of text and of numbers goes in, labels that are text and probabilities come out."""
    x, y = samples("classes")
    labels = NAMES[np.unique(y, return_inverse=True)[1]]
    frame = pandas.DataFrame({"colour": SIZED[:, 0], "size": SIZED[:, 1], "a": x[:, 0], "b": x[:, 1]})
    model = pipeline.make_pipeline(
        compose.ColumnTransformer([
            ("text", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour", "size"]),
            ("numbers", pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler()), ["a", "b"]),
        ]),
        estimator,
    ).fit(frame[:80], labels[:80])
    types = [("colour", StringTensorType([None, 1])), ("size", StringTensorType([None, 1])),
             ("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1]))]
    exported = skl2onnx.to_onnx(model, initial_types=types, options={id(estimator): {"zipmap": zipmap}})
    inputs = {name: frame[[name]].to_numpy(copy=True) for name in frame}
    inputs["colour"][-2:] = "unknown"
    inputs["a"] = inputs["a"].astype(np.float32)
    inputs["b"] = inputs["b"].astype(np.float32)
    inputs["a"][-1] = np.nan
    check(exported, inputs)


# --- documents ---------------------------------------------------------------------------------------------------

DOCUMENTS = np.array([
    "the cat chases the dog", "A dog ate the homework!", "linear algebra and the cats", "matrices, vectors and algebra",
    "", "dogs are not cats", "Der Hund jagt die Katze.", "the the the", "vector-spaces of matrices", "cat cat dog",
], object)
TOPICS = np.array(["pets", "pets", "maths", "maths", "pets", "pets", "pets", "pets", "maths", "pets"], object)
WORDS = r"[a-zA-Z0-9_]+"
PLAIN = {"locale": "C"}  # onnxruntime knows the locales that are installed only


@pytest.mark.parametrize("vectorizer", [
    feature_extraction.text.CountVectorizer(token_pattern=WORDS),
    feature_extraction.text.CountVectorizer(token_pattern=WORDS, lowercase=False, binary=True),
    feature_extraction.text.CountVectorizer(token_pattern=WORDS, ngram_range=(1, 2)),
    feature_extraction.text.CountVectorizer(token_pattern=r"\b\w\w+\b"),
    feature_extraction.text.CountVectorizer(analyzer="char", lowercase=False),
    feature_extraction.text.TfidfVectorizer(token_pattern=WORDS),
    feature_extraction.text.TfidfVectorizer(token_pattern=WORDS, ngram_range=(2, 3), norm=None),
    feature_extraction.text.TfidfVectorizer(token_pattern=WORDS, stop_words=["the", "and"], sublinear_tf=True),
], ids=lambda vectorizer: "".join(repr(vectorizer).split())[:80])
def test_vectorizers(vectorizer: Any) -> None:
    vectorizer.fit(DOCUMENTS)
    options = {id(vectorizer): {"tokenexp": vectorizer.token_pattern, **PLAIN} if vectorizer.analyzer == "word" else PLAIN}
    model = skl2onnx.to_onnx(vectorizer, initial_types=[("X", StringTensorType([None]))], options=options)
    check(model, {"X": DOCUMENTS}, sizes=(10, 1, 3))
    check(model, {"X": np.array(["", "--"], object)}, sizes=(2, 1))


def test_topics() -> None:
    """Documents and a number go in, topics come out."""
    vectorizer = feature_extraction.text.TfidfVectorizer(token_pattern=WORDS)
    columns = compose.ColumnTransformer([("text", vectorizer, 0), ("number", "passthrough", [1])])
    lengths = np.array([[len(text)] for text in DOCUMENTS], object)
    model = pipeline.make_pipeline(columns, LOGISTIC()).fit(np.column_stack([DOCUMENTS, lengths]), TOPICS)
    types = [("text", StringTensorType([None, 1])), ("number", FloatTensorType([None, 1]))]
    fitted = columns.named_transformers_["text"]
    options = {id(fitted): {"tokenexp": WORDS, **PLAIN}, id(model.steps[-1][1]): {"zipmap": False}}
    exported = skl2onnx.to_onnx(model, initial_types=types, options=options)
    check(exported, {"text": DOCUMENTS.reshape(-1, 1), "number": lengths.astype(np.float32)}, sizes=(10, 1))
