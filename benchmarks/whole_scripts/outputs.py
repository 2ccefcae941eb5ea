"""How far what a model gives is from what the engine wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any

import numpy as np

from onnx_systemds.exporting.builtins.files import output_name
from onnx_systemds.verifying.comparing import compare_tensors, spread

Array = np.ndarray[Any, np.dtype[Any]]
TOLERANCES = {"float64": (None, None), "float32": (1e-3, 1e-4)}
"""Relative and absolute ones, where not those of `onnx_systemds.verifying`: numbers of the engine are doubles."""
_TRUTHS = {"TRUE": 1.0, "FALSE": 0.0, "true": 1.0, "false": 0.0, "": np.nan}


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
        for name, item in _items(output_name(path), value):
            wanted.update(_by_kinds(name, item, given))
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


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The outputs that a file is: of a list one for each item."""
    if isinstance(value, (dict, list)):
        named = value.items() if isinstance(value, dict) else enumerate(value, 1)
        for key, item in named:
            yield from _items(f"{name}_{key}", item)
    else:
        yield name, value


def _by_kinds(name: str, value: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs that a frame of texts and numbers is, `name_1`, `name_2` ..: columns of a kind side by side."""
    parts = list(takewhile(given.__contains__, (f"{name}_{place}" for place in count(1))))
    if name in given or len(parts) < 2 or isinstance(value, Exception):
        return {name: value}
    cells, widths = _matrix(value), [_matrix(given[part]).shape[1] for part in parts]
    if sum(widths) != cells.shape[1]:
        return {name: value}
    return dict(zip(parts, np.split(cells, np.cumsum(widths)[:-1], axis=1), strict=True))


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
    expected, actual = _matrix(wanted), _matrix(own)
    if expected.dtype == object and actual.dtype != object:
        expected = np.array([[float(_TRUTHS.get(cell, cell)) for cell in row] for row in expected])
    if actual.dtype == object and expected.dtype != object:
        expected = np.array([[str(cell) for cell in row] for row in expected], object)
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


def _matrix(value: Any) -> Array:
    """A value as a matrix of doubles, or of texts."""
    found = np.asarray(getattr(value, "cells", value))
    return np.atleast_2d(found.astype(object if found.dtype.kind in "OU" else np.float64))
