"""The kinds of cases: where they come from, how they are checked, and how a finding is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_systemds.engine import Session
from tests.fuzz import (
    derivatives,
    dml_files,
    dml_functions,
    found_cases,
    found_scripts,
    function_models,
    graphs,
    hidden_sizes,
    large_operators,
    list_models,
    loop_models,
    narrow_types,
    onnx_files,
    operators,
    programs,
    round_trips,
    size_models,
    text_models,
    varied_layers,
    wide_integers,
    wide_matrices,
)
from tests.fuzz.finding import Finding
from tests.fuzz.judging import check_model


@dataclass(frozen=True)
class Source:
    """One kind of cases. case: makes that of a seed; check: judges it; mark: what it is about, in a word.

    write and read: a finding's case as a file. is_small: whether a model and its inputs can be made smaller, and
    written as numbers.
    """

    case: Callable[[int], Any]
    check: Callable[[Any, Session], Finding | None] = check_model
    mark: Callable[[Any], str] = lambda case: ""
    write: Callable[[str, Any, Finding, Path], Path] = found_cases.written
    read: Callable[[Path], Any] = found_cases.read
    is_small: bool = True

    def cases(self, seed: int, count: int) -> Iterator[Any]:
        """So many cases, of the seeds from ``seed`` on."""
        return map(self.case, range(seed, seed + count))


SOURCES: dict[str, Source] = {
    "operators": Source(operators.case, mark=lambda case: case.model.graph.node[0].op_type),
    "graphs": Source(graphs.case),
    "varied_layers": Source(varied_layers.case),
    "wide_integers": Source(wide_integers.case),
    "loops": Source(lambda seed: loop_models.case(seed, specialise_after=1 if seed % 2 else 20)),
    "lists": Source(list_models.case),
    "texts": Source(text_models.case),
    "functions": Source(function_models.case, function_models.check),
    "derivatives": Source(derivatives.case, derivatives.check),
    "narrow_types": Source(narrow_types.case),
    "programs": Source(programs.case, programs.check, lambda case: case.model.graph.node[-1].op_type, is_small=False),
    "round_trips": Source(round_trips.case, round_trips.check, lambda case: case.model.graph.node[-1].op_type),
    "sizes": Source(size_models.case),
    "hidden_sizes": Source(hidden_sizes.case, mark=lambda case: case.model.graph.node[-1].op_type),
    "large_operators": Source(large_operators.case, large_operators.check, lambda case: case.model.graph.node[0].op_type,
                              wide_matrices.written, large_operators.read, is_small=False),
    "wide_matrices": Source(wide_matrices.case, write=wide_matrices.written, read=wide_matrices.read, is_small=False),
    "onnx_files": Source(onnx_files.case, onnx_files.check, write=onnx_files.written, read=onnx_files.read),
    "dml_functions": Source(
        dml_functions.case, dml_functions.check, write=found_scripts.written, read=found_scripts.read
    ),
    "dml_files": Source(
        dml_files.case, dml_files.check, lambda case: case.name, found_scripts.written, found_scripts.read
    ),
}
