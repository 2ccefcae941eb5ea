"""Derivatives: those of the backward pass against differences of the forward pass, in FP64, and its results against the main function's.

The models are those of other kinds of cases; no judge is asked. Numbers of inputs and weights are moved a little, since
a function may have no derivative at round ones. Where differences of several widths, or to both sides, do not agree,
nothing follows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx import ModelProto, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError, Session
from onnx_systemds.errors import TranspileError
from onnx_systemds.importing.interface import Derivatives, Interface, Port
from onnx_systemds.importing.script import Script
from onnx_systemds.inference.registry import operators_of_models
from onnx_systemds.runtime.boundary_tensors import bind_sizes, boundary_matrix
from tests.derivative_programs import call, seeds_of, size_lines, weight_lines
from tests.fuzz import graphs, loop_models, operators, varied_layers
from tests.fuzz.drawing import Array
from tests.fuzz.finding import Finding
from tests.fuzz.judging import SECONDS, TALLY, ModelCase, finding, is_internal, is_refusal

_STEP = 1e-4
_REAL = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)
_LARGEST = 3.0
"""Of the numbers that a model is derived at."""
_WITHOUT = ("If", "Loop", "Scan", "Bernoulli", "BiasDropout", "BitmaskBiasDropout", "BitmaskDropout", "Dropout", "Multinomial")
_EXACT = 1e-7
"""How far both passes' results may be from the main function's, which has GELU by another formula."""


def case(seed: int) -> ModelCase:
    """A model of the other kinds, and one call with numbers of no special kind."""
    made = (_operator, _operator, graphs.case, varied_layers.case, loop_models.case)[seed % 5](seed)
    rng = np.random.default_rng(seed)
    call = {name: _moved(value, rng) for name, value in made.calls[0].items()}
    return replace(made, model=_with_moved(made.model, rng), calls=(call,), functions=None, style="plain")


def _operator(seed: int) -> ModelCase:
    names = sorted({op_type for _, op_type in operators_of_models() if op_type not in _WITHOUT})
    return operators.case(seed, [names[seed // 5 % len(names)]])


def _moved(value: Any, rng: np.random.Generator) -> Any:
    """Floating-point numbers near those that are given, none of them special."""
    if not isinstance(value, np.ndarray) or value.dtype not in _REAL:
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
        if is_internal(error):
            return finding(case, "error", f"conversion: {error}")
        TALLY.add("not derived")
        return None
    except Exception as error:
        return finding(case, "error", f"conversion: {type(error).__name__}: {error}")
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
        return finding(case, "error", f"{type(error).__name__}: {str(error)[:2000]}")


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
    arrays = {port.name: np.asarray(feeds[port.name], np.float64) for port in script.interface.inputs}
    program = "\n".join(_program(script, script.derivatives, bind_sizes(script.interface.inputs, arrays)))
    inputs = {f"G{place}": boundary_matrix(array) for place, array in enumerate(arrays.values())}
    with tempfile.TemporaryDirectory() as folder:
        script.save(Path(folder) / "model.dml")
        text = (Path(folder) / "model.dml").read_text(encoding="utf-8")
        prepared = session.prepare(program, [*inputs], ["judged"], sources={"model.dml": text},
                                   args={"model_weights": str(Path(folder) / "model.weights")}, timeout=SECONDS)
        return np.asarray(prepared(inputs, timeout=SECONDS)["judged"])


_OWN = "judge_"
"""Before the names of variables of a program that are no inputs and results."""
_POINTS = {f"{_OWN}{name}": step for name, step in (("up", 1), ("down", -1), ("half_up", 0.5), ("half_down", -0.5))}
"""Variables of a program that hold the loss beside the point, and how many steps from it."""


def _program(script: Script, derivatives: Derivatives, sizes: Mapping[str, int]) -> Iterator[str]:
    """The statements that call the functions of a script, and write the matrix ``judged`` with a row for each variable."""
    main, backward = script.interface, derivatives.backward
    numbers = {name for name, port in zip(main.parameters, main.inputs) if port.dims == ()}
    numbers |= {name for name, port in zip(derivatives.forward.results, derivatives.forward.outputs) if port.dims == ()}
    yield from weight_lines(script, derivatives)
    yield from (f'G{place} = read("./G{place}")' for place in range(len(main.inputs)))
    for place, (name, port) in enumerate(zip(main.parameters, main.inputs)):
        yield f"{name} = {_taken(f'G{place}', port)}"
    yield from size_lines(script, derivatives, sizes)
    yield from _results(script, derivatives, numbers)
    yield call(backward)
    for number, (result, name) in enumerate(_variables(main, derivatives).items()):
        yield f"{_OWN}at = {name}"
        yield f"{_OWN}along = {_direction(name, numbers, number + 7)}"
        for point, step in _POINTS.items():
            yield from (f"{name} = {_OWN}at + {step * _STEP} * {_OWN}along", call(derivatives.forward), f"{point} = {_loss(script, derivatives, numbers)}")
        yield f"{name} = {_OWN}at"
        parts = (_product(result, f"{_OWN}along", name in numbers), *_POINTS, f"{_OWN}middle", f"{_OWN}apart")
        yield f"{_OWN}row = cbind({', '.join(f'as.matrix({part})' for part in parts)})"
        yield f"judged = {f'rbind(judged, {_OWN}row)' if number else f'{_OWN}row'}"
    yield 'write(judged, "./judged")'


def _results(script: Script, derivatives: Derivatives, numbers: Collection[str]) -> Iterator[str]:
    """What the main function and the forward pass give, how far they are apart, and the loss by random factors."""
    seeds = seeds_of(script, derivatives)
    yield call(script.interface)
    yield from (f"{name}_of_main = {name}" for name in seeds.values())
    yield call(derivatives.forward)
    yield f"{_OWN}apart = 0.0"
    for number, (seed, name) in enumerate(seeds.items()):
        yield f"{seed} = {_direction(name, numbers, number + 50)}"
        difference, size = (_size(text, name in numbers) for text in (f"{name} - {name}_of_main", name))
        yield f"{_OWN}apart = {_OWN}apart + {difference} / (1 + {size})"
    yield f"{_OWN}middle = {_loss(script, derivatives, numbers)}"


def _variables(main: Interface, derivatives: Derivatives) -> dict[str, str]:
    """By result of the backward pass the variable that it is the derivative by."""
    by_word = {name.rstrip("_"): name for name in main.parameters[: len(main.inputs)]}
    return {result: by_word.get(result[len("d_") :].rstrip("_"), derivatives.column) for result in derivatives.backward.results}


def _loss(script: Script, derivatives: Derivatives, numbers: Collection[str]) -> str:
    return " + ".join(_product(name, seed, name in numbers) for seed, name in seeds_of(script, derivatives).items())


def _size(text: str, is_number: bool) -> str:
    return f"abs({text})" if is_number else f"sum(abs({text}))"


def _product(left: str, right: str, is_number: bool) -> str:
    return f"{left} * {right}" if is_number else f"sum({left} * {right})"


def _taken(name: str, port: Port) -> str:
    if port.dims != ():
        return name
    if port.dtype == "bool":
        return f"as.scalar({name}) == 1"
    return f"as.scalar({name})" if "float" in port.dtype or port.dtype == "double" else f"as.integer(as.scalar({name}))"


def _direction(name: str, numbers: Collection[str], seed: int) -> str:
    return "0.7" if name in numbers else f"rand(rows=nrow({name}), cols=ncol({name}), min=-1, max=1, seed={seed})"


def _judged(case: ModelCase, rows: Array) -> Finding | None:
    outcome = "kink"
    for number, (derivative, up, down, half_up, half_down, middle, apart) in enumerate(rows):
        if not np.isfinite([up, down, half_up, half_down, middle]).all():
            outcome = "not finite"
            continue
        if not apart <= _EXACT:
            return finding(case, "wrong", f"the forward pass is {apart:.3g} apart from the main function")
        wide, narrow = (up - down) / (2 * _STEP), (half_up - half_down) / _STEP
        bend = abs(half_up + half_down - 2 * middle) / (_STEP / 2)
        bend_of_wide = abs(up + down - 2 * middle) / _STEP
        noise = 1e-15 * max(map(abs, (up, down, middle, 1e-3))) / _STEP * 100
        scale = abs(narrow) + abs(derivative)
        if abs(wide - narrow) > 1e-4 * scale + noise or bend > 0.7 * bend_of_wide + noise:
            continue  # kinks, or numbers that are rounded
        if not abs(derivative - narrow) <= 1e-5 * scale + 3 * abs(wide - narrow) + noise:
            return finding(case, "wrong", f"derivative {number}: {derivative!r}, differences {wide!r} and {narrow!r}, bend {bend!r}")
        outcome = "right"
    TALLY.add(outcome)
    return None
