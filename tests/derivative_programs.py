"""Derivatives of a script against central differences of its main function, both by the plain engine, in FP64."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from onnx_systemds.importing.interface import GRADIENTS, Interface, Port
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
    output = run_dml("\n".join(_program(script, *script.derivatives, sizes)), folder)
    apart = [float(text) for text in re.findall(r"^apart (\S+)$", output, re.MULTILINE)]
    assert apart and max(apart) <= 1e-6  # of GELU, which the forward pass computes by another function, some digits
    found = re.findall(r"^derivative (\S+) (\S+) (\S+)$", output, re.MULTILINE)
    return [(name, float(derivative), float(difference)) for name, derivative, difference in found]


def _program(script: Script, forward: Interface, backward: Interface, sizes: Mapping[str, int]) -> Iterator[str]:
    main = script.interface
    seeds = backward.parameters[: len(backward.inputs) - len(main.inputs) - 1]
    outputs = [next(name for name in main.results if seed.rstrip("_") == f"d_{name}") for seed in seeds]
    loss = " + ".join(f"sum({name} * {seed})" for name, seed in zip(outputs, seeds))
    yield 'source("model.dml") as model'
    if script.weights:
        yield f"{WEIGHTS} = model::{main.function}_init()"
    for number, (name, port) in enumerate(zip(main.parameters, main.inputs)):
        yield f"{name} = {_drawn(port, sizes, number)}"
    yield from (f"{name} = {sizes[symbol]}" for name, symbol in zip(main.parameters[len(main.inputs) :], main.sizes))
    yield _call(main)
    yield from (f"{name}_of_main = {name}" for name in outputs)
    yield _call(forward)
    for name in outputs:
        yield f'print("apart " + max(abs({name} - {name}_of_main)))'
    for number, (seed, name) in enumerate(zip(seeds, outputs)):
        yield f"{seed} = rand(rows=nrow({name}), cols=ncol({name}), min=-1, max=1, seed={number + 50})"
    yield _call(backward)
    for result, port in zip(backward.results, backward.outputs):
        if port.kind == GRADIENTS:
            yield from _by_weights(result, loss, main)
        else:
            name = result[len("d_") :].rstrip("_")
            yield from _difference(name, f'"{name}"', result, "", loss, main)


def _by_weights(result: str, loss: str, main: Interface) -> Iterator[str]:
    yield f"for (i in 1:length({result})) {{"
    yield f"G = as.matrix({result}[i])"
    yield f"W = as.matrix({WEIGHTS}[i])"
    yield from _difference("W", "i", "G", f"{WEIGHTS}[i] = W", loss, main)
    yield "}"


def _difference(name: str, label: str, derivative: str, put: str, loss: str, main: Interface) -> Iterator[str]:
    """What is printed of one variable: ``put`` puts it where the main function reads it."""
    yield f"K = {name}"
    yield f"V = rand(rows=nrow(K), cols=ncol(K), min=-1, max=1, seed=7) + 0 * {derivative}"
    for sign, side in (("+", "up"), ("-", "down")):
        yield f"{name} = K {sign} {_STEP} * V"
        # the engine takes a list for a matrix that is read in the block where an element is put into it
        yield from (put, 'if (time() < 0) { print("never") }', _call(main), f"{side} = {loss}")
    yield f"{name} = K"
    yield put
    yield f'print("derivative " + {label} + " " + sum({derivative} * V) + " " + (up - down) / (2 * {_STEP}))'


def _drawn(port: Port, sizes: Mapping[str, int], seed: int) -> str:
    dims = [dim.substitute(size, sizes) for size in port.dims]
    rows, cols = (dims[0], math.prod(dims[1:])) if dims else (1, 1)  # type: ignore[arg-type]
    if port.dtype.startswith("int"):
        return f"round(rand(rows={rows}, cols={cols}, min=1, max=2, seed={seed + 1}))"
    return f"rand(rows={rows}, cols={cols}, min=-1, max=1, seed={seed + 1})"


def _call(function: Interface) -> str:
    results = ", ".join(function.results)
    target = results if len(function.results) == 1 else f"[{results}]"
    return f"{target} = model::{function.function}({', '.join(function.parameters)})"
