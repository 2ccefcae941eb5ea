"""How far what a model gives is from what the engine wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_systemds.exporting.builtins.files import output_name
from onnx_systemds.verifying.comparing import compare_tensors, spread
from onnx_systemds.verifying.written import alike, as_matrix, outputs_of

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCES = {"float64": (None, None), "float32": (1e-3, 1e-4)}
"""Relative and absolute ones, where not those of `onnx_systemds.verifying`: numbers of the engine are doubles."""


@dataclass(frozen=True)
class Parting:
    """How an output of the model parts from the engine's.

    far: the largest difference of finite numbers, as a share of their spread; unequal: elements that only one of both
    has as a finite number, or other texts; signs, order: how far it is but for these. problem: why nothing can be
    compared.
    """

    output: str
    far: float = 0.0
    unequal: int = 0
    signs: float = 0.0
    order: float = 0.0
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"{self.output}: {self.problem}"
        others = f", {self.unequal} elements not finite, or other texts" if self.unequal else ""
        but_for = "".join(f", {far:.2g} but for {what}" for what, far in (("signs", self.signs), ("order", self.order))
                          if far < self.far)
        return f"{self.output}: {self.far:.2g} of the spread{but_for}{others}"


def partings(given: Mapping[str, Any], written: Mapping[str, Any], dtype: str = "float64") -> list[Parting]:
    """How the outputs of a model, by name, part from the files of the engine, by path; none where they agree."""
    wanted: dict[str, Any] = {}
    for path, value in written.items():
        wanted |= outputs_of(output_name(path), value, given)
    found, used = [], set()
    for name, own in given.items():
        file = _file_of(name, [each for each in wanted if each not in used]) or _file_of(name, list(wanted))
        if len(given) == len(wanted) == 1:  # of a name that only the run knows
            file = next(iter(wanted))
        if file is None:
            found.append(Parting(name, problem="not written by the engine"))
            continue
        used.add(file)
        parting = _parting(name, own, wanted[file], dtype)
        if parting is not None:
            found.append(parting)
    return found + [Parting(name, problem="no output of the model") for name in wanted if name not in used]


def unread(written: Mapping[str, Any]) -> list[str]:
    """The files that cannot be read, with the reason."""
    return [f"{output_name(path)}: {value}" for path, value in written.items() if isinstance(value, Exception)]


def _file_of(output: str, files: list[str]) -> str | None:
    """The file that an output is; names of outputs are words."""
    def like(file: str) -> bool:
        word = re.sub(r"\W", "_", file)
        return word == output or word.strip("_") == output.strip("_")

    def near(file: str) -> bool:
        return output.endswith(file) or output == f"{file}_out" or output.startswith(f"{file}_")

    rules = (output.__eq__, like, near)
    return next((file for rule in rules for file in files if rule(file)), None)


def _parting(name: str, own: Any, wanted: Any, dtype: str) -> Parting | None:
    actual = as_matrix(own)
    expected = alike(wanted, actual)
    tolerances = TOLERANCES[dtype] if actual.dtype != object else (None, None)
    compared = compare_tensors(name, actual, expected, *tolerances)
    if compared.passed:
        return None
    if compared.problem:
        return Parting(name, problem=compared.problem)
    if expected.dtype == object:
        return Parting(name, unequal=int((actual != expected).sum()))
    both = np.isfinite(actual) & np.isfinite(expected)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    ways = (np.array, np.abs, np.sort)
    far, signs, order = (_far(of(actual[both]), of(expected[both])) / spread(expected) for of in ways)
    return Parting(name, far, int((~both & ~same).sum()), signs, order)


def _far(actual: Array, expected: Array) -> float:
    return float(np.abs(actual - expected).max(initial=0.0))
