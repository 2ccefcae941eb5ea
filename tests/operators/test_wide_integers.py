"""64-bit integers around 2^53 and at the ends of their types: each result is exact, or refused; numpy judges.

What is in reach must not be refused: operands up to 2^53 whose exact result, and each sum on the way, is smaller than
2^53.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import backend, import_model
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.errors import TranspileError, UnsupportedCase
from onnx_systemds.runtime.boundary_integers import InexactInteger
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.command_line import run_dml
from tests.operators.harness import Array

LIMIT = 2**53
SIGNED = [0, 1, -1, 7, -3, 2**31, 2**52 + 1, LIMIT - 1, LIMIT, LIMIT + 1, -LIMIT + 1, -LIMIT, -LIMIT - 1, 2**62, 2**63 - 1,
          -(2**63)]
UNSIGNED = [0, 1, 5, 2**32, LIMIT - 1, LIMIT, LIMIT + 1, 2**63, 2**64 - 1]
NUMBERS = {"int64": SIGNED, "uint64": UNSIGNED}
KINDS = {"int64": TensorProto.INT64, "uint64": TensorProto.UINT64, "float": TensorProto.FLOAT,
         "double": TensorProto.DOUBLE, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}
NAMES = {"float": "float32", "double": "float64"}

Judge = Callable[..., Any]


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs.split(), output.split(), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, tuple[str, Any]], result: str,
    constants: Mapping[str, Array] | None = None, opset: int = 21,
) -> onnx.ModelProto:
    """inputs: dtype and dims by name. The output is y."""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(name, KINDS[dtype], dims) for name, (dtype, dims) in inputs.items()],
        [helper.make_tensor_value_info("y", KINDS[result], None)],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def check(score: ScoringFunction, expected: Array, in_reach: bool, **inputs: Array) -> None:
    """The call gives the expected numbers, or ends in an error; in_reach: it must not."""
    try:
        found = score(inputs)["y"]
    except (InexactInteger, ScriptRuntimeError) as error:
        assert not in_reach, f"{inputs}: {error}"
        assert "2^53" in str(error) or "does not hold" in str(error), error
        return
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected, err_msg=str(inputs))


def small(*arrays: Any) -> bool:
    return all(abs(int(number)) < LIMIT for array in arrays for number in np.asarray(array, dtype=object).ravel())


def exactly(judge: Judge, *operands: int) -> Any:
    """What Python's integers give; None where that is no number."""
    try:
        return judge(*operands)
    except (ZeroDivisionError, ValueError):
        return None


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def wrapped(number: int, dtype: str) -> int:
    low = int(np.iinfo(dtype).min)
    return (number - low) % 2 ** (8 * np.dtype(dtype).itemsize) + low


ONE: dict[str, Judge] = {"Abs": abs, "Neg": lambda x: -x, "Sign": lambda x: (x > 0) - (x < 0), "Identity": lambda x: x,
                         "BitwiseNot": lambda x: -1 - x}
TWO: dict[str, Judge] = {
    "Add": lambda x, y: x + y, "Sub": lambda x, y: x - y, "Mul": lambda x, y: x * y, "Div": truncated,
    "Mod": lambda x, y: x % y, "Max": max, "Min": min, "BitwiseAnd": lambda x, y: x & y, "BitwiseOr": lambda x, y: x | y,
    "BitwiseXor": lambda x, y: x ^ y, "PRelu": lambda x, y: x if x >= 0 else x * y,
}
COMPARISONS: dict[str, Judge] = {"Equal": lambda x, y: x == y, "Less": lambda x, y: x < y, "Greater": lambda x, y: x > y,
                                 "LessOrEqual": lambda x, y: x <= y}


