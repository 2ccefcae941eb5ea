"""Options and endings that commands share."""

from __future__ import annotations

import csv
import functools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onnx_systemds.cli.explaining import say
from onnx_systemds.cli.given import GIVEN_OPTIONS, GivenInputs, given_inputs
from onnx_systemds.cli.json_text import json_text
from onnx_systemds.dml.names import legal_identifier
from onnx_systemds.dml.templates import is_library_function
from onnx_systemds.errors import TranspileError, quoted, shown_path
from onnx_systemds.files import check_target, is_stream, replacing
from onnx_systemds.importing.convert import FUNCTIONS_MODES, STYLES, WEIGHTS_MODES
from onnx_systemds.inference.passes import check_omitted
from onnx_systemds.plugins import load_plugins
from onnx_systemds.stages import Stages

if TYPE_CHECKING:
    from onnx_systemds.verifying.report import Report

Command = Callable[..., Any]

FILE = click.Path(path_type=Path, readable=False)  # opening it gives the reason for a failure

_LARGEST_SIZE = 2**31 - 1  # of a matrix of the engine
_MOST_DIGITS = 20
_SHOWN = 5


def or_standard_output(_: click.Context, __: click.Parameter, output: Path | None) -> Path | None:
    """The file that an option names; ``-`` is the standard output."""
    return Path("/dev/stdout") if str(output) == "-" else output


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """The options of the commands that convert a model."""

    dims: tuple[str, ...]
    function_name: str | None
    weights: str
    functions: str | None
    style: str
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    types: tuple[str, ...]
    constants: tuple[str, ...]
    plugins: tuple[Path, ...]
    no_plugins: bool
    no_simplify: bool
    omitted: tuple[str, ...]
    no_specialise: bool
    verbose: bool
    traceback: bool

    def sizes(self) -> dict[str, int]:
        """The sizes of dims. Raises BadParameter."""
        return fixed_sizes(self.dims)

    def load_plugins(self) -> None:
        """Load the plugins. Raises PluginError, and BadParameter for names of passes that do not exist."""
        load_plugins(self.plugins, installed=not self.no_plugins)
        try:
            check_omitted(self.omitted)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--no-pass") from error

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `import_model` and `verify_model` with the same names."""
        return {
            "function_name": self.function_name, "weights": self.weights, "functions": self.functions,
            "style": self.style, "simplified": not self.no_simplify, "omitted": self.omitted,
            "specialised": not self.no_specialise,
        }

    def given(self) -> GivenInputs:
        """The part of the model, types and constants. Raises BadParameter."""
        return given_inputs(self.types, self.constants, self.starts, self.ends)


@dataclass(frozen=True, slots=True)
class VerificationOptions:
    """The options of the commands that verify, besides those of the conversion."""

    contents: Path | None
    seed: int
    rtol: float | None
    atol: float | None
    as_json: bool
    page: Path | None

    def check_page(self, sources: Iterable[Path]) -> None:
        """Raise TranspileError or OSError where the report cannot be written, or would replace a file that is read."""
        if self.page is not None:
            check_target(self.page, [*sources, *([self.contents] if self.contents else [])])
            if self.page.suffix.lower() not in (".html", ".htm") and not is_stream(self.page):
                raise TranspileError("a report is an HTML page: name it *.html", self.page)

    def write_page(self, report: Report, source: Path) -> None:
        """Write the report, if it is asked for. Raises OSError."""
        if self.page is None:
            return
        from onnx_systemds.verifying.report_page import report_page

        with replacing(self.page) as stream:
            stream.write(report_page(report, source.name).encode())

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `verify_model`."""
        return {"inputs": self.contents, "seed": self.seed, "rtol": self.rtol, "atol": self.atol}


def gathered(command: Command, kind: type[Any], name: str) -> Command:
    """The command with the options that are fields of a dataclass as one argument, an object of it."""

    @functools.wraps(command)
    def with_object(**given: Any) -> Any:
        options = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        return command(**given, **{name: options})

    return with_object


