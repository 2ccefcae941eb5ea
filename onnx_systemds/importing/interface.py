"""`Interface`: parameters and results of the main function, as data, as comments and in messages."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from onnx_systemds.dml.names import FUNCTION_PREFIX, legal_identifier
from onnx_systemds.errors import counted, escaped, shown_path
from onnx_systemds.files import is_stream
from onnx_systemds.inference.dim_text import text
from onnx_systemds.inference.dims import Dims, lone_symbol, product
from onnx_systemds.inference.values import dims_words, symbol_words
from onnx_systemds.model.ir import MapType
from onnx_systemds.operators.api.reserved_names import WEIGHTS

KEPT, PARAMETERS, STATISTICS, SEED = "kept", "parameters", "statistics", "seed"
"""The kinds of ports that the backward pass gets from the forward pass, and that are a column of trained weights, or of
statistics that the forward pass moves, and the seed of what this draws."""
COLUMNS = (PARAMETERS, STATISTICS, SEED)
"""The kinds of those that stand after sizes."""
_WIDTH = 116  # of a line without the sign of a comment
_LONGEST_SIZE = 40  # characters of a size that is still readable


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the main function: ONNX name, element type and dims.

    kind: "tensor"; "sequence", "optional" or "optional sequence" are DML lists, dtype and dims are those of the items.
    dims: () where the items of a list differ in rank. item_dims: of each item of a list, where they are known.
    "kept" is a value of the forward pass, "parameters" a column of the weights whose ``keys`` in their list are given,
    "statistics" one of statistics, "seed" a whole number.
    "maps" is a sequence of maps with the same keys: the matrix of their values with a column for each of ``keys``.
    "map" is one map of the ONNX type ``map_type``: a matrix of two columns, the keys and the values; a frame where
    either is text. largest: of 64-bit integers, how large they may be; None: any that FP64 holds.
    """

    name: str
    dtype: str
    dims: Dims
    kind: str = "tensor"
    item_dims: tuple[Dims, ...] | None = None
    keys: tuple[int, ...] | tuple[str, ...] = ()
    map_type: MapType | None = None
    largest: int | None = None

    @property
    def is_list(self) -> bool:
        """Whether the port is a DML list."""
        return self.kind not in ("tensor", "maps", "map") and not self.is_of_passes

    @property
    def is_of_passes(self) -> bool:
        """Whether only the functions of derivatives have it."""
        return self.kind in (KEPT, *COLUMNS)


@dataclass(frozen=True, slots=True)
class Interface:
    """The main function of a script. parameters, results: their names in the script, in order; the inputs and outputs
    come first, then ``sizes`` and ``returned``, then the list of weights, which has ``weights`` items, if it has any.
    """

    function: str
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    sizes: tuple[str, ...]
    returned: tuple[str, ...]
    weights: int


