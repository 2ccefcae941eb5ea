"""Derivatives: those of the backward pass against differences of the forward pass, in FP64, and its results against the main function's.

The models are those of other kinds of cases; no judge is asked. Numbers of inputs and weights are moved a little, since
a function may have no derivative at round ones. Where differences of several widths, or to both sides, do not agree,
nothing follows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError, Session
from onnx_systemds.errors import InternalError, MultipleErrors, TranspileError
from onnx_systemds.importing.interface import Derivatives, Port
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.registry import operators_of_models
from onnx_systemds.operators.api.reserved_names import WEIGHTS
from tests.derivative_programs import call, seeds_of, size_lines
from tests.fuzz import graphs, operators, varied_layers
from tests.fuzz.drawing import Array
from tests.fuzz.finding import Finding
from tests.fuzz.judging import SECONDS, TALLY, ModelCase, is_refusal

_STEP = 1e-4
_LARGEST = 3.0
"""Of the numbers that a model is derived at."""
_WITHOUT = ("If", "Loop", "Scan", "BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "Dropout")
_EXACT = 1e-7
"""How far both passes' results may be from the main function's, which has GELU by another formula."""


def case(seed: int) -> ModelCase:
    """A model of the other kinds, and one call with numbers of no special kind."""
    made = (_operator, _operator, graphs.case, varied_layers.case)[seed % 4](seed)
    rng = np.random.default_rng(seed)
    call = {name: _moved(value, rng) for name, value in made.calls[0].items()}
    return replace(made, model=_with_moved(made.model, rng), calls=(call,), functions=None, style="plain")


def _operator(seed: int) -> ModelCase:
    names = sorted({op_type for _, op_type in operators_of_models() if op_type not in _WITHOUT})
    return operators.case(seed, [names[seed // 4 % len(names)]])


def _moved(value: Any, rng: np.random.Generator) -> Any:
    """Floating-point numbers near those that are given, none of them special."""
    if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64):
        return value
    exact = np.nan_to_num(value.astype(np.float64), nan=0.5, posinf=_LARGEST, neginf=-_LARGEST).clip(-_LARGEST, _LARGEST)
    return (exact + rng.uniform(0.01, 0.09, value.shape) * np.where(exact < 0, -1, 1)).astype(value.dtype)


def _with_moved(model: ModelProto, rng: np.random.Generator) -> ModelProto:
    """The model with matrices among its initializers moved; numbers and rows may be parameters of operators."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for place, initializer in enumerate(copy.graph.initializer):
        if len(initializer.dims) > 1:
            moved = _moved(numpy_helper.to_array(initializer), rng)
            copy.graph.initializer[place].CopyFrom(numpy_helper.from_array(moved, initializer.name))
    return copy


def check(case: ModelCase, session: Session) -> Finding | None:
    """Derive a model by its inputs and weights; its finding, None where nothing is wrong with it."""
    try:
        script = _derived(case)
    except TranspileError as error:
        reasons = error.reasons if isinstance(error, MultipleErrors) else (error,)
        if any(isinstance(reason, InternalError) for reason in reasons):
            return _finding(case, "error", f"conversion: {error}")
        TALLY.add("not derived")
        return None
    except Exception as error:
        return _finding(case, "error", f"conversion: {type(error).__name__}: {error}")
    if _has_narrow_numbers(case.model):
        TALLY.add("narrow numbers")  # numbers in the rules are rounded as these are
        return None
    given = [case.calls[0].get(port.name) for port in script.interface.inputs]
    if not all(isinstance(value, np.ndarray) and value.dtype.kind not in "OSU" and value.size for value in given):
        TALLY.add("no matrices")
        return None
    try:
        return _judged(case, _run(script, case.calls[0], session))
    except EngineError as error:
        if is_refusal(error):
            TALLY.add("refused at run time")
            return None
        return _finding(case, "error", f"{type(error).__name__}: {str(error)[:2000]}")


def _has_narrow_numbers(model: ModelProto) -> bool:
    types = [info.type.tensor_type.elem_type for info in model.graph.input]
    types += [initializer.data_type for initializer in model.graph.initializer]
    return any(kind in (TensorProto.FLOAT16, TensorProto.BFLOAT16) for kind in types)


def _derived(case: ModelCase) -> Script:
    try:
        return import_model(case.model, dims=case.dims, gradients=["inputs", "weights"])
    except TranspileError as error:
        if "has no" not in str(error):
            raise
        return import_model(case.model, dims=case.dims, gradients=["inputs"])


def _run(script: Script, feeds: Mapping[str, Any], session: Session) -> Array:
    """For each variable a row: the derivative in a direction, losses on the way, whether the passes agree with the main function."""
    assert script.derivatives is not None
    program = _Program(script, script.derivatives, _sizes(script, feeds))
    arrays = {port.name: np.asarray(feeds[port.name], np.float64) for port in script.interface.inputs}
    inputs = {f"G{place}": array.reshape(_shape(array)) for place, array in enumerate(arrays.values())}
    with tempfile.TemporaryDirectory() as folder:
        script.save(Path(folder) / "model.dml")
        text = (Path(folder) / "model.dml").read_text(encoding="utf-8")
        prepared = session.prepare("\n".join(program.lines()), [*inputs], ["R"], sources={"model.dml": text},
                                   args={"model_weights": str(Path(folder) / "model.weights")}, timeout=SECONDS)
        return np.asarray(prepared(inputs, timeout=SECONDS)["R"])


