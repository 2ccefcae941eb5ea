"""Small graphs on matrices of more than 1,000 columns or thousands of rows, mostly of zeros.

The engine has other operations for such matrices than for small ones: of sparse ones, of several threads, of products
and element-wise steps in one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import helper

from tests.fuzz.drawing import Array, Draw
from tests.fuzz.finding import Finding
from tests.fuzz.graph_builder import Builder, Known, broadcast
from tests.fuzz.judging import ModelCase
from tests.fuzz.scattering import scattered

_MOST_CELLS = 1_300_000
_UNARY = ("Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Exp", "Floor", "Ceil", "Round", "Sign", "Softplus", "Elu", "LeakyRelu",
          "Softsign", "Sin", "Cos", "HardSigmoid", "Sqrt", "Log", "Erf", "Identity")
_BINARY = ("Add", "Add", "Sub", "Sub", "Mul", "Mul", "Max", "Min")
_COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
_REDUCTIONS = (
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceProd",
)
_NUMBERS = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5)


def case(seed: int) -> ModelCase:
    """The graph of a seed, called with numbers at other places each time."""
    draw = Draw(seed)
    rows, cols = draw.one((draw.int(2, 40), draw.int(1001, 3000)), (draw.int(1001, 1100), draw.int(1001, 1100)),
                          (draw.int(300, 900), draw.int(1001, 1400)), (draw.int(1001, 5000), draw.int(20, 250)))
    symbols = {"N": rows} if draw.chance(0.4) else {}
    first: int | str = "N" if symbols else rows
    inner = draw.int(1, 6)
    dtype = draw.one("float", "float", "double")
    shapes: tuple[tuple[int | str, ...], ...] = (
        (first, cols),
        (first, cols),
        (first, inner),
        (inner, cols),
        (1, cols),
        (first, 1),
    )
    chosen = [(first, cols), *(draw.one(*shapes) for _ in range(draw.int(0, 3)))]
    inputs = [Known(f"x{place}", dtype, dims) for place, dims in enumerate(chosen)]
    builder = Builder(draw, (symbols,), values=[*inputs])
    for _ in range(draw.int(2, 7)):
        done = len(builder.nodes)
        found = draw.one(*_STEPS)(builder)
        if found is not None and builder.count(found.dims, symbols) <= _MOST_CELLS:
            builder.values.append(found)
        else:
            del builder.nodes[done:]
    made = [known for known in builder.values if known not in inputs] or [builder.add("Relu", ["x0"], dtype, chosen[0])]
    outputs = {known.name: known for known in [made[-1], *(draw.one(*made) for _ in range(draw.int(0, 2)))]}
    graph = builder.body("graph", inputs, list(outputs.values()))
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", draw.one(18, 20, 22))])
    calls = tuple({known.name: _given(known, symbols, draw) for known in inputs} for _ in range(2))
    dims = symbols if draw.chance(0.3) else {}
    return ModelCase(seed, model, calls, draw.one(1, 2, 20), dims=dims)


def _given(known: Known, symbols: dict[str, int], draw: Draw) -> Array:
    dims = tuple(symbols[size] if isinstance(size, str) else size for size in known.dims)
    kind = np.dtype(np.float64 if known.dtype == "double" else np.float32)
    drawn = draw.rng.random()
    if drawn < 0.15:
        return draw.parameters(*dims, dtype=known.dtype)
    found = scattered(draw.rng, dims, kind)
    return found if drawn < 0.6 else np.where(np.isfinite(found) & (np.abs(found) < 1e9), found, 1).astype(kind)


def written(kind: str, case: ModelCase, finding: Finding, folder: Path) -> Path:
    """Write the seed of a case, and what came of it, as a file that `read` understands: the numbers are too many."""
    content = {"kind": kind, "seed": case.seed, "finding": finding.kind, "detail": finding.detail[:1000]}
    folder.mkdir(exist_ok=True)
    path = folder / f"{kind}_{case.seed}.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> ModelCase:
    """The case of a file."""
    return case(json.loads(path.read_text(encoding="utf-8"))["seed"])


def _number(b: Builder, x: Known, *options: float) -> str:
    return b.constant(b.draw.one(*options), np.float64 if x.dtype == "double" else np.float32)


def _other(b: Builder, x: Known) -> str:
    """A value that broadcasts to another, a number, or a row of numbers."""
    found = b.real(2, 2)
    if found is not None and broadcast(found.dims, x.dims) == x.dims and b.draw.chance(0.8):
        return found.name
    if b.draw.chance(0.3) and isinstance(x.dims[-1], int):
        row = scattered(b.draw.rng, (x.dims[-1],), np.dtype(np.float32))
        return b.constant(np.where(np.isfinite(row), row, 2), np.float64 if x.dtype == "double" else np.float32)
    return _number(b, x, *_NUMBERS)


def _unary(b: Builder) -> Known | None:
    x = b.real(2, 2)
    assert x is not None
    op_type = b.draw.one(*_UNARY)
    if x.dtype == "double" and op_type in ("HardSigmoid", "Elu", "LeakyRelu", "Softsign", "Softplus", "Erf"):
        op_type = "Relu"
    return b.add(op_type, [x.name], x.dtype, x.dims)


def _binary(b: Builder) -> Known | None:
    x = b.real(2, 2)
    assert x is not None
    pair = [x.name, _other(b, x)]
    return b.add(b.draw.one(*_BINARY), pair if b.draw.chance(0.5) else pair[::-1], x.dtype, x.dims)


def _square(b: Builder) -> Known | None:
    x = b.real(2, 2)
    assert x is not None
    if b.draw.chance(0.5):
        return b.add("Mul", [x.name, x.name], x.dtype, x.dims)
    return b.add("Pow", [x.name, _number(b, x, 2.0, 0.5, 0.0, 3.0)], x.dtype, x.dims)


def _quotient(b: Builder) -> Known | None:
    """A quotient by an absolute value: zeros have no sign."""
    x = b.real(2, 2)
    assert x is not None
    divisor = b.add("Abs", [x.name], x.dtype, x.dims)
    way = b.draw.one("Div", "Pow", "Reciprocal")
    if way == "Reciprocal":
        return b.add(way, [divisor.name], x.dtype, x.dims)
    if way == "Pow":
        return b.add(way, [divisor.name, _number(b, x, -1.0, -0.5)], x.dtype, x.dims)
    other = b.pick(lambda known: (known.dtype, known.dims) == (x.dtype, x.dims))
    assert other is not None
    return b.add(way, [other.name, divisor.name], x.dtype, x.dims)


def _compared(b: Builder) -> Known | None:
    """A comparison, as numbers, as what chooses between two values, or times one."""
    x = b.real(2, 2)
    assert x is not None
    found = b.add(b.draw.one(*_COMPARISONS), [x.name, _other(b, x)], "bool", x.dims)
    if b.draw.chance(0.3):
        found = b.add("Not", [found.name], "bool", x.dims)
    if b.draw.chance(0.4):
        return b.add("Where", [found.name, x.name, _other(b, x)], x.dtype, x.dims)
    numbers = b.add("Cast", [found.name], x.dtype, x.dims, to=1 if x.dtype == "float" else 11)
    return numbers if b.draw.chance(0.5) else b.add("Mul", [numbers.name, _other(b, x)], x.dtype, x.dims)


def _product(b: Builder) -> Known | None:
    """A product with a weight, with another value or with a transposed one."""
    x = b.real(2, 2)
    assert x is not None
    rows, width = x.dims
    if isinstance(width, int) and b.draw.chance(0.4):
        out = b.draw.int(1, 6)
        return b.add("MatMul", [x.name, b.weights(width, out, dtype=x.dtype)], x.dtype, (rows, out))
    other = b.pick(lambda known: known.rank == 2 and known.dtype == x.dtype and known.dims[0] == width)
    if other is not None:
        return b.add("MatMul", [x.name, other.name], x.dtype, (rows, other.dims[1]))
    other = b.pick(lambda known: known.rank == 2 and known.dtype == x.dtype and known.dims[0] == rows)
    assert other is not None
    turned = b.add("Transpose", [x.name], x.dtype, (width, rows), perm=[1, 0])
    return b.add("MatMul", [turned.name, other.name], x.dtype, (width, other.dims[1]))


def _reduced(b: Builder) -> Known | None:
    x = b.real(2, 2)
    assert x is not None
    axes = b.draw.one([0], [1], [0, 1])
    dims = tuple(1 if axis in axes else size for axis, size in enumerate(x.dims))
    op_type = b.draw.one(*_REDUCTIONS, "ReduceLogSumExp")
    return b.add(op_type, [x.name, b.constant(axes)], x.dtype, dims, keepdims=1)


def _along(b: Builder) -> Known | None:
    x = b.real(2, 2)
    assert x is not None
    op_type, axis = b.draw.one("Softmax", "LogSoftmax", "CumSum", "CumSum", "ArgMax"), b.draw.flag()
    if op_type == "CumSum":
        return b.add(
            "CumSum", [x.name, b.constant(axis)], x.dtype, x.dims, reverse=b.draw.flag(), exclusive=b.draw.flag()
        )
    if op_type == "ArgMax":
        dims = tuple(1 if place == axis else size for place, size in enumerate(x.dims))
        found = b.add("ArgMax", [x.name], "int64", dims, axis=axis, keepdims=1)
        return b.add("Cast", [found.name], x.dtype, dims, to=1 if x.dtype == "float" else 11)
    return b.add(op_type, [x.name], x.dtype, x.dims, axis=axis)


def _moved(b: Builder) -> Known | None:
    """Rows or columns turned, taken, joined or shifted."""
    x = b.real(2, 2)
    assert x is not None
    way = b.draw.one("turn", "turn", "slice", "reverse", "gather", "concat", "pad", "triangle")
    axis = b.draw.flag()
    size = x.dims[axis]
    if way == "turn":
        return b.add("Transpose", [x.name], x.dtype, x.dims[::-1], perm=[1, 0])
    if way == "reverse":
        ends = [b.constant([value]) for value in (-1, -(2**31), axis, -1)]
        return b.add("Slice", [x.name, *ends], x.dtype, x.dims)
    if way == "triangle":
        return b.add("Trilu", [x.name], x.dtype, x.dims, upper=b.draw.flag())
    if isinstance(size, str):
        return None
    if way == "slice":
        start = b.draw.int(0, size - 1)
        stop = b.draw.int(start + 1, size)
        bounds = [b.constant([value]) for value in (start, stop, axis)]
        dims = tuple(stop - start if place == axis else each for place, each in enumerate(x.dims))
        return b.add("Slice", [x.name, *bounds], x.dtype, dims)
    if way == "gather":
        indices = b.draw.rng.integers(0, size, b.draw.one(3, size))
        dims = tuple(indices.size if place == axis else each for place, each in enumerate(x.dims))
        return b.add("Gather", [x.name, b.constant(indices)], x.dtype, dims, axis=axis)
    if way == "pad":
        dims = tuple(size + 3 if place == axis else each for place, each in enumerate(x.dims))
        return b.add("Pad", [x.name, b.constant([1, 0, 2, 0] if axis == 0 else [0, 1, 0, 2])], x.dtype, dims)
    dims = tuple(2 * size if place == axis else each for place, each in enumerate(x.dims))
    return b.add("Concat", [x.name, b.pick(lambda known: (known.dtype, known.dims) == (x.dtype, x.dims)).name],  # type: ignore[union-attr]
                 x.dtype, dims, axis=axis)


_STEPS: tuple[Callable[[Builder], Known | None], ...] = (
    *[_unary] * 5, *[_binary] * 6, *[_square] * 2, _quotient, *[_compared] * 3, *[_product] * 4, *[_reduced] * 3, _along, *[_moved] * 3,
)
