"""The kinds of cases: where they come from, how they are checked, and how a finding is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_systemds.engine import Session
from tests.fuzz import (
    dml_files,
    dml_functions,
    found_cases,
    found_scripts,
    function_models,
    graphs,
    list_models,
    loop_models,
    narrow_types,
    onnx_files,
    operators,
    size_models,
    text_models,
    varied_layers,
    wide_integers,
    wide_matrices,
)
from tests.fuzz.finding import Finding


@dataclass(frozen=True)
class Source:
    """One kind of cases. mark: what a case is about, in a word; write and read: a finding's case as a file.

    is_small: whether a model and its inputs can be made smaller, and written as numbers.
    """

    cases: Callable[[int, int], Iterator[Any]]
    check: Callable[[Any, Session], Finding | None]
    mark: Callable[[Any], str] = lambda case: ""
    write: Callable[[str, Any, Finding, Path], Path] = found_cases.written
    read: Callable[[Path], Any] = found_cases.read
    is_small: bool = True


SOURCES: dict[str, Source] = {
    "operators": Source(operators.cases, operators.check, lambda case: case.model.graph.node[0].op_type),
    "graphs": Source(graphs.cases, graphs.check),
    "varied_layers": Source(varied_layers.cases, varied_layers.check),
    "wide_integers": Source(wide_integers.cases, wide_integers.check),
    "loops": Source(loop_models.cases, loop_models.check),
    "lists": Source(list_models.cases, list_models.check),
    "texts": Source(text_models.cases, text_models.check),
    "functions": Source(function_models.cases, function_models.check),
    "narrow_types": Source(narrow_types.cases, narrow_types.check),
    "sizes": Source(size_models.cases, size_models.check),
    "wide_matrices": Source(
        wide_matrices.cases, wide_matrices.check, write=wide_matrices.written, read=wide_matrices.read, is_small=False
    ),
    "onnx_files": Source(
        onnx_files.cases, onnx_files.check, lambda case: "", onnx_files.written, onnx_files.read
    ),
    "dml_functions": Source(
        dml_functions.cases, dml_functions.check, write=found_scripts.written, read=found_scripts.read
    ),
    "dml_files": Source(
        dml_files.cases, dml_files.check, lambda case: case.name, found_scripts.written, found_scripts.read
    ),
}