@pytest.mark.parametrize("after", ["", "Equal", "Cast", "Mod"])
@pytest.mark.parametrize("op_type", TWO)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_two_operands(dtype: str, op_type: str, after: str) -> None:
    """Alone, and in front of an operator to which a rounded number would make a difference."""
    nodes = [node(op_type, "a b", "t" if after else "y")]
    judge, result = TWO[op_type], dtype
    if after == "Equal":
        nodes, result = [*nodes, node("Equal", "t c", "y")], "bool"
    elif after == "Cast":
        nodes, result = [*nodes, node("Cast", "t", "y", to=TensorProto.DOUBLE)], "double"
    elif after:
        nodes = [*nodes, node("Mod", "t seven", "y")]
    constants = {"seven": np.array([7], dtype)} if after == "Mod" else {}
    given = {name: (dtype, [1]) for name in ("a", "b", *(["c"] if after == "Equal" else []))}
    with ScoringFunction(import_model(model(nodes, given, result, constants))) as score:
        for a, b in itertools.product(NUMBERS[dtype], repeat=2):
            number = exactly(judge, a, b)
            if number is None:
                continue
            in_reach = small(a, b, number) and (dtype == "int64" or number >= 0)
            number = wrapped(number, dtype)
            inputs = {"a": np.array([a], dtype), "b": np.array([b], dtype)}
            if after == "Equal":
                for other in {number, int(float(number)) if small(number) else number, NUMBERS[dtype][8]}:
                    check(score, np.array([number == other]), in_reach and small(other),
                          **inputs, c=np.array([other], dtype))
                continue
            if after == "Cast":
                expected: Array = np.array([float(number)])
            else:
                expected = np.array([number % 7 if after else number], dtype)
            check(score, expected, in_reach, **inputs)


@pytest.mark.parametrize("op_type", ONE)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_one_operand(dtype: str, op_type: str) -> None:
    if (dtype, op_type) == ("uint64", "BitwiseNot"):
        with pytest.raises(UnsupportedCase, match="BitwiseNot of uint64"):
            import_model(model([node(op_type, "a", "y")], {"a": (dtype, [1])}, dtype))
        return
    if (dtype, op_type) == ("uint64", "Neg"):
        return  # Neg is of signed numbers
    with ScoringFunction(import_model(model([node(op_type, "a", "y")], {"a": (dtype, [1])}, dtype))) as score:
        for a in NUMBERS[dtype]:
            number = ONE[op_type](a)
            check(score, np.array([wrapped(number, dtype)], dtype), small(a, number), a=np.array([a], dtype))


