"""Golden scripts, and wrappers that call them with the plain SystemDS command line on Java's default stack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_systemds import import_model
from tests.command_line import run_dml
from tests.golden.models import GOLDENS, REAL
from tests.golden.refresh import FOLDER, real_script, reference_text
from tests.model_zoo import needs_models


@pytest.mark.parametrize("name", GOLDENS)
def test_wrapper(name: str, tmp_path: Path) -> None:
    import_model(GOLDENS[name]().model).save(tmp_path / f"{name}.dml")
    run_dml((FOLDER / "dml_wrapper" / f"{name}_wrapper.dml").read_text(), tmp_path)
    actual = np.loadtxt(tmp_path / f"{name}.out", delimiter=",", ndmin=2)
    expected = np.loadtxt(FOLDER / "output_reference" / f"{name}_reference.out", delimiter=",", ndmin=2)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", GOLDENS)
def test_script_is_the_reviewed_one(name: str) -> None:
    """Refreshed by ``python -m tests.golden.refresh scripts``."""
    expected = (FOLDER / "scripts" / f"{name}.dml").read_text()
    assert import_model(GOLDENS[name]().model).text_for(name) == expected


@needs_models
@pytest.mark.parametrize("name", REAL)
def test_script_of_a_shared_model_is_the_reviewed_one(name: str) -> None:
    assert real_script(name) == (FOLDER / "scripts" / f"{name}.dml").read_text()


@pytest.mark.parametrize("name", GOLDENS)
def test_reference_is_what_onnxruntime_says(name: str) -> None:
    stored = np.loadtxt(FOLDER / "output_reference" / f"{name}_reference.out", delimiter=",", ndmin=2)
    now = np.loadtxt(reference_text(name).splitlines(), delimiter=",", ndmin=2)
    np.testing.assert_allclose(stored, now, rtol=1e-6, atol=1e-6)
