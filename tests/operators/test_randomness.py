"""Random operators: types, dims, distributions, seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Array, Case, Covered, case_model

UNIFORM = [Covered("RandomUniform", (1, 22)), Covered("RandomUniformLike", (1, 22), symbolic=True)]
NORMAL = [Covered("RandomNormal", (1, 22)), Covered("RandomNormalLike", (1, 22), symbolic=True)]
BERNOULLI, MULTINOMIAL = Covered("Bernoulli", (15, 22), symbolic=True), Covered("Multinomial", (7, 22), symbolic=True)
COVERED = (*UNIFORM, *NORMAL, BERNOULLI, MULTINOMIAL)

LIKE = np.zeros((3, 40, 50), np.float32)


def drawn(op_type: str, opset: int, inputs: dict[str, Array], runs: int = 1, symbols: Any = None,
          **attributes: Any) -> list[Array]:
    """Outputs of a number of runs of two separately prepared scripts: runs of the first, then one of the second."""
    case = Case(op_type, opset, inputs, attributes, symbols=symbols or {})
    outputs = []
    for count in (runs, 1):
        with ScoringFunction(import_model(case_model(case))) as function:
            outputs += [next(iter(function(inputs).values())) for _ in range(count)]
    return outputs


def like_or_shape(op_type: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """Inputs and attributes that give the dims."""
    return ({"x": LIKE}, {}) if op_type.endswith("Like") else ({}, {"shape": LIKE.shape})


@pytest.mark.parametrize("op_type, opset", [(one.op_type, opset) for one in UNIFORM for opset in one.opsets])
@pytest.mark.parametrize("seed", [3.0, 0.25, -1.0, 0.0])
def test_uniform(op_type: str, opset: int, seed: float) -> None:
    inputs, more = like_or_shape(op_type)
    first, second = drawn(op_type, opset, inputs, low=-2.0, high=3.0, seed=seed, **more)
    assert first.dtype == np.float32 and first.shape == LIKE.shape
    np.testing.assert_array_equal(first, second)
    assert first.min() >= -2 and first.max() <= 3
    assert abs(first.mean() - 0.5) < 0.08 and abs(first.std() - 5 / 12**0.5) < 0.08


@pytest.mark.parametrize("op_type, opset", [(one.op_type, opset) for one in NORMAL for opset in one.opsets])
def test_normal(op_type: str, opset: int) -> None:
    inputs, more = like_or_shape(op_type)
    first, second = drawn(op_type, opset, inputs, mean=-2.0, scale=3.0, dtype=TensorProto.DOUBLE, **more)
    assert first.dtype == np.float64 and first.shape == LIKE.shape
    assert not np.array_equal(first, second)
    assert abs(first.mean() + 2) < 0.2 and abs(first.std() - 3) < 0.15


def test_scalar() -> None:
    value = drawn("RandomUniformLike", 22, {"x": np.array(1, np.float32)}, low=5.0, high=6.0)[0]
    assert value.shape == () and 5 <= value <= 6


@pytest.mark.parametrize("opset", BERNOULLI.opsets)
def test_bernoulli(opset: int) -> None:
    chances = np.broadcast_to(np.array([0, 0.25, 0.75, 1], np.float32), (500, 2, 4)).copy()
    first, second = drawn("Bernoulli", opset, {"x": chances}, seed=4.0, dtype=TensorProto.BOOL)
    assert first.dtype == np.bool_ and first.shape == chances.shape
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first.mean((0, 1)), [0, 0.25, 0.75, 1], atol=0.06)
    assert drawn("Bernoulli", opset, {"x": chances})[0].dtype == np.float32


@pytest.mark.parametrize("opset", MULTINOMIAL.opsets)
@pytest.mark.parametrize("samples", [2, 2000])
def test_multinomial(opset: int, samples: int) -> None:
    chances = np.array([[0, 0.5, 0.25, 0.25, 0], [0.1, 0, 0, 0.2, 0.7]])
    batch = 2 * max(1, 2000 // samples)
    with np.errstate(divide="ignore"):
        logs = np.tile(np.log(chances) + 5, (batch // 2, 1)).astype(np.float32)
    first, _ = drawn("Multinomial", opset, {"x": logs}, sample_size=samples, seed=2.0, dtype=TensorProto.INT64,
                     symbols={"x": ["batch", 5]})
    assert first.dtype == np.int64 and first.shape == (batch, samples)
    for row in range(2):
        shares = np.bincount(first[row::2].ravel(), minlength=5) / first[row::2].size
        np.testing.assert_allclose(shares, chances[row], atol=0.06)
        assert np.all(shares[chances[row] == 0] == 0)


@pytest.mark.parametrize("op_type", [one.op_type for one in COVERED if one.symbolic])
def test_symbolic_dims(op_type: str) -> None:
    """One script draws for two sizes."""
    rank = 2 if op_type == "Multinomial" else 3
    attributes = {"sample_size": 6} if op_type == "Multinomial" else {}
    case = Case(op_type, 22, {"x": LIKE[0, :2] if rank == 2 else LIKE}, attributes,
                symbols={"x": ["batch", "classes", "width"][:rank]})
    with ScoringFunction(import_model(case_model(case))) as function:
        for dims in [(2, 3, 7)[:rank], (5, 20, 1)[:rank]]:
            found = next(iter(function({"x": np.full(dims, 0.5, np.float32)}).values()))
            assert found.shape == ((dims[0], 6) if rank == 2 else dims)
            assert len(np.unique(found)) > 1
