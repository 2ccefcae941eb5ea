"""Trains a model on arrays: the program of `train_text` on the embedded engine, and what it learnt in the model."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnx_systemds.engine.errors import EngineError
from onnx_systemds.engine.matrix_files import write_matrix
from onnx_systemds.engine.programs import run_program
from onnx_systemds.errors import InvalidModel, quoted_list
from onnx_systemds.exporting.trained_model import trained_model
from onnx_systemds.importing.convert import import_model
from onnx_systemds.importing.interface import weights_argument
from onnx_systemds.importing.optimizers import CONSTANT, DEFAULT, SCHEDULES
from onnx_systemds.importing.script import Script
from onnx_systemds.importing.train_program import Training, file_arguments, program_name, train_text, training_of
from onnx_systemds.importing.trained_results import check_trainable
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.model.load import load_model
from onnx_systemds.runtime.program_inputs import check_whole, tensors_of, write_inputs
from onnx_systemds.runtime.row_blocks import common_rows

Array = np.ndarray[Any, np.dtype[Any]]

_NAME = "model"
_EPOCH = re.compile(r"epoch \d+(:| is the best,) .*")


@dataclass(frozen=True, slots=True)
class Steps:
    """How long and how fast a model is trained.

    rate, weight_decay: None for those of the optimizer. schedule: of the rate over the epochs. clip: the largest norm
    of a gradient, 0 for any. holdout: the part of the samples that judges. patience: so many epochs without a smaller
    loss of these end it, with the weights of the best epoch; 0 for all epochs. Raises ValueError for what none of
    these can be.
    """

    epochs: int = 10
    batch: int = 32
    rate: float | None = None
    seed: int = 1
    holdout: float = 0.0
    patience: int = 0
    schedule: str = CONSTANT
    weight_decay: float | None = None
    clip: float = 0.0

    def __post_init__(self) -> None:
        for name, least in {"epochs": 1, "batch": 1, "seed": 0, "patience": 0}.items():
            check_whole(name, getattr(self, name), least)
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ValueError(f"rate is a number above 0, not {self.rate!r}")
        if not 0 <= self.holdout < 1:
            raise ValueError(f"holdout is a part, from 0 to below 1, not {self.holdout!r}")
        if self.patience and not self.holdout:
            raise ValueError("patience is for samples that are held out: give holdout")
        if self.schedule not in (CONSTANT, *SCHEDULES):
            raise ValueError(f"schedule is one of {quoted_list([CONSTANT, *SCHEDULES])}, not {self.schedule!r}")
        for name, size in (("weight_decay", self.weight_decay), ("clip", self.clip)):
            if size is not None and not 0 <= size < math.inf:
                raise ValueError(f"{name} is a number from 0 on, not {size!r}")

    def arguments(self, samples: int) -> dict[str, str]:
        """Those of the program, for so many samples."""
        left = max(1, samples - int(self.holdout * samples))
        given = {"epochs": str(self.epochs), "batch": str(min(self.batch, left)), "seed": str(self.seed)}
        given |= {"patience": str(self.patience)} if self.patience else {}
        given |= {"schedule": self.schedule} if self.schedule != CONSTANT else {}
        numbers = {"holdout": self.holdout or None, "clip": self.clip or None, "rate": self.rate,
                   "weight_decay": self.weight_decay}
        return given | {name: repr(float(number)) for name, number in numbers.items() if number is not None}


def train_model(  # noqa: PLR0913 - a public entry point: all but the first three go by name
    source: str | Path | bytes | onnx.ModelProto, inputs: Mapping[str, Array], targets: Array | Mapping[str, Array],
    *, loss: str | Sequence[str], optimizer: str = DEFAULT, weights: Sequence[str] = ("weights",),
    epochs: int = 10, batch: int = 32, rate: float | None = None, seed: int = 1, holdout: float = 0.0,
    patience: int = 0, schedule: str = CONSTANT, weight_decay: float | None = None, clip: float = 0.0,
    printed: Callable[[str], None] | None = None, **options: Any,
) -> onnx.ModelProto:
    """The model, trained on samples in SystemDS, on this machine.

    inputs: arrays by ONNX name, a sample in each row. targets: for one loss an array; for several, arrays by the name
    of the result. Class numbers may be [samples] or [samples, 1]. loss: "cross_entropy_loss" ... (``--train`` of the
    command line), or "RESULT=LOSS", several for several results. weights: the names of those that are trained.
    epochs ... clip: see `Steps`. printed: takes a line for each epoch. options: those of `import_model`, as ``fixed``.
    Raises TranspileError, EngineError, ValueError for numbers of steps that there are not.
    """
    steps = Steps(epochs, batch, rate, seed, holdout, patience, schedule, weight_decay, clip)
    model, sizes = load_model(source), options.get("dims") or {}
    training = training_of([loss] if isinstance(loss, str) else loss, optimizer)
    check_trainable(training.losses, model)
    types = common_rows(model, sizes, is_table=True) | (options.pop("types", None) or {})
    script = import_model(model, gradients=weights, types=types, **options)
    proto = source if isinstance(source, onnx.ModelProto) else (
        onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(source))
    return trained_on(proto, script, training, inputs, targets, steps, printed)


def trained_on(
    model: onnx.ModelProto, script: Script, training: Training, inputs: Mapping[str, Any],
    targets: Array | Mapping[str, Array], steps: Steps, printed: Callable[[str], None] | None,
) -> onnx.ModelProto:
    """As `train_model`, for the script that was made of the model, with derivatives by weights."""
    tensors, samples = tensors_of(script.inputs, inputs)
    with tempfile.TemporaryDirectory(prefix="onnx-systemds-", ignore_cleanup_errors=True) as name:
        folder = Path(name).absolute()
        program = folder / program_name(_NAME)
        program.write_text(train_text(script, _NAME, training, f"{folder.as_posix()}/"), encoding="utf-8")
        script.save(folder / f"{_NAME}.dml")
        read, wanted = file_arguments(script, training)
        arguments = write_inputs(folder, read, read, tensors.values())
        for each, target in _target_matrices(wanted, targets, samples).items():
            arguments[each] = str(folder / f"{each}.matrix")
            write_matrix(folder / f"{each}.matrix", np.asarray(target, dtype=np.float64))
        arguments |= steps.arguments(samples) | {
            "format": "binary", "trained": str(folder / "trained"),
            weights_argument(_NAME): str(folder / f"{_NAME}.weights"),
        }
        missing = [name for name, tensor in tensors.items() if tensor.dtype.kind == "f" and np.isnan(tensor).any()]
        try:
            run_program(program, arguments, None if printed is None else _epochs_to(printed))
        except EngineError as error:
            if missing:
                error.hint = f"in {quoted_list(missing)} numbers are missing (NaN)"
            raise
        return trained_model(model, script, folder / "trained")


def _epochs_to(printed: Callable[[str], None]) -> Callable[[str], None]:
    """What takes the lines of the program, and hands those of epochs on."""
    return lambda line: printed(line) if _EPOCH.fullmatch(line) else None


def _target_matrices(
    wanted: Mapping[str, str], targets: Array | Mapping[str, Array], samples: int
) -> dict[str, Array]:
    """The targets by what the program calls them. wanted: for each the ONNX name of its result. Raises InvalidInput."""
    if not isinstance(targets, Mapping):
        if len(wanted) > 1:
            raise InvalidModel(f"there are targets of {quoted_list(wanted.values())}: give them by these names")
        targets = dict.fromkeys(wanted.values(), targets)
    if missing := [name for name in wanted.values() if name not in targets]:
        raise InvalidInput(f"there is no target of {quoted_list(missing)}")
    found = {each: np.asarray(targets[name]) for each, name in wanted.items()}
    for each, name in wanted.items():
        if found[each].dtype.kind not in "biuf":
            raise InvalidInput(f"the target of {quoted_list([name])} is of {found[each].dtype}, no numbers")
        if not found[each].ndim or len(found[each]) != samples:
            raise InvalidInput(f"the target of {quoted_list([name])} has the dims {list(found[each].shape)}, "
                               f"there are {samples} samples")
        if found[each].dtype.kind == "f" and np.isnan(found[each]).any():
            raise InvalidInput(f"in the target of {quoted_list([name])} numbers are missing (NaN)")
    return {each: array.reshape(samples, -1) for each, array in found.items()}
