"""Every rule of the chain rule, against differences of ONNX's reference in FP64: the DERIVATIVES of all modules."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from onnx_systemds.inference.backward import flat
from onnx_systemds.inference.registry import gradients
from tests.operators.derivatives import Derivative, check_derivative

MODULES = [importlib.import_module(f"tests.operators.{path.stem}")
           for path in sorted(Path(__file__).parent.glob("test_*.py")) if path != Path(__file__)]
ROWS: list[Derivative] = [row for module in MODULES for row in getattr(module, "DERIVATIVES", ())]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_derivative(row: Derivative) -> None:
    check_derivative(row)


def test_every_rule_is_tested() -> None:
    registered = {name for (domain, name), versions in gradients.items()
                  if flat not in versions.values() and not domain}  # others in tests/importing/test_gradients.py
    # of what it captures, of scales of single precision, and of onnxruntime, though in ONNX's domain: there, too
    registered -= {"If", "DequantizeLinear", "SimplifiedLayerNormalization"}
    assert registered <= {row.op_type for row in ROWS}
