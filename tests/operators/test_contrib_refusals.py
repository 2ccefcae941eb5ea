"""Operators of onnxruntime that are refused, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds.errors import TranspileError
from tests.operators.contrib_cases import contrib
from tests.operators.harness import check_case


@pytest.mark.parametrize("op_type, reason", [("GreedySearch", "generates text"), ("WordConvEmbedding", "onnxruntime")])
def test_others_are_refused_with_the_reason(op_type: str, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        check_case(contrib(op_type, {"x": np.ones((2, 3), np.int32)}))
