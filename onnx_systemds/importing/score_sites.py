"""What the program that scores files does at federated sites: all inputs there are columns of one matrix, features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from onnx_systemds.engine.matrix_files import list_key
from onnx_systemds.errors import escaped
from onnx_systemds.importing.coded_texts import coded_names, obstacle_to_codes
from onnx_systemds.importing.score_sizes import asked_of_sample
from onnx_systemds.importing.score_variables import MATRICES, TABLE, Program, Variable
from onnx_systemds.inference import dim_text
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dim_equations import solve
from onnx_systemds.inference.dims import Dim
from onnx_systemds.operators.api.reserved_names import WEIGHTS

FEATURES = "features"
_CUT = 'if (time() < 0) { print("never") }  # keeps cbinds apart: one of more than two matrices has no form at sites'


def sizes_at_sites(program: Program) -> dict[str, str]:
    """DML of the sizes other than the batch, by symbol, from the columns of the features."""
    columns = columns_side_by_side(program)
    names = dim.symbols(columns)
    is_read_apart = is_joint(program) and program.has_texts
    text = solve(columns, names[0], f"ncol({FEATURES})", str) if len(names) == 1 and not is_read_apart else None
    return {} if text is None else {names[0]: text}


def columns_side_by_side(program: Program) -> Dim:
    """How many columns all inputs have together."""
    return sum(variable.columns for variable in program.inputs)


def is_joint(program: Program) -> bool:
    """Whether inputs that are files of their own elsewhere are one file at sites."""
    return len(program.inputs) > 1 and not program.is_table


def obstacle_to_sites(program: Program) -> str:
    """Why rows cannot be scored at the federated sites that have them, "" where they can."""
    if not program.in_blocks and program.script.batch is not None:
        return "the program cannot put the results of sites together"
    if not program.in_blocks:
        return program.at_mixing("results may depend on rows of several sites")
    axes = {variable.axis for variable in program.outputs}
    if program.sizes or None in axes or any(variable.axis != 0 for variable in program.inputs):
        return "the model takes or gives more than rows"
    if obstacle := obstacle_to_columns(program):
        return obstacle
    sample_says = asked_of_sample(program, sizes_at_sites(program))
    return f"one sample is asked for {sample_says}" if sample_says else obstacle_to_codes(program.script)


def obstacle_to_columns(program: Program) -> str:
    """Why inputs cannot be taken out of the columns of all side by side, "" where they can."""
    sizes, columns = sizes_at_sites(program), dim.symbols(variable.columns for variable in program.inputs)
    if len(program.inputs) > 1 and (unknown := [escaped(name) for name in columns if name not in sizes]):
        return f"the columns of all inputs side by side do not tell {' and '.join(unknown)}, which --dim fixes"
    return ""


def rows_at_sites(matrix: str) -> str:
    """DML of how many rows the files of a federated matrix have: the engine leaves out those beyond the ranges.

    Each site sends the number of its rows. No sum is more than infinite, NaN isn't, either.
    """
    return f"sum((rowSums({matrix}) > Inf) <= 0)"


def making_features(program: Program) -> Iterator[str]:
    """The statements that put the inputs side by side, texts by their numbers, where they are not read so."""
    yield from matrices(program)
    if not program.has_texts:
        if not is_joint(program):
            yield f"{FEATURES} = {TABLE if program.is_table else program.inputs[0].name}"
    elif len(program.inputs) == 1:
        yield f"{FEATURES} = {_numbers(program, program.inputs[0].name, is_text=True)}"
    else:
        for number, (first, last, is_text) in enumerate(_runs(program)):
            part = _numbers(program, _columns(TABLE, first, last, {}), is_text=is_text)
            if number > 1:
                yield _CUT
            yield f"{'part' if number else FEATURES} = {part}"
            if number:
                yield f"{FEATURES} = cbind({FEATURES}, part)"


def _runs(program: Program) -> Iterator[tuple[Dim, Dim, bool]]:
    """The first and the last column of inputs that are all texts, or all numbers, and which of them."""
    before: Dim = 0
    for is_text, run in groupby(program.inputs, lambda variable: variable.is_text):
        first = before + 1
        for variable in run:
            before += variable.columns
        yield first, before, is_text


def numbers_of(program: Program, variable: Variable) -> str:
    """An input as numbers."""
    return _numbers(program, variable.name, is_text=True) if variable.is_text else variable.name


def _numbers(program: Program, frame: str, *, is_text: bool) -> str:
    """The numbers in a frame, or those of its texts."""
    return f"model::{coded_names(program.script).codes}({frame})" if is_text else f"as.matrix({frame})"


def _columns(matrix: str, first: Dim, last: Dim, sizes: Mapping[str, str]) -> str:
    start, end = (dim_text.factor_text(place, sizes.__getitem__) for place in (first, last))
    return f"{matrix}[, {start if start == end else f'{start}:{end}'}]"


def matrices(program: Program) -> Iterator[str]:
    """The statement that lists the weights without the frame of texts, which would not go to sites."""
    if program.coded.weights == MATRICES:
        constants = program.script.constants
        names = [list_key(weight.name) for weight in program.script.weights if not weight.is_text]
        names += [] if constants is None else constants.names
        items = [f'{name}=as.matrix({WEIGHTS}["{name}"])' for name in names]
        yield f"{MATRICES} = list({', '.join(items) or 'as.matrix(0)'})"


def encodings(program: Program) -> Iterator[str]:
    """The statements that number texts."""
    for variable in program.inputs:
        if variable.is_text:
            yield f"{variable.codes} = {numbers_of(program, variable)}"


def columns_of(matrix: str, program: Program, sizes: Mapping[str, str]) -> Iterator[str]:
    """The statements that take the inputs from the variable that has them side by side, a frame where one is texts."""
    if len(program.inputs) == 1:
        yield f"{program.inputs[0].name} = {matrix}"
        return
    before: Dim = 0
    for variable in program.inputs:
        first, before = before + 1, before + variable.columns
        cells = _columns(matrix, first, before, sizes)
        yield f"{variable.name} = {f'as.matrix({cells})' if program.has_texts and not variable.is_text else cells}"
