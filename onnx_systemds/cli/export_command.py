"""The commands of scripts: ``onnx-systemds model.dml -o model.onnx`` and its verification."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import onnx

from onnx_systemds.cli.explaining import explained, say
from onnx_systemds.cli.node_map import map_text, model_map
from onnx_systemds.cli.once import OnceCommand
from onnx_systemds.cli.options import (
    FILE,
    Command,
    VerificationOptions,
    fixed_sizes,
    gathered,
    or_standard_output,
    plugin_options,
    print_report,
    print_stages,
    verification_options,
    with_options,
)
from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.listing import list_script
from onnx_systemds.dml.parser import parse_file
from onnx_systemds.errors import TranspileError, counted, shown_path
from onnx_systemds.exporting.builtins import load_builtins
from onnx_systemds.exporting.export import FUNCTIONS
from onnx_systemds.exporting.graph.builder import DEFAULT_OPSET, DTYPES
from onnx_systemds.exporting.interface import InputSpec
from onnx_systemds.exporting.model_files import data_path, export_file
from onnx_systemds.exporting.weight_files import MOST_LOADED, open_values
from onnx_systemds.files import check_targets, is_stream
from onnx_systemds.model.protos import element_name
from onnx_systemds.plugins import load_plugins
from onnx_systemds.stages import Stages


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What the commands that export a script are given."""

    function: str | None
    inputs: tuple[str, ...]
    weights: tuple[str, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    dtype: str
    opset: int | None
    functions: str
    iterative: bool
    random: bool
    plugins: tuple[Path, ...]
    no_plugins: bool
    verbose: bool
    traceback: bool

    def sources(self, script: Path) -> list[Path]:
        """The files that are read. Raises BadParameter."""
        return [script, *self.plugins, *map(Path, _pairs(self.weights, "--weight").values())]

    def load_plugins(self) -> None:
        """Load our builtins, then the plugins. Raises PluginError."""
        load_builtins()
        load_plugins(self.plugins, installed=not self.no_plugins)

    def bindings(self, most_loaded: int = sys.maxsize) -> dict[str, Any]:
        """Values by the names of parameters and files. Raises BadParameter, TranspileError, OSError.

        most_loaded: numbers that are read; of more the large matrices stay in their files (`open_values`).
        """
        bound = {name: _bound(text) for name, text in _pairs(self.weights, "--weight").items()}
        files = open_values({name: each for name, each in bound.items() if isinstance(each, Path)}, most_loaded)
        return {**bound, **files}

    def weight_files(self) -> dict[str, Path]:
        """The files that values are from. Raises BadParameter."""
        return {name: Path(text) for name, text in _pairs(self.weights, "--weight").items() if Path(text).exists()}

    def others(self) -> dict[str, Any]:
        """The keyword arguments of `export_script` with the same names. Raises BadParameter."""
        return {
            "arguments": _pairs(self.arguments, "--arg"), "dtype": self.dtype, "opset": self.opset,
            "outputs": self.results or None, "functions": self.functions, "iterative": self.iterative,
            "random": self.random,
        }


def _export_options(command: Command) -> Command:
    """The options in `ExportOptions`: the command takes them as ``options``."""
    return with_options(gathered(command, ExportOptions, "options"), [
        click.option("--function", metavar="NAME", help="Export this function [default: the whole script]."),
        click.option("--input", "inputs", multiple=True, metavar="NAME=double[N,784]",
                     help="Type and dims of an input; a name is a symbolic size. Repeatable."),
        click.option("--weight", "weights", multiple=True, metavar="NAME=FILE",
                     help="Bind a parameter, or a file that is read, to a matrix (csv, npy, npz, or SystemDS with its "
                          ".mtd), to a number, to TRUE or FALSE, or to a string in double quotes. Repeatable."),
        click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE",
                     help="Value of the argument $NAME. Repeatable."),
        click.option("--result", "results", multiple=True, metavar="NAME", help="Export only this result. Repeatable."),
        click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True,
                     help="Type of the numbers. With 16 bits, counts and indices stay float32."),
        click.option("--opset", type=int, help=f"The opset of the model [default: {DEFAULT_OPSET}]."),
        click.option("--functions", type=click.Choice(FUNCTIONS), default="inline", show_default=True,
                     help="Inline called functions into the graph, or keep them as functions of the model."),
        click.option("--iterative", is_flag=True,
                     help="Export eigen and svd of small matrices, by a fixed number of rotations."),
        click.option("--random", is_flag=True,
                     help="Export rand(seed=..) of sizes that only the run knows: the model draws its own numbers."),
        plugin_options,
        click.option("-v", "--verbose", is_flag=True, help="List stages with their times."),
        click.option("--traceback", is_flag=True, help="Show the Python traceback of an error."),
    ])


@click.command(cls=OnceCommand)
@click.argument("script", type=FILE)
@click.option("-o", "--output", type=FILE, callback=or_standard_output,
              help="The model to write; - is standard output [default: beside the script].")
