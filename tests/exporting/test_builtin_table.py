"""Every builtin of the engine is exported, refused with a reason, or defined in DML; the table says which."""

from __future__ import annotations

import pytest

from onnx_systemds.cli.builtin_table import builtin_lines
from onnx_systemds.dml.words import BUILTIN_FUNCTIONS, STATEMENT_FUNCTIONS
from onnx_systemds.exporting.builtins import load_builtins
from onnx_systemds.exporting.builtins.registry import BUILTINS, REFUSED, builtin
from onnx_systemds.exporting.evaluating.calls import SPECIAL
from onnx_systemds.exporting.sources import jar_scripts

# A type, two that are there for SystemDS's own tests, one without a source, and the other name of fdr.
OTHER_WORDS = {"scalar", "xdummy1", "xdummy2", "xgboostPredict", "FDR"}


def test_no_builtin_is_forgotten() -> None:
    load_builtins()
    scripts = {name.rpartition("/")[2].removesuffix(".dml") for name in jar_scripts() if "/builtin/" in f"/{name}"}
    known = BUILTINS.keys() | REFUSED.keys() | SPECIAL.keys() | scripts | OTHER_WORDS
    assert sorted((BUILTIN_FUNCTIONS | STATEMENT_FUNCTIONS) - known) == []


def test_no_builtin_is_exported_and_refused() -> None:
    load_builtins()
    assert not BUILTINS.keys() & REFUSED.keys()


def test_a_second_exporter_of_a_builtin_is_refused() -> None:
    load_builtins()
    with pytest.raises(ValueError, match='an exporter of "rowSums" is registered at .* already'):
        builtin("rowSums")(lambda ctx: None)


def test_the_table_says_what_each_builtin_does() -> None:
    lines = list(builtin_lines())
    assert not [line for line in lines if line.startswith("|") and line.split("|")[2].strip() == ""]
    assert any(line.startswith("| `inv or inverse(target)` | The inverse of a square matrix.") for line in lines)
    assert any("`sqrtMatrixJava`" in line and "bind the root" in line for line in lines)
