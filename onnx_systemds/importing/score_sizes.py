"""The sizes in the program that scores files: how rows and columns of what it reads tell them."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_systemds.importing.block_sizes import BLOCK_ELEMENTS, rows_of_block, rows_of_task
from onnx_systemds.importing.score_variables import Program, Variable
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dim_equations import solve

ASSUMED_SIZE = 128
"""Of an open dim other than that of the samples, where the size of a block is chosen."""


def block_rows(program: Program) -> tuple[int, Variable | None]:
    """The rows of a block, and the input by whose columns they are to be divided, where these are not known."""
    symbols = dim.symbols(size for variable in program.inputs for size in variable.port.dims)
    sizes = dict.fromkeys(symbols, ASSUMED_SIZE)
    for variable in program.inputs:
        if variable.axis == 0 and not isinstance(variable.columns, int):
            elements = program.script.cells_of_sample(sizes)
            columns = dim.substitute(variable.columns, sizes)
            assert isinstance(columns, int)
            return max(1, BLOCK_ELEMENTS * max(1, columns) // elements), variable
    return rows_of_block(program.script, sizes), None


def task_rows(program: Program) -> int:
    """The rows of a block that is scored by a task of Spark."""
    rows, divisor = block_rows(program)
    if divisor is not None:
        columns = dim.substitute(divisor.columns, dict.fromkeys(dim.symbols(divisor.columns), ASSUMED_SIZE))
        assert isinstance(columns, int)
        rows //= max(1, columns)
    return rows_of_task(max(1, rows))


def count_text(program: Program) -> str:
    """The number of samples, or of the rows of the first input that has rows."""
    counts = [variable.count() for variable in program.inputs if variable.axis is not None]
    counts += [f"nrow({variable.name})" for variable in program.inputs if variable.port.dims]
    return counts[0] if counts else "1"


def size_texts(program: Program) -> dict[str, str]:
    """DML of the sizes other than the batch, by symbol, from rows and columns of inputs."""
    found: dict[str, str] = dict(zip(program.script.sizes, program.sizes))
    for variable in program.inputs:
        sides = [] if not variable.port.dims else [("ncol", variable.columns)] if variable.axis == 0 else [
            ("nrow", variable.port.dims[0]), *([("ncol", variable.columns)] if variable.axis is None else [])
        ]
        for side, size in sides:
            unknown = [name for name in dim.symbols(size) if name not in found]
            if len(unknown) == 1:
                text = solve(size, unknown[0], f"{side}({variable.name})", found.__getitem__)
                found |= {} if text is None else {unknown[0]: text}
    return found


def asked_of_sample(program: Program, sizes: Mapping[str, str]) -> str:
    """What the result for one sample is asked for before the blocks are scored; "" where it is known."""
    whole = [each.name for each in program.outputs if each.axis is None]
    symbols = dim.symbols(each.other_size for each in program.outputs if each.axis is not None)
    return " and ".join([*whole, *(["how many columns there are"] if not sizes.keys() >= set(symbols) else [])])
