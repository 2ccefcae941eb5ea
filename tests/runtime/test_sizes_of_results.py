"""Sizes of results that only their matrices tell."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.interface import Port
from onnx_systemds.inference.dims import Dim, floor_divide, symbol
from onnx_systemds.runtime.boundary_tensors import restored

K, N = symbol("k"), symbol("n")


@pytest.mark.parametrize(
    "dims, matrix",
    [
        ((floor_divide(4 * N, K), K), (2, 6)),  # a Reshape to [-1, k]
        ((floor_divide(4 * N, K), 3, 2 * K), (4, 18)),
        ((K + 1, 3, floor_divide(4 * N, K)), (4, 12)),
    ],
)
def test_of_a_quotient(dims: tuple[Dim, ...], matrix: tuple[int, int]) -> None:
    found = restored(Port("y", "double", dims), np.zeros(matrix), {"n": 3})
    assert (found.shape[0], np.prod(found.shape[1:])) == matrix


@pytest.mark.parametrize("dims", [(3, K, K), (3, floor_divide(4 * N, K))])
def test_what_a_matrix_does_not_tell_is_said(dims: tuple[Dim, ...]) -> None:
    with pytest.raises(TranspileError, match='the dims of output "y" are unknown: its matrix is 3 x 5'):
        restored(Port("y", "double", dims), np.zeros((3, 5)), {"n": 3})
