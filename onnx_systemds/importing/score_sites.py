"""What the program that scores files does at federated sites: all inputs there are columns of one matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx_systemds.errors import escaped
from onnx_systemds.importing.score_sizes import size_texts, told_by_sample
from onnx_systemds.importing.score_variables import TABLE, Program
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim

IN_ONE_PLACE = "the engine computes with texts in one place only"


def source_of_sites(program: Program) -> str:
    """The variable of the matrix whose rows lie at sites: the only input, or all of them side by side."""
    return TABLE if len(program.inputs) > 1 else program.inputs[0].name if program.inputs else ""


def sizes_at_sites(program: Program) -> dict[str, str]:
    """How the sizes that are no number of samples are told from the columns of that matrix."""
    if len(program.inputs) <= 1:
        return size_texts(program)
    columns = columns_side_by_side(program)
    names = dim.symbols(columns)
    text = dim.solve(columns, names[0], f"ncol({TABLE})", str) if len(names) == 1 else None
    return {} if text is None else {names[0]: text}


def columns_side_by_side(program: Program) -> Dim:
    """How many columns all inputs have together."""
    columns: Dim = 0
    for variable in program.inputs:
        columns = dim.add(columns, variable.columns)
    return columns


def obstacle_to_sites(program: Program) -> str:
    """Why rows cannot be scored at the federated sites that have them, "" where they can."""
    if not program.in_blocks:
        return program.at_mixing("results may depend on rows of several sites")
    if program.has_texts:
        return program.at_text(IN_ONE_PLACE)
    axes = {variable.axis for variable in program.outputs}
    if program.sizes or None in axes or any(variable.axis != 0 for variable in program.inputs):
        return "the model takes or gives more than rows"
    sizes = sizes_at_sites(program)
    if len(program.inputs) > 1:
        columns = dim.symbols(variable.columns for variable in program.inputs)
        unknown = " and ".join(escaped(name) for name in columns if name not in sizes)
        if unknown:
            return f"the columns of all inputs side by side do not tell {unknown}, which --dim fixes"
    sample_says = told_by_sample(program, sizes)
    return f"one sample is asked for {sample_says}" if sample_says else ""


def columns_of_table(program: Program, sizes: Mapping[str, str]) -> Iterator[str]:
    """The statements that take the inputs from the table whose columns are theirs."""
    is_frame = any(variable.port.dtype == "string" for variable in program.inputs)
    before: Dim = 0
    for variable in program.inputs:
        first, before = dim.add(before, 1), dim.add(before, variable.columns)
        start, end = (dim.factor_text(place, sizes.__getitem__) for place in (first, before))
        cells = f"{TABLE}[, {start if start == end else f'{start}:{end}'}]"
        yield f"{variable.name} = {f'as.matrix({cells})' if is_frame and variable.port.dtype != 'string' else cells}"
