"""scikit-learn pipelines: fitted here, exported by skl2onnx, judged by onnxruntime and by scikit-learn itself."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import skl2onnx
from sklearn.base import clone

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import compare, run_reference

Array = np.ndarray[Any, np.dtype[Any]]
FITTED = 80  # rows to fit on; the others are held out
SIZES = (40, 1)  # numbers of held-out rows that one script scores


def samples(kind: str) -> tuple[Array, Array]:
    """120 samples of 5 features with targets of a kind."""
    generator = np.random.default_rng(7)
    x = generator.standard_normal((120, 5)).astype(np.float32)
    x[:, 1] += 2 * x[:, 0]
    linear = x @ np.array([1.0, -2.0, 0.5, 1.5, 0.0], np.float32) + 0.3 * generator.standard_normal(120)
    if kind.startswith("counts"):
        counts = generator.poisson(2.0, (120, 5)).astype(np.float32)
        larger = (counts[:, 0] > counts[:, 1]).astype(np.int64)
        return counts, larger if kind == "counts-binary" else larger + (counts[:, 2] > 2)
    if kind == "missing":
        x[generator.random((120, 5)) < 0.2] = np.nan
        return x, linear
    targets = {
        "regression": linear,
        "positive": np.exp(linear / 4),
        "targets": np.stack([linear, linear**2 / 4 - x[:, 4]], axis=1),
        "binary": (linear > 0).astype(np.int64) * 4 - 1,
        "classes": np.digitize(linear, [-1.5, 1.5]).astype(np.int64) * 2 + 5,
        "flags": np.stack([linear > 0, x[:, 4] > 0.5], axis=1).astype(np.int64),
    }
    return x, targets[kind]


def called(row: tuple[str, Any]) -> str:
    """The name of a row in test reports: the data and the estimator with what is not default."""
    return re.sub(r"at0x[0-9a-f]+", "", f"{row[0]}-{''.join(repr(row[1]).split())}")[:100]


def exported(estimator: Any, x: Array) -> Any:
    """The ONNX model; classifiers give a tensor of probabilities instead of a sequence of maps."""
    try:
        return skl2onnx.to_onnx(estimator, x, options={id(estimator): {"zipmap": False}})
    except NameError:  # an estimator without this option
        return skl2onnx.to_onnx(estimator, x)


def check_estimator(
    kind: str, estimator: Any, method: str, *, dtype: str = "float32", tolerance: float = 1e-4, exact: float = 1e-3
) -> None:
    """Fit, export, run at several sizes; compare with onnxruntime, and more loosely with scikit-learn's FP64.

    method: "predict" or "transform", what the exported model stands for; "" where it is known to differ.
    """
    x, y = samples(kind)
    x = (np.round(3 * x) if dtype.startswith("int") else x).astype(dtype)
    estimator = clone(estimator).fit(x[:FITTED], y[:FITTED])
    model = exported(estimator, x[:1])
    script = import_model(model)
    with ScoringFunction(script) as function:
        for size in SIZES:
            held_out = x[FITTED : FITTED + size]
            actual = function({"X": held_out})
            names = [port.name for port in script.outputs]
            for name, judge in zip(names, run_reference(model, {"X": held_out}), strict=True):
                compare(actual[name], np.asarray(judge), tolerance, name)
            for name, judge in zip(names, own_results(estimator, held_out, method)):
                wide = np.asarray(judge, np.float64)
                compare(actual[name].astype(np.float64).reshape(wide.shape), wide, exact, f"scikit-learn {name}")


def own_results(estimator: Any, x: Array, method: str) -> list[Any]:
    """What scikit-learn gives for the first outputs of the exported model."""
    if not method:
        return []
    result = getattr(estimator, method)(x)
    results = [result.toarray() if hasattr(result, "toarray") else result]
    if method == "predict" and hasattr(estimator, "predict_proba"):
        results.append(estimator.predict_proba(x))
    return results
