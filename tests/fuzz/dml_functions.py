"""Random DML functions: what the engine makes of one must be what onnxruntime makes of its model.

A function has one to three matrices and maybe a scalar as inputs, and a dozen statements. Shapes are kept in mind while
it is drawn, so that most of them run; those on which the engine itself ends in an error are no cases. Half of the
models have open sizes and run with two sizes. A refusal with its place in the script is right, any other error is not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime

from onnx_systemds.engine import EngineError, PreparedScript, Session
from onnx_systemds.errors import InternalError, MultipleErrors, TranspileError
from onnx_systemds.exporting.export import export_script
from tests.fuzz.dml_numpy import Undecided, Unsure, evaluated
from tests.fuzz.dml_statements import Writer
from tests.fuzz.finding import Finding

Array = np.ndarray[Any, np.dtype[Any]]

SECONDS, _PREPARING = 20.0, 60.0
_TOLERANCE = 1e-7
_SIZES = (1, 2, 3, 4, 7)
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-300, 1e300)


@dataclass(frozen=True)
class Case:
    """A function `f` and the inputs of its runs. dims: as the model declares them; results: its outputs in order."""

    seed: int
    script: str
    dims: Mapping[str, Sequence[int | str]]
    runs: tuple[Mapping[str, Array], ...]
    results: tuple[str, ...]

    def __str__(self) -> str:
        shown = [f"# {name} = {value.tolist()}" for inputs in self.runs for name, value in inputs.items()]
        return "\n".join([self.script, *shown])


def case(seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    writer = Writer(rng)
    inputs = writer.inputs()
    script, results = writer.function()
    open_sizes = rng.random() < 0.5
    sizes = [{tag: rng.choice(_SIZES) for tag in ("N", "K")} for _ in range(2 if open_sizes else 1)]
    special = rng.random() < 0.3
    runs = tuple({name: _content(rng, [size.get(dim, dim) for dim in dims], special) for name, dims in inputs.items()}
                 for size in sizes)
    declared = inputs if open_sizes else {name: array.shape for name, array in runs[0].items()}
    return Case(seed, script, declared, runs, results)


def _content(rng: random.Random, dims: Sequence[Any], special: bool) -> Array:
    """Return a matrix of one of several kinds, or a scalar."""
    kind = rng.choice(("dense", "dense", "whole", "sparse", "constant"))
    draws = {"dense": lambda: round(rng.gauss(0, 2), 3), "whole": lambda: float(rng.randint(-3, 4)),
             "sparse": lambda: rng.gauss(0, 1) if rng.random() < 0.2 else 0.0, "constant": lambda: 1.5}
    found = np.array([draws[kind]() for _ in range(int(np.prod(dims)))]).reshape(dims)
    if special and dims:
        for _ in range(rng.randint(1, 3)):
            found[tuple(rng.randrange(dim) for dim in dims)] = rng.choice(_SPECIAL)
    return found


def check(case: Case, session: Session) -> Finding | None:
    """Return what is wrong with the model of a case, None for nothing."""
    began = time.perf_counter()
    try:
        model = export_script(case.script, "f", dtype="float64", inputs={
            name: f"double[{','.join(map(str, dims))}]" if dims else "double" for name, dims in case.dims.items()})
    except TranspileError as error:
        seconds = time.perf_counter() - began
        if seconds > SECONDS:
            return Finding("slow", case.seed, str(case), f"refused after {seconds:.0f} s")
        reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
        if all(reason.place is not None and not isinstance(reason, InternalError) for reason in reasons):
            return None
        return Finding("error", case.seed, str(case), f"{type(error).__name__}: {error}")
    except Exception as error:
        return Finding("error", case.seed, str(case), f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - began
    if seconds > SECONDS:
        return Finding("slow", case.seed, str(case), f"exported after {seconds:.0f} s")
    try:
        expected = _by_engine(case, _prepared(case, session))
    except EngineError:
        return None  # also where its compiler, or the script, does not end
    try:
        actual = _by_runtime(model, case)
    except Exception as error:
        if any(_is_unsure(case, inputs) for inputs in case.runs):
            return None
        return Finding("error", case.seed, str(case), f"the model does not run: {type(error).__name__}: {error}")
    for run, (found, wanted) in enumerate(zip(actual, expected)):
        for place, name in enumerate(case.results):
            difference = _difference(found[name], wanted[name])
            if difference and not _acquitted(case, run, place, found[name], wanted[name]):
                return Finding("wrong", case.seed, str(case), f"run {run}, {name}: {difference}")
    return None


def _is_unsure(case: Case, inputs: Mapping[str, Array]) -> bool:
    """Whether numpy holds neither side to anything."""
    try:
        evaluated(case.script, inputs)
    except Unsure:
        return True
    except Undecided:
        pass
    return False


def _acquitted(case: Case, run: int, place: int, found: Array, wanted: Array) -> bool:
    """Whether numpy does not give what the engine gives: then the fault is the engine's, or the numbers are not sure."""
    try:
        judged = evaluated(case.script, case.runs[run])[place]
    except Unsure:
        return True
    except Undecided:
        return not (np.isfinite(found).all() and np.isfinite(wanted).all())
    return bool(_difference(judged, wanted))


def _inputs(case: Case) -> list[str]:
    """Return what the inputs are called where scalars are read as matrices."""
    return [name if dims else f"{name}_m" for name, dims in case.dims.items()]


def _prepared(case: Case, session: Session) -> PreparedScript:
    reads = [f'{name} = read("./{name}")' if dims else f'{name}_m = read("./{name}_m")\n{name} = as.scalar({name}_m)'
             for name, dims in case.dims.items()]
    call = f"[{', '.join(case.results)}] = f({', '.join(case.dims)})"
    writes = [f'write({name}, "./{name}")' for name in case.results]
    script = "\n".join([case.script, *reads, call, *writes, ""])
    return session.prepare(script, _inputs(case), list(case.results), timeout=_PREPARING)


def _by_engine(case: Case, prepared: PreparedScript) -> list[dict[str, Array]]:
    return [{name: np.asarray(value) for name, value in
             prepared({own: np.atleast_2d(inputs[name]) for own, name in zip(_inputs(case), case.dims)}, timeout=SECONDS).items()}
            for inputs in case.runs]


def _by_runtime(model: onnx.ModelProto, case: Case) -> list[dict[str, Array]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "FusedMatMul alpha" not in str(error):
            raise
        # its optimiser makes a factor of a product that is divided by 0, and refuses it then
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted, given = [item.name for item in session.get_outputs()], [item.name for item in session.get_inputs()]
    return [dict(zip(wanted, session.run(None, {name: inputs[name] for name in given}))) for inputs in case.runs]


def _difference(found: Array, wanted: Array) -> str:
    """Return in words how two matrices differ, nothing where they do not; -0.0 is 0."""
    found = np.atleast_2d(found).astype(np.float64)
    if found.shape != wanted.shape:
        return f"the model gives {found.shape}, the engine {wanted.shape}"
    finite = np.abs(wanted[np.isfinite(wanted)])
    spread = min(max(float(finite.max()) if finite.size else 0.0, 1e-6), 1e100)
    if np.allclose(found, wanted, rtol=_TOLERANCE, atol=_TOLERANCE * spread, equal_nan=True):
        return ""
    return f"the model gives {found.tolist()}, the engine {wanted.tolist()}"
