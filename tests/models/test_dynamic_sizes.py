"""Every shared model with dynamic dims: one prepared script at two further sizes of each, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying import judging
from tests.all_failures import all_failures
from tests.all_forms import results_of_all_forms
from tests.model_zoo import groups_by_size, model_cases, model_paths, needs_models
from tests.models.test_models import ALLOWED, STEP
from tests.operators.harness import Array, compare
from tests.plain_engine import scored_together

TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


def has_dynamic_dims(path: Path) -> bool:
    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    shapes = [given.type.tensor_type.shape for given in graph.input if given.name not in weights]
    return any(dim.dim_value <= 0 for shape in shapes for dim in shape.dim)


def symbol_sizes(path: Path, vectors: Mapping[str, Array]) -> dict[str, tuple[int, int]]:
    """Two further sizes of each symbol of a model: images grow by 32, so that what halves them five times fits."""
    found: dict[str, tuple[int, int]] = {}
    for given in session(path).get_inputs():
        for axis, dim in enumerate(given.shape or ()):
            if not isinstance(dim, int) or dim < 0:
                stored = vectors[f"in_{given.name}"].shape[axis]
                step = 32 if stored >= 32 and stored % 32 == 0 else 1
                name = dim if isinstance(dim, str) and dim not in ("", "?") else f"{given.name}_dim{axis}"
                found[name] = (stored + step, stored + 3 * step)
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


@pytest.mark.parametrize("specialise_after", [20, 1], ids=["open", "compiled_for_sizes_in_parts"])
@pytest.mark.parametrize("path", model_cases("real", "generated", where=has_dynamic_dims))
def test_two_further_sizes(path: Path, specialise_after: int) -> None:
    with np.load(path.with_suffix(".npz"), allow_pickle=True) as stored:
        vectors = {name: stored[name] for name in stored.files}
    symbols = symbol_sizes(path, vectors)
    with ScoringFunction(import_model(path), specialise_after=specialise_after, parts=3) as function:
        for number in range(2):
            inputs = inputs_at(path, vectors, {name: sizes[number] for name, sizes in symbols.items()}, number)
            expected = judging.judge(path, inputs)
            for outputs in results_of_all_forms(function, inputs):
                for name, judge in expected.items():
                    agree(outputs[name], judge, f"{path.parent.name}/{path.stem}", name, decided(expected))


@needs_models
@pytest.mark.parametrize(
    "paths",
    groups_by_size([path for path in model_paths("real", "generated") if has_dynamic_dims(path)]),
    ids=lambda paths: paths[0].stem,
)
def test_two_further_sizes_on_the_plain_command_line(paths: list[Path]) -> None:
    cases = {}
    for path in paths:
        with np.load(path.with_suffix(".npz"), allow_pickle=True) as stored:
            vectors = {name: stored[name] for name in stored.files}
        symbols = symbol_sizes(path, vectors)
        calls = [inputs_at(path, vectors, {name: sizes[number] for name, sizes in symbols.items()}, number)
                 for number in range(2)]
        cases[f"{path.parent.name}/{path.stem}"] = import_model(path), calls
    with all_failures() as case:
        for path, (model, results) in zip(paths, scored_together(cases, open_sizes=True).items(), strict=True):
            for number, (inputs, outputs) in enumerate(zip(cases[model][1], results, strict=True), 1):
                with case(f"{model} call {number}"):
                    expected = judging.judge(path, inputs)
                    for name, judge in expected.items():
                        agree(outputs[name], judge, model, name, decided(expected))


def decided(outputs: Mapping[str, Any]) -> Any:
    """The rows of a classifier in which the best class is ahead of the others by more than float32 can tell."""
    scores = [output for output in outputs.values() if isinstance(output, np.ndarray) and output.dtype.kind == "f"]
    if len(outputs) != 2 or len(scores) != 1 or scores[0].ndim != 2 or scores[0].shape[1] < 2:
        return slice(None)
    best = np.sort(scores[0], 1)[:, -2:]
    return best[:, 1] - best[:, 0] > 1e-6


def agree(actual: Any, judge: Any, model: str, name: str, rows: Any) -> None:
    """An output agrees, labels in the decided ``rows``; of ZipMap each class does."""
    what = f"{model} {name}"
    if isinstance(judge, list):
        assert [set(entry) for entry in actual] == [set(entry) for entry in judge], what
        columns = [np.array([[entry[key] for key in judge[0]] for entry in maps]) for maps in (actual, judge)]
        np.testing.assert_allclose(*columns, rtol=1e-5, atol=1e-6, err_msg=what)
    elif ALLOWED.get((model, name), (0.0, ""))[0] == STEP:  # the other allowances are for what this judge does exactly
        assert actual.shape == judge.shape and np.abs(actual.astype(float) - judge).max() <= STEP, what
    elif judge.dtype.kind == "f":
        compare(actual, judge, TOLERANCE[str(judge.dtype)], what)
    else:
        compare(actual[rows], judge[rows], 0, what)