@pytest.mark.parametrize("op_type", COMPARISONS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_comparisons(dtype: str, op_type: str) -> None:
    """Exact for all numbers that FP64 holds, the largest of the type among them."""
    with ScoringFunction(
        import_model(model([node(op_type, "a b", "y")], {"a": (dtype, [1]), "b": (dtype, [1])}, "bool"))
    ) as score:
        for a, b in itertools.product(NUMBERS[dtype], repeat=2):
            in_reach = all(int(float(x)) == x or x in (2**63 - 1, 2**64 - 1) for x in (a, b))
            check(score, np.array([COMPARISONS[op_type](a, b)]), in_reach, a=np.array([a], dtype), b=np.array([b], dtype))


MOVES: dict[str, tuple[list[onnx.NodeProto], Judge]] = {
    "Concat": ([node("Concat", "a b", "y", axis=0)], lambda a, b: np.concatenate([a, b])),
    "Where": ([node("Less", "a b", "t"), node("Where", "t a b", "y")], lambda a, b: np.where(a < b, a, b)),
    "Gather": ([node("Concat", "a b", "t", axis=0), node("Gather", "t i", "y")],
               lambda a, b: np.concatenate([a, b])[[1, 0, 1]]),
    "Sort": ([node("Concat", "a b", "t", axis=0), node("TopK", "t two", "y places")],
             lambda a, b: np.sort(np.concatenate([a, b]))[::-1]),
    "Unique": ([node("Concat", "a b", "t", axis=0), node("Unique", "t", "y")],
               lambda a, b: np.unique(np.concatenate([a, b]))),
    "Scatter": ([node("Concat", "a a a", "t", axis=0), node("ScatterElements", "t j b", "y")],
                lambda a, b: np.concatenate([a, b, a])),
    "Pad": ([node("Squeeze", "b", "t"), node("Pad", "a pads t", "y")], lambda a, b: np.concatenate([b, a, b])),
    "Clip": ([node("Squeeze", "b", "t"), node("Clip", "a t", "y")], lambda a, b: np.maximum(a, b)),
    "Sequence": ([node("SequenceConstruct", "a b", "s"), node("SequenceAt", "s one", "y")], lambda a, b: b),
    "Transpose": ([node("Expand", "a shape", "t"), node("Transpose", "t", "y")],
                  lambda a, b: np.broadcast_to(a, (3, 2))),
    "Resize": ([node("Reshape", "a shape1", "t"), node("Tile", "t repeats", "y")], lambda a, b: np.full((1, 2), a)),
}
PLACES = {"i": np.array([1, 0, 1]), "two": np.array([2]), "j": np.array([1]), "pads": np.array([1, 1]),
          "one": np.array(1), "shape": np.array([2, 3]), "shape1": np.array([1, 1]), "repeats": np.array([1, 2])}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_moves(dtype: str, name: str) -> None:
    """Exact for all numbers that FP64 holds, the largest of the type among them."""
    nodes, judge = MOVES[name]
    used = {source for inner in nodes for source in inner.input}
    constants = {key: content for key, content in PLACES.items() if key in used}
    given = {key: (dtype, [1]) for key in ("a", "b") if key in used}
    with ScoringFunction(import_model(model(nodes, given, dtype, constants))) as score:
        for a, b in itertools.product(NUMBERS[dtype], repeat=2):
            inputs = {key: np.array([number], dtype) for key, number in (("a", a), ("b", b)) if key in used}
            held = all(int(float(x)) == x or x in (2**63 - 1, 2**64 - 1) for x in (a, b))
            check(score, judge(np.array([a], dtype), np.array([b], dtype)), held and name != "Sequence", **inputs)


SUMS: dict[str, tuple[list[onnx.NodeProto], Callable[[list[int]], Any]]] = {
    "ReduceSum": ([node("ReduceSum", "a", "y", keepdims=0)], sum),
    "ReduceSumSquare": ([node("ReduceSumSquare", "a", "y", keepdims=0)], lambda a: sum(x * x for x in a)),
    "ReduceL1": ([node("ReduceL1", "a", "y", keepdims=0)], lambda a: sum(map(abs, a))),
    "ReduceMean": ([node("ReduceMean", "a", "y", keepdims=0)], lambda a: truncated(sum(a), len(a))),
    "ReduceProd": ([node("ReduceProd", "a", "y", keepdims=0)], lambda a: int(np.prod(np.array(a, dtype=object)))),
    "CumSum": ([node("CumSum", "a axis", "y")], lambda a: list(itertools.accumulate(a))),
    "CumProd": ([node("CumProd", "a axis", "y")], lambda a: list(itertools.accumulate(a, lambda x, y: x * y))),
    "MatMul": ([node("MatMul", "a a", "y")], lambda a: sum(x * x for x in a)),
    "Einsum": ([node("Einsum", "a a", "y", equation="i,i->")], lambda a: sum(x * x for x in a)),
    "ScatterND": ([node("ScatterND", "a j a", "y", reduction="add")], lambda a: [a[0] + sum(a), *a[1:]]),
    "sum in front": ([node("ReduceSum", "a", "t", keepdims=0), node("Mod", "t seven", "y")], lambda a: sum(a) % 7),
    "cumulative in front": ([node("CumSum", "a axis", "t"), node("Mod", "t seven", "y")],
                            lambda a: [x % 7 for x in itertools.accumulate(a)]),
}
ROWS = [[1, 2, 3], [LIMIT, 1, -LIMIT], [LIMIT - 1, 1, -1], [2**62, 1, -(2**62)], [LIMIT // 3] * 3, [3**16, -(3**16), 2],
        [2**63 - 1, 0, 0], [2**26, 2**26, 2], [2**27, 2**26, 1], [-(2**63), 1, 0], [0, LIMIT - 1, -LIMIT + 1]]


@pytest.mark.parametrize("dims", [[3], ["n"]], ids=["fixed", "open"])
@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str, dims: list[Any]) -> None:
    """Digits that are lost on the way would be lost in the end, too."""
    nodes, judge = SUMS[name]
    used = {source for inner in nodes for source in inner.input}
    constants = {"axis": np.array(0), "seven": np.array(7), "j": np.zeros((3, 1), np.int64)}
    constants = {key: content for key, content in constants.items() if key in used}
    opset = 26 if name == "CumProd" else 21
    script = import_model(model(nodes, {"a": ("int64", dims)}, "int64", constants, opset))
    with ScoringFunction(script, specialise_after=3) as score:
        for row in ROWS * 2:
            number = judge(row)
            expected = np.array([wrapped(x, "int64") for x in np.array(number, dtype=object).ravel()])
            largest = max(map(abs, row))
            in_reach = largest * largest * 3 < LIMIT
            check(score, expected.reshape(np.shape(number)), in_reach, a=np.array(row))


@pytest.mark.parametrize("alpha,beta", [(1.0, 1.0), (9.0, 1.0), (1.0, 9.0), (-3.0, 5.0)])
def test_scaled_sums(alpha: float, beta: float) -> None:
    """The factors of Gemm make results larger."""
    given = {"a": ("int64", [1, 1]), "c": ("int64", [1, 1])}
    script = import_model(model([node("Gemm", "a one c", "y", alpha=alpha, beta=beta)], given, "int64",
                                {"one": np.array([[1]])}))
    with ScoringFunction(script) as score:
        for a, c in itertools.product([3, LIMIT // 4 + 1, -(LIMIT // 16) - 1, LIMIT - 1], repeat=2):
            number = int(alpha) * a + int(beta) * c
            in_reach = abs(alpha) * abs(a) + abs(beta) * abs(c) < LIMIT
            check(score, np.array([[number]]), in_reach, a=np.array([[a]]), c=np.array([[c]]))


CASTS = [("int64", "uint64"), ("uint64", "int64"), ("int64", "float"), ("uint64", "double"), ("int64", "int32"),
         ("uint64", "bool")]


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts(source: str, target: str) -> None:
    nodes = [node("Cast", "a", "y", to=KINDS[target])]
    with ScoringFunction(import_model(model(nodes, {"a": (source, [1])}, target))) as score:
        for a in NUMBERS[source]:
            expected = np.array([a], source).astype(NAMES.get(target, target))
            check(score, expected, small(a) and (a >= 0 or target != "uint64"), a=np.array([a], source))


@pytest.mark.parametrize("after", [[], [node("Add", "t zero", "y")]], ids=["alone", "computed with"])
def test_casts_of_floats(after: list[onnx.NodeProto]) -> None:
    nodes = [node("Cast", "a", "t" if after else "y", to=TensorProto.INT64), *after]
    constants = {"zero": np.array([0])} if after else {}
    with ScoringFunction(import_model(model(nodes, {"a": ("double", [1])}, "int64", constants))) as score:
        for a in (1.5, -2.5, 2.0**53 - 1, 2.0**53, 2.0**60, -(2.0**63), 2.0**62 + 2.0**30):
            check(score, np.array([int(a)]), abs(a) < LIMIT, a=np.array([a]))


@pytest.mark.parametrize("dims", [["n"], [1]], ids=str)
def test_casts_of_infinities_that_nobody_chooses(dims: list[Any]) -> None:
    """Relative positions of T5 and MPNet: the logarithm of 0 is cast, summed and limited; then another number is taken."""
    nodes = [node("Log", "a", "logarithm"), node("Cast", "logarithm", "t", to=TensorProto.INT64),
             node("Add", "t eight", "sum"), node("Min", "sum ten", "limited"), node("Where", "c limited eight", "y")]
    constants = {"eight": np.array([8]), "ten": np.array([10])}
    given = {"a": ("float", dims), "c": ("bool", dims)}
    with ScoringFunction(import_model(model(nodes, given, "int64", constants))) as score:
        for a, expected in ((3, 9), (0, 8), (1000, 10)):
            check(score, np.array([expected]), True, a=np.array([a], np.float32), c=np.array([a > 0]))


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_shifts(dtype: str, direction: str) -> None:
    opset = 21 if dtype == "uint64" else 28
    nodes = [node("BitShift", "a b", "y", direction=direction)]
    given = {"a": (dtype, [1]), "b": (dtype, [1])}
    with ScoringFunction(import_model(model(nodes, given, dtype, opset=opset))) as score:
        for a, amount in itertools.product(NUMBERS[dtype], (0, 1, 3, 9, 10, 11, 31, 62, 63)):
            moved = a << amount if direction == "LEFT" else a >> amount
            expected = np.array([wrapped(moved, dtype)], dtype)
            check(score, expected, small(a), a=np.array([a], dtype), b=np.array([amount], dtype))


def test_negative_numbers_through_unsigned_ones() -> None:
    """The upper bits of a negative number are ones, which FP64 does not hold."""
    nodes = [node("Cast", "a", "t", to=TensorProto.UINT64), node("BitShift", "t one", "u", direction="RIGHT"),
             node("Cast", "u", "y", to=TensorProto.INT64)]
    script = import_model(model(nodes, {"a": ("int64", ["n"])}, "int64", {"one": np.array([1], np.uint64)}))
    with ScoringFunction(script) as score:
        np.testing.assert_array_equal(score({"a": np.array([8, 5, LIMIT])})["y"], [4, 2, LIMIT // 2])
        with pytest.raises(ScriptRuntimeError, match="negative"):
            score({"a": np.array([8, -5])})


def test_shifts_that_exporters_write_by_unsigned_ones() -> None:
    """PyTorch's: to the right, a mask fills what a negative number leaves free."""
    nodes = [node("Cast", "a", "t", to=TensorProto.UINT64), node("BitShift", "t two", "u", direction="RIGHT"),
             node("BitwiseOr", "u mask", "m"), node("Cast", "m", "below", to=TensorProto.INT64),
             node("Cast", "u", "above", to=TensorProto.INT64), node("Less", "a zero", "negative"),
             node("Where", "negative below above", "right"), node("Cast", "right", "v", to=TensorProto.UINT64),
             node("BitShift", "v three", "w", direction="LEFT"), node("Cast", "w", "y", to=TensorProto.INT64)]
    constants = {"two": np.array(2, np.uint64), "three": np.array(3, np.uint64), "zero": np.array(0),
                 "mask": np.array(3 << 62, np.uint64)}
    a = np.array([8, -5, -1, 0, 3, LIMIT, -LIMIT])
    with ScoringFunction(import_model(model(nodes, {"a": ("int64", ["n"])}, "int64", constants, opset=18))) as score:
        np.testing.assert_array_equal(score({"a": a})["y"], a >> 2 << 3)


def test_on_the_command_line(tmp_path: Path) -> None:
    nodes = [node("Add", "a b", "t"), node("Mod", "t seven", "y")]
    given = {"a": ("int64", ["n", 2]), "b": ("int64", ["n", 2])}
    text = import_model(model(nodes, given, "int64", {"seven": np.array([7])}), function_name="f").text
    inputs = 'A = matrix("1 {} 3 4", rows=2, cols=2)\nB = matrix("1 1 1 1", rows=2, cols=2)\n'
    program = text + "\n" + inputs + "Y = f(A, B)\nprint(toString(Y))"
    assert f"2.000 {(LIMIT - 6) % 7}.000" in run_dml(program.replace("{}", str(LIMIT - 7)), tmp_path)
    with pytest.raises(AssertionError, match=r"beyond 2\^53"):
        run_dml(program.replace("{}", str(LIMIT)), tmp_path)


def loop(body: list[onnx.NodeProto], trips: int, start: str) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """A Loop that carries an int64 from s to r."""
    infos = [helper.make_tensor_value_info(name, kind, dims)
             for name, kind, dims in (("i", KINDS["int64"], []), ("c", KINDS["bool"], []), ("s", KINDS["int64"], [1]))]
    results = [helper.make_tensor_value_info("d", KINDS["bool"], []), helper.make_tensor_value_info("r", KINDS["int64"], [1])]
    graph = helper.make_graph([node("Identity", "c", "d"), *body], "body", infos, results)
    return [helper.make_node("Loop", ["trips", "", start], ["y"], body=graph)], {"trips": np.array(trips)}


def test_loops() -> None:
    nodes, constants = loop([node("Add", "s b", "r")], 3, "a")
    given = {"a": ("int64", [1]), "b": ("int64", [1])}
    with ScoringFunction(import_model(model(nodes, given, "int64", constants))) as score:
        for a, b in itertools.product(SIGNED, repeat=2):
            steps = [a + b * trip for trip in (1, 2, 3)]
            check(score, np.array([wrapped(steps[-1], "int64")]), small(a, b, *steps), a=np.array([a]), b=np.array([b]))


def test_loops_that_choose() -> None:
    """A minimum starts with the largest number."""
    nodes, constants = loop([node("Min", "s b", "r")], 3, "start")
    constants["start"] = np.array([2**63 - 1])
    with ScoringFunction(import_model(model(nodes, {"b": ("int64", [1])}, "int64", constants))) as score:
        for b in (5, 2**62, 2**63 - 1, -(2**63)):
            check(score, np.array([b]), True, b=np.array([b]))


def branches(then: list[onnx.NodeProto], other: list[onnx.NodeProto]) -> onnx.NodeProto:
    result = [helper.make_tensor_value_info("r", KINDS["int64"], [1])]
    graphs = {f"{name}_branch": helper.make_graph(nodes, name, [], result)
              for name, nodes in (("then", then), ("else", other))}
    return helper.make_node("If", ["c"], ["y"], **graphs)


def test_branches() -> None:
    nodes = [branches([node("Mul", "a b", "r")], [node("Identity", "a", "r")])]
    given = {"c": ("bool", []), "a": ("int64", [1]), "b": ("int64", [1])}
    with ScoringFunction(import_model(model(nodes, given, "int64"))) as score:
        for a, b in itertools.product(SIGNED, repeat=2):
            inputs = {"a": np.array([a]), "b": np.array([b])}
            check(score, np.array([wrapped(a * b, "int64")]), small(a, b, a * b), c=np.array(True), **inputs)
            check(score, np.array([a]), small(a, b), c=np.array(False), **inputs)


REFUSED: dict[str, tuple[list[onnx.NodeProto], Array]] = {
    "moved": ([node("Concat", "a k", "y", axis=0)], np.array([LIMIT + 1])),
    "compared": ([node("Equal", "a k", "t"), node("Cast", "t", "y", to=TensorProto.INT64)], np.array([2**63 - 2])),
    "added": ([node("Add", "a k", "y")], np.array([2**63 - 1])),
    "an exact one computed with": ([node("Mul", "a k", "y")], np.array([2**60])),
    "one number": ([node("Sub", "a k", "y")], np.array(-(2**63))),
    "the result": ([node("Identity", "k", "y"), node("Neg", "a", "z")], np.array([2**60 + 1])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_constants_that_are_refused(name: str) -> None:
    nodes, constant = REFUSED[name]
    with pytest.raises(UnsupportedCase, match=r"exact up to 2\^53"):
        import_model(model(nodes, {"a": ("int64", [2])}, "int64", {"k": constant}))


TAKEN: dict[str, tuple[list[onnx.NodeProto], dict[str, Array], Judge]] = {
    "ends": ([node("Slice", "a zero k", "y")], {"k": np.array([2**63 - 1])}, lambda a: a),
    "starts": ([node("Slice", "a k zero axis minus", "y")], {"k": np.array([2**63 - 2]), "axis": np.array([0]),
                "minus": np.array([-1])}, lambda a: a[:0:-1]),
    "smallest mask": ([node("Less", "a zero", "t"), node("Where", "t k a", "y")], {"k": np.array([-(2**63)])},
                      lambda a: np.where(a < 0, -(2**63), a)),
    "largest mask": ([node("Less", "a zero", "t"), node("Where", "t k a", "y")], {"k": np.array([2**63 - 1])},
                     lambda a: np.where(a < 0, 2**63 - 1, a)),
    "bound": ([node("Clip", "a k1 k", "y")], {"k1": np.array(-(2**63)), "k": np.array(2**63 - 1)}, lambda a: a),
    "folded": ([node("Sub", "k zero", "k2"), node("Sub", "k2 k", "t"), node("Add", "a t", "y")],
               {"k": np.array([2**62 + 1])}, lambda a: a),
    "filled": ([node("Shape", "a", "t"), node("ConstantOfShape", "t", "u", value=numpy_helper.from_array(np.array([2**63 - 1]))),
                node("Min", "a u", "y")], {}, lambda a: a),
}


@pytest.mark.parametrize("name", TAKEN)
def test_constants_that_are_exact_or_vanish(name: str) -> None:
    nodes, constants, judge = TAKEN[name]
    used = {source for inner in nodes for source in inner.input}
    constants = {**constants, **({"zero": np.array([0])} if "zero" in used else {})}
    with ScoringFunction(import_model(model(nodes, {"a": ("int64", [3])}, "int64", constants))) as score:
        check(score, judge(np.array([-5, 0, 7])), True, a=np.array([-5, 0, 7]))


@pytest.mark.parametrize("dims", [[1], ["n"]], ids=["fixed", "open"])
def test_sums_of_several_terms(dims: list[Any]) -> None:
    """In another order of the terms they would lose digits on the way."""
    nodes = [node("Cast", "c", "small", to=TensorProto.INT64), node("Cast", "d", "tiny", to=TensorProto.INT64),
             node("Add", "small tiny", "t"), node("Add", "a t", "u"), node("Mod", "u seven", "y")]
    given = {"a": ("int64", dims), "c": ("int32", dims), "d": ("int32", dims)}
    with ScoringFunction(import_model(model(nodes, given, "int64", {"seven": np.array([7])}))) as score:
        for a, c, d in itertools.product((LIMIT - 1, LIMIT - 2, -LIMIT + 1), (5, -6, 2**31 - 1), (-10, 3, -(2**31))):
            expected = np.array([(a + c + d) % 7])
            arrays = {"c": np.array([c], np.int32), "d": np.array([d], np.int32)}
            check(score, expected, small(a + c + d), a=np.array([a]), **arrays)


@pytest.mark.parametrize(
    ("attribute", "numbers"), [("keys_int64s", [1, LIMIT + 1]), ("values_int64s", [2**62, 4])], ids=["keys", "values"]
)
def test_attributes_that_are_refused(attribute: str, numbers: list[int]) -> None:
    attributes = {"keys_int64s": [1, 2], "values_int64s": [3, 4], attribute: numbers}
    encoder = node("LabelEncoder", "a", "y", domain="ai.onnx.ml", **attributes)
    whole = model([encoder], {"a": ("int64", [2])}, "int64")
    whole.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    with pytest.raises(UnsupportedCase, match=f"attribute {attribute} holds {max(numbers)}"):
        import_model(whole)


def test_the_place_is_told() -> None:
    script = import_model(model([node("Add", "a a", "y")], {"a": ("int64", ["n", 3])}, "int64"))
    with ScoringFunction(script) as score:
        with pytest.raises(InexactInteger, match=r'input "a" holds 9007199254740993 at \[1, 2\]'):
            score({"a": np.array([[1, 2, 3], [4, 5, LIMIT + 1]])})
        with pytest.raises(InexactInteger, match=r'output "y" gets 9007199254740992 at \[0, 1\]'):
            score({"a": np.array([[1, LIMIT // 2, 3]])})


def test_lists() -> None:
    sequence = helper.make_tensor_sequence_value_info("a", TensorProto.INT64, [None])
    graph = helper.make_graph([node("SequenceAt", "a i", "y")], "g", [sequence, helper.make_tensor_value_info("i", 7, [])],
                              [helper.make_tensor_value_info("y", 7, [None])])
    script = import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    with ScoringFunction(script) as score:
        items = [np.array([1, LIMIT]), np.array([5])]
        np.testing.assert_array_equal(score({"a": items, "i": np.array(0)})["y"], items[0])
        with pytest.raises(InexactInteger):
            score({"a": [np.array([LIMIT + 1])], "i": np.array(0)})


def test_sizes_need_no_look() -> None:
    """Places that are made of sizes cannot get beyond 2^53, and their scripts have no checks."""
    nodes = [node("Shape", "a", "t"), node("Squeeze", "t", "n"), node("Range", "zero n one", "u"),
             node("Mul", "u three", "v"), node("Sub", "v n", "w"), node("Mod", "w seven", "y")]
    constants = {name: np.array(number) for name, number in (("zero", 0), ("one", 1), ("three", 3), ("seven", 7))}
    script = import_model(model(nodes, {"a": ("float", ["n"])}, "int64", constants))
    looks = [line.strip() for line in script.text.splitlines() if "stop(" in line]
    assert looks == ['if (ncol(a) != 1) { stop("a has " + ncol(a) + " columns, not 1") }']
    with ScoringFunction(script) as score:
        found = score({"a": np.zeros(5, np.float32)})["y"]
        np.testing.assert_array_equal(found, (np.arange(5) * 3 - 5) % 7)


def test_the_extreme_of_what_is_not_found_is_looked_at() -> None:
    """It is the limit of the type, which nothing computes with."""
    nodes = [node("NonZero", "a", "found"), node("ReduceMax", "found", "last", keepdims=0), node("Add", "last one", "y")]
    script = import_model(model(nodes, {"a": ("float", ["n"])}, "int64", {"one": np.array(1)}))
    assert 'stop("integers of \\"last\\" get beyond 2^53' in script.text


def test_backend() -> None:
    rep = backend.prepare(model([node("Identity", "a", "y")], {"a": ("int64", [1])}, "int64"))
    np.testing.assert_array_equal(rep.run([np.array([2**63 - 1])])[0], [2**63 - 1])
    with pytest.raises(TranspileError, match="does not hold"):
        rep.run([np.array([2**63 - 2])])
    rep.close()
