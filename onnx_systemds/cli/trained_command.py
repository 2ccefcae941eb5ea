"""``onnx-systemds trained``: a model with the weights that a program trained in SystemDS."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from onnx_systemds.cli.converting import converted, opened
from onnx_systemds.cli.explaining import say
from onnx_systemds.cli.once import OnceCommand
from onnx_systemds.cli.options import FILE, ConversionOptions, conversion_options, or_standard_output
from onnx_systemds.errors import counted, shown_path
from onnx_systemds.files import check_targets


@click.command(cls=OnceCommand, short_help="Put trained weights into MODEL.onnx.")
@click.argument("model", type=FILE)
@click.argument("folder", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, callback=or_standard_output,
              help="The model to write; - is standard output.")
@click.option("--gradient", "gradients", multiple=True, metavar="NAME",
              help="As at the conversion; all weights by default. Repeatable.")
@click.option("--fixed", "fixed", multiple=True, metavar="NAME",
              help="As at the conversion. Repeatable.")
@conversion_options
def trained(
    model: Path, folder: Path, output: Path, gradients: tuple[str, ...], fixed: tuple[str, ...],
    options: ConversionOptions,
) -> None:
    """Write MODEL.onnx with the weights in FOLDER, which a program of --train wrote, or one of your own.

    The model is the same but for the numbers of its initializers. Other options are those of the conversion whose
    script the program called: the list of weights says whether they are.
    """
    from onnx_systemds.exporting.trained_model import files_of, is_of_script, save_trained, trained_model
    from onnx_systemds.runtime.row_blocks import common_rows

    sizes = options.sizes()
    with opened(model, options) as (loaded, stages, sources):
        targets = files_of(output, is_external=bool(loaded.data_files))
        check_targets(targets, sources)
        conversion = partial(
            converted, loaded, sizes, options, stages=stages, gradients=gradients or ("weights",), fixed=fixed)
        script = conversion({})
        if not is_of_script(folder, script):  # --train has rows in common
            script = conversion(common_rows(loaded, sizes, is_table=True))
        changed = trained_model(model, script, folder)
        save_trained(changed, output, is_external=bool(loaded.data_files))
    assert script.derivatives is not None
    count, moved = len(script.derivatives.weights), len(script.derivatives.statistics)
    words = counted(count, "weight") + (f" and {counted(moved, 'statistic')}" if moved else "")
    say(f"{shown_path(model)} -> {shown_path(output)}: {words} of {shown_path(folder)}", err=True)