def _shape(array: Array) -> tuple[int, int]:
    return (array.shape[0], int(np.prod(array.shape[1:]))) if array.ndim else (1, 1)


def _sizes(script: Script, feeds: Mapping[str, Any]) -> dict[str, int]:
    """The symbols in dims of inputs."""
    return {symbol: size for port in script.interface.inputs for each, size in zip(port.dims or (), feeds[port.name].shape)
            if not isinstance(each, int) and (symbol := dim.lone_symbol(each))}


@dataclass(frozen=True)
class _Program:
    """A program that calls the functions of a script."""

    script: Script
    derivatives: Derivatives
    sizes: Mapping[str, int]

    def lines(self) -> Iterator[str]:
        main, forward, backward = self.script.interface, self.derivatives.forward, self.derivatives.backward
        outputs = dict(zip(forward.results, forward.outputs))
        seeded = seeds_of(self.script, self.derivatives)
        yield 'source("model.dml") as model'
        yield from (f'G{place} = read("./G{place}")' for place in range(len(main.inputs)))
        if self.script.weights:
            yield f"{WEIGHTS} = model::{main.function}_init()"
        if self.derivatives.column:
            yield f"{self.derivatives.column} = model::{main.function}_parameters({WEIGHTS})"
        for place, (name, port) in enumerate(zip(main.parameters, main.inputs)):
            yield f"{name} = {_taken(f'G{place}', port)}"
        yield from size_lines(self.script, self.derivatives, self.sizes)
        yield call(main)
        yield from (f"{name}_of_main = {name}" for name in seeded.values())
        yield call(forward)
        apart = []
        for number, (seed, name) in enumerate(seeded.items()):
            is_number = outputs[name].dims == ()
            yield f"{seed} = {_direction(name, is_number, number + 50)}"
            difference = f"as.matrix({name} - {name}_of_main)" if is_number else f"({name} - {name}_of_main)"
            size = f"as.matrix({name})" if is_number else name
            apart.append(f"sum(abs({difference})) / (1 + sum(abs({size})))")
        yield f"apart = {' + '.join(apart)}"
        loss = " + ".join(f"{name} * {seed}" if outputs[name].dims == () else f"sum({name} * {seed})"
                          for seed, name in seeded.items())
        yield f"middle = {loss}"
        yield call(backward)
        rows = []
        ports = dict(zip(main.parameters, main.inputs))
        for number, result in enumerate(backward.results):
            name = result[len("d_") :].rstrip("_")
            name = next((each for each in ports if each.rstrip("_") == name), "") or self.derivatives.column
            is_number = name in ports and ports[name].dims == ()
            yield f"K = {name}"
            yield f"V = {_direction(name, is_number, number + 7)}"
            for step, point in zip((1, -1, 0.5, -0.5), ("up", "down", "half_up", "half_down")):
                yield f"{name} = K + {step * _STEP} * V"
                yield call(forward)
                yield f"{point} = {loss}"
            yield f"{name} = K"
            product = f"{result} * V" if is_number else f"sum({result} * V)"
            yield f"row{number} = cbind(as.matrix({product}), as.matrix(up), as.matrix(down), as.matrix(half_up), " \
                  "as.matrix(half_down), as.matrix(middle), as.matrix(apart))"
            rows.append(f"row{number}")
        together = ", ".join(rows)
        yield f"R = {together}" if len(rows) == 1 else f"R = rbind({together})"
        yield 'write(R, "./R")'


def _taken(name: str, port: Port) -> str:
    if port.dims != ():
        return name
    if port.dtype == "bool":
        return f"as.scalar({name}) == 1"
    return f"as.scalar({name})" if "float" in port.dtype or port.dtype == "double" else f"as.integer(as.scalar({name}))"


def _direction(name: str, is_number: bool, seed: int) -> str:
    return "0.7" if is_number else f"rand(rows=nrow({name}), cols=ncol({name}), min=-1, max=1, seed={seed})"


def _judged(case: ModelCase, rows: Array) -> Finding | None:
    outcome = "kink"
    for number, (derivative, up, down, half_up, half_down, middle, apart) in enumerate(rows):
        if not np.isfinite([up, down, half_up, half_down, middle]).all():
            outcome = "not finite"
            continue
        if not apart <= _EXACT:
            return _finding(case, "wrong", f"the forward pass is {apart:.3g} apart from the main function")
        wide, narrow = (up - down) / (2 * _STEP), (half_up - half_down) / _STEP
        bend = abs(half_up + half_down - 2 * middle) / (_STEP / 2)
        bend_of_wide = abs(up + down - 2 * middle) / _STEP
        noise = 1e-15 * max(map(abs, (up, down, middle, 1e-3))) / _STEP * 100
        scale = abs(narrow) + abs(derivative)
        if abs(wide - narrow) > 1e-4 * scale + noise or bend > 0.7 * bend_of_wide + noise:
            continue  # kinks, or numbers that are rounded
        if not abs(derivative - narrow) <= 1e-5 * scale + 3 * abs(wide - narrow) + noise:
            return _finding(case, "wrong", f"derivative {number}: {derivative!r}, differences {wide!r} and {narrow!r}, bend {bend!r}")
        outcome = "right"
    TALLY.add(outcome)
    return None


def _finding(case: ModelCase, kind: Any, detail: str) -> Finding:
    TALLY.add(kind)
    return Finding(kind, case.seed, str(case), detail)
