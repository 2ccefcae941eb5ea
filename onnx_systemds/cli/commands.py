"""The command line: ``onnx-systemds model.onnx -o model.dml`` and back, and the other commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

import onnx_systemds
from onnx_systemds.array_files import named_arrays, read_array_file, write_npz
from onnx_systemds.cli import INTERRUPTED
from onnx_systemds.cli.builtin_table import builtin_lines, builtin_summary
from onnx_systemds.cli.converting import converted, opened, progress, read_model
from onnx_systemds.cli.explain_command import explain
from onnx_systemds.cli.explaining import explained, say
from onnx_systemds.cli.export_command import export, verify_script
from onnx_systemds.cli.facet_table import facet_lines, facet_summary
from onnx_systemds.cli.given import GIVEN_OPTIONS, given_inputs
from onnx_systemds.cli.json_text import json_text
from onnx_systemds.cli.node_map import map_text, script_map
from onnx_systemds.cli.once import OnceCommand
from onnx_systemds.cli.options import (
    FILE,
    ConversionOptions,
    VerificationOptions,
    conversion_options,
    fixed_sizes,
    json_option,
    or_standard_output,
    plugin_options,
    print_report,
    print_stages,
    verification_options,
    with_options,
)
from onnx_systemds.cli.planning import plan_lines, plan_summary
from onnx_systemds.cli.programs import Programs, program_lines
from onnx_systemds.cli.run_script_command import run_script
from onnx_systemds.cli.score_command import score
from onnx_systemds.cli.support_table import support_summary, table_lines
from onnx_systemds.cli.train_command import train
from onnx_systemds.cli.trained_command import trained
from onnx_systemds.errors import TranspileError
from onnx_systemds.exporting.builtins import load_builtins
from onnx_systemds.files import adding, check_target, check_targets, is_stream, replacing
from onnx_systemds.importing.coded_texts import with_coded_texts
from onnx_systemds.importing.convert import typed_model
from onnx_systemds.importing.explain_program import METHODS, SHAPLEY
from onnx_systemds.importing.interface import success_lines
from onnx_systemds.importing.losses import LOSSES
from onnx_systemds.importing.optimizers import DEFAULT, OPTIMIZERS
from onnx_systemds.importing.plan import PLACES, plan_of
from onnx_systemds.importing.train_program import training_of
from onnx_systemds.model.protos import dtype_text
from onnx_systemds.plugins import load_plugins
from onnx_systemds.runtime.row_blocks import common_rows
from onnx_systemds.stages import Stages


class DefaultToConvert(click.Group):
    """A group in which a file in the place of a command means ``convert`` or ``export``."""

    command_class = OnceCommand

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``convert``, or ``export`` for a script, if there is no command; what does the same for scripts.

        Raises UsageError for a misspelt command.
        """
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h", "--version"):
            meant = get_close_matches(args[0], self.commands, 1, cutoff=0.75)
            if meant and not Path(args[0]).exists() and not ctx.resilient_parsing:  # as for completion
                raise click.UsageError(f"there is no command {args[0]}; did you mean {meant[0]}?", ctx)
            args = ["export" if args[0].lower().endswith(".dml") else "convert", *args]
        elif args[:1] == ["verify"] and any(text.lower().endswith(".dml") for text in args[1:]):
            args[0] = "verify-script"
        elif args[:1] == ["run"] and _is_of_program(args[1:]):
            args[0] = "run-script"
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; when it is interrupted, end with the exit code of a shell."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            say("interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the form without a command first."""
        formatter.write_usage(ctx.command_path, "MODEL.onnx [-o SCRIPT.dml] [OPTIONS]")
        formatter.write_usage(ctx.command_path, "SCRIPT.dml [-o MODEL.onnx] [OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...")


def _is_of_program(words: Sequence[str]) -> bool:
    """Whether ``run`` is to run a script: one is named before any model, and no arrays are."""
    files = [word.lower() for word in words if word.lower().endswith((".dml", ".onnx"))]
    return bool(files) and files[0].endswith(".dml") and not any(word.startswith(("--in", "--out")) for word in words)


@click.group(cls=DefaultToConvert, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(onnx_systemds.__version__, prog_name="onnx-systemds")
def main() -> None:
    """Converts ONNX models to DML scripts for Apache SystemDS.

    The script holds a function gen_<graph name> that other DML scripts source and call. A tensor is a matrix with its
    first axis in the rows and all others in the columns. Large weights are stored beside the script, in
    <name>.weights/, and gen_<graph name>_init() loads them once. In the other direction a DML script becomes an ONNX
    model.

    \b
      onnx-systemds model.onnx -o model.dml
      onnx-systemds model.dml --function predict --input 'X=double[N,784]' -o model.onnx
      onnx-systemds verify model.onnx

    Exit codes: 0 success; 1 the model cannot be converted or run (the message lists all reasons), or verify found a
    difference; 2 wrong usage.
    """


@main.command()
@click.argument("model", type=FILE)
@click.option("-o", "--output", type=FILE, callback=or_standard_output,
              help="The script to write; - is standard output [default: beside the model].")
@click.option("-q", "--quiet", is_flag=True, help="Do not print what was written.")
@click.option("--score", "scored", is_flag=True, help="Also write <name>_score.dml, a program that scores files.")
@click.option("--map", "map_file", type=FILE, metavar="FILE.json", callback=or_standard_output,
              help="Write which lines of the script belong to each node of the model.")
@click.option("--gradient", "gradients", multiple=True, metavar="NAME",
              help="Also write functions of the forward and the backward pass, with derivatives by this weight or "
                   "input; \"weights\" and \"inputs\" are all of them. Repeatable.")
@click.option("--fixed", "fixed", multiple=True, metavar="NAME",
              help="Leave this weight as it is: it is neither trained nor one of the \"weights\". Repeatable.")
@click.option("--train", "losses", multiple=True, metavar="[RESULT=]LOSS",
              help=f"Also write <name>_train.dml, a program that trains the model. LOSS is {' or '.join(LOSSES)}. "
                   "Repeatable, for several results. All weights are trained unless --gradient names some.")
@click.option("--optimizer", type=click.Choice([*OPTIMIZERS]),
              help=f"Optimizer of the training program  [default: {DEFAULT}].")
@click.option("--explain", "explains", is_flag=True,
              help="Also write <name>_explain.dml, a program that says what features contribute to answers.")
@click.option("--result", metavar="NAME",
              help="The result that --explain explains  [default: the only one of real numbers].")
@click.option("--method", type=click.Choice(METHODS),
              help=f"How --explain explains: by Shapley values, or integrated gradients  [default: {SHAPLEY}].")
@conversion_options
def convert(  # noqa: PLR0913 - one parameter an option
    model: Path, output: Path | None, quiet: bool, scored: bool, map_file: Path | None, gradients: tuple[str, ...],
    fixed: tuple[str, ...], losses: tuple[str, ...], optimizer: str | None, explains: bool, result: str | None,
    method: str | None, options: ConversionOptions,
) -> None:
    """Convert MODEL.onnx to a DML script (the default command)."""
    sizes = options.sizes()
    with opened(model, options) as (loaded, stages, sources):
        target = output or model.with_suffix(".dml")
        if optimizer is not None and not losses:
            raise TranspileError("--optimizer is of the program that --train writes")
        if fixed and not (gradients or losses):
            raise TranspileError("--fixed is of weights that --gradient or --train would derive by")
        if (result is not None or method is not None) and not explains:
            option = "--method" if result is None else "--result"
            raise TranspileError(f"{option} is of the program that --explain writes")
        training = training_of(losses, optimizer or DEFAULT) if losses else None
        programs = Programs(scored, training, (result or "") if explains else None, method or SHAPLEY)
        files = programs.paths(target)
        targets = [path for path in (target, *files.values(), map_file) if path is not None]
        check_targets(targets, sources)
        derived = programs.gradients(gradients, loaded)
        script = programs.script(
            partial(converted, loaded, sizes, options, stages=stages, gradients=derived, fixed=fixed), loaded, sizes)
        script = with_coded_texts(script) if scored or explains else script
        beside = programs.texts(script, target.stem, files)
        if map_file is not None:
            beside[map_file] = map_text(script_map(script, target.stem))
        total = sum(weight.array.size * 8 for weight in script.weights)
        with progress("writing weights", total) as advance_to, stages.stage("save") as words, adding(beside):
            script.save(target, advance_to)
            words.append(f"{total} bytes of weights beside it" if total else "no weights beside it")
    if not quiet:
        derivatives = None if programs.training is not None else script.derivatives  # the program calls them
        for line in (*success_lines(script.interface, model, target, derivatives), *program_lines(files)):
            say(line, err=True)


@main.command(short_help="Run MODEL.onnx on the embedded SystemDS.")
@click.argument("model", type=FILE)
@click.option("--inputs", type=FILE, help="An .npz file with one array per model input; a .npy file for a single one.")
@click.option("--outputs", type=FILE, required=True, help="The .npz file to write.")
@conversion_options
def run(model: Path, inputs: Path | None, outputs: Path, options: ConversionOptions) -> None:
    """Convert MODEL.onnx and run it on the embedded SystemDS engine.

    The items of a sequence are the arrays NAME/0, NAME/1 ... of the .npz files; an optional is NAME/0, or absent if
    empty. An input map is NAME/keys and NAME/values. Output maps are NAME/KEY, the values for each key.
    """
    from onnx_systemds.runtime.list_transfer import flat_results, nested_inputs
    from onnx_systemds.runtime.scoring import ScoringFunction

    sizes = options.sizes()
    with opened(model, options) as (loaded, stages, sources):
        content = read_array_file(inputs) if inputs else {}
        check_target(outputs, [*sources, *([inputs] if inputs else [])])
        if outputs.suffix.lower() != ".npz" and not is_stream(outputs):
            raise TranspileError("results are an .npz file", outputs, "score writes .csv and .parquet files")
        script = converted(loaded, sizes, options, stages=stages)
        tensors = named_arrays(content, [port.name for port in script.inputs], inputs) if inputs else {}
        with stages.stage("compile"):
            function = ScoringFunction(script)
        with function, stages.stage("run"):
            results = flat_results(function(nested_inputs(script.inputs, tensors)))
        _write_tensors(outputs, results)
    for name, tensor in results.items():
        say(f"{name}: {dtype_text(tensor)} {list(tensor.shape)}", err=is_stream(outputs))


@main.command(short_help="Compare the results of the engine and onnxruntime.")
@click.argument("model", type=FILE)
@click.option("--per-node", is_flag=True, help="Also compare intermediate values; show the first node that differs.")
@verification_options
@conversion_options
def verify(model: Path, per_node: bool, verification: VerificationOptions, options: ConversionOptions) -> None:
    """Run the script on the engine and MODEL.onnx on onnxruntime, and compare the results.

    If onnxruntime is not installed or refuses the model, ONNX's reference implementation runs it. Symbolic dims get
    small sizes, or larger ones that the model takes; --dim sets others. Exit code 1 if the numbers differ. For a
    script see verify-script.
    """
    from onnx_systemds.verifying.verify import verify_model

    sizes, given = options.sizes(), options.given()
    with explained(options.traceback):
        options.load_plugins()
        stages = Stages()
        loaded = read_model(model, None, stages)
        verification.check_page([model, *loaded.data_files, *options.plugins, *given.files])
        types, constants = given.read_for(loaded)
        report = verify_model(
            loaded, dims=sizes, starts=given.starts, ends=given.ends, types=types, constants=constants,
            per_node=per_node, stages=stages, **options.arguments(), **verification.arguments(),
        )
        verification.write_page(report, model)
        print_stages(stages, verbose=options.verbose)
    print_report(report, as_json=verification.as_json)


@main.command(short_help="Show the contents of MODEL.onnx.")
@click.argument("model", type=FILE)
@click.option("--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Fix a symbolic dimension; repeatable.")
@partial(with_options, options=GIVEN_OPTIONS)
@plugin_options
@click.option("--plan", type=click.Choice(PLACES),
              help="Instead show where the program of --score would compute each operator; --dim gives the number of "
                   "rows.")
@click.option("--graph", "picture", type=FILE, metavar="FILE",
              help="Write the graph with all inferred types to a .txt, .svg or .html file.")
@json_option
@click.option("--traceback", is_flag=True, help="Show the Python traceback of an error.")
def inspect(  # noqa: PLR0913 - one parameter an option
    model: Path, dims: tuple[str, ...], starts: tuple[str, ...], ends: tuple[str, ...], types: tuple[str, ...],
    constants: tuple[str, ...], plugins: tuple[Path, ...], no_plugins: bool, plan: str | None, picture: Path | None,
    as_json: bool, traceback: bool,
) -> None:
    """Show the contents of MODEL.onnx, and all reasons why it cannot be converted.

    Exit code 0 for every model that can be read; with --plan, for every model that can be converted and scored.
    """
    from onnx_systemds.cli.graph_picture import graph_file
    from onnx_systemds.cli.inspecting import inspect_model

    sizes, given = fixed_sizes(dims), given_inputs(types, constants, starts, ends)
    with explained(traceback):
        load_plugins(plugins, installed=not no_plugins)
        loaded, typed = read_model(model, given, Stages()), None
        if picture is not None:
            check_target(picture, [model, *loaded.data_files, *plugins, *given.files])
            typed = typed_model(loaded, sizes)
            content = graph_file(typed.graph, picture, model.name)
            with replacing(picture) as stream:
                stream.write(content.encode())
        if plan is None:
            found = inspect_model(loaded, sizes, typed)
            lines = [json_text(found.summary())] if as_json else found.lines()
        else:
            scored = plan_of(loaded, sizes, common_rows(loaded, sizes), plan)
            lines = [json_text(plan_summary(scored))] if as_json else plan_lines(scored)
    for line in lines:
        say(line)


@main.command(short_help="List the operators that are supported.")
@click.option("--facets", is_flag=True, help="Show the facets of each operator, and the gaps.")
@plugin_options
@json_option
def operators(facets: bool, plugins: tuple[Path, ...], no_plugins: bool, as_json: bool) -> None:
    """Print which operators are supported, and from which opset version on."""
    with explained(traceback=False):
        load_plugins(plugins, installed=not no_plugins)
    if as_json:
        say(json_text(facet_summary() if facets else support_summary()))
        return
    for line in facet_lines() if facets else table_lines():
        say(line)


@main.command(short_help="List the builtins of DML that are exported.")
@plugin_options
@json_option
def builtins(plugins: tuple[Path, ...], no_plugins: bool, as_json: bool) -> None:
    """Print which builtins of DML are exported, and why others are refused."""
    with explained(traceback=False):
        load_builtins()
        load_plugins(plugins, installed=not no_plugins)
    for line in [json_text(builtin_summary())] if as_json else builtin_lines():
        say(line)


def _write_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    with replacing(path) as stream:
        write_npz(stream, {name: partial(np.lib.format.write_array, array=tensor) for name, tensor in tensors.items()})


main.add_command(export)
main.add_command(verify_script)
main.add_command(run_script)
main.add_command(score)
main.add_command(explain)
main.add_command(train)
main.add_command(trained)
