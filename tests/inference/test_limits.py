"""Small models that ask for work or memory without bounds: refused with the place and a figure, at once."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.inference.assumptions import Assumption, Relation, certainly_differ
from onnx_systemds.inference.checks import Checks
from onnx_systemds.inference.dims import symbol
from onnx_systemds.limits import MOST_ATOMS, OverBudget
from onnx_systemds.runtime.scoring import ScoringFunction
from onnx_systemds.verifying import judging

SECONDS = 5.0  # of processor time
IMAGE = "g (float[1, 1, 3, 3] x) => (float[A, B, C, D] y)"
MATRIX = "g (float[3, 5] z) => (float[A, B] y)"


def _model(graph: str, opset: int = 18) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {graph}')
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def _arithmetic(step: str, levels: int = 40) -> str:
    """Levels of arithmetic on the sizes of two inputs; S and T are the sizes so far and those of the other input."""
    lines = " ".join(step.replace("NEXT", f"s{i + 1}").replace("#", str(i)).replace("S", f"s{i}") for i in range(levels))
    return f"g (float[A, B] x, float[C, D] z) => (float[E, F] y) {{ s0 = Shape(x) t = Shape(z) {lines} y = ConstantOfShape(s{levels}) }}"


def _nested_loops(depth: int) -> str:
    inner = f"t{depth - 1} = Concat<axis = 0>(s{depth - 1}, s{depth - 1})"
    for i in reversed(range(depth)):
        outer = f"s{i - 1}" if i else "z"
        body = f"k{i}o = Identity(k{i}) {inner}"
        inner = (f"r{i} = Loop(n, c, {outer})<body = b{i} (int64 i{i}, bool k{i}, float[M{i}] s{i}) => "
                 f"(bool k{i}o, float[Q{i}] t{i}) {{ {body} }}>")
        inner += f" t{i - 1} = Concat<axis = 0>(r{i}, s{i - 1})" if i else ""
    return f"g (float[3] z, int64 n) => (float[A] y) <bool c = {{1}}> {{ {inner} y = Identity(r0) }}"


def _calls(levels: int) -> str:
    """Functions each of which calls the next one twice, and has as many nodes of its own that it is not copied."""
    texts = ['g (float[3] x) => (float[3] y) { y = f.f0(x) }']
    for i in range(levels):
        own = "c = Neg(b) d = Abs(c) e = Exp(d) y = Sin(e)"
        texts.append(f'<domain: "f", opset_import: ["" : 18, "f" : 1]> f{i} (x) => (y) {{ '
                     f'a = f.f{i + 1}(x) b = f.f{i + 1}(a) {own} }}')
    texts.append(f'<domain: "f", opset_import: ["" : 18]> f{levels} (x) => (y) {{ y = Neg(x) }}')
    return "\n".join(texts)


def _pools(count: int) -> str:
    """Windows in a row, each of which halves an open size."""
    nodes = " ".join(f"v{n + 1} = MaxPool<kernel_shape = [2], strides = [2], pads = [1, 1]>(v{n})" for n in range(count))
    return f"g (float[1, 1, W] v0) => (float[A, B, C] v{count}) {{ {nodes} }}"


ROWS = {
    "extremes of sizes": (_arithmetic("u# = Max(S, t) v# = Min(u#, S) NEXT = Add(v#, u#)"), f"more than {MOST_ATOMS} symbols"),
    "numbers of sizes": (_arithmetic("NEXT = Mul(S, S)").replace("float[A, B] x", "float[7, B] x"), "64 bits"),
    "resize": (IMAGE + ' <float[4] s = {1, 1, 100000, 100000}> { y = Resize<mode = "linear">(x, , s) }',
               "90000000000 elements"),
    "resize of an axis": (IMAGE + ' <float[4] s = {1, 1, 1, 500000000}> { y = Resize<mode = "cubic">(x, , s) }',
                          "axis 3"),
    "pads": (IMAGE + " { y = AveragePool<kernel_shape = [3, 3], pads = [100000000, 100000000, 100000000, 100000000]>(x) }",
             "elements"),
    "pads of an axis": (IMAGE + " { y = AveragePool<kernel_shape = [3, 3], pads = [100000000, 0, 0, 0]>(x) }",
                        "at most 33554432 are made"),
    "taps": ("g (float[1, 1, 100000, 50] x) => (float[A, B, C, D] y) "
             "{ y = MaxPool<kernel_shape = [45000, 3], dilations = [2, 2]>(x) }", "45000 parts"),
    "tile": (MATRIX + " <int64[2] p = {1000000000, 1000000000}> { y = Tile(z, p) }", "elements"),
    "fill": (MATRIX + " <int64[2] p = {10000000, 1000000}> { w = ConstantOfShape(p) s = ReduceSum(w) y = Add(z, s) }",
             "elements"),
    "bands": (MATRIX + " <int64 n = {1000}, int64 d = {10000000}, int64 r = {16000}, float lo = {0}, float hi = {8000}>"
              " { w = MelWeightMatrix(n, d, r, lo, hi) s = ReduceSum(w) y = Add(z, s) }", "the weights of the bands"),
    "blocks": ("g (float[1, 9, 99999998] z) => (float[A, B, C, D] y) <int64[2] s = {3, 100000000}, int64[2] b = {3, 3}>"
               " { y = Col2Im(z, s, b) }", "the places of the blocks' elements"),
    "grid": ("g (float[1, 2, 3] t) => (float[A, B, C, D] y) <int64[4] s = {1, 1, 30000, 30000}> { y = AffineGrid(t, s) }",
             "the places of the grid"),
    "loops in loops": (_nested_loops(20), "where functions and bodies are used"),
    "calls": (_calls(12), "where functions and bodies are used"),
    "sizes of sizes": (_pools(70), "nested more than"),
    "sizes nested deeper than Python goes": (_pools(200), "nested (too deeply|more than 100 levels deep)"),
}


def test_sizes_of_forty_sizes_are_converted() -> None:
    assert "((((((((" in import_model(_model(_pools(40))).text


@pytest.mark.parametrize("name", ROWS)
def test_work_without_bounds_is_refused(name: str) -> None:
    graph, words = ROWS[name]
    if name == "calls":
        model = parser.parse_model('<ir_version: 9, opset_import: ["" : 18, "f" : 1]> ' + graph)
    else:
        model = _model(graph, 20 if name == "grid" else 18)
    start = time.process_time()
    with pytest.raises(OverBudget, match=words) as error:
        import_model(model)
    assert time.process_time() - start < SECONDS
    assert 'node "' in str(error.value)


ARITHMETIC = {
    "squares": "NEXT = Mul(S, S)",
    "polynomials": "u# = Add(S, t) NEXT = Mul(u#, S)",
    "quotients": "u# = Div(S, t) v# = Mul(u#, S) NEXT = Add(v#, S)",
}


@pytest.mark.parametrize("step", ARITHMETIC.values(), ids=ARITHMETIC)
def test_arithmetic_that_is_too_long_to_follow_is_left_to_the_run(step: str) -> None:
    start = time.process_time()
    import_model(_model(_arithmetic(step)))
    assert time.process_time() - start < SECONDS


def test_sizes_that_are_too_long_to_follow_are_right() -> None:
    """The anchors of Mask R-CNN are a sum of as many terms."""
    model = _model(_arithmetic("u# = Mul(S, S) v# = Add(u#, t) NEXT = Div(v#, S)", 12))
    with ScoringFunction(import_model(model)) as function:
        for rows in (2, 5):
            feeds = {"x": np.ones((rows, 3), np.float32), "z": np.ones((3, 2), np.float32)}
            np.testing.assert_array_equal(function(feeds)["y"], judging.judge(model, feeds)["y"])


def test_forty_calls_that_double_are_refused() -> None:
    with pytest.raises(TranspileError, match="expand to more than"):
        import_model(parser.parse_model('<ir_version: 9, opset_import: ["" : 18, "f" : 1]> ' + _calls(40)))


@pytest.mark.parametrize(("step", "levels"), [("NEXT = Add(S, S)", 20), ("NEXT = Mul(S, t)", 40)])
def test_long_arithmetic_within_the_budget_is_converted(step: str, levels: int) -> None:
    import_model(_model(_arithmetic(step, levels)))


def test_what_gets_too_long_where_it_is_compared_is_checked() -> None:
    """Whether a check follows from others is asked of sizes that those take to be equal; SEW-D has long ones."""
    graph: Any = SimpleNamespace(nodes=(), outputs=(), assumptions={}, own_sizes=frozenset())
    checks, a = Checks(graph, None), symbol("a")
    long = sum(map(symbol, map(str, range(40))), start=symbol("s"))
    for left, right, is_new in ((a, long, True), (a * a * a, symbol("b"), True), (symbol("c"), a * a, True),
                                (symbol("d"), a * a, True), (symbol("c"), symbol("d"), False),
                                (symbol("e"), symbol("c"), True)):
        assert checks.is_new(Assumption(left, right, Relation.EQUAL, "", "", "")) is is_new


def test_sizes_whose_difference_is_too_long_may_be_equal() -> None:
    """Those of anchors and of their boxes in Mask R-CNN, which are sums of products for each level."""
    left, right = (sum((symbol(f"{side}{i}") * symbol(f"{side}{i + 1}") for i in range(300)), start=symbol(side))
                   for side in "ab")
    assert not certainly_differ(left, right)
    assert certainly_differ(left, left + 1)
