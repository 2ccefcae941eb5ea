"""The variables of the programs that score files or train, and where samples lie in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from onnx_systemds.dml.names import Names
from onnx_systemds.importing.batching import Batch
from onnx_systemds.importing.interface import Port
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dim_text
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.dims import Dim
from onnx_systemds.operators.api.reserved_names import TEXTS, WEIGHTS

TABLE = "table"
"""The argument for the file whose columns are the inputs."""
MATRICES = "matrices"
"""The list of weights without the frame of texts."""
NARROW = 32
"""Columns of a result that Spark tasks put into lines of a block each. Of fewer columns in lines of their own the
engine makes a dense matrix of all rows, and a sparse one again, for each block that a task puts there."""
_MADE_OF_NAMES = ("_block", "_lines", "_part")
_VARIABLES = ("model", "format", "header", "to", "pull", "rows", "place", "started", "n", "first", "last", "blocks",
              "i", "features", "labels", "hyperparams", "gradients", "numbers", "span", "rows_of_block", "arrived",
              "at_sites", "nothing", "scored", "joined", "part", "task_rows", MATRICES, TABLE, f"{TABLE}_file", TEXTS,
              WEIGHTS)


@dataclass(frozen=True, slots=True)
class Variable:
    """An input or output of the model in the program, and the axis that has the samples.

    codes: of texts the variable that has their numbers.
    """

    name: str
    port: Port
    axis: int | None
    codes: str = ""

    @property
    def is_text(self) -> bool:
        """Whether it is texts."""
        return self.port.dtype == "string"

    @property
    def coded(self) -> Variable:
        """The numbers of texts; what is numbers itself."""
        return replace(self, name=self.codes, port=replace(self.port, dtype="int64")) if self.is_text else self

    @property
    def columns(self) -> Dim:
        """Of its matrix or frame."""
        return dim.product(self.port.dims[1:])

    @property
    def width(self) -> int:
        """How many columns a sample has, if samples lie in the columns."""
        width = dim.product(self.port.dims[2:])
        assert isinstance(width, int)
        return width

    def count(self) -> str:
        """The number of its samples."""
        if self.axis == 0:
            return f"nrow({self.name})"
        return f"ncol({self.name})" if self.width == 1 else f"ncol({self.name}) / {self.width}"

    def part(self, first: str, last: str) -> str:
        """The samples from one to another one."""
        if self.axis is None:
            return self.name
        if self.axis == 0:
            return f"{self.name}[{first}:{last}, ]"
        start = f"({first} - 1) * {self.width} + 1" if self.width > 1 else first
        end = f"{last} * {self.width}" if self.width > 1 else last
        return f"{self.name}[, {start}:{end}]"

    @property
    def lines(self) -> int:
        """How many columns it has where tasks put a block into a line, else 0."""
        return self.columns if self.axis == 0 and isinstance(self.columns, int) and self.columns < NARROW else 0

    @property
    def other_size(self) -> Dim:
        """Of its matrix or frame, beside that which the samples make."""
        return self.columns if self.axis == 0 else self.port.dims[0]

    def empty(self, size_texts: Mapping[str, str]) -> str:
        """What has its rows and columns. size_texts: how sizes follow from the inputs."""
        if size_texts.keys() >= set(dim.symbols(self.other_size)):
            other = dim_text.text(self.other_size, size_texts.__getitem__)
        else:  # of the result for one sample
            other = f"{'ncol' if self.axis == 0 else 'nrow'}({self.name}_block)"
        rows, cols = ("n", other) if self.axis == 0 else (other, f"n * {self.width}")
        if not self.is_text:
            return f"matrix(0, rows={rows}, cols={cols})"
        kinds = ", ".join(['"STRING"'] * int(other))
        return f'frame("", rows={rows}, cols={cols}, schema=[{kinds}])'


@dataclass(frozen=True, slots=True)
class Program:
    """The variables of a program. sizes, returned: those of the script, as they are called here.

    files: for the paths of the inputs, where the program may do without them. is_coded: its texts are numbers.
    """

    script: Script
    inputs: tuple[Variable, ...]
    sizes: tuple[str, ...]
    outputs: tuple[Variable, ...]
    returned: tuple[str, ...]
    files: tuple[str, ...]
    is_coded: bool = False

    @property
    def in_blocks(self) -> bool:
        """Whether samples can be scored in blocks."""
        return any(variable.axis is not None for variable in self.inputs)

    @property
    def one_call(self) -> str:
        """Why one call has all rows, "" where they are scored in blocks."""
        if self.in_blocks:
            return ""
        if self.script.batch is not None:
            return "one call has all rows: the program cannot put the results of blocks together"
        return self.at_mixing("one call has all rows, which may depend on each other")

    def at_mixing(self, reason: str) -> str:
        """The reason and the node that mixes samples."""
        batching = self.script.batching
        mixing = "" if batching is None else batching.mixing
        return f"{reason}: {mixing}" if mixing else reason

    @property
    def has_texts(self) -> bool:
        """Whether inputs are texts."""
        return any(variable.is_text for variable in self.inputs)

    @property
    def weights(self) -> str:
        """The list of weights that calls have as their last argument, "" if there are none."""
        if not self.script.weights:
            return ""
        return MATRICES if self.is_coded and any(weight.is_text for weight in self.script.weights) else WEIGHTS

    @property
    def coded(self) -> Program:
        """The program with the numbers of texts; itself where there are none."""
        if not any(variable.is_text for variable in (*self.inputs, *self.outputs)):
            return self
        inputs, outputs = (tuple(each.coded for each in side) for side in (self.inputs, self.outputs))
        return replace(self, inputs=inputs, outputs=outputs, is_coded=True)

    @property
    def files_read(self) -> tuple[str, ...]:
        """The arguments for the files of the inputs, one for each or `TABLE` alone."""
        return (TABLE,) if self.is_table else tuple(variable.name for variable in self.inputs)

    @property
    def is_table(self) -> bool:
        """Whether the inputs are columns of one file."""
        return len(self.inputs) > 1 and all(
            variable.axis == 0 and len(variable.port.dims) <= 2 and variable.columns == 1 for variable in self.inputs
        )


def program_of(script: Script, taken: Iterable[str] = ()) -> Program:
    """The variables of the program for a script. taken: names that they do not have, as those of one that scores."""
    names, given, made = Names((*_VARIABLES, *taken)), len(script.inputs), len(script.outputs)
    parameters = [names.fresh(_apart(each.name)) for each in script.main.parameters if each.name != WEIGHTS]
    results = [names.fresh(_apart(result.name)) for result in script.main.results]
    ports = zip((*parameters[:given], *results[:made]), (*script.inputs, *script.outputs))
    codes = [names.fresh(f"{name}_codes") if port.dtype == "string" else "" for name, port in ports]
    batch = script.batch
    input_axes = batch.inputs if batch is not None else (None,) * given
    output_axes = batch.outputs if batch is not None else (None,) * made
    program = Program(
        script,
        tuple(map(Variable, parameters, script.inputs, input_axes, codes)), tuple(parameters[given:]),
        tuple(map(Variable, results, script.outputs, output_axes, codes[given:])), tuple(results[made:]),
        tuple(names.fresh(f"{name}_file") for name in parameters[:given]),
    )
    are_cut = all(map(_is_cut, (*program.inputs, *program.outputs)))
    if are_cut and not script.returned and all(_is_one_each(each, batch) for each in program.outputs):
        return program
    inputs, outputs = (tuple(replace(each, axis=None) for each in side) for side in (program.inputs, program.outputs))
    return replace(program, inputs=inputs, outputs=outputs)


def _apart(name: str) -> str:
    """A name that is none of those that the program makes of other ones."""
    return f"{name}s" if name.endswith(_MADE_OF_NAMES) else name


def _is_one_each(variable: Variable, batch: Batch | None) -> bool:
    """Whether each sample has one row, or the columns of one, in an output."""
    return batch is None or variable.axis is None or dim.symbol(batch.symbol) == variable.port.dims[variable.axis]


def _is_cut(variable: Variable) -> bool:
    """Whether the samples are rows, or columns side by side, or there are none."""
    port, axis = variable.port, variable.axis
    if axis == 0:
        return not variable.is_text or isinstance(variable.columns, int)
    return axis is None or (axis == 1 and not variable.is_text and isinstance(dim.product(port.dims[2:]), int))
