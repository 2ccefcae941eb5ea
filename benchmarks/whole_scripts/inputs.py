"""Inputs of SystemDS's test scripts: what a Java test writes, or else random numbers, as files for the engine."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.whole_scripts.java import Evaluation, JavaFile, Unknown
from benchmarks.whole_scripts.texts import calls, enclosed, parts
from onnx_systemds.engine.matrix_files import write_matrix

Array = np.ndarray[Any, np.dtype[Any]]
FORMATS = ("csv", "mm", "text", "binary")
SCALARS = {"string": "abc", "boolean": "TRUE", "int": "3", "integer": "3"}
OTHER_SCALAR = "3.5"
_WRITING = (r"writeInput\w*|writeMatrix|writeCSVMatrix|writeInputFrame\w*|createInputMatrix|createRandomMatrix|"
            r"createHelperMatrix")
_MAKING = re.compile(r"(getRandomMatrix|generateTestMatrix|createNonRandomMatrixValues|createNonRandomMatrix|"
                     r"generateTestMatrixInt|getRandomFrame\w*|generateUnseededRandomMatrix)\s*\(")


@dataclass(frozen=True)
class Drawn:
    """A matrix of random numbers between two limits; counted: 1, 2, 3 ... instead."""

    rows: int
    cols: int
    low: float = 0.0
    high: float = 1.0
    density: float = 1.0
    rounded: bool = False
    counted: bool = False

    def matrix(self, seed: str) -> Array:
        """The matrix, the same for each text."""
        random = np.random.default_rng(zlib.crc32(seed.encode()))
        found: Array = random.uniform(self.low, self.high, (self.rows, self.cols))
        if self.counted:
            found = np.arange(1, self.rows * self.cols + 1).reshape(self.rows, self.cols) * 1.0
        if self.rounded:
            found = np.round(found)
        if self.density < 1:
            found = np.where(random.random((self.rows, self.cols)) < self.density, found, 0.0)
        return found


@dataclass(frozen=True)
class Input:
    """What a script reads: the variable that takes it, and the matrix, texts of a frame, or scalar.

    stored: whether the file is there already; its content is None where it cannot be read.
    """

    variable: str
    content: Array | str | None
    kind: str = "matrix"
    form: str = "text"
    value_type: str = "double"
    header: bool = False
    stored: bool = False

    @property
    def spec(self) -> str:
        """What ``--input`` says of it."""
        if not isinstance(self.content, np.ndarray):
            known = {"string": "string", "boolean": "boolean", "int": "int", "integer": "int"}
            return known.get(self.value_type.lower(), "double")
        return f"{'string' if self.kind == 'frame' else 'double'}[{self.content.shape[0]},{self.content.shape[1]}]"

    def shaken(self, share: float) -> Input:
        """The same, but for numbers that are not whole, which are a share larger or smaller."""
        content = self.content
        if self.kind != "matrix" or not isinstance(content, np.ndarray) or not (content != np.round(content)).any():
            return self
        return replace(self, content=content * (1 + share * np.random.default_rng(1).uniform(-1, 1, content.shape)))

    def write(self, path: Path) -> None:
        """Write it, and what describes it, unless it is there already."""
        if self.stored:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(self.content, np.ndarray):
            path.write_text(f"{self.content}\n")
            _describe(path, {"data_type": "scalar", "value_type": self.value_type, "format": "text"})
        elif self.form == "binary":
            write_matrix(path, np.ascontiguousarray(self.content, float))
        else:
            path.write_text("".join(f"{line}\n" for line in self._lines(self.content)))
            number = self.kind == "matrix"
            rows, cols = self.content.shape
            nonzeros = int(np.count_nonzero(self.content)) if number else rows * cols
            more = {"header": self.header, "sep": ","} if self.form == "csv" else {}
            _describe(path, {"data_type": self.kind, "value_type": "double" if number else "string", "rows": rows,
                             "cols": cols, "nnz": nonzeros, "format": self.form, **more})

    def _lines(self, content: Array) -> list[str]:
        text = (lambda cell: repr(float(cell))) if self.kind == "matrix" else str
        rows, cols = content.shape
        if self.form == "csv":
            head = [",".join(f"c{column + 1}" for column in range(cols))] if self.header else []
            return [*head, *(",".join(map(text, row)) for row in content)]
        cells = [f"{row + 1} {column + 1} {text(content[row, column])}" for row, column in zip(*np.nonzero(content))]
        head = ["%%MatrixMarket matrix coordinate real general", f"{rows} {cols} {len(cells)}"]
        return [*(head if self.form == "mm" else []), *(cells or ["1 1 0.0"])]


def as_frame(matrix: Array, only_numbers: bool) -> Array:
    """A frame of texts out of a matrix: numbers, or numbers and words by turns."""
    if only_numbers:
        return np.array([[repr(float(cell)) for cell in row] for row in matrix], object)
    return np.array([[f"s{int(abs(cell) * 3) % 5}" if column % 2 else repr(round(float(cell), 3))
                      for column, cell in enumerate(row)] for row in matrix], object)


def written_by(file: JavaFile, name: str, choice: int) -> Drawn | Array | None:
    """What a test writes as the input `name`, or how large it is; None where its text does not tell."""
    for match, given in calls(file.text, _WRITING):
        if len(given) < 2:
            continue
        evaluation = Evaluation(file, match.start(), choice)
        try:
            if str(evaluation.value(given[0])).removeprefix("IN/") != name:
                continue
        except Unknown:
            continue
        source, place = given[1], match.start()
        if match[0].startswith(("createRandom", "createInput")):
            source = f"getRandomMatrix({','.join(given[1:])})"
        source, place = _origin(file, source, place)
        rounding = rf"round\w*\(\s*{re.escape(given[1])}\b"
        rounded = bool(re.search(r"round|ceil|floor", source) or re.search(rounding, file.text))
        found: Drawn | Array | None = _drawn(evaluation, source, place, rounded)
        if found is None:
            found = _literal(evaluation, source, place)
        if found is not None:
            return found
    return None


def _origin(file: JavaFile, source: str, place: int) -> tuple[str, int]:
    """The expression that a variable was assigned last before a place, in its method or else the file."""
    for _ in range(4):
        rounding = re.fullmatch(r"(?:\w+\.)?(?:round|ceil|floor)\w*\(\s*(\w+)\s*\)", source)
        source = rounding[1] if rounding else source
        if not re.fullmatch(r"\w+", source):
            break
        assigned = rf"(?<![\w.]){source}\s*(?:\[\]\[\])?\s*=(?!=)\s*([^;]+);"
        method = file.method_at(place)
        begin = method.begin if method else 0
        near, far = [*re.finditer(assigned, file.text[begin:place])], re.search(assigned, file.text)
        if near:
            source, place = near[-1][1], begin + near[-1].start()
        elif far:
            source, place = far[1], far.start()
        else:
            break
    return source, place


def _drawn(evaluation: Evaluation, source: str, place: int, rounded: bool) -> Drawn | None:
    made = _MAKING.search(source)
    if not made:
        return None
    values: list[float | None] = []
    for each in parts(enclosed(source, made.end() - 1)[0]):
        try:
            values.append(float(evaluation.value(each, place)))
        except (Unknown, ValueError):
            values.append(None)
    rows, cols, low, high, density = [*values, *[None] * 5][:5]
    if rows is None or cols is None:
        return None
    return Drawn(
        int(rows), int(cols), 0.0 if low is None else low, 1.0 if high is None else high,
        1.0 if density is None else density, rounded or made[1] == "generateTestMatrixInt",
        made[1].startswith("createNon"),
    )


def _literal(evaluation: Evaluation, source: str, place: int) -> Array | None:
    if not re.match(r"(?:new double\[\]\[\]\s*)?\{\s*\{", source):
        return None
    rows: list[Sequence[float]] = []
    try:
        for row in parts(enclosed(source, source.index("{"))[0]):
            rows.append([float(evaluation.value(cell, place)) for cell in parts(enclosed(row, 0)[0])])
        found = np.array(rows)
    except (Unknown, ValueError, KeyError):
        return None
    return found if found.ndim == 2 else None


def _describe(path: Path, description: dict[str, object]) -> None:
    path.with_name(f"{path.name}.mtd").write_text(json.dumps(description))
