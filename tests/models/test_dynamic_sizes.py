"""Every shared model with dynamic dims: one prepared script at two further sizes of each, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.scoring import ScoringFunction
from tests.model_zoo import model_cases
from tests.models import judging
from tests.operators.harness import Array, compare

# sizes that a model needs for reasons of its own, by symbol (unnamed dims: "<input>_dim<axis>")
SIZES: Mapping[str, Mapping[str, tuple[int, int]]] = {}

TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


def symbol_sizes(path: Path, vectors: Mapping[str, Array]) -> dict[str, tuple[int, int]]:
    """Two further sizes of each symbol of a model: images grow by 32, so that what halves them five times fits."""
    found: dict[str, tuple[int, int]] = {}
    for given in session(path).get_inputs():
        for axis, dim in enumerate(given.shape or ()):
            if not isinstance(dim, int) or dim < 0:
                stored = vectors[f"in_{given.name}"].shape[axis]
                step = 32 if stored >= 32 and stored % 32 == 0 else 1
                name = dim if isinstance(dim, str) and dim not in ("", "?") else f"{given.name}_dim{axis}"
                found[name] = SIZES.get(path.stem, {}).get(name, (stored + step, stored + 3 * step))
    return found


def session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs_at(path: Path, vectors: Mapping[str, Array], sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Inputs of the given sizes: numbers like the stored ones, ids among the stored ones, masks of ones."""
    generator = np.random.default_rng(seed)
    inputs = {}
    for given in session(path).get_inputs():
        stored = vectors[f"in_{given.name}"]
        dims = [
            sizes.get(dim if isinstance(dim, str) else "", sizes.get(f"{given.name}_dim{axis}", stored.shape[axis]))
            for axis, dim in enumerate(given.shape or ())
        ]
        if "mask" in given.name and stored.dtype.kind != "f":
            inputs[given.name] = np.ones(dims, stored.dtype)
        elif len(dims) == 2 and isinstance(given.shape[1], int):  # a table: each column has a range of its own
            rows = generator.integers(0, stored.shape[0], dims)
            inputs[given.name] = np.take_along_axis(stored, rows, 0)
        elif stored.dtype.kind == "f":
            numbers = generator.standard_normal(dims) * stored.std() + stored.mean()
            inputs[given.name] = np.clip(numbers, stored.min(), stored.max()).astype(stored.dtype)
        elif list(stored.shape) == dims:
            inputs[given.name] = stored
        else:
            inputs[given.name] = generator.choice(stored.ravel(), dims).astype(stored.dtype)
    return inputs


@pytest.mark.parametrize("path", model_cases("real", "generated"))
def test_two_further_sizes(path: Path) -> None:
    with np.load(path.with_suffix(".npz"), allow_pickle=True) as stored:
        vectors = {name: stored[name] for name in stored.files}
    symbols = symbol_sizes(path, vectors)
    if not symbols:
        pytest.skip("no input has a dynamic dim")
    runs = []
    for number in range(2):
        inputs = inputs_at(path, vectors, {name: sizes[number] for name, sizes in symbols.items()}, number)
        try:
            runs.append((inputs, judging.judge(path, inputs)))
        except Exception as error:  # onnxruntime's own classes have no common base
            assert type(error).__module__.startswith("onnxruntime"), error
            pytest.skip(f"onnxruntime refuses these sizes: {str(error).splitlines()[0][:200]}")
    with ScoringFunction(import_model(path)) as function:
        for inputs, expected in runs:
            outputs = function(inputs)
            for name, judge in expected.items():
                compare(outputs[name], judge, TOLERANCE.get(str(judge.dtype), 1e-5), f"{path.stem} {symbols} {name}")
