"""The programs that are written beside a script: one that scores files, one that trains, one that explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx_systemds.errors import TranspileError
from onnx_systemds.files import is_stream
from onnx_systemds.importing import explain_program, score_program, train_program
from onnx_systemds.importing.explain_program import EXPLAINS, GRADIENTS, SHAPLEY, explain_text
from onnx_systemds.importing.explained_slopes import DERIVED_BY
from onnx_systemds.importing.program_files import check_program
from onnx_systemds.importing.score_program import SCORES, score_text
from onnx_systemds.importing.script import Script
from onnx_systemds.importing.train_program import TRAINS, Training, train_text
from onnx_systemds.importing.trained_results import check_trainable
from onnx_systemds.model.ir import Model, Type
from onnx_systemds.runtime.row_blocks import common_rows, script_for_rows

_FIRST = {"--score": SCORES, "--train": TRAINS, "--explain": EXPLAINS}
"""How the programs of an option begin."""


@dataclass(frozen=True, slots=True)
class Programs:
    """What is asked for. scores: a program that scores files. training: what another one does, if there is one.

    explains: the result that a third one explains, "" for the only one; None without it. method: of explaining.
    """

    scores: bool
    training: Training | None
    explains: str | None
    method: str = SHAPLEY

    def paths(self, target: Path) -> dict[str, Path]:
        """Their files beside the script, by option. Raises TranspileError where it is a stream, or they are no such."""
        found = {}
        if self.scores:
            found["--score"] = target.with_name(score_program.program_name(target.stem))
        if self.training is not None:
            found["--train"] = target.with_name(train_program.program_name(target.stem))
        if self.explains is not None:
            found["--explain"] = target.with_name(explain_program.program_name(target.stem))
        for option, path in found.items():
            if is_stream(target):
                raise TranspileError(f"{option} writes no program beside a stream", target, "name a file by -o")
            check_program(path, _FIRST[option], option)
        return found

    def gradients(self, named: tuple[str, ...], model: Model) -> tuple[str, ...]:
        """What is derived by, if these names are given. Raises TranspileError where a loss does not fit the model."""
        if self.explains is not None and self.method == GRADIENTS:
            if self.training is not None or named not in ((), DERIVED_BY):
                raise TranspileError("integrated gradients are by all inputs alone: convert once more for others")
            return DERIVED_BY
        if self.training is None:
            return named
        check_trainable(self.training.losses, model)
        return named or ("weights",)

    def script(
        self, convert: Callable[[Mapping[str, Type]], Script], model: Model, sizes: Mapping[str, int]
    ) -> Script:
        """The script that they call, by what makes it for types of inputs. Raises TranspileError."""
        if self.training is not None or self.explains is not None:
            return convert(common_rows(model, sizes, is_table=True))
        return script_for_rows(convert, common_rows(model, sizes)) if self.scores else convert({})

    def texts(self, script: Script, name: str, paths: Mapping[str, Path]) -> dict[Path, str]:
        """Their texts by path, for the script in ``<name>.dml``. paths: `Programs.paths`. Raises UnsupportedCase."""
        found = {}
        if self.scores:
            found[paths["--score"]] = score_text(script, name)
        if self.training is not None:
            found[paths["--train"]] = train_text(script, name, self.training)
        if self.explains is not None:
            found[paths["--explain"]] = explain_text(script, name, self.explains, self.method)
        return found


def program_lines(paths: Mapping[str, Path]) -> Iterator[str]:
    """What is printed of them at the end."""
    does = {"--score": "scores files with it", "--train": "trains it", "--explain": "explains its answers"}
    for option, path in paths.items():
        yield f"  {path.name} {does[option]}; its first lines say how"
