"""Graphs whose plain translation the engine's simplifications would change: see ``engine/faults/``.

Each is run with open and with fixed sizes, by `ScoringFunction` and by the plain command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import NodeProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.boundary_tensors import bind_sizes, boundary_matrix
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.all_forms import results_of_all_forms
from tests.command_line import run_dml
from tests.operators.harness import Array, compare, ints, random, run_reference
from tests.plain_engine import calls_plainly

INF, NAN = np.inf, np.nan


@dataclass(frozen=True)
class Graph:
    """Nodes from the inputs to ``y``; ``runs`` are the inputs of each run, their differing sizes are open.

    constants: initializers. expected: of each run, else onnxruntime says it.
    """

    nodes: Sequence[NodeProto]
    runs: Sequence[Mapping[str, Array]]
    constants: Mapping[str, Array] = field(default_factory=dict)
    expected: Sequence[Array] = ()
    tolerance: float = 1e-5
    opset: int = 18

    def model(self, *, is_open: bool) -> onnx.ModelProto:
        """The model; with sizes that are open every axis has a symbol of its own."""
        infos = []
        for name, array in self.runs[0].items():
            shapes = zip(*(run[name].shape for run in self.runs))
            dims = [f"{name}{axis}" if is_open and len(set(sizes)) > 1 else sizes[0] for axis, sizes in enumerate(shapes)]
            infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
        initializers = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "case", infos, [onnx.ValueInfoProto(name="y")], initializers)
        imports = [helper.make_opsetid(*pair) for pair in (("", self.opset), ("com.microsoft", 1), ("ai.onnx.ml", 1))]
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=10))
        if model.graph.output[0].type.WhichOneof("value") is None:
            model.graph.output[0].type.CopyFrom(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None))
        return model

    def results(self) -> list[Array]:
        """What is expected of each run."""
        if self.expected:
            return list(self.expected)
        return [np.asarray(run_reference(self.model(is_open=True), run)[0]) for run in self.runs]


def node(op_type: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def sparse(*dims: int, density: float, seed: int = 0) -> Array:
    """Numbers of which so many are not 0."""
    kept = np.random.default_rng(seed).random(dims) < density
    return np.where(kept, random(*dims, seed=seed + 1), 0).astype(np.float32)


def csv(matrix: Array) -> str:
    """Rows as Java writes numbers."""
    rows = [",".join(repr(float(number)) for number in row) for row in matrix]
    return "\n".join(rows).replace("inf", "Infinity").replace("nan", "NaN") + "\n"


def backwards(axis: int, start: int, end: int, step: int, *dims: tuple[int, ...]) -> Graph:
    bounds = {"start": ints(start), "end": ints(end), "axis": ints(axis), "step": ints(step)}
    return Graph([node("Slice", "x start end axis step")], [{"x": random(*shape)} for shape in dims], bounds)


def normalized(op_type: str, density: float, seed: int) -> Graph:
    """Images of which many numbers are 0, for each number of images."""
    images = [sparse(count, 4, 2, 3, density=density, seed=seed + count) for count in (3, 1, 2)]
    quarters = random(4, seed=seed), random(4, seed=seed + 1)
    statistics = {"gamma": quarters[0], "beta": quarters[1], "mean": random(4, seed=seed + 2), "variance": abs(random(4))}
    inputs, attributes, opset = {
        "BatchNormalization": ("x gamma beta mean variance", {}, 15),
        "InstanceNormalization": ("x gamma beta", {}, 18),
        "GroupNormalization": ("x gamma beta", {"num_groups": 2}, 21),
    }[op_type]
    used = {name: statistics[name] for name in inputs.split()[1:]}
    return Graph([node(op_type, inputs, **attributes)], [{"x": x} for x in images], used, opset=opset)


# each row is one case of a sum; the last ones are finite
POISON = np.array([[1, INF, 2, -3], [INF, NAN, 1, 0], [NAN, -INF, 0, 1], [INF, 0, -INF, 1], [-INF, 1, 2, 3], [1, 2, 3, 4],
                   [0, 0, 0, 0]], np.float32)


def reduced(op_type: str, axis: int | None, *, keepdims: int = 0) -> Graph:
    """Sums and means of infinities, NaN and zeros; of rows, of columns, of one axis in between and of all."""
    rows = [POISON, POISON[4:5], POISON[:2]] if axis != 1 else [POISON.T, POISON.T[:, 4:5], POISON.T[:, :2]]
    if axis is None:
        rows = [row[None] for row in POISON]
    runs = [{"x": np.ascontiguousarray(np.expand_dims(one, 2) if axis == 2 else one)} for one in rows]
    kept: dict[str, Any] = {"keepdims": keepdims}
    if op_type == "ReduceSum":
        return Graph([node(op_type, "x axes" if axis is not None else "x", **kept)], runs,
                     {"axes": ints({2: 1, 1: 0, 0: 1}[axis])} if axis is not None else {}, opset=13)
    axes = {} if axis is None else {"axes": [{2: 1, 1: 0, 0: 1}[axis]]}
    return Graph([node(op_type, "x", **axes, **kept)], runs, opset=13)


def chained(*nodes: NodeProto, runs: Sequence[Array], opset: int = 17, **constants: Array) -> Graph:
    return Graph(nodes, [{"x": run} for run in runs], constants, opset=opset)


def beside_filled(op_type: str, number: float, filled: float, *, is_left: bool = True, opset: int = 18, **attributes: int) -> Graph:
    """A number that is known beside a matrix full of another one, of the sizes of x."""
    value = numpy_helper.from_array(np.array([filled], np.float32))
    nodes = [node("Shape", "x", "s"), node("ConstantOfShape", "s", "c", value=value),
             node(op_type, "z c" if is_left else "c z", **attributes)]
    return Graph(nodes, [{"x": np.zeros((2, 3), np.float32)}], {"z": np.array(number, np.float32)}, opset=opset)


def of_filled(op_type: str, filled: float) -> Graph:
    value = numpy_helper.from_array(np.array([filled], np.float32))
    nodes = [node("Shape", "x", "s"), node("ConstantOfShape", "s", "c", value=value), node(op_type, "c")]
    return Graph(nodes, [{"x": np.zeros((2, 3), np.float32)}])


def of_run_length(*nodes: NodeProto, constants: Mapping[str, Array] | None = None, opset: int = 18) -> Graph:
    """Nodes from ``x``, a reshape of an input, and ``f`` and ``c``, fours and their sums, as many as ``k`` says.

    Where sizes are fixed the engine knows that of ``a``, their sum, and not those of the fours.
    """
    four = numpy_helper.from_array(np.array([4], np.float32))
    made = [node("ConstantOfShape", "k", "f", value=four), node("CumSum", "f first", "c"), node("Reshape", "z k", "x"),
            node("Add", "f x", "a")]
    runs = [{"z": 1 + abs(random(size, 2)), "k": ints(2 * size)} for size in (3, 5)]
    return Graph([*made, *nodes], runs, {"first": np.array(0), **(constants or {})}, opset=opset)


def of_transposed(*nodes: NodeProto) -> Graph:
    """Products of two transposed matrices, of which the left one has more elements than the right one and the result."""
    runs = [{"a": random(rows, cols), "b": random(more, rows, seed=1)} for rows, cols, more in ((9, 8, 2), (6, 7, 1), (2, 3, 4))]
    return Graph(nodes, runs)


def poisoned(*nodes: NodeProto, seed: int = 0, cols: int = 7, **constants: Array) -> Graph:
    """``x`` and ``z``, 6 x ``cols``, and the factors ``a``, 6 x 2, and ``b``, 2 x ``cols``, which hold no 0."""
    places = np.random.default_rng(seed)
    numbers = np.array([1, -1, 2, -2, 0.5, 3, NAN, 0, 0, 0, INF, -INF], np.float32)
    inputs = {"x": ((6, cols), numbers), "z": ((6, cols), numbers), "a": ((6, 2), numbers[:7]), "b": ((2, cols), numbers[:6])}
    read = {name for one in nodes for name in one.input} - {one.output[0] for one in nodes}
    runs = [{name: places.choice(choice, dims) for name, (dims, choice) in inputs.items() if name in read} for _ in range(2)]
    return Graph(nodes, runs, constants)


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")


GRAPHS: dict[str, Graph] = {
    **{f"reversed {start} {end} {step} axis {axis} of {dims}": backwards(axis, start, end, step, *dims)
       for start, end, step in [(-1, -(2**31), -1), (2**63 - 1, -(2**63), -1), (-1, -1000, -1), (-2, -1000, -3)]
       for axis, dims in [(0, ((5,), (3,))), (0, ((5, 2), (1, 2), (40, 2))), (1, ((2, 3), (2, 7))),
                          (1, ((2, 3, 4), (5, 1, 2)))]},
    "reversed part": backwards(0, 9, -1000, -1, (20, 2), (10, 2), (7, 2)),
    **{f"{op_type} of density {density}": normalized(op_type, density, seed)
       for op_type in ("BatchNormalization", "InstanceNormalization", "GroupNormalization")
       for seed, density in enumerate([0.0, 0.05, 0.2, 0.45])},
    **{f"{op_type} of poison, axis {axis}": reduced(op_type, axis) for op_type in REDUCTIONS for axis in (0, 1, 2, None)},
    **{f"0 {op_type} {filled}": beside_filled(op_type, 0, filled) for filled in (2, 0, -3)
       for op_type in ("Less", "Greater", "Equal", "GreaterOrEqual", "LessOrEqual", "Div", "Sub", "Add", "Mul", "Max", "Min")},
    **{f"0 Pow {filled}": beside_filled("Pow", 0, filled) for filled in (2, 0)},
    "filled over itself": chained(node("Shape", "x", "s"), node("Expand", "forty_nine s", "c"), node("Div", "c forty_nine", "q"), node("Cast", "q", to=1),
                                  runs=[random(2, 3)], forty_nine=np.array(49, np.int64)),
    **{f"{op_type} of {filled}": of_filled(op_type, filled) for op_type in ("Softsign", "LogSoftmax", "Elu", "Reciprocal")
       for filled in (0, 1)},
    "choice by a number of the run": Graph(
        [node("Shape", "x", "s"), node("Expand", "b s", "c"), node("Where", "c x z")],
        [{"x": random(2, 3), "b": np.array(chosen)} for chosen in (False, True)], {"z": np.array(7, np.float32)}),
    "count by a number of the run": Graph(
        [node("Shape", "x", "s"), node("Expand", "b s", "c"), node("Equal", "c z", "e"), node("Not", "e", "n"),
         node("Cast", "n", "f", to=1), node("ReduceSum", "f", keepdims=0)],
        [{"x": random(2, 3), "b": np.array(number, np.float32)} for number in (0, 5)], {"z": np.array(0, np.float32)}),
    "comparison that fails": chained(node("Less", "x z", "l"), node("Equal", "l f"), runs=[POISON, POISON[:1]],
                                     z=np.array(1, np.float32), f=np.array(False)),
    "no comparison": chained(node("Less", "x z", "l"), node("Not", "l"), runs=[POISON], z=np.array(1, np.float32)),
    "product with its sign": chained(node("Greater", "x z", "g"), node("Cast", "g", "m", to=1), node("Mul", "x m"),
                                     runs=[POISON, POISON[:1]], z=np.array(0, np.float32)),
    "difference of signs": chained(node("Greater", "x z", "g"), node("Cast", "g", "m", to=1), node("Less", "x z", "l"),
                                   node("Cast", "l", "n", to=1), node("Sub", "m n"), runs=[POISON], z=np.array(0, np.float32)),
    **{f"sums backwards, axis {axis}": chained(node("CumSum", "x axis", reverse=1), axis=np.array(axis, np.int64),
                                               runs=[np.array([[1e20, 1], [1, INF], [3, 2]], np.float32), POISON])
       for axis in (0, 1)},
    "softsign of zeros from the end": Graph(
        [node("Slice", "x s e a s", "r"), node("Softsign", "r")], [{"x": np.zeros(dims, np.float32)} for dims in ((1, 6), (3, 4))],
        {"s": ints(-1), "e": ints(-(2**31)), "a": ints(1)}),
    "one of two rows of unknown length": Graph(
        [node("Tanh", "x", "t"), node("Sign", "t", "u"), node("Where", "c x u", "w"), node("Tanh", "w")],
        [{"x": random(1, size, 3), "c": np.array(size > 4)} for size in (4, 5)]),
    "one of two vectors of unknown length": of_run_length(
        node("Less", "c limit", "b"), node("Neg", "x", "n"), node("Where", "b x n"), constants={"limit": np.array([9], np.float32)}),
    **{f"remainder of vectors of unknown length, {left}": of_run_length(node("Mod", left, fmod=1)) for left in ("a c", "c a")},
    **{f"one of two {words} of known length": Graph(
        [node("ReduceSum", "x a", "r", keepdims=1), node("Equal", "r z", "b"), node("Where", "b o r")],
        [{"x": np.array([[1, 0, -2, 0, 3], *[[0] * 5] * size], np.float32).reshape(-1, *dims)} for size in (0, 2)],
        {"a": ints(0), "z": np.array(0, np.float32), "o": np.full((1, *dims), 7, np.float32)})
       for words, dims in {"rows": (5,), "columns": (5, 1)}.items()},
    "imputed features of a row of known length": Graph(
        [node("ReduceSum", "x a", "r", keepdims=1), helper.make_node("Imputer", ["r"], ["y"], domain="ai.onnx.ml",
                                                                      imputed_value_floats=[4.0, 2.0, 1.0], replaced_value_float=1.0)],
        [{"x": np.array([[1, 5, 1], *[[0, 0, 0]] * size], np.float32)} for size in (0, 2)], {"a": ints(0)},
        expected=[np.array([[4, 5, 1]], np.float32)] * 2),
    **{f"numbers of a row of known length as {name}": Graph(
        [node("ReduceSum", "x a", "r", keepdims=1), node("Cast", "r", "c", to=kind), node("Cast", "c", to=1)],
        [{"x": np.array([[1, 2, 4], *[[0, 0, 0]] * size], np.float32)} for size in (0, 2)], {"a": ints(0)},
        expected=[np.array([[1, 2, 4]], np.float32)] * 2, opset=23) for name, kind in {"float4e2m1": onnx.TensorProto.FLOAT4E2M1}.items()},
    "triangle of a row of unknown length": of_run_length(
        node("Unsqueeze", "a zero", "r"), node("Trilu", "r three"), constants={"zero": ints(0), "three": np.array(3)}),
    **{f"power of vectors of unknown length, {inputs}": of_run_length(
        node("Div", "c eight", "e"), node("Pow", inputs), constants={"eight": np.array(8, np.float32)}) for inputs in ("a e", "e a")},
    "one of two quantised vectors of unknown length": of_run_length(
        node("Less", "c limit", "b"), node("Cast", "x", "i", to=3), node("Cast", "f", "j", to=3),
        helper.make_node("QLinearWhere", ["b", "i", "s", "o", "j", "s", "o", "s", "o"], ["q"], domain="com.microsoft"),
        node("Cast", "q", to=1), constants={"limit": np.array([9], np.float32), "s": np.array(1, np.float32), "o": np.array(0, np.int8)}),
    "a range from its end": Graph(
        [node("Shape", "x", "l", end=1), node("Squeeze", "l", "n"), node("Range", "zero n one", "r"),
         node("Slice", "r s e a s", "b"), node("Cast", "b", "f", to=1), node("Mul", "f f", "p"), node("Sub", "p f")],
        [{"x": np.zeros(size, np.float32)} for size in (3, 5)],
        {"s": ints(-1), "e": ints(-(2**31)), "a": ints(0), "zero": np.array(0), "one": np.array(1)}),
    **{f"{op_type} of moved zeros and a number beside them": Graph(
        [node("Transpose", "x", "m"), node("Abs", "m", "a"), node("Add", "a o", "b"), node(op_type, "m b")],
        [{"x": np.zeros(dims, np.float32)} for dims in ((1, 6), (3, 4))], {"o": np.array(2, np.float32)})
       for op_type in ("Div", "Max", "Min", "Less", "Equal", "Pow")},
    "quotients of zeros and scaled ones": Graph(
        [node("Transpose", "x", "m"), node("Sub", "m o", "b"), node("Mul", "b o", "c"), node("Div", "m c")],
        [{"x": np.zeros(dims, np.float32)} for dims in ((1, 6), (3, 4))], {"o": np.array(2, np.float32)}),
    "powers of one": Graph([node("Pow", "x e")], [
        {"x": np.array([1, -1, 1, -1, 2, 0, 1], np.float32), "e": np.array([NAN, INF, -INF, 3, NAN, 2, 0], np.float32)},
        {"x": np.array([1, 1, 3], np.float32), "e": np.array([NAN, 2, INF], np.float32)}]),
    "powers of ones": chained(node("Pow", "o x"), runs=[POISON, POISON[:1]], o=np.array(1, np.float32)),
    "variance of a row": chained(node("MeanVarianceNormalization", "x", axes=[1]), runs=[random(1, 6), random(1, 4, seed=3)]),
    "both transposed": of_transposed(node("Gemm", "a b", transA=1, transB=1)),
    "both transposed before": of_transposed(node("Transpose", "a", "c"), node("Transpose", "b", "d"), node("MatMul", "c d")),
    "one transposed before": of_transposed(node("Transpose", "a", "c"), node("Gemm", "c b", transB=1)),
    "other one transposed before": of_transposed(node("Transpose", "b", "d"), node("Gemm", "a d", transA=1)),
    "sum over k": of_transposed(node("Einsum", "a b", equation="km,nk->mn")),
    "difference from both transposed": Graph(
        [node("Gemm", "a b", "p", transA=1, transB=1), node("Sub", "p c", "d"), node("Transpose", "d")],
        [{"a": random(4, 3), "b": random(2, 4, seed=1), "c": random(3, 2, seed=2)}]),
    "difference from transposed ones": Graph(
        [node("Transpose", "a", "s"), node("Transpose", "b", "t"), node("MatMul", "s t", "p"), node("Mul", "p c", "d"),
         node("Transpose", "d")], [{"a": random(4, 3), "b": random(2, 4, seed=1), "c": random(3, 2, seed=2)}]),
    "fused product": of_transposed(helper.make_node("FusedMatMul", ["a", "b"], ["y"], domain="com.microsoft", transA=1, transB=1)),
    "sum after softmax": chained(node("LogSoftmax", "x", "z"), node("ReduceSum", "z", keepdims=0),
                                  runs=[random(1, 6), random(3, 6), random(1, 6, seed=2)]),
    "sum after softmax of zeros": chained(node("LogSoftmax", "x", "z"), node("ReduceSum", "z", keepdims=0),
                                           runs=[np.zeros(6, np.float32), random(6), np.zeros(3, np.float32)]),
    "sum of rows after softmax": chained(node("LogSoftmax", "x", "z"), node("ReduceSum", "z axes"), axes=ints(1),
                                          runs=[np.zeros((1, 6), np.float32), random(2, 6)]),
    "mean of poisoned images": chained(node("GlobalAveragePool", "x"),
                                       runs=[POISON.reshape(1, 7, 2, 2), POISON[:4].reshape(2, 2, 2, 2)]),
    "root mean square of poison": chained(node("Mul", "x x", "s"), node("ReduceMean", "s", "m", axes=[1]),
                                          node("Sqrt", "m", "r"), node("Div", "x r"), runs=[POISON, POISON[:1]]),
    **{f"{op_type} of a product, {inputs}": poisoned(node("Mul", "x z", "m"), node(op_type, inputs))
       for op_type, inputs in (("Add", "x m"), ("Add", "m x"), ("Sub", "x m"), ("Sub", "m z"))},
    "sum of a product with a row": poisoned(node("Mul", "x r", "m"), node("Add", "m x"), r=np.array([1, -1, 2, -3, 0, 1, 0.5], np.float32)),
    "sum of a product of copies": poisoned(node("Mul", "x z", "m"), node("Identity", "x", "i"), node("Tanh", "i", "t"), node("Mul", "t z", "u"),
                                           node("Add", "m i", "s"), node("Add", "s u")),
    "product of three": Graph(
        [node("MatMul", "a b", "m"), node("MatMul", "m c")],
        [{"a": np.array([[INF, INF], *[[2, 1]] * (size - 1)], np.float32), "b": np.ones((2, size), np.float32),
          "c": np.array([[-4], *[[1]] * (size - 1)], np.float32)} for size in (3, 4)]),
    "row of a product, taken twice": chained(node("MatMul", "x b", "m"), node("Gather", "m i"), runs=[random(3, 2)],
                                             b=random(2, 1, seed=1), i=ints(-1, -1)),
    "logarithms of what is not 0": poisoned(node("Cast", "x", "b", to=9), node("Cast", "b", "m", to=1), node("Log", "x", "l"), node("Mul", "m l")),
    "infinity where something is": poisoned(node("Cast", "x", "b", to=9), node("Cast", "b", "m", to=1), node("Mul", "i m", "n"), node("Sub", "x n"),
                                            i=np.array(INF, np.float32)),
    "infinity where nothing is": chained(node("Equal", "x o", "b"), node("Cast", "b", "m", to=1), node("Mul", "m i", "n"), node("Add", "x n"),
                                         runs=[np.eye(2, 3, dtype=np.float32)], o=np.array(0, np.float32), i=np.array(INF, np.float32)),
    "gate of a product": poisoned(node("MatMul", "a b", "m"), node("Sigmoid", "m", "g"), node("Mul", "x g")),
    "logarithm of a gate": replace(
        poisoned(node("MatMul", "a b", "m"), node("Sigmoid", "m", "g"), node("Log", "g", "l"), node("Mul", "x l")), tolerance=1e-3),
    **{f"{op_type} of weights and the {function} of a wide product": poisoned(
        node("MatMul", "a b", "m"), node(function, "m", "f"), node(op_type, "x f"), cols=1100)
       for op_type, function in (("Mul", "Exp"), ("Div", "Abs"))},
    "weighted product by one of its factors": Graph(
        [node("MatMul", "a b", "m"), node("Div", "x m", "n"), node("Transpose", "a", "t"), node("MatMul", "t n")],
        [{"a": np.array([[1, -1], *[[1, 2]] * (size - 1)], np.float32), "b": np.array([[1, 2, 3], [1] * 3], np.float32),
          "x": 1 - np.eye(size, 3, dtype=np.float32)} for size in (3, 4)]),
    "product and zeros beside it": poisoned(node("MatMul", "a b", "m"), node("Pad", "m p"), p=ints(0, 0, 0, 3)),
    "sum in brackets": Graph([node("Add", "x z", "s"), node("Add", "w s")],
                             [{"x": np.full(dims, 1e20, np.float32), "z": np.full(dims, -1e20, np.float32), "w": random(*dims)}
                              for dims in ((2, 3), (4, 3))]),
    "sum with numbers that cancel": chained(node("Add", "x a", "s"), node("Add", "s b"), runs=[np.full((2, 3), -1e20, np.float32)],
                                            a=np.array(1e20, np.float32), b=np.array(1, np.float32)),
    "sum with numbers of the run": Graph(
        [node("Add", "x a", "s"), node("Add", "s b")],
        [{"x": np.full((2, 3), -1e20, np.float32), "a": np.array(1e20, np.float32), "b": np.array([1], np.float32)}]),
    "difference of numbers that cancel": chained(node("Sub", "a x", "s"), node("Sub", "s b"), runs=[np.full((2, 3), 1e20, np.float32)],
                                                 a=np.array(1e20, np.float32), b=np.array(1, np.float32)),
    **{f"{number} for NaN": chained(
        node("IsNaN", "x", "n"), node("Where", "n c x"), c=np.array(number, np.float32),
        runs=[np.array([[NAN, 1, -INF], [0, NAN, INF]], np.float32), np.full((1, 1), NAN, np.float32), np.zeros((3, 1), np.float32)])
       for number in (0, -2.5)},
    "reversed part of columns": backwards(1, 9, -1000, -1, (2, 20), (2, 10), (2, 7)),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "fixed"])
def test_scoring(name: str, is_open: bool) -> None:
    case = GRAPHS[name]
    expected = case.results()
    for runs in [range(len(case.runs))] if is_open else [[0]]:
        script = import_model(case.model(is_open=is_open))
        for options in [{}, {"specialise_after": 1}]:
            with ScoringFunction(script, **options) as function:
                for run in runs:
                    for result in results_of_all_forms(function, case.runs[run]):
                        compare(result["y"], expected[run], case.tolerance, name)


def test_command_line(tmp_path: Path) -> None:
    """One program calls the functions of all scripts, with open sizes and with fixed ones."""
    program: list[str] = []
    calls: list[str] = []
    expected: dict[str, Array] = {}
    for number, (name, case) in enumerate(GRAPHS.items()):
        results = case.results()
        for is_open in (True, False):
            space = f"{'open' if is_open else 'fixed'}{number}"
            script = import_model(case.model(is_open=is_open), function_name="gen_case", weights="inline")
            (tmp_path / f"{space}.dml").write_text(script.text)
            program.append(f'source("{space}.dml") as {space}')
            for run, inputs in enumerate(case.runs if is_open else case.runs[:1]):
                arguments = []
                for key, array in inputs.items():
                    file = f"{space}_{run}_{key}.csv"
                    (tmp_path / file).write_text(csv(boundary_matrix(array)))
                    read = f'read("{file}", format="csv", header=FALSE)'
                    arguments.append(read if array.ndim else f"as.scalar({read})")
                bound = bind_sizes(script.inputs, inputs)
                sizes = [str(bound[symbol]) for symbol in script.sizes]
                result = f"result{len(calls)}"
                calls.append(f"{result} = {space}::gen_case({', '.join(arguments + sizes)})")
                if not results[run].ndim:
                    calls.append(f"matrix_{result} = as.matrix({result})")
                    result = f"matrix_{result}"
                calls.append(f'write({result}, "{space}_{run}.csv", format="csv")')
                expected[f"{space}_{run}.csv"] = results[run]
    run_dml("\n".join([*program, *calls]), tmp_path)
    for file, result in expected.items():
        actual = np.loadtxt(tmp_path / file, delimiter=",", ndmin=2)
        name = list(GRAPHS)[int(file.removeprefix("open").removeprefix("fixed").split("_")[0])]
        assert actual.size == result.size, f"{file} ({name})"
        compare(actual.astype(result.dtype).reshape(result.shape), result, GRAPHS[name].tolerance, f"{file} ({name})")


def test_functions_of_the_model_that_the_engine_inlines() -> None:
    """``f`` is more than one statement until its dead ends are gone, and called twice: it stays a function."""
    steps = "\n".join(f"t{place + 1} = Tanh(t{place})" for place in range(12))
    model = onnx.parser.parse_model(f'''<ir_version: 10, opset_import: ["": 18, "own": 1]>
        case (float[N, 2] x, float[N, 2] z) => (float[N, 2] y) {{ m = own.f(x, z)
        s = Add(x, m)
        n = own.f(s, z)
        y = Add(s, n) }}
        <domain: "own", opset_import: ["": 18]> f (a, b) => (c) {{ t0 = Identity(a)
        {steps}
        c = Mul(a, b) }}''')
    script = import_model(model)
    assert "gen_f" in script.text
    with ScoringFunction(script) as function:
        for result in results_of_all_forms(function, {"x": np.array([[INF, 1]], np.float32), "z": np.array([[-2, 3]], np.float32)}):
            compare(result["y"], np.array([[NAN, 16]], np.float32), 1e-5, "function")


def test_zeros_and_a_vector_whose_sizes_the_engine_does_not_know() -> None:
    """In a function that a program calls twice."""
    graph = Graph(
        [node("ReduceMax", "x a", "r"), node("Cast", "r", "i", to=6), node("Cast", "i", "f", to=1), node("Add", "z f", "s"),
         node("ReduceSum", "s", keepdims=0)],
        [{"x": 3 * random(3, size), "w": random(size)} for size in (2, 4)], {"a": ints(1), "z": np.zeros((3, 7), np.float32)})
    found = calls_plainly(import_model(graph.model(is_open=True)), graph.runs, open_sizes=True)
    for run, results in zip(graph.runs, found):
        assert results["y"] == 7 * np.trunc(run["x"].max(axis=1)).sum()
