"""Derivatives of a script against central differences of its main function, both by the plain engine, in FP64."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from onnx_systemds.importing.interface import KEPT, PARAMETERS, Derivatives, Interface, Port
from onnx_systemds.importing.script import Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.operators.api.reserved_names import WEIGHTS
from tests.command_line import run_dml

_STEP = "1e-6"


def derivatives(script: Script, sizes: Mapping[str, int], folder: Path) -> list[tuple[str, float, float]]:
    """For each weight and input that it derives by: its name or number, the derivative in some direction, differences.

    sizes: of the symbols in the dims of the inputs. Integers among the inputs are 1 or 2, others from -1 to 1.
    """
    assert script.derivatives is not None
    script.save(folder / "model.dml")
    output = run_dml("\n".join(_program(script, script.derivatives, sizes)), folder)
    apart = [float(text) for text in re.findall(r"^apart (\S+)$", output, re.MULTILINE)]
    assert apart and max(apart) <= 1e-6  # of GELU, which the forward pass computes by another function, some digits
    found = re.findall(r"^derivative (\S+) (\S+) (\S+)$", output, re.MULTILINE)
    return [(name, float(derivative), float(difference)) for name, derivative, difference in found]


def _program(script: Script, derivatives: Derivatives, sizes: Mapping[str, int]) -> Iterator[str]:
    main, forward, backward = script.interface, derivatives.forward, derivatives.backward
    seeds = seeds_of(script, derivatives)
    outputs = [*seeds.values()]
    loss = " + ".join(f"sum({name} * {seed})" for name, seed in zip(outputs, seeds))
    yield from weight_lines(script, derivatives)
    for number, (name, port) in enumerate(zip(main.parameters, main.inputs)):
        yield f"{name} = {_drawn(port, sizes, number)}"
    yield from size_lines(script, derivatives, sizes)
    yield call(main)
    yield from (f"{name}_of_main = {name}" for name in outputs)
    yield call(forward)
    for name in outputs:
        yield f'print("apart " + max(abs({name} - {name}_of_main)))'
    for number, (seed, name) in enumerate(zip(seeds, outputs)):
        yield f"{seed} = rand(rows=nrow({name}), cols=ncol({name}), min=-1, max=1, seed={number + 50})"
    yield call(backward)
    for result in backward.results[: len(backward.results) - bool(derivatives.column)]:
        name = result[len("d_") :].rstrip("_")
        direction = f"rand(rows=nrow({name}), cols=ncol({name}), min=-1, max=1, seed=7)"
        yield from _difference(name, name, result, direction, "", loss, main)
    if derivatives.column:
        yield from _by_weights(script, derivatives, loss)


def seeds_of(script: Script, derivatives: Derivatives) -> dict[str, str]:
    """By parameter of the backward pass that is a derivative by a result, this result."""
    backward = derivatives.backward
    kinds = [port.kind for port in backward.inputs]
    others = kinds.count(KEPT) + kinds.count(PARAMETERS) + len(script.interface.inputs)
    return {seed: next(name for name in derivatives.forward.results if seed.rstrip("_") == f"d_{name}".rstrip("_"))
            for seed in backward.parameters[: len(kinds) - others]}


def weight_lines(script: Script, derivatives: Derivatives) -> Iterator[str]:
    """The first statements of a program: those that source a script and load its weights."""
    yield 'source("model.dml") as model'
    if script.weights:
        yield f"{WEIGHTS} = model::{script.function}_init()"
    if derivatives.column:
        yield f"{derivatives.column} = model::{script.function}_parameters({WEIGHTS})"


def size_lines(script: Script, derivatives: Derivatives, sizes: Mapping[str, int]) -> Iterator[str]:
    """The sizes that the functions take, which the matrices do not tell."""
    for function in (script.interface, derivatives.forward):
        names = function.parameters[len(script.interface.inputs) :]
        yield from (f"{name} = {sizes[symbol]}" for name, symbol in zip(names, function.sizes))


def _by_weights(script: Script, derivatives: Derivatives, loss: str) -> Iterator[str]:
    """A direction for each weight that is trained."""
    (column,) = (port for port in derivatives.forward.inputs if port.kind == PARAMETERS)
    counts = {weight.name: weight.array.size for weight in script.weights}
    put = f"{WEIGHTS} = model::{script.function}_trained({derivatives.column}, {WEIGHTS})"
    result, first = derivatives.backward.results[-1], 1
    yield f"blank = 0 * {result}"
    for key in column.keys:
        last = first + counts[str(key)] - 1
        yield "direction = blank"
        yield f"direction[{first}:{last}, ] = rand(rows={last - first + 1}, cols=1, min=-1, max=1, seed=7)"
        yield from _difference(derivatives.column, str(key), result, "direction", put, loss, script.interface)
        first = last + 1


def _difference(
    name: str, label: str, derivative: str, direction: str, put: str, loss: str, main: Interface
) -> Iterator[str]:
    """What is printed of one variable: ``put`` puts it where the main function reads it."""
    yield f"K = {name}"
    yield f"V = {direction}"
    for sign, side in (("+", "up"), ("-", "down")):
        yield from (f"{name} = K {sign} {_STEP} * V", put, call(main), f"{side} = {loss}")
    yield f"{name} = K"
    yield put
    yield f'print("derivative {label} " + sum({derivative} * V) + " " + (up - down) / (2 * {_STEP}))'


def _drawn(port: Port, sizes: Mapping[str, int], seed: int) -> str:
    dims = [dim.substitute(size, sizes) for size in port.dims]
    if not dims and "float" not in port.dtype:
        return "TRUE" if port.dtype == "bool" else "3"
    rows, cols = (dims[0], math.prod(dims[1:])) if dims else (1, 1)  # type: ignore[arg-type]
    if port.dtype.startswith("int"):
        return f"round(rand(rows={rows}, cols={cols}, min=1, max=2, seed={seed + 1}))"
    return f"rand(rows={rows}, cols={cols}, min=-1, max=1, seed={seed + 1})"


def call(function: Interface) -> str:
    """The statement that calls a function of ``model``."""
    results = ", ".join(function.results)
    target = results if len(function.results) == 1 else f"[{results}]"
    return f"{target} = model::{function.function}({', '.join(function.parameters)})"
