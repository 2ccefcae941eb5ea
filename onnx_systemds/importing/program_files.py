"""What the programs beside a script have in common: how they are started, what they say, and who wrote them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from onnx_systemds.dml.literals import literal, string_literal
from onnx_systemds.errors import TranspileError, escaped
from onnx_systemds.importing.comments import comment_lines
from onnx_systemds.importing.interface import Port, key_words
from onnx_systemds.importing.score_sites import columns_of, is_joint
from onnx_systemds.importing.score_variables import TABLE, Program, Variable
from onnx_systemds.inference.integer_spans import LIMIT
from onnx_systemds.inference.values import FINITE_DTYPES, dims_words
from onnx_systemds.inference.wide_integers import TYPES
from onnx_systemds.model.protos import integer_range

UNQUOTED = "unquoted"
"""The function of programs that takes the quotes from texts."""
_ENGINE = 'java --add-modules=jdk.incubator.vector -cp "SystemDS.jar:lib/*" org.apache.sysds.api.DMLScript'
FORMAT = ("further arguments:",
          "  format=csv     of the files that are read; header=TRUE where a csv file begins with names")
"""The first lines about further arguments."""


def start_lines(path: str, arguments: Sequence[str], program: Program) -> Iterator[str]:
    """The command that starts the program of a file in its folder, and what it reads for the inputs of the model."""
    yield f"  {_ENGINE} \\"
    yield f"    -f {escaped(shlex.quote(path))} -exec singlenode -nvargs {' '.join(arguments)}"
    if program.is_table:
        yield f"reads table, whose columns are {', '.join(variable.name for variable in program.inputs)}"
    for variable in program.inputs:
        yield from comment_lines(f"reads {variable.name}{described(variable)}")


def site_table_lines(program: Program) -> Iterator[str]:
    """The argument that is the input at federated sites, where several inputs are the columns of one matrix there."""
    if is_joint(program):
        names = ", ".join(variable.name for variable in program.inputs)
        yield f"  table=<file>   read at sites: the columns of {names} side by side"


def described(variable: Variable) -> str:
    """What follows the name of a variable in a comment."""
    port = variable.port
    name = "" if port.name == variable.name else f" ({escaped(port.name)})"
    return f"{name}: {port.dtype} {dims_words(port.dims)}{key_words(port)}"


def readings(program: Program, paths: Iterable[str], table: str = TABLE) -> Iterator[str]:
    """The statements that read the inputs from paths, one for each or for all of them, the columns of ``table``."""
    if program.is_table:
        (path,) = paths
        yield f"{table} = read({path}, {reading(is_frame=program.has_texts)})"
        yield from columns_of(table, program, {})
    for variable, path in () if program.is_table else zip(program.inputs, paths):
        text = f"read({path}, {reading(is_frame=variable.is_text)})" if variable.port.dims else path
        yield f"{variable.name} = {text}"
    yield from _unquoting(program)


def integer_checks(program: Program, named: str) -> Iterator[str]:
    """The statements that stop where an input has numbers that its element type does not have, as 0.5 or NaN.

    They count such numbers: of federated rows nothing else is told. named: how messages begin, in a literal.
    """
    for variable in program.inputs:
        if outside := _outside(variable):
            yield f"if ({outside}) {{"
            beyond = ", or beyond 2^53, where FP64 rounds" if variable.port.dtype in TYPES else ""
            yield f'  stop("{named}{variable.name} has numbers that are no {variable.port.dtype}{beyond}")'
            yield "}"


def _outside(variable: Variable) -> str:
    """DML of whether an input has numbers that its element type does not have; "" where it has all."""
    name, port = variable.name, variable.port
    if port.dtype not in FINITE_DTYPES:
        return ""
    low, high = integer_range(port.dtype)  # in FP64 the largest of 64 bits are 2^63 and 2^64
    if (largest := _largest(port)) is not None:
        low, high = max(low, -largest), min(high, largest)
    outside = (f"{name} != floor({name})", f"{name} < {literal(low)}", f"{name} > {literal(high)}")
    return f"{' + '.join(f'sum({each})' for each in outside)} > 0" if port.dims else " | ".join(outside)


def _largest(port: Port) -> int | None:
    """The magnitude up to which integers of an input are taken; None: all of its type.

    Of 64 bits a file may hold numbers that FP64 does not: the engine has rounded them before a program sees them, those
    next to 2^53 to 2^53. An id that is only compared would be another one.
    """
    if port.dtype not in TYPES:
        return port.largest
    return LIMIT - 1 if port.largest is None else min(port.largest, LIMIT - 1)


def reading(*, is_frame: bool = False) -> str:
    """The arguments of ``read`` after the path: of a csv file, too, in which cells without a number are NaN, not 0.

    So are those that C and Python write for NaN, of which the engine knows only "NaN".
    """
    found = "format=format, header=header"
    return f'data_type="frame", {found}' if is_frame else f'{found}, default=NaN, naStrings=["nan", "-nan", "NAN"]'


def paths_read(program: Program, *, by_variables: bool = False) -> list[str]:
    """The paths of the inputs: the arguments, or variables that have them."""
    return [*program.files] if by_variables else [f"${file}" for file in program.files_read]


def _unquoting(program: Program) -> Iterator[str]:
    """The statements that take quotes from the texts of csv files, which the engine leaves on them."""
    texts = [variable.name for variable in program.inputs if variable.is_text and variable.port.dims]
    if texts:
        yield 'if (format == "csv") {'
        yield from (f"  {name} = {UNQUOTED}({name})" for name in texts)
        yield "}"


def in_literal(text: str) -> str:
    """A text as it stands between the quotes of a literal, "?" for what cannot stand there."""
    return string_literal(text, replacement="?")[1:-1]


def check_program(path: Path, first: str, option: str) -> None:
    """Raise TranspileError where ``path`` is a program that somebody wrote. first: how those of the option begin."""
    if path.is_file() and not path.read_bytes().startswith(first.encode()):
        raise TranspileError(f"it is there, and {option} did not write it", path, "move it, or give another name by -o")