def with_options(command: Command, options: list[Callable[[Command], Command]]) -> Command:
    """The command with options, which its help shows in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def plugin_options(command: Command) -> Command:
    """``--plugin`` and ``--no-plugins``, which the command takes as ``plugins`` and ``no_plugins``."""
    return with_options(command, [
        click.option("--plugin", "plugins", multiple=True, type=FILE, metavar="MODULE.py",
                     help="Python file that registers operators, builtins or patterns of your own; repeatable."),
        click.option("--no-plugins", is_flag=True, help="Do not load the plugins of installed packages."),
    ])


def json_option(command: Command) -> Command:
    """``--json``, which the command takes as ``as_json``."""
    option: Command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    return option


def _legal_function_name(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    if name is not None and legal_identifier(name) != name:
        raise click.BadParameter(f"{name!r} is no DML identifier, or a word of DML; {legal_identifier(name)!r} is fine")
    if name is not None and is_library_function(name):
        raise click.BadParameter(f"{name!r} is a function that scripts may hold; gen_{name} is fine")
    return name


def conversion_options(command: Command) -> Command:
    """The options in `ConversionOptions`: the command takes them as ``options``."""
    return with_options(gathered(command, ConversionOptions, "options"), [
        click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Fix a symbolic dimension; repeatable."),
        *GIVEN_OPTIONS,
        click.option("--function-name", metavar="NAME", callback=_legal_function_name,
                     help="Name of the main function [default: gen_<graph name>]."),
        click.option("--weights", type=click.Choice(WEIGHTS_MODES), default="auto", show_default=True,
                     help="Where to write weights: into the script, into files beside it, or chosen by size."),
        click.option("--functions", type=click.Choice(FUNCTIONS_MODES),
                     help="Functions beside the main one. flat: none; keep: the model's own functions; blocks: also "
                          "repeated blocks of nodes [default: blocks if they make the script a fifth shorter, else "
                          "keep]."),
        click.option("--style", type=click.Choice(STYLES), default="plain", show_default=True,
                     help="nn: call SystemDS's nn/layers where their signatures fit; all weights are in files, as they "
                          "were trained, so that a script can continue the training."),
        plugin_options,
        click.option("--no-simplify", is_flag=True, help="Do not simplify the graph; the results are the same."),
        click.option("--no-pass", "omitted", multiple=True, metavar="NAME",
                     help="Skip this pass over the graph; a wrong name lists all. Repeatable."),
        click.option("--no-specialise", is_flag=True,
                     help="Do not specialise the script for known sizes; it is slower then."),
        click.option("-v", "--verbose", is_flag=True,
                     help="List the stages with their times, the passes over the graph that fired, and why others did "
                          "not."),
        click.option("--traceback", is_flag=True, help="Show the Python traceback of an error."),
    ])


def _tolerance(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 <= value < math.inf:
        raise click.BadParameter(f"{value} is no tolerance: it is a number from 0 on")
    return value


def verification_options(command: Command) -> Command:
    """The options in `VerificationOptions`: the command takes them as ``verification``."""
    return with_options(gathered(command, VerificationOptions, "verification"), [
        click.option("--inputs", "contents", type=FILE,
                     help="An .npz file with one array per input, as for run; a .npy file for a single input; or a "
                          "folder with input_0.pb and, as expected outputs, output_0.pb [default: random numbers]."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                     help="Seed of the random inputs."),
        click.option("--rtol", type=float, callback=_tolerance,
                     help="Relative tolerance [default: by type, float32 1e-3]."),
        click.option("--atol", type=float, callback=_tolerance,
                     help="Absolute tolerance [default: relative to the output's range, float32 1e-5, integers 0]."),
        json_option,
        click.option("--report", "page", type=FILE, metavar="FILE.html",
                     help="Write an HTML page with results, differences node by node, times and versions."),
    ])


def listed_names(text: str, option: str) -> list[str]:
    """The names of an option, separated by commas; quoted as in a csv file if they have some. Raises TranspileError."""
    try:
        (names,) = csv.reader([text], skipinitialspace=True, strict=True)
    except csv.Error as error:
        hint = 'names with commas are quoted: a,"b,c"'
        raise TranspileError(f"{option} is {quoted(text)}: {error}", None, hint) from None
    return [name.strip() for name in names] or [""]


def note_numbers_as_names(path: Path, names: Sequence[str], chosen: Sequence[str] | None, *, has_header: bool) -> None:
    """Say on standard error that the first line of a table is taken for names, where it may be a row of numbers."""
    from onnx_systemds.runtime.table_inputs import counts_columns

    if path.suffix.lower() == ".csv" and has_header and chosen is None and counts_columns(names):
        shown = f"{shown_path(path)}: its first line, {','.join(names[:_SHOWN])}{',...' * (len(names) > _SHOWN)}"
        say(f"note: {shown}, is taken for names; if it is a row, add --no-header", err=True)


def fixed_sizes(dims: tuple[str, ...]) -> dict[str, int]:
    """The sizes of ``--dim NAME=SIZE``. Raises BadParameter."""
    sizes: dict[str, int] = {}
    for text in dims:
        name, equals, digits = text.rpartition("=")
        size = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS else -1
        if not name or not equals or not 0 <= size <= _LARGEST_SIZE:
            raise click.BadParameter(
                f"{quoted(text)} is not NAME=SIZE with an integer from 0 to 2^31 - 1", param_hint="--dim"
            )
        if sizes.setdefault(name, size) != size:
            raise click.BadParameter(f"{quoted(name)} is given two sizes", param_hint="--dim")
    return sizes


def print_stages(stages: Stages, *, verbose: bool) -> None:
    """Print the stages to standard error if ``verbose``."""
    for line in stages.lines() if verbose else ():
        say(line, err=True)


def print_report(report: Report, *, as_json: bool) -> None:
    """Print the report of a verification, and exit with code 1 if the numbers differ."""
    for line in [json_text(report.summary())] if as_json else report.lines():
        say(line)
    if not report.passed:
        sys.exit(1)
