"""What a script of SystemDS's tests may be run with: arguments and inputs, in the order in which they are tried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.whole_scripts.inputs import FORMATS, OTHER_SCALAR, SCALARS, Array, Drawn, Input, as_frame, written_by
from benchmarks.whole_scripts.java import Evaluation, JavaFile, JavaTests, Unknown, Value
from benchmarks.whole_scripts.texts import Read, arguments_of, calls, dml_value, reads
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.weight_files import read_value

LARGE, MOST_CELLS, LARGEST = 40, 12_000, 400_000
"""Sizes above the first are made smaller where inputs have more cells than the second; none has more than the third."""
MOST_PARTS = 4
"""A size that is so many times another at most remains that."""
MOST_ATTEMPTS, MOST_PLANS = 14, 3
FULL_SIZE = 6
"""The variant in which sizes are as the test has them."""
_LABELS = ("y", "label", "labels", "f", "g", "w")
_TEMPLATES: dict[str, Value] = {
    "indir": "IN/", "outdir": "OUT/", "format": "text",
    "readhelper": 'Helper = read("IN/helper/in", rows=1, cols=2, format="text");',
}
_BY_NAME = ((r"row|col|size|^n$|^m$|dim|num", 10), (r"format|fmt", "csv"), (r"verbose|intercept|icpt", 0),
            (r"sparsity|sp", 0.7), (r"seed", 7))


@dataclass(frozen=True)
class Attempt:
    """A script with its arguments and inputs. Paths in them begin with ``IN/`` and ``OUT/``."""

    text: str
    arguments: Mapping[str, Value]
    inputs: Mapping[str, Input]
    variant: int = 0
    test: str = ""


@dataclass(frozen=True)
class _Plan:
    """Arguments that a test gives. missing: how far they are from what the script asks for."""

    missing: float
    file: JavaFile | None
    arguments: Mapping[str, Value] = field(default_factory=dict)
    choice: int = 0


@dataclass(frozen=True)
class _Variant:
    """Sizes and limits of inputs of which no test tells: of the first, third ... input, and of the others."""

    sizes: tuple[tuple[int, int], tuple[int, int]]
    limits: tuple[float, float]
    later_limits: tuple[float, float]
    rounded: bool = False
    density: float = 1.0
    labels: bool = False
    first_alone: bool = False  # the second size is that of all but the first


_VARIANTS = (
    _Variant(((10, 10), (10, 10)), (-1, 1), (-1, 1), density=0.8),
    _Variant(((10, 4), (10, 4)), (1, 4), (1, 4), rounded=True, labels=True),
    _Variant(((12, 5), (12, 1)), (-2, 2), (1, 3), labels=True),
    _Variant(((10, 1), (10, 1)), (1, 4), (1, 4), rounded=True),
    _Variant(((10, 1), (1, 10)), (0, 3), (0, 3), rounded=True),
    _Variant(((10, 10), (10, 1)), (0, 1), (0, 1), first_alone=True),
    _Variant(((10, 10), (10, 10)), (0, 1), (0, 1)),
)


def attempts(tests: JavaTests, script: str, text: str, given: Mapping[str, Any]) -> Iterator[Attempt]:
    """Yield what to try for a script without comments; first what is `given` by hand, if that is something."""
    needed, optional = arguments_of(text)
    made = 0
    for plan in _plans(tests, script, text, given):
        own = dict(plan.arguments)
        for name in sorted(needed - optional - set(own)):
            own[name] = _guessed(name, text)
        templates = _templates(plan, text)
        for variant in range(len(_VARIANTS)):
            attempt = _attempt(script, text, plan, own, templates, variant, given)
            if attempt is None:
                continue
            yield attempt
            made += 1
            if made >= MOST_ATTEMPTS:
                return


def _plans(tests: JavaTests, script: str, text: str, given: Mapping[str, Any]) -> list[_Plan]:
    files = tests.of(script)
    if "arguments" in given:
        return [_Plan(0, files[0] if files else None, given["arguments"])]
    needed, optional = arguments_of(text)
    required = needed - optional
    seen: set[str] = set()
    found: list[_Plan] = []
    for file in files:
        blocks: list[tuple[int, list[str]] | None] = [*file.argument_lists()] or [None]
        for block in blocks:
            for choice in (0, 1):
                arguments, unknown = ({}, 0) if block is None else _told(file, *block, choice)
                key = json.dumps([arguments, str(file.path)], sort_keys=True)
                if key in seen:
                    continue
                seen.add(key)
                missing = len(required - set(arguments)) + 0.5 * bool(set(arguments) - needed) + 0.2 * unknown
                if block is not None and required and not needed & set(arguments):
                    missing = 5
                found.append(_Plan(missing, file, arguments, choice))
    found = sorted(found or ([] if files else [_Plan(len(required), None)]), key=lambda plan: plan.missing)[:MOST_PLANS]
    guessing = (needed or reads(text)) and (not found or found[0].missing > 0)
    return [*found, *([_Plan(9, None)] if guessing else [])]


def _told(file: JavaFile, place: int, expressions: list[str], choice: int) -> tuple[dict[str, Value], int]:
    """The arguments in a list of a test by name or number, and how many are not known."""
    evaluation = Evaluation(file, place, choice)
    values: list[Value | None] = []
    for each in expressions:
        try:
            values.append(evaluation.value(each))
        except (Unknown, RecursionError):
            values.append(None)
    found: dict[str, Value] = {}
    if "-nvargs" in values:
        pairs = (value.partition("=") for value in values[values.index("-nvargs") + 1 :] if isinstance(value, str))
        found = {name.strip(): value.strip() for name, equals, value in pairs if equals}
    elif "-args" in values:
        numbered = enumerate(values[values.index("-args") + 1 :], 1)
        found = {str(number): value for number, value in numbered if value is not None}
    return found, values.count(None)


def _guessed(name: str, text: str) -> Value:
    """A value for an argument of which no test tells, by its use and its name."""
    asked = rf"\${re.escape(name)}\b"
    for _, given in calls(text, "write"):
        if len(given) > 1 and re.search(asked, given[1]):
            return f"OUT/{name}"
        if any(each.startswith("format") and re.search(asked, each) for each in given[2:]):
            return "text"
    for read in reads(text):
        if re.search(asked, read.path):
            return f"IN/{name}"
        if any(re.search(asked, read.options.get(size, "")) for size in ("rows", "cols")):
            return 10
        if re.search(asked, read.options.get("format", "")):
            return "csv"
    compared = re.search(rf'\${re.escape(name)}\s*==\s*("[^"]*"|\d+|TRUE)', text)
    if compared:
        return compared[1].strip('"')
    return next((value for pattern, value in _BY_NAME if re.search(pattern, name, re.IGNORECASE)), 1)


def _templates(plan: _Plan, text: str) -> dict[str, Value]:
    """What stands for each ``$$name$$`` of a script."""
    found: dict[str, Value] = {}
    for name in sorted(set(re.findall(r"\$\$(\w+)\$\$", text))):
        found[name] = _TEMPLATES.get(name, 10 if name in ("rows", "cols") else 2)
        if plan.file is None or name in _TEMPLATES:
            continue
        for match, given in calls(plan.file.text, "addVariable"):
            if len(given) == 2 and given[0] == f'"{name}"':
                with suppress(Unknown):
                    found[name] = Evaluation(plan.file, match.start(), plan.choice).value(given[1])
                    break
    return found


def _filled(text: str, templates: Mapping[str, Value]) -> str:
    for name, value in templates.items():
        text = text.replace(f"$${name}$$", str(value))
    return text


def _attempt(
    script: str, text: str, plan: _Plan, own: Mapping[str, Value], templates: Mapping[str, Value], variant: int,
    given: Mapping[str, Any],
) -> Attempt | None:
    """The attempt of a variant; None where it is no other than one before, or an input cannot be made."""
    told: dict[str, tuple[Read, Drawn | Array | None]] = {}
    for read in reads(_filled(text, templates)):
        path = dml_value(read.path, own)
        if path is None or str(path) in told or "OUT/" in str(path):
            continue
        name, by_hand = str(path).removeprefix("IN/"), given.get("inputs", {}).get(str(path))
        known = plan.file is not None and str(path).startswith("IN/")
        written = written_by(plan.file, name, plan.choice) if known and plan.file else None
        told[str(path)] = read, Drawn(*by_hand) if by_hand else written
    all_known = all(drawn is not None or _is_stored(path) for path, (_, drawn) in told.items())
    smaller = _smaller(own, templates, told)
    if variant == FULL_SIZE and not smaller:
        return None
    if 1 < variant < FULL_SIZE and all_known:  # what the test tells is not all that it does
        if given or not any(drawn is not None for _, drawn in told.values()):
            return None
        told = {path: (read, None) for path, (read, _) in told.items()}
    if variant == FULL_SIZE:
        smaller = {}
    arguments = {name: _resized(value, smaller) for name, value in own.items()}
    inputs: dict[str, Input] = {}
    for index, (path, (read, drawn)) in enumerate(told.items()):
        if not path or Path(path).is_absolute() or ".." in Path(path).parts:
            return None
        if _is_stored(path):
            inputs[path] = _stored(read.variable, Path(path))
            continue
        if isinstance(drawn, Drawn):
            small = variant == 1 and all_known and not given
            drawn = replace(drawn, rows=10 if small else smaller.get(drawn.rows, drawn.rows),
                            cols=10 if small else smaller.get(drawn.cols, drawn.cols))
        found = _input(script, path, read, drawn, arguments, variant, index)
        if found is None:
            return None
        inputs[path] = found
    filled = _filled(text, {name: _resized(value, smaller) for name, value in templates.items()})
    return Attempt(filled, arguments, inputs, variant, plan.file.path.name if plan.file else "")


def _smaller(
    own: Mapping[str, Value], templates: Mapping[str, Value], told: Mapping[str, tuple[Read, Drawn | Array | None]]
) -> dict[int, int]:
    """A smaller number for each large one among arguments and sizes, where inputs would have many cells."""
    cells, numbers = 0, [value for value in (*own.values(), *templates.values()) if isinstance(value, int)]
    numbers += [int(value) for value in own.values() if isinstance(value, str) and re.fullmatch(r"\d+", value)]
    for read, drawn in told.values():
        if isinstance(drawn, Drawn):
            cells += drawn.rows * drawn.cols
            numbers += [drawn.rows, drawn.cols]
        for size in ("rows", "cols"):
            value = dml_value(read.options.get(size, ""), own)
            if isinstance(value, int):
                numbers.append(value)
                cells += value * 10
    found: dict[int, int] = {}
    for number in sorted({number for number in numbers if number > LARGE}) if cells > MOST_CELLS else ():
        part = next((each for each in found if number % each == 0 and number // each <= MOST_PARTS), None)
        found[number] = LARGE + len(found) + 1 if part is None else found[part] * (number // part)
    return found


def _resized(value: Value, smaller: Mapping[int, int]) -> Value:
    if isinstance(value, str):
        return str(smaller.get(int(value), int(value))) if re.fullmatch(r"\d+", value) else value
    return smaller.get(value, value) if isinstance(value, int) else value


def _is_stored(path: str) -> bool:
    """Whether the source tree holds a file."""
    return not path.startswith("IN/") and Path(path).is_file()


def _stored(variable: str, path: Path) -> Input:
    """An input that the source tree holds."""
    try:
        found = read_value(path)
    except (TranspileError, OSError):
        return Input(variable, None, stored=True)
    content = getattr(found, "cells", found)
    if not isinstance(content, np.ndarray):
        return Input(variable, None, stored=True)
    return Input(variable, content, "frame" if content.dtype == object else "matrix", stored=True)


def _input(
    script: str, path: str, read: Read, drawn: Drawn | Array | None, arguments: Mapping[str, Value], variant: int,
    index: int,
) -> Input | None:
    """An input as a script reads it; None where it would be too large."""
    options = {name: dml_value(text, arguments) for name, text in read.options.items()}
    kind = str(options.get("data_type") or "matrix").lower()
    value_type = str(options.get("value_type") or "double")
    if kind == "scalar":
        content = SCALARS.get(value_type.lower(), OTHER_SCALAR)
        return Input(read.variable, content, kind, value_type=value_type)
    if isinstance(drawn, np.ndarray):
        matrix = drawn
    else:
        rows, cols = (value if isinstance(value, int) and value > 0 else None
                      for value in map(options.get, ("rows", "cols")))
        drawn = drawn or _of_variant(variant, read.variable, index, sized=rows is not None and cols is not None)
        drawn = replace(drawn, rows=rows or drawn.rows, cols=cols or drawn.cols)
        if drawn.rows * drawn.cols > LARGEST or min(drawn.rows, drawn.cols) < 0:
            return None
        matrix = drawn.matrix(f"{script}.dml{path}")
    form = str(options.get("format") or "text")
    header = (str(read.options.get("header", "")).upper() == "TRUE") or options.get("header") == "TRUE"
    if kind == "frame":
        csv = form not in ("csv", "text") or header or "schema" in read.options
        return Input(read.variable, as_frame(matrix, variant == 1), kind, "csv" if csv else form, value_type, header)
    return Input(read.variable, matrix, "matrix", form if form in FORMATS else "text", value_type, header)


def _of_variant(number: int, variable: str, index: int, sized: bool) -> Drawn:
    """An input of which no test tells. sized: whether the script says its size."""
    if number == 0 and sized:
        return Drawn(0, 0, 0.0, 1.0, 0.8)
    variant = _VARIANTS[number]
    label = variant.labels and variable.lower() in _LABELS
    rows, cols = variant.sizes[min(index, 1) if variant.first_alone else index % 2]
    low, high = variant.later_limits if index or label else variant.limits
    return Drawn(rows, 1 if label else cols, low, high, variant.density, variant.rounded or label)
