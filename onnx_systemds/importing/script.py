"""The result of an import: a DML script, its interface, and its weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml import templates
from onnx_systemds.dml.line_breaks import wrapped
from onnx_systemds.dml.literals import string_literal
from onnx_systemds.dml.printer import WIDTH, print_block, print_statement
from onnx_systemds.dml.rewrite import same_objects
from onnx_systemds.engine.matrix_files import Weight, write_list
from onnx_systemds.errors import TranspileError
from onnx_systemds.files import is_stream, new_folder, replacing
from onnx_systemds.importing.batching import Batch, Batching
from onnx_systemds.importing.garbage_collection import rare_garbage_collection
from onnx_systemds.importing.interface import (
    Derivatives,
    Interface,
    Port,
    call_lines,
    derivative_lines,
    interface_lines,
    signature,
    weights_argument,
)
from onnx_systemds.importing.weights_mark import weights_mark, with_mark
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.assumptions import Assumption
from onnx_systemds.inference.notes import Note


@dataclass(frozen=True, slots=True)
class Constants:
    """What a specialised script computes once, of weights and sizes alone, and puts into its list of weights.

    names: in the list; the first ``needed`` are too slow to be computed at each call. statements: those that compute
    them of the list ``weights``, into variables of these names. library: the functions that only they call. bounds:
    names of those on whose size it depends whether the script is precise (see `sample_columns`).
    """

    names: tuple[str, ...]
    statements: tree.Block
    library: tuple[tree.Function, ...] = ()
    needed: int = 0
    bounds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A generated script: its functions as syntax trees, printed on demand.

    function: name of the main function, which is one of ``functions``. Its parameters are ``inputs``, then one integer
    for each of ``sizes`` (symbols that the inputs do not determine), then the list of weights if there are any. Its
    results are ``outputs``, then one integer for each of ``returned`` (symbols that rows and columns of the outputs do
    not determine).
    batching: the batch axis, along which samples can be scored separately. unchecked: assumptions about sizes that
    rows and columns of the inputs cannot confirm. notes: what the passes over the graph did, or why they did not.
    constants: what is computed once, with the weights. written: the statements of each node, by its first output.
    texts: the strings known at conversion, in the order of their codes. general: the script that a specialised one was
    made from. sources: the layers of SystemDS that it calls. derivatives: functions of both passes, if there are any.
    """

    function: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    sizes: tuple[str, ...]
    returned: tuple[str, ...]
    weights: tuple[Weight, ...]
    header: tuple[str, ...]
    library: tuple[tree.Function, ...]
    functions: tuple[tree.Function, ...]
    batching: Batching | None = None
    unchecked: tuple[Assumption, ...] = ()
    notes: tuple[Note, ...] = ()
    constants: Constants | None = None
    written: Mapping[str, tree.Block] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    general: Script | None = None
    sources: tuple[tree.Source, ...] = ()
    derivatives: Derivatives | None = None

    def __repr__(self) -> str:
        """How it is called: an interactive Python shows this, and the trees are thousands of lines."""
        return f"Script({signature(self.interface)})"

    @property
    def unspecialised(self) -> Script:
        """The script that is not specialised: `general`, or this one if it is none itself."""
        return self if self.general is None else self.general

    @property
    def batch(self) -> Batch | None:
        """The batch axis, along which samples can be scored separately; None if there is none."""
        return None if self.batching is None else self.batching.batch

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols in the dims of its inputs."""
        return tuple(dict.fromkeys(name for port in self.inputs for name in dim.symbols(port.dims)))

    def cells_of_sample(self, sizes: Mapping[str, int]) -> int:
        """The number of elements of the largest value for one sample, see `Batching.cells_of_sample`."""
        return 1 if self.batching is None else self.batching.cells_of_sample(sizes)

    @property
    def text(self) -> str:
        """The text of the script in a file that is named like its main function."""
        return self.text_for(self.function)

    @rare_garbage_collection()
    def text_for(self, name: str, folder: str | None = None) -> str:
        """The text of the script in the file ``<name>.dml``.

        folder: of the weights, ``<name>.weights`` by default. The engine resolves paths from its working directory, and
        a function cannot take the path of a read as an argument (docs/decisions/0019). So the path follows from the
        name of the script, and an argument with that name sets another one.
        """
        apart = ("",) if len(self.header) > 1 else ()  # words of the model are not of the call
        functions = [*map(_text, self.functions)]
        folder, argument = f"{name}.weights" if folder is None else folder, weights_argument(name)
        place = f"{folder}{'' if folder.startswith('/') else ' where the engine starts'}"
        weights = f"from {place}, or -nvargs {argument}=<path>"
        header = (*self.header, *apart, *call_lines(self.interface, name), *interface_lines(self.interface, weights))
        if self.derivatives is not None:
            header = (*header, "", *derivative_lines(self.derivatives, self.interface, name))
        if self.weights:
            init = templates.template("init.dml.jinja").render(
                main=self.function,
                name=f"{self.function}_init",
                argument=argument,
                folder=string_literal(_local(folder)),
                count=len(self.weights),
                ends_in_text=self.weights[-1].is_text,
                mark=weights_mark(self.weights),
                refusal="\n".join(wrapped(_refusal(argument), "  ", WIDTH)),
                constants=self.constants,
                computing="" if self.constants is None else print_block(self.constants.statements, "  "),
                adding="" if self.constants is None else "\n".join(_additions(self.constants.names)),
            )
            functions.append(init.rstrip("\n"))
        library = self.library if self.constants is None else self.library + self.constants.library
        return templates.template("script.dml.jinja").render(
            header=header, sources=map(_text, self.sources), library=map(_text, library), functions=functions
        )

    @property
    def interface(self) -> Interface:
        """The parameters and results of the main function."""
        main = self.main
        parameters, results = (tuple(each.name for each in given) for given in (main.parameters, main.results))
        return Interface(
            self.function, parameters, results, self.inputs, self.outputs, self.sizes, self.returned,
            weights=len(self.weights),
        )

    @property
    def main(self) -> tree.Function:
        """The main function."""
        return next(function for function in self.functions if function.name == self.function)

    @property
    def callable_functions(self) -> dict[str, tree.Function]:
        """The functions of the library and of the script, by name."""
        return {function.name: function for function in (*self.library, *self.functions)}

    @property
    def callees(self) -> dict[str, tree.Function]:
        """All functions that a function of the script can call, by name: nobody calls the main one."""
        return {name: function for name, function in self.callable_functions.items() if name != self.function}

    def body_text(self) -> str:
        """The text of the functions, without the one that reads the weights from disk."""
        items: tuple[tree.Item, ...] = (*self.sources, *self.library, *self.functions)
        return "\n".join(map(print_statement, items))

    def save(
        self, path: str | Path, progress: Callable[[int], None] | None = None, *, finds_weights: bool = False
    ) -> None:
        """Write the script, and its weights into ``<stem>.weights`` beside it; all or nothing.

        path: ends in .dml. progress: called with the number of weight bytes written so far. finds_weights: whether the
        script has the absolute path of its weights. By default the engine must be started in the folder of the script,
        or be given the folder of the weights (see `interface.weights_argument`).
        Raises OSError, and TranspileError for another ending, or for weights beside a device or pipe.
        """
        target = Path(path)
        is_file = not is_stream(target)
        if is_file and target.suffix != ".dml":
            raise TranspileError("a script is called *.dml", target)
        if not self.weights:
            with replacing(target) as stream:
                stream.write((self.text_for(target.stem) if is_file else self.text).encode())
            return
        folder = target.with_suffix(".weights")
        if not is_file:
            hint = "use: --weights inline" if self.derivatives is None else "name a file by -o"
            raise TranspileError("weights cannot be written beside a stream", target, hint)
        with replacing(target) as stream:
            fixed = folder.resolve().as_posix() if finds_weights else None
            stream.write(self.text_for(folder.stem, fixed).encode())
            stream.flush()  # the script is whole on the disk before older weights are replaced
            with new_folder(folder):
                write_list(folder, "weights", with_mark(self.weights), progress)


def _text(item: tree.Item) -> str:
    return print_statement(item).rstrip("\n")


def _additions(names: Iterable[str]) -> Iterator[str]:
    """The lines that add variables to the list of weights, under their names."""
    for name in names:
        yield from wrapped(f"weights = rbind(weights, list({name}={name}))", "  ", WIDTH)


def _refusal(argument: str) -> str:
    """The statement that stops the run if the weights belong to another script; most are one line."""
    return f'if (!own) {{ stop(folder + " is of another script; the right one: -nvargs {argument}=<folder>") }}'


def _local(folder: str) -> str:
    """The path of a folder on this machine; a colon in it must not look like a URL."""
    return f"./{folder}" if ":" in folder and not folder.startswith("/") else folder


def with_functions(script: Script, functions: Iterable[tree.Function]) -> Script:
    """The script with other functions; the same object if they are the same. `Script.general` stays."""
    functions = tuple(functions)
    if same_objects(functions, script.functions):
        return script
    return replace(script, functions=functions, general=script.unspecialised)


def with_main(script: Script, main: tree.Function) -> Script:
    """The script with another main function, see `with_functions`."""
    return with_functions(script, (main if it is script.main else it for it in script.functions))
