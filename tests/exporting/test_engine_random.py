"""``rand`` with a seed: the numbers are those of the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.builtins.engine_random import seeded_matrix, seeded_sample
from onnx_systemds.exporting.export import export_script
from tests.exporting.export_harness import engine, operators

# rows, columns, minimum, maximum, distribution, sparsity, seed
DRAWS = [
    (3, 4, 0, 1, "uniform", 1.0, 7),
    (3, 4, -2, 5, "uniform", 1.0, 123456789),
    (5, 3, 0, 1, "normal", 1.0, 42),
    (1200, 1100, 0, 1, "normal", 1.0, 5),
    (1200, 1100, 0, 1, "uniform", 0.2, 5),
    (1200, 1100, 0, 1, "uniform", 0.7, 5),
    (30, 40, 1, 1, "uniform", 0.5, 9),
    (30, 40, 1, 1, "uniform", 0.3, 9),
    (3, 6, 1, 1, "uniform", 0.1, 9),
    (50, 1, 0, 1, "uniform", 0.2, 5),
    (20, 20, 0, 1, "normal", 0.3, 8),
    *((5, 3, 0, 1, "normal", 0.5, seed) for seed in range(12)),
    (30, 20, 0, 1, "normal", 0.2, 7),
    (4, 4, 1, 1, "uniform", 0.35, 2),
    (6, 12, 1, 1, "uniform", 0.25, -77),
    (2, 100, 1, 1, "uniform", 0.35, 2),
    (4, 5, 3, 3, "uniform", 1.0, 2),
    (4, 5, 0, 0, "uniform", 0.5, 2),
    (10, 10, 0, 1, "CB_UNIFORM", 1.0, 7),
    (7, 3, -2, 5, "cb_uniform", 1.0, -12),
    (1000, 1000, 0, 1, "cb_normal", 1.0, 5),
    (3, 5, 0, 1, "CB_NORMAL", 1.0, 2**40),
    (20, 20, 0, 1, "CB_NORMAL", 0.7, 3),
    (20, 20, 0, 1, "CB_UNIFORM", 0.1, 3),
    (3, 4, 3, 3, "CB_UNIFORM", 1.0, 9),
    (3, 4, -2, 5, "UNIFORM", 1.0, 9),
]


# largest number, how many, repeated or not, seed
SAMPLES = [
    (10, 10, False, 7), (1000, 30, False, 10), (64, 1, False, 3), (5, 40, True, 7), (1, 3, True, 9), (2**40, 20, True, -5), (3, 2, False, 0),
]


def call(rows: int, cols: int, low: float, high: float, pdf: str, sparsity: float, seed: int) -> str:
    sizes = f"rows={rows}, cols={cols}, min={low}, max={high}"
    return f'rand({sizes}, pdf="{pdf}", sparsity={sparsity}, seed={seed})'


def test_numbers_are_those_of_the_engine() -> None:
    lines = [f'Y{i} = {call(*draw)}\nwrite(Y{i}, "./Y{i}")\n' for i, draw in enumerate(DRAWS)]
    found = engine().prepare("".join(lines), [], [f"Y{i}" for i in range(len(DRAWS))])({})
    for i, draw in enumerate(DRAWS):
        rows, cols, low, high, pdf, sparsity, seed = draw
        ours = seeded_matrix(rows, cols, low, high, pdf.lower(), sparsity, seed)
        np.testing.assert_allclose(ours, found[f"Y{i}"], rtol=1e-14, atol=1e-15, err_msg=str(draw))


def test_the_engine_takes_matrices_with_a_last_block_of_few_cells_for_empty() -> None:
    """Our numbers are those that it draws, in blocks of 1000 rows: with one more cell in the last block it has them."""
    draws = [(1001, 3, 1, 1, "uniform", 0.3, 7), (1001, 4, 1, 1, "uniform", 0.3, 7)]
    lines = [f'Y{i} = {call(*draw)}\nwrite(Y{i}, "./Y{i}")\n' for i, draw in enumerate(draws)]
    found = engine().prepare("".join(lines), [], ["Y0", "Y1"])({})
    assert not found["Y0"].any() and seeded_matrix(*draws[0]).any()
    np.testing.assert_array_equal(found["Y1"], seeded_matrix(*draws[1]))


def test_samples_are_those_of_the_engine() -> None:
    lines = [f'Y{i} = sample({most}, {size}, {str(repeated).upper()}, {seed})\nwrite(Y{i}, "./Y{i}")\n'
             for i, (most, size, repeated, seed) in enumerate(SAMPLES)]
    found = engine().prepare("".join(lines), [], [f"Y{i}" for i in range(len(SAMPLES))])({})
    for i, drawn in enumerate(SAMPLES):
        np.testing.assert_array_equal(seeded_sample(*drawn), found[f"Y{i}"], err_msg=str(drawn))


@pytest.mark.parametrize("arguments", ["20, 4, 5", "20, 4, FALSE, 5"])
def test_samples_of_a_seed_are_constants_of_the_model(arguments: str) -> None:
    model = export_script(f'X = read("./X")\nwrite(X * sample({arguments}), "./Y")\n', inputs={"X": "double[4,1]"})
    assert operators(model) == ["Mul"]
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0])
    np.testing.assert_array_equal(weight.ravel(), seeded_sample(20, 4, False, 5).ravel())


def test_numbers_of_a_seed_are_constants_of_the_model() -> None:
    model = export_script('X = read("./X")\nwrite(X %*% rand(rows=3, cols=2, seed=4), "./Y")\n', inputs={"X": "double[N,3]"})
    assert operators(model) == ["MatMul"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("arguments", "low", "high", "mean", "zeros"), [
    ("min=1, max=3", 1.0, 3.0, 2.0, 0.0), ('pdf="normal"', -6.0, 6.0, 0.0, 0.0), ("min=1, max=2, sparsity=0.25", 0.0, 2.0, 0.375, 0.75),
    ("min=2, max=2, sparsity=0.5", 0.0, 2.0, 1.0, 0.5),
])
def test_numbers_of_sizes_that_the_run_knows(dtype: str, arguments: str, low: float, high: float, mean: float, zeros: float) -> None:
    text = f'X = read("./X")\nR = rand(rows=nrow(X), cols=50, seed=3, {arguments})\nY = R + 0 * X[, 1]\nwrite(Y, "./Y")\n'
    model = export_script(text, inputs={"X": "double[N,3]"}, dtype=dtype, random=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"X": np.ones((200, 3), dtype)})
    assert found.shape == (200, 50) and low <= found.min() and found.max() <= high
    assert abs(found.astype(np.float64).mean() - mean) < 0.05 and abs((found == 0).mean() - zeros) < 0.03


@pytest.mark.parametrize(("arguments", "reason"), [
    ("rows=3, cols=2", "new random numbers in every run"),
    ("rows=nrow(X), cols=2, seed=3", "size must be known"),
    ('rows=nrow(X), cols=2, seed=3', "hint: .*--random"),
    ('rows=3, cols=2, seed=3, pdf="poisson"', "poisson"),
    ('rows=1001, cols=2, seed=3, pdf="cb_uniform"', "each thread of the engine counts its own blocks"),
])
def test_numbers_that_cannot_be_known(arguments: str, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason) as caught:
        export_script(f'X = read("./X")\nY = rand({arguments})\nwrite(Y, "./Y")\nwrite(X, "./Z")\n',
                      inputs={"X": "double[N,3]"})
    place: Any = caught.value.place
    assert place is None or place.line == 2
