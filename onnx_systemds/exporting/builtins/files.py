"""read and write: inputs, bound values and outputs; messages and checks, which a model leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from onnx_systemds.errors import UnsupportedCase, quoted
from onnx_systemds.exporting.builtins.api import Context, Matrix, Scalar, Value, builtin, refuse
from onnx_systemds.exporting.builtins.frames import NUMBER_TYPES, frame_of, joined, of_one_kind, without_texts
from onnx_systemds.exporting.values import FrameValue, ListValue, known_of, scalar_text
from onnx_systemds.inference.dims import Dim

_READ_AS_NUMBERS = (*NUMBER_TYPES, "DOUBLE", "FLOAT", "INT", "INTEGER")
"""Types of columns, in the schema of a frame that is read, which a tensor of numbers holds."""

_SHORT_ENDING = re.compile("[a-z][a-z0-9]{0,3}|[A-Z][A-Z0-9]{0,3}")
_LONG_ENDINGS = ("binary", "libsvm", "jsonl", "delta", "parquet", "proto")


@builtin("read")
def read(
    ctx: Context,
    path: Value,
    rows: Dim | None = None,
    cols: Dim | None = None,
    format: str = "",
    data_type: str = "matrix",
    value_type: str = "double",
    header: bool = False,
    sep: Value | None = None,
    nnz: Value | None = None,
    indSep: Value | None = None,
    schema: str = "",
    dataset: Value | None = None,
    fill: bool = True,
    default: float = 0.0,
    naStrings: Value | None = None,
    rows_in_block: Value | None = None,
    cols_in_block: Value | None = None,
    target: str = "",
) -> Value:
    """An input of the model, a bound value, or what the script itself has written to the file.

    Texts that stand for missing numbers are a matter of the file, as all else that says how it is read; in a frame
    they are missing texts.
    """
    file = known_file(path, "read")
    if naStrings is not None and file in ctx.files:
        raise UnsupportedCase("naStrings says what is missing in what this script has written, where a model has the "
                              "texts themselves", hint="leave out naStrings, and replace them")
    if file in ctx.files:
        return ctx.files[file]
    types = [part.strip().upper() for part in schema.split(",")]
    if data_type == "frame" and all(part in _READ_AS_NUMBERS for part in types):
        numbers = ctx.interface.read(file, target, (rows, cols), "matrix", value_type)
        ctx.interface.files.read[file] = replace(ctx.interface.files.read[file], data_type="frame")
        found: Value = frame_of(ctx, numbers)
    else:
        found = ctx.interface.read(file, target, (rows, cols), data_type, value_type)
    if naStrings is None or not isinstance(found, FrameValue):
        return found
    ctx.interface.files.read[file] = replace(ctx.interface.files.read[file], by_texts=True)
    return without_texts(ctx, found, naStrings, scalar_text(default) if fill and default else "")


@builtin("write")
def write(
    ctx: Context, x: Value, path: Value, format: str = "", header: bool = False, sep: Value | None = None,
    sparse: bool = False, dataset: Value | None = None, indSep: Value | None = None,
    rows_in_block: Value | None = None, cols_in_block: Value | None = None,
) -> None:
    """An output of the model, named like the file. A list is one output per item, with the name or number of the item.

    So of a frame of both one for its columns of texts, or of numbers, that stand side by side. A file that is written
    again holds what it got last, as in the engine.
    """
    file = known_file(path, "write")
    name = written_as(ctx, file)
    before = None if ctx.written else ctx.files.get(file)
    if before is not None:
        names = [[path for path, _ in leaves((name,), value)] for value in (before, x)]
        if names[0] != names[1]:
            raise UnsupportedCase(f"{quoted(name)} is written twice with different items")
    put(ctx, name, x, again=before is not None)
    if not ctx.written:
        ctx.files[file] = x


def known_file(path: Value, function: str) -> str:
    """Return the name of a file that is read or written. Raises UnsupportedCase where it is not known."""
    file = file_name(path)
    if file is None:
        raise UnsupportedCase(f"the name of the file of {function} must be known when the script is exported",
                              hint="give it as a literal or a bound argument")
    return file


def file_name(path: Value) -> str | None:
    """Return the name of a file, which may be a number; None where it is not known."""
    known = known_of(path)
    return None if known is None else scalar_text(known)


def written_as(ctx: Context, path: str) -> str:
    """Return the name of the output that a file is: with its ending where another file has the name without."""
    name = output_name(path)
    taken = any(output_name(other) == name for other in ctx.files if other != path)
    return ctx.interface.files.written.setdefault(path, PurePosixPath(path).name if taken else name)


def output_name(path: str) -> str:
    """Return the name of a file, without what says its format; ``category.means`` and ``category.counts`` are two."""
    file = PurePosixPath(path)
    ending = file.suffix[1:]
    return (file.stem if _SHORT_ENDING.fullmatch(ending) or ending in _LONG_ENDINGS else file.name) or path


def put(ctx: Context, name: str, value: Value, *, wanted: bool = False, again: bool = False) -> None:
    """Make a value an output, a list one for each item.

    wanted: they are known to be; else the interface says so. again: in place of those of their names.
    """
    for names, item in leaves((name,), value):
        asked = [ctx.interface.wants(each) for each in names]  # notes all of them
        if any(asked) or wanted:
            _put(ctx, names[-1], item, again=again)


def _put(ctx: Context, name: str, value: Value, *, again: bool) -> None:
    """Make a value an output; in a branch of an If it waits for what the other branch writes."""
    if not ctx.written:
        ctx.interface.write(name, result_tensor(ctx, value), again=again)
        return
    branch = ctx.written[-1]
    if branch is None:
        raise UnsupportedCase(f"{quoted(name)} is written in a loop with an unknown number of iterations, or too many",
                              hint="write it after the loop")
    if name in branch:
        raise UnsupportedCase(f"{quoted(name)} is written twice")
    branch[name] = value


def leaves(names: tuple[str, ...], value: Value) -> Iterator[tuple[tuple[str, ...], Value]]:
    """Yield the outputs that a value is written as, each with its names: of lists and frames it is in, and its own."""
    if isinstance(value, ListValue) and value.items:
        for key, item in named_items(value):
            yield from leaves((*names, f"{names[-1]}_{key}"), item)
    elif isinstance(value, FrameValue) and len(parts := of_one_kind(value)) > 1:
        for number, part in enumerate(parts, 1):
            yield (*names, f"{names[-1]}_{number}"), part
    else:
        yield names, value


def named_items(value: ListValue) -> Iterator[tuple[str, Value]]:
    """Yield the items of a list with their names, or numbers where they have none."""
    names = value.names or ("",) * len(value.items)
    for number, (name, item) in enumerate(zip(names, value.items), 1):
        yield name or str(number), item


def result_tensor(ctx: Context, value: Value) -> object:
    """Return the tensor of an output: a matrix as rows x columns of floats, a scalar with rank 0."""
    if isinstance(value, Matrix):
        return ctx.flat(value)
    if isinstance(value, Scalar):
        return ctx.tensor(value)
    if isinstance(value, FrameValue):
        return joined(ctx, value)
    raise UnsupportedCase(f"{value} cannot be an output of a model")


@builtin("assert")
def assertion(ctx: Context, condition: Value) -> None:
    """Checked during the export if the condition is known, otherwise not part of the model."""
    known = known_of(condition)
    if known is None:
        ctx.drop("assert is left out: its condition is known only when the model runs")
    elif not known:
        raise UnsupportedCase("the condition of this assert does not hold")


@builtin("stop")
def stop(ctx: Context, message: Value) -> None:
    """An error of the export if certainly reached; not part of the model in a branch that only the run chooses."""
    text = known_of(message)
    raise UnsupportedCase(f"the script stops here: {text if text is not None else ''}")


refuse("paramserv", reason="it trains a model", hint="export the function that predicts")
refuse("time", reason="a model knows no clock")
