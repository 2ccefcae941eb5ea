"""Explains what a model answers for arrays: the program of `explain_text` on the embedded engine."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_systemds.engine.matrix_files import read_matrix, write_matrix
from onnx_systemds.engine.programs import run_program
from onnx_systemds.importing.coded_texts import with_coded_texts
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.explain_program import (
    GRADIENTS,
    METHODS,
    NUMBERS,
    SHAPLEY,
    explain_text,
    explained,
    program_name,
)
from onnx_systemds.importing.explained_slopes import DERIVED_BY
from onnx_systemds.importing.interface import weights_argument
from onnx_systemds.importing.script import Script
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.program_inputs import check_whole, tensors_of, write_inputs
from onnx_systemds.runtime.row_blocks import common_rows

Array = np.ndarray[Any, np.dtype[Any]]

_NAME = "model"
_PROGRESS = re.compile(r"rows \d+ to \d+ of \d+, .*")


@dataclass(frozen=True, slots=True)
class Explanation:
    """What features contribute. contributions: [samples, features]: the columns of all inputs, or groups of them.

    base: [samples], the mean answer for the rows of the background that a sample was seen against; with the sum of its
    contributions it is the answer for it. errors: [samples], by about what the contributions of a sample differ from
    exact ones: the standard error, in the quadratic mean over features, 0 where they are exact. It is too large where
    there are as many permutations as rows of the background, but not twice as many, and NaN for a single permutation.
    Those of integrated gradients are what the sum of contributions and base misses the answer by.
    """

    contributions: Array
    base: Array
    errors: Array


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is explained, and how exactly. column: of the result, from 1 on; 0 for the largest one of each sample.

    method: "shapley", or "gradients". permutations: of the features, for the former; steps: for the latter; None for as
    many as suit the number of samples. Raises ValueError.
    """

    column: int = 0
    permutations: int | None = None
    seed: int = 1
    method: str = SHAPLEY
    steps: int | None = None

    def __post_init__(self) -> None:
        check_whole("column", self.column, 0)
        for name, number in self.numbers.items():
            check_whole(name, number, 1)
            if self.method != NUMBERS[name]:
                raise ValueError(f"{name} are of the method {NUMBERS[name]!r}")
        if self.method not in METHODS:
            raise ValueError(f"method is one of {', '.join(METHODS)}, not {self.method!r}")
        check_whole("seed", self.seed, 0)

    @property
    def numbers(self) -> dict[str, int]:
        """Those of `NUMBERS` that are given."""
        given = {"permutations": self.permutations, "steps": self.steps}
        return {name: number for name, number in given.items() if number is not None}

    def arguments(self) -> dict[str, str]:
        """Those of the program."""
        given = {"column": str(self.column), "seed": str(self.seed)}
        return given | {name: str(number) for name, number in self.numbers.items()}


def explain_model(  # noqa: PLR0913 - a public entry point: all but the first two go by name
    source: str | Path | bytes | onnx.ModelProto, inputs: Mapping[str, Array], *, result: str = "", column: int = 0,
    background: Mapping[str, Array] | None = None, groups: Sequence[int] | None = None,
    permutations: int | None = None, seed: int = 1, printed: Callable[[str], None] | None = None,
    method: str = SHAPLEY, steps: int | None = None, **options: Any,
) -> Explanation:
    """What each feature of samples contributes to the answers of a model, in SystemDS, on this machine.

    inputs: arrays by ONNX name, a sample in each row. result: the ONNX name of what is explained, if there are several
    results of floating-point numbers. column: of it, from 1 on; 0 for the one with the largest number, for each sample.
    background: other samples that these are seen against; by default the samples themselves. groups: a number from 1 on
    for each feature; features of one number count as one. permutations: of the features: more are more exact; by
    default 200 for few samples, 10 for many. Where all sets of features, with all rows of the background, are no more
    work, these are taken instead, and the values are exact. printed: takes lines that say how far a long run is.
    method: "shapley"; or "gradients", for a model with derivatives by its inputs, as a network for images: integrated
    gradients, the mean derivative on the way from rows of the background to a sample, times the way. steps: of the way.
    options: those of `import_model`. Raises TranspileError, EngineError, ValueError for numbers that there are not.
    """
    sampling = Sampling(column, permutations, seed, method, steps)
    model, sizes = load_model(source), options.get("dims") or {}
    types = common_rows(model, sizes, is_table=True) | (options.pop("types", None) or {})
    script = import_model(model, types=types, gradients=DERIVED_BY if method == GRADIENTS else (), **options)
    return explained_rows(script, inputs, result, sampling, background, groups, printed)


def explained_rows(
    script: Script, inputs: Mapping[str, Any], result: str, sampling: Sampling,
    background: Mapping[str, Any] | None = None, groups: Sequence[int] | None = None,
    printed: Callable[[str], None] | None = None,
) -> Explanation:
    """As `explain_model`, for the script that was made of the model."""
    script = with_coded_texts(script)
    files = explained(script, result, sampling.method).backgrounds
    tensors, _ = tensors_of(script.inputs, inputs)
    others = None if background is None else tensors_of(script.inputs, background)[0]
    with tempfile.TemporaryDirectory(prefix="onnx-systemds-", ignore_cleanup_errors=True) as name:
        folder = Path(name).absolute()
        script.save(folder / f"{_NAME}.dml")
        text = explain_text(script, _NAME, result, sampling.method, f"{folder.as_posix()}/")
        (folder / program_name(_NAME)).write_text(text, encoding="utf-8")
        arguments = write_inputs(folder, [*files], [*files], tensors.values())
        if others is not None:
            arguments |= write_inputs(folder, [*files.values()], [*files], others.values())
        if groups is not None:
            write_matrix(folder / "groups", _row(groups))
            arguments["groups"] = str(folder / "groups")
        written, errors = folder / "contributions", folder / "errors"
        arguments |= {"format": "binary", "to": "binary", "contributions": str(written),
                      weights_argument(_NAME): str(folder / f"{_NAME}.weights"), **sampling.arguments()}
        tells_errors = sampling.permutations != 1
        arguments |= {"errors": str(errors)} if tells_errors else {}
        run_program(folder / program_name(_NAME), arguments, None if printed is None else _progress_to(printed))
        found = read_matrix(written)
        about = read_matrix(errors)[:, 0] if tells_errors else np.full(len(found), np.nan)
    return Explanation(found[:, :-1], found[:, -1], about)


def _progress_to(printed: Callable[[str], None]) -> Callable[[str], None]:
    """What takes the lines of the program, and hands on those that say how far it is."""
    return lambda line: printed(line) if _PROGRESS.fullmatch(line) else None


def _row(groups: Sequence[int]) -> Array:
    found = np.asarray(groups)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not found.size:
        raise InvalidInput("groups are whole numbers, one for each feature")
    return found.astype(np.float64).reshape(1, -1)
