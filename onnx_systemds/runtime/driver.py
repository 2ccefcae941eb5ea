"""The main program around a generated script, by which the embedded engine runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from onnx_systemds.importing.script import Port, Script
from onnx_systemds.inference import dims as dim
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.operators.api.scope import WEIGHTS
from onnx_systemds.runtime import list_transfer

Sizes = Mapping[str, int]
Shapes = Mapping[str, tuple[int, ...]]
"""Rows and columns."""


@dataclass(frozen=True)
class Functions:
    """The functions of a script. weights_apart: the main one takes each weight by itself instead of the list."""

    text: str
    weights_apart: bool


def functions_of(script: Script) -> Functions:
    """The functions of a script, the main one with the weights apart where that can be.

    What comes out of a list has no known size, for which the engine compiles the function anew at each call. Functions
    that hand the list on to others, or take texts out of it, keep it.
    """
    text = script.body_text()
    if not script.weights:
        return Functions(text, weights_apart=False)
    apart, reads = re.subn(rf'as\.matrix\({WEIGHTS}\["(\w+)"\]\)', r"pinned_\1_", text)
    parameters = ", ".join(f"matrix[double] pinned_{weight.name}_" for weight in script.weights)
    apart, signatures = re.subn(rf"list\[unknown\] {WEIGHTS}\b", parameters, apart)
    is_complete = signatures == 1 and not re.search(rf"\b{WEIGHTS}\b", apart)
    if reads and is_complete and "pinned_" not in text:
        return Functions(apart, weights_apart=True)
    return Functions(text, weights_apart=False)


def driver_text(
    script: Script,
    functions: Functions,
    shapes: Shapes | None = None,
    sizes: Sizes | None = None,
    kept: Shapes | None = None,
) -> str:
    """The script with a main program around it: every input, size, weight and output is a matrix.

    shapes: rows and columns of inputs, by their names in the main program; else those that the declared dims tell.
    sizes: of symbols, where they are known: then no input is read for them. kept: rows and columns of further matrices
    that the main function takes, by the names of their inputs.
    """
    lines = [functions.text, *list_transfer.functions(script)]
    arguments: list[str] = []
    for position, port in enumerate(script.inputs):
        name = f"in{position}"
        if port.is_list:
            reading, text = list_transfer.reading(port, name)
            lines += reading
            arguments.append(text)
            continue
        size = (shapes or {}).get(name) or _declared_size(port)
        kind = ', data_type="frame"' if port.dtype == "string" else f", rows={size[0]}, cols={size[1]}" if size else ""
        lines.append(f'{name} = read("./{name}"{kind})')
        arguments.append(_from_matrix(port, name))
    for position, symbol in enumerate(script.sizes):
        if sizes is not None:
            arguments.append(str(sizes[symbol]))
            continue
        name = f"size{position}"
        lines.append(f'{name} = read("./{name}", rows=1, cols=1)')
        arguments.append(f"as.integer(as.scalar({name}))")
    if script.weights:
        for position, weight in enumerate(script.weights):
            rows, cols = weight.array.shape
            kind = 'data_type="frame"' if weight.array.dtype == object else f"rows={rows}, cols={cols}"
            lines.append(f'weight{position} = read("./weight{position}", {kind})')
        if functions.weights_apart:
            arguments += [f"weight{position}" for position in range(len(script.weights))]
        else:
            pairs = ", ".join(f"{weight.name}=weight{position}" for position, weight in enumerate(script.weights))
            lines.append(f"{WEIGHTS} = list({pairs})")
            arguments.append(WEIGHTS)
    for name, (rows, cols) in (kept or {}).items():
        lines.append(f'{name} = read("./{name}", rows={rows}, cols={cols})')
        arguments.append(name)
    ports = [*script.outputs, *(Port(symbol, "int64", ()) for symbol in script.returned)]
    results = [f"result{position}" for position in range(len(ports))]
    target = results[0] if len(results) == 1 else f"[{', '.join(results)}]"
    lines.append(f"{target} = {script.function}({', '.join(arguments)})")
    for position, port in enumerate(ports):
        number = f"result{position}"
        if port.is_list:
            lines += list_transfer.writing(port, number, f"out{position}")
            continue
        if port.dims == () and port.dtype == "string":
            number = f"as.frame({number})"
        elif port.dims == ():
            number = f"as.matrix(as.double({number}))"
        lines.append(f"out{position} = {number}")
        lines.append(f'write(out{position}, "./out{position}")')
    return "\n".join(lines) + "\n"


def _declared_size(port: Port) -> tuple[int, ...]:
    """Rows and columns where they are known: then the engine compiles with all sizes."""
    rows = port.dims[0] if port.dims else 1
    cols = dim.product(port.dims[1:])
    return (rows, cols) if isinstance(rows, int) and isinstance(cols, int) else ()


def _from_matrix(port: Port, name: str) -> str:
    if port.dims != ():
        return name
    if port.dtype == "string":
        return f"as.scalar({name})"
    if port.dtype == "bool":
        return f"(as.scalar({name}) != 0)"
    return f"as.integer(as.scalar({name}))" if port.dtype in INTEGER_DTYPES else f"as.scalar({name})"
