"""Inputs for the operators of ai.onnx.ml."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds.model.protos import numpy_dtype
from tests.fuzz.drawing import Array, Draw, Node
from tests.fuzz.operators_core import longs, makes
from tests.fuzz.operators_other import NUMBERS, words
from tests.operators import tree_models

_CATEGORIES = ("a", "b", "dd", "", "É")


def features(draw: Draw, count: int, rows: int = 0) -> Array:
    """Rows of features."""
    return draw.array(draw.one("float", "float", *NUMBERS), (rows or draw.size(1), count))


@makes("ArrayFeatureExtractor")
def array_feature_extractor(draw: Draw) -> Node:
    dims = draw.shape(1, 3, 1)
    chosen = draw.indices((1, draw.int(1, 4)) if draw.chance(0.5) else (draw.int(1, 4),), dims[-1], negative=False)
    return Node({"x": draw.array(draw.one(*NUMBERS, "string"), dims), "i": chosen}, is_exact=True)


@makes("Binarizer")
def binarizer(draw: Draw) -> Node:
    return Node({"x": draw.array(draw.one("float", "double"), draw.shape(1, 3))}, {"threshold": draw.real(-1, 1)},
                is_exact=True)


@makes("CategoryMapper")
def category_mapper(draw: Draw) -> Node:
    strings = draw.rng.permutation(np.array([*_CATEGORIES, "c"], object))[: draw.int(1, 6)].tolist()
    attributes: dict[str, Any] = {"cats_strings": strings, "cats_int64s": (draw.rng.permutation(12)[: len(strings)] - 3).tolist()}
    attributes |= {"default_int64": draw.int(-9, 9)} if draw.chance(0.6) else {}
    attributes |= {"default_string": draw.one("?", "")} if draw.chance(0.6) else {}
    dims = draw.shape(0, 3)
    return Node({"x": words(draw, *dims) if draw.chance(0.5) else longs(draw.rng.integers(-4, 10, dims))}, attributes)


@makes("FeatureVectorizer")
def feature_vectorizer(draw: Draw) -> Node:
    rows = draw.int(1, 4)
    widths = [draw.int(1, 4) for _ in range(draw.int(1, 3))]
    dtype = draw.one(*NUMBERS)
    inputs = {f"x{place}": draw.array(dtype, (rows, width)) for place, width in enumerate(widths)}
    asked = [max(1, width + draw.one(0, 0, -1, 1)) for width in widths]
    return Node(inputs, {"inputdimensions": asked}, is_exact=True)


@makes("Imputer")
def imputer(draw: Draw) -> Node:
    count, kind = draw.int(1, 4), draw.one(*NUMBERS)
    dims = (draw.size(1), count) if draw.chance(0.8) else (count,)
    fills = draw.one(1, count)
    if kind in ("float", "double"):
        old = draw.one(float("nan"), float("nan"), 0.0, -0.0, 1.0, float("inf"))
        x = np.where(draw.rng.random(dims) < 0.3, np.asarray(old, numpy_dtype(kind)), draw.array(kind, dims))
        new = [draw.one(draw.real(-2, 2), 0.0, float("nan"), float("inf")) for _ in range(fills)]
        return Node({"x": x}, {"replaced_value_float": old, "imputed_value_floats": new}, is_exact=True)
    x = np.asarray(draw.rng.integers(-3, 4, dims), numpy_dtype(kind))
    attributes: dict[str, Any] = {"imputed_value_int64s": [draw.int(-5, 5) for _ in range(fills)]}
    attributes |= {"replaced_value_int64": draw.one(0, 1, -3)} if draw.chance(0.7) else {}
    return Node({"x": x}, attributes, is_exact=True)


@makes("LabelEncoder")
def label_encoder(draw: Draw) -> Node:
    keys: dict[str, list[Any]] = {"strings": ["a", "b", "dd"], "int64s": [-2, 0, 3], "floats": [0.0, -1.0, 2.0]}
    if draw.chance(0.3):
        keys["floats"][1] = float("nan")
    source, target = draw.one(*keys), draw.one(*keys)
    if draw.opset == 1:
        source, target = draw.one(("strings", "int64s"), ("int64s", "strings"))
        attributes: dict[str, Any] = {"classes_strings": ["x", "y", "z"], "default_string": "?", "default_int64": -7}
        x = words(draw, 5) if source == "strings" else longs(draw.rng.integers(-1, 5, 5))
        return Node({"x": x}, attributes)
    values: dict[str, list[Any]] = {"strings": ["p", "q", "r"], "int64s": [5, -6, 7], "floats": [0.5, -1.5, 9.0]}
    attributes = {f"keys_{source}": keys[source], f"values_{target}": values[target]}
    if draw.chance(0.6):
        attributes[f"default_{target[:-1]}"] = {"strings": "?", "int64s": -9, "floats": 4.5}[target]
    dims = draw.shape(1, 2, 1)
    if draw.opset >= 4 and draw.chance(0.4):
        return _label_tensors(draw, dims)
    if source == "strings":
        return Node({"x": words(draw, *dims)}, attributes)
    if source == "int64s":
        return Node({"x": longs(draw.rng.integers(-3, 5, dims))}, attributes)
    return Node({"x": draw.array("float", dims)}, attributes)


def _label_tensors(draw: Draw, dims: tuple[int, ...]) -> Node:
    """Keys and values as tensors, of types that lists have not."""
    kinds: dict[str, list[Any]] = {"double": [0.0, -1.0, 2.5], "int64": [-2, 0, 3], "int32": [-2, 0, 3], "int16": [-2, 0, 3],
                                   "float": [0.0, -1.0, float("nan")], "string": ["a", "", "É"]}
    source, target = draw.one(*kinds), draw.one(*kinds)
    text = target == "string"
    keys, values, default = (numpy_helper.from_array(np.asarray(content, object if kind == "string" else numpy_dtype(kind)))
                             for kind, content in ((source, kinds[source]), (target, ["p", "", "q"] if text else [5, -6, 7]),
                                                   (target, ["?"] if text else [9])))
    others = [*kinds[source], "c" if source == "string" else 1]
    x = np.asarray(others, object if source == "string" else numpy_dtype(source))[draw.rng.integers(0, 4, dims)]
    return Node({"x": x}, {"keys_tensor": keys, "values_tensor": values, "default_tensor": default})


@makes("LinearRegressor", "LinearClassifier")
def linear(draw: Draw) -> Node:
    count, targets = draw.int(1, 5), draw.int(1, 4)
    attributes: dict[str, Any] = {"coefficients": draw.parameters(targets * count).tolist()}
    if draw.op_type == "LinearRegressor":
        attributes |= {"targets": targets, "post_transform": draw.one("NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")}
        if draw.chance(0.7):
            attributes["intercepts"] = draw.parameters(targets).tolist()
        return Node({"x": draw.array("float", (draw.size(1), count))}, attributes)
    attributes["intercepts"] = draw.parameters(targets).tolist()
    attributes["post_transform"] = draw.one("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    if draw.chance(0.3):
        attributes["multi_class"] = draw.flag()
    classes = max(targets, 2)
    attributes |= {"classlabels_ints": list(range(5, 5 + classes))} if draw.chance(0.6) else {
        "classlabels_strings": [f"c{place}" for place in range(classes)]}
    return Node({"x": features(draw, count)}, attributes, 2)


@makes("Normalizer")
def normalizer(draw: Draw) -> Node:
    """Also rows of zeros, and of negative numbers alone."""
    x = features(draw, draw.int(1, 5))
    x = np.where(draw.rng.random((len(x), 1)) < 0.4, x.dtype.type(0), x) if draw.chance(0.4) else x
    x = -np.abs(x) if draw.chance(0.2) else x
    return Node({"x": x}, {"norm": draw.one("MAX", "L1", "L2")} if draw.chance(0.9) else {})


@makes("OneHotEncoder")
def one_hot_encoder(draw: Draw) -> Node:
    """What is no category is refused without zeros."""
    dims, zeros = draw.shape(0, 3, 1), {"zeros": draw.one(1, 1, 0)} if draw.chance(0.8) else {}
    only = bool(zeros) and not zeros["zeros"]
    if draw.chance(0.4):
        texts = draw.rng.permutation(np.array(_CATEGORIES, object))[: draw.int(1, 5)]
        chosen = np.asarray(texts[draw.rng.integers(0, len(texts), dims)], object)
        return Node({"x": chosen if only else words(draw, *dims)}, {"cats_strings": texts.tolist(), **zeros})
    numbers = draw.rng.permutation(9)[: draw.int(1, 6)] - 2
    x = numbers[draw.rng.integers(0, len(numbers), dims)] if only else draw.rng.integers(-3, 7, dims)
    found = np.asarray(x, numpy_dtype(draw.one(*NUMBERS)))
    if found.dtype.kind == "f" and draw.chance(0.3):
        found = np.asarray(found + draw.one(0.5, -0.25, 0.9999), found.dtype)
    return Node({"x": found}, {"cats_int64s": numbers.tolist(), **zeros})


@makes("Scaler")
def scaler(draw: Draw) -> Node:
    count = draw.int(1, 5)
    size = draw.one(1, count)
    return Node({"x": features(draw, count)}, {"offset": draw.parameters(size).tolist(), "scale": draw.parameters(size).tolist()})


@makes("SVMRegressor")
def svm_regressor(draw: Draw) -> Node:
    count, vectors = draw.int(1, 4), draw.int(1, 5)
    kernel = draw.one("LINEAR", "POLY", "RBF", "SIGMOID")
    attributes = {
        "kernel_type": kernel, "kernel_params": [draw.real(0.1, 1), draw.real(0, 1), float(draw.int(1, 3))],
        "n_supports": vectors, "support_vectors": draw.parameters(vectors * count).tolist(),
        "coefficients": draw.parameters(vectors).tolist(), "rho": [draw.real(-1, 1)],
        "one_class": draw.flag() if draw.chance(0.3) else 0, "post_transform": "NONE",
    }
    if draw.chance(0.2):  # weights of the features
        del attributes["support_vectors"]
        attributes |= {"n_supports": 0, "kernel_type": "LINEAR", "coefficients": draw.parameters(count).tolist()}
    return Node({"x": draw.array("float", (draw.size(1), count))}, attributes)


@makes("SVMClassifier")
def svm_classifier(draw: Draw) -> Node:
    count, classes = draw.int(1, 4), draw.int(2, 4)
    per = [draw.int(1, 3) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, Any] = {
        "kernel_type": draw.one("LINEAR", "POLY", "RBF", "SIGMOID"),
        "kernel_params": [draw.real(0.1, 1), draw.real(0, 1), float(draw.int(1, 3))], "vectors_per_class": per,
        "support_vectors": draw.parameters(sum(per) * count).tolist(),
        "coefficients": draw.parameters((classes - 1) * sum(per)).tolist(), "rho": draw.parameters(pairs).tolist(),
        "post_transform": draw.one("NONE", "NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"),
    }
    attributes |= {"classlabels_ints": list(range(3, 3 + classes))} if draw.chance(0.6) else {
        "classlabels_strings": [f"c{place}" for place in range(classes)]}
    if draw.chance(0.2):  # a row of weights for each class
        del attributes["support_vectors"], attributes["vectors_per_class"]
        attributes |= {"kernel_type": "LINEAR", "rho": [draw.real(-1, 1)],
                       "coefficients": draw.parameters(classes * count).tolist()}
    elif draw.chance(0.4):
        attributes |= {"prob_a": (-draw.positive(pairs)).tolist(), "prob_b": draw.parameters(pairs).tolist()}
    return Node({"x": draw.array("float", (draw.size(1), count))}, attributes, 2)


@makes("TreeEnsembleRegressor", "TreeEnsembleClassifier")
def trees(draw: Draw) -> Node:
    targets, seed = draw.int(1, 4), draw.int(0, 10**6)
    is_regressor = draw.op_type == "TreeEnsembleRegressor"
    # onnxruntime knows no base of what has no weight, and takes no weight for one of 0
    only, is_complete = [draw.int(0, targets - 1)] if draw.chance(0.15) else None, draw.chance(0.7)
    modes = tree_models.MODES if draw.chance(0.5) else (draw.one(*tree_models.MODES),)
    double = draw.opset >= 3 and draw.chance(0.25)
    attributes = tree_models.listed("target" if is_regressor else "class", draw.int(1, 5), draw.int(0, 4),
                                    targets, seed=seed, modes=modes, double=double, missing=draw.chance(0.5), only=only,
                                    positive=draw.chance(0.3), complete=is_complete)
    attributes["post_transform"] = draw.one("NONE", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    if is_complete and only is None and draw.chance(0.4):
        bases = draw.parameters(targets).tolist()
        tensor = helper.make_tensor("base_values", TensorProto.DOUBLE, [targets], bases)
        attributes |= {"base_values_as_tensor": tensor} if double else {"base_values": bases}
    x = tree_models.data(draw.size(1), seed, draw.one("float32", "float64", "int64") if not double else "float64")
    if is_regressor:
        attributes |= {
            "n_targets": targets,
            "aggregate_function": draw.one("SUM", "AVERAGE", *(["MIN", "MAX"] if is_complete else [])),
        }
        return Node({"x": x.astype(np.float32) if x.dtype == np.int64 else x}, attributes)
    labels = [f"c{place}" for place in range(max(targets, 2))]
    attributes |= {"classlabels_strings": labels} if draw.chance(0.3) else {
        "classlabels_int64s": [draw.one(0, 5) + place for place in range(len(labels))]}
    return Node({"x": x}, attributes, 2)


@makes("TreeEnsemble")
def tree_ensemble(draw: Draw) -> Node:
    seed = draw.int(0, 10**6)
    dtype = draw.one("float32", "float64")
    attributes = tree_models.split(draw.int(1, 4), draw.int(1, 4), draw.int(1, 3), seed=seed, missing=draw.chance(0.5),
                                   dtype=TensorProto.FLOAT if dtype == "float32" else TensorProto.DOUBLE)
    attributes |= {"aggregate_function": draw.int(0, 3), "post_transform": draw.one(0, 0, 1, 2, 3)}
    return Node({"x": tree_models.data(draw.size(1), seed, dtype)}, attributes)


# --- maps --------------------------------------------------------------------------------------------------------

_KEYS: dict[str, tuple[Any, ...]] = {"string": ("a", "dd", "", "É", "x y"), "int64": (0, 3, 1, 5, 2, 7, -2)}


@makes("ZipMap")
def zip_map(draw: Draw) -> Node:
    keys = draw.one(*_KEYS.values())
    count = draw.int(1, len(keys))
    dims = (count,) if draw.chance(0.2) else (draw.size(1), count)
    name = "classlabels_strings" if isinstance(keys[0], str) else "classlabels_int64s"
    return Node({"x": draw.array("float", dims)}, {name: list(keys[:count])}, is_exact=True)


def _map(draw: Draw, key: str, value: str) -> dict[Any, Any]:
    """One to some different keys in any order, with a value each."""
    keys = draw.rng.permutation(np.array(_KEYS[key], object))[: draw.int(1, len(_KEYS[key]))].tolist()
    return dict(zip(keys, draw.array(value, (len(keys),)) if value != "string" else words(draw, len(keys))))


@makes("DictVectorizer")
def dict_vectorizer(draw: Draw) -> Node:
    """A vocabulary with keys that the map has not, also one twice."""
    key, value = draw.one(("string", "float"), ("string", "double"), ("string", "int64"), ("int64", "float"),
                          ("int64", "double"), ("int64", "string"))
    words_ = [draw.one(*_KEYS[key], "z" if key == "string" else 99) for _ in range(draw.int(1, 6))]
    return Node({"x": _map(draw, key, value)}, {f"{key}_vocabulary": words_}, is_exact=True)


@makes("CastMap")
def cast_map(draw: Draw) -> Node:
    target = draw.one("TO_FLOAT", "TO_STRING", "TO_INT64")
    given = {abs(key): item for key, item in _map(draw, "int64", "float").items()}
    if target == "TO_INT64":  # what is none has no integer
        given = {key: np.float32(np.clip(np.nan_to_num(item), -1e6, 1e6)) for key, item in given.items()}
    if draw.chance(0.3):
        given = {key: draw.one("1", "-2.5", "7", "12") for key in given}
    attributes: dict[str, Any] = {"cast_to": target, "map_form": draw.one("DENSE", "SPARSE"), "max_map": draw.int(8, 10)}
    return Node({"x": given}, attributes, is_exact=True)