@click.option("-q", "--quiet", is_flag=True, help="Do not print what was written.")
@click.option("--map", "map_file", type=FILE, metavar="FILE.json", callback=or_standard_output,
              help="Write from which line of the script each node of the model comes.")
@click.option("--external-data", type=click.IntRange(min=0), metavar="BYTES",
              help="Write weights of at least this size into a file beside the model, <model>.data "
                   "[default: 1024 if the model would be larger than 2 GB].")
@click.option("--list", "listing", is_flag=True,
              help="List the functions (or the one of --function) and arguments of the script; write nothing.")
@_export_options
def export(
    script: Path, output: Path | None, quiet: bool, map_file: Path | None, external_data: int | None, listing: bool,
    options: ExportOptions,
) -> None:
    """Convert SCRIPT.dml to an ONNX model.

    The parameters of the function, or what the script reads, become the inputs of the model unless they are bound.
    """
    notes: list[str] = []
    stages = Stages()
    with explained(options.traceback):
        if listing:
            lines = list_script(_parsed(script, stages), options.function)
            for line in lines:
                say(line)
            if not lines:
                say(f"note: {shown_path(script)} has no functions and no arguments", err=True)
            return
        parsed = _parsed(script, stages)
        target = output or script.with_suffix(".onnx")
        sources = options.sources(script)
        options.load_plugins()
        beside = [] if is_stream(target) else [data_path(target)]
        check_targets([target, *beside, *([] if map_file is None else [map_file])], sources)
        model = export_file(
            parsed, target, options.function, external_data=external_data, inputs=_specs(options.inputs),
            bindings=options.bindings(MOST_LOADED), notes=notes, stages=stages, **options.others(),
            added=lambda model: {} if map_file is None else {map_file: map_text(model_map(model))},
        )
    print_stages(stages, verbose=options.verbose)
    for note in notes:
        say(f"note: {note}", err=True)
    if not quiet:
        say(_success(script, target, model), err=True)


@click.command("verify-script", cls=OnceCommand, short_help="Compare the results of a script and its model.")
@click.argument("script", type=FILE)
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Size of a name in the dims of inputs.")
@verification_options
@_export_options
def verify_script(
    script: Path, dims: tuple[str, ...], verification: VerificationOptions, options: ExportOptions
) -> None:
    """Export SCRIPT.dml or a function of it, run script and model, and compare the results.

    The engine runs an unchanged copy of the script with its files in a temporary folder; onnxruntime runs the model.
    The same as verify SCRIPT.dml. Exit code 1 if the numbers differ.
    """
    from onnx_systemds.verifying import scripts

    sizes = fixed_sizes(dims)
    stages = Stages()
    with explained(options.traceback):
        parsed = _parsed(script, stages)
        options.load_plugins()
        verification.check_page(options.sources(script))
        report = scripts.verify_script(
            parsed, options.function, dims=sizes, specs=_specs(options.inputs),
            bindings=options.bindings(), weight_files=options.weight_files(), stages=stages,
            **verification.arguments(), **options.others(),
        )
        verification.write_page(report, script)
        print_stages(stages, verbose=options.verbose)
    print_report(report, as_json=verification.as_json)


def _parsed(script: Path, stages: Stages) -> tree.Script:
    if script.suffix.lower() == ".onnx":
        raise TranspileError("this is a model", script, "use: onnx-systemds convert MODEL.onnx")
    with stages.stage("parse") as words:
        parsed = parse_file(script)
        words.append(f"{len(parsed.statements)} statements, {len(parsed.functions)} functions")
    return parsed


def _success(script: Path, target: Path, model: onnx.ModelProto) -> str:
    """The line that is printed at the end: files, inputs and outputs with their dims, operators and opset."""
    taken, given = (
        ", ".join(f"{value.name} {_type_text(value.type.tensor_type)}" for value in values)
        for values in (model.graph.input, model.graph.output)
    )
    opset = next(opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx"))
    operators = counted(len(model.graph.node), "operator")
    return f"{shown_path(script)} -> {shown_path(target)}: {taken} -> {given}, {operators} of opset {opset}"


def _type_text(type_: onnx.TypeProto.Tensor) -> str:
    dims = ", ".join(dim.dim_param or str(dim.dim_value) for dim in type_.shape.dim)
    return f"{element_name(type_.elem_type)}[{dims}]"


def _specs(inputs: tuple[str, ...]) -> dict[str, InputSpec]:
    return {name: InputSpec.parse(text) for name, text in _pairs(inputs, "--input").items()}


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=...", param_hint=option)
        if found.setdefault(name, value) != value:
            raise click.BadParameter(f"{name!r} is given twice", param_hint=option)
    return found


def _bound(text: str) -> Any:
    """Return the path of a file or, where there is none, the number, the boolean or the text that DML reads there."""
    if not text or not Path(text).exists():
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
        if text.upper() in ("TRUE", "FALSE"):
            return text.upper() == "TRUE"
        if len(text) > 1 and text[0] == text[-1] == '"':
            return text[1:-1]
        raise TranspileError("it is neither a file nor a number", text, "a text is written in double quotes")
    return Path(text)