@dataclass(frozen=True, slots=True)
class Derivatives:
    """The functions of the forward and the backward pass. column: what they call trained weights, "" without any.

    weights: the ONNX names of these, by their keys in the list of weights. behind: those that each result depends on.
    statistics: the ONNX names of statistics that the forward pass moves. moved: what it calls those that it takes, and
    those that it gives. seed: what it calls the seed of what it draws, "" where it draws nothing.
    compares_rows: whether a normalization has a number of each sample alone, so that a batch of one sample is nothing.
    """

    forward: Interface
    backward: Interface
    column: str
    weights: Mapping[str, str]
    behind: Mapping[str, frozenset[str]]
    statistics: Mapping[str, str] = field(default_factory=dict)
    moved: tuple[str, str] = ("", "")
    seed: str = ""
    compares_rows: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What the functions call the columns that programs change."""
        return tuple(filter(None, (self.column, self.moved[0])))


def weights_argument(name: str) -> str:
    """The name of the command-line argument for the folder of the weights of ``<name>.dml``."""
    return legal_identifier(f"{name}_weights")


def call_lines(main: Interface, name: str, folder: str = "") -> list[str]:
    """The statements that call the main function of ``<name>.dml``, with long lines broken.

    folder: what stands before its name where the engine is started elsewhere, "models/".
    """
    namespace = legal_identifier(name)
    init = [f"{WEIGHTS} = {namespace}::{main.function}_init()"] if main.weights else []
    statements = [f'source("{escaped(folder + name)}.dml") as {namespace}', *init, call_of(main, namespace)]
    return [line for statement in statements for line in broken(statement, 4)]


def interface_lines(main: Interface, weights: str) -> list[str]:
    """A line for each parameter and result: name in the script, ONNX name if different, type and layout.

    weights: where they are, in words.
    """
    described = [*_described(main.parameters, main.inputs, main.sizes)]
    if main.weights:
        described.append((WEIGHTS, weights))
    given = [*_described(main.results, main.outputs, main.returned)]
    width = max((len(name) for name, _ in (*described, *given)), default=0)
    return [
        line
        for head, rows in (("takes ", described), ("gives ", given))
        for number, (name, what) in enumerate(rows)
        for line in broken(f"{head if number == 0 else ' ' * len(head)}{name:<{width}}  {what}", len(head) + width + 2)
    ]


def derivative_lines(derivatives: Derivatives, main: Interface, name: str) -> list[str]:
    """The calls of the functions of derivatives of ``<name>.dml``, and a line for each parameter and result."""
    forward, backward = derivatives.forward, derivatives.backward
    lines = interface_lines(backward, "as above")
    if derivatives.column not in backward.parameters:  # nothing that is derived depends on the weights themselves
        lines += [f"{derivatives.column} is {described(port)}" for port in forward.inputs if port.kind == PARAMETERS]
    keys = [str(key) for port in forward.inputs if port.kind == PARAMETERS for key in port.keys]
    names = [derivatives.weights[key] for key in keys]
    if names != keys:
        lines += broken(f"in the model these weights are {', '.join(map(escaped, names))}", 2)
    if derivatives.statistics:
        lines += broken(f"{derivatives.moved[0]} is a column of those that batches move: "
                        f"{', '.join(map(escaped, derivatives.statistics.values()))}", 2)
    lines += [f"{derivatives.seed} is {described(port)}" for port in forward.inputs if port.kind == SEED]
    return [*derivative_calls(derivatives, main, name), *lines]


def derivative_calls(derivatives: Derivatives, main: Interface, name: str) -> list[str]:
    """The statements that call them, with long lines broken."""
    namespace, column, (taken, given) = legal_identifier(name), derivatives.column, derivatives.moved
    forward = replace(derivatives.forward, results=tuple(taken if result == given else result
                                                         for result in derivatives.forward.results))
    statements = [call_of(forward, namespace), call_of(derivatives.backward, namespace)]
    if taken:
        statements.insert(0, f"{taken} = {namespace}::{main.function}_statistics({WEIGHTS})")
    if column:
        statements = [f"{column} = {namespace}::{main.function}_parameters({WEIGHTS})", *statements,
                      f"{WEIGHTS} = {namespace}::{main.function}_trained({', '.join(derivatives.columns)}, {WEIGHTS})"]
    return [line for statement in statements for line in broken(statement, 4)]


def zeros_of(result: str, port: Port) -> str:
    """DML of zeros in the form of a result: its derivative where nothing depends on it."""
    return f"matrix(0, rows=nrow({result}), cols=ncol({result}))" if port.dims else "0"


def call_of(function: Interface, namespace: str) -> str:
    """The statement that calls a function."""
    return assigned_call(f"{namespace}::{function.function}", function.parameters, function.results)


def assigned_call(function: str, arguments: Sequence[str], results: Sequence[str]) -> str:
    """The statement that calls a function, with its namespace if it has one, for variables of one or more results."""
    target = results[0] if len(results) == 1 else f"[{', '.join(results)}]"
    return f"{target} = {function}({', '.join(arguments)})"


def signature(main: Interface) -> str:
    """The signature of the main function with dims, on one line."""
    taken, given = (
        ", ".join([*(f"{port.name}{' list of' * port.is_list}{_dims_text(port)}" for port in ports), *sizes])
        for ports, sizes in ((main.inputs, main.sizes), (main.outputs, main.returned))
    )
    return f"{main.function}({taken}) -> {given}"


_MOST_LINES = 12
"""Of calls that are printed: a network of many layers keeps hundreds of values for its backward pass."""
_DRAWN_NAME = re.compile(f"{FUNCTION_PREFIX}[0-9a-f]{{32}}")
"""As skl2onnx and onnxmltools call graphs."""


def success_lines(main: Interface, model: Path, target: Path, derivatives: Derivatives | None = None) -> list[str]:
    """The lines that are printed at the end: files, signature and example calls, from where the command ran.

    The engine looks for a script that is sourced, and for weights, in the folder that it is started in.
    """
    folder = target.with_suffix(".weights")
    is_here = is_stream(target) or target.parent == Path()
    weights = f", {counted(main.weights, 'weight')} in {shown_path(folder.name)}" if main.weights else ""
    before = "" if is_here else f"{target.parent.as_posix()}/".replace("//", "/")
    name = main.function if is_stream(target) else target.stem
    calls = call_lines(main, name, before)
    written = f"{shown_path(model)} -> {shown_path(target)}: {signature(main)}{weights}"
    lines = [written, *(f"  {line}" for line in calls)]
    if derivatives is not None:
        of_passes = derivative_calls(derivatives, main, name)
        if len(of_passes) > _MOST_LINES:
            file = "the script" if is_stream(target) else shown_path(target)
            of_passes = [f"the calls of both passes stand at the head of {file}"]
        lines += [f"  {line}" for line in of_passes]
    if main.weights and not is_here:
        argument = shlex.quote(f"{weights_argument(target.stem)}={folder.as_posix()}")
        lines.append(f"  on the engine's command line: -nvargs {argument}")
    if not main.weights and (folder / "weights.mtd").exists():
        lines.append(f"  {shown_path(folder.name)} is of an earlier conversion: this script does not read it")
    if _DRAWN_NAME.fullmatch(main.function):
        lines.append("  the exporter drew the graph's name at random, and draws another one next time: "
                     "--function-name gives one that stays")
    return lines


def described(port: Port) -> str:
    """The type of a port and its form in DML."""
    if port.kind == SEED:
        return "a whole number, another one for each step: what is drawn follows from it"
    if port.kind in COLUMNS:
        return f"a column of {'weights' if port.kind == PARAMETERS else port.kind}: {', '.join(map(str, port.keys))}"
    if port.kind == "map":
        return "a map: a row for each key, the keys and the values"
    if port.is_list:
        return f"a list ({port.kind}) of {port.dtype}{_dims_text(port)}"
    return f"{port.dtype}{_dims_text(port)}{key_words(port) or _layout(port)}"


def key_words(port: Port) -> str:
    """The keys of a sequence of maps, which are its columns; "" for other ports."""
    return f", columns {', '.join(escaped(str(key)) for key in port.keys)}" if port.keys else ""


def _described(names: Sequence[str], ports: Sequence[Port], sizes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and what they are in words; a column of parameters stands after the sizes."""
    values = [port for port in ports if port.kind not in COLUMNS]
    for name, port in zip(names, values):
        if port.kind == KEPT:  # one function gives what the other takes
            continue
        yield name, ("" if name == port.name else f"({escaped(port.name)}) ") + described(port)
    for name, size in zip(names[len(values) :], sizes):
        words = symbol_words(size)
        axes = [f"axis {axis} of {it}" for it, port in zip(names, values) for axis, dim in enumerate(port.dims or ())
                if lone_symbol(dim) == size]
        plain = f"({words}) " if axes and name != words else ""
        yield name, f"{plain}the size {'of ' + axes[0] if axes else words}, an integer"
    columns = [port for port in ports if port.kind in COLUMNS]
    yield from ((name, described(port)) for name, port in zip(names[len(values) + len(sizes) :], columns))


def _dims_text(port: Port) -> str:
    return f" {dims_words(port.dims)}" if port.dims else ""


def _layout(port: Port) -> str:
    """Rows and columns of a tensor, if they do not follow from its dims."""
    kind = "frame" if port.dtype == "string" else "matrix"
    if not port.dims:
        return ", a string" if kind == "frame" else ", a number"
    if len(port.dims) == 1:
        return f", a {kind} of one column"
    columns = _product_text(port.dims[1:])
    if len(port.dims) == 2 or columns is None:
        return "" if kind == "matrix" else ", a frame"
    rows = text(port.dims[0], symbol_words)
    return f", {rows} row{'s' * (rows != '1')}, {columns} column{'s' * (columns != '1')} (the last axis fastest)"


def _product_text(dims: Dims) -> str | None:
    found = text(product(dims), symbol_words)
    return found if len(found) <= _LONGEST_SIZE else None


def broken(line: str, indent: int) -> list[str]:
    """A comment, broken into lines."""
    return textwrap.wrap(line, _WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
