"""What is taken for granted of sizes that only the run knows: where it isn't so, the script stops in words.

onnxruntime judges where it is so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.engine import ScriptRuntimeError
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.command_line import run_dml
from tests.operators.harness import compare, run_reference


@dataclass(frozen=True)
class Row:
    """A graph; dims of its inputs for which it is right, others for which it stops, and words of the message."""

    interface: str
    body: str
    right: Mapping[str, tuple[int, ...]]
    wrong: Mapping[str, tuple[int, ...]]
    words: str

    def model(self) -> onnx.ModelProto:
        """The model, its outputs' dims left open."""
        model = parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g {self.interface}
            <bool[1] yes = {{1}}, float[4, 3] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, int64[1] first = {{0}},
             float[3] bias = {{1, 2, 3}}, int64[1] one = {{1}}, int64[1] two = {{2}},
             int64[1] back = {{-1}}> {{ {self.body} }}""")
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        return model


def _row(interface: str, body: str, right: Any, wrong: Any, words: str, id: str) -> Any:
    return pytest.param(Row(interface, body, right, wrong, words), id=id)


PAIR = "(float[A, 3] a, float[B, 3] b) => (float[C, 3] y)"
ROWS = [
    _row(PAIR, "y = Add(a, b)", {"a": (4, 3), "b": (4, 3)}, {"a": (1, 3), "b": (4, 3)},
         '(Add): axis 0 of "a" is 1, axis 0 of "b" is 4', "matrices"),
    _row(PAIR, "y = Add(a, b)", {"a": (1, 3), "b": (1, 3)}, {"a": (4, 3), "b": (2, 3)},
         '(Add): axis 0 of "a" is 4, axis 0 of "b" is 2', "one row"),
    _row("(float[A] a, float[B] b) => (float[C] y)", "y = Mul(a, b)", {"a": (4,), "b": (4,)}, {"a": (1,), "b": (4,)},
         '(Mul): axis 0 of "a" is 1, axis 0 of "b" is 4', "vectors"),
    _row("(int32[A] a, int32[B] b) => (int32[C] y)", "y = BitwiseXor(a, b)", {"a": (4,), "b": (4,)},
         {"a": (4,), "b": (1,)}, '(BitwiseXor): axis 0 of "a" is 4, axis 0 of "b" is 1', "bits"),
    _row("(float[2, A, 3] a, float[2, B, 3] b) => (float[2, C, 3] y)", "y = Where(yes, a, b)",
         {"a": (2, 4, 3), "b": (2, 4, 3)}, {"a": (2, 1, 3), "b": (2, 4, 3)}, 'axis 1 of "b" is 4', "inner axis"),
    _row(PAIR, "sum = Add(a, b) y0 = Shape(sum) y = Cast<to = 1>(y0)", {"a": (4, 3), "b": (4, 3)},
         {"a": (1, 3), "b": (4, 3)}, 'axis 0 of "b" is 4', "shape alone"),
    _row("(float[A, 3] a) => (float[A, 3] y)", "b = Softmax<axis = 0>(a) y = Squeeze(b)", {"a": (4, 3)}, {"a": (1, 3)},
         '(Squeeze): axis 0 of "b" is 1', "squeeze"),  # of independent samples one is taken, too
    _row("(float[A, K] a, float[L, 3] b) => (float[A, 3] y)", "y = MatMul(a, b)", {"a": (2, 4), "b": (4, 3)},
         {"a": (2, 4), "b": (5, 3)}, '"b" has to be [K, 3], where K is 4', "product"),
    _row("(float[A, K] a) => (float[A, 3] y)", "y = MatMul(a, w)", {"a": (2, 4)}, {"a": (2, 5)},
         'the inner axis of "a" is 5, the inner axis of "w" is 4', "constant factor"),
    _row("(float[A, K] a) => (float[A, 3] y)", "y = Gemm(a, w, bias)", {"a": (2, 4)}, {"a": (2, 5)},
         'axis 1 of "a" is 5, axis 0 of "w" is 4', "gemm"),
    _row("(float[A, K] a, float[4, L] b) => (float[A, L] y)", "y = Gemm(a, b, bias)", {"a": (2, 4), "b": (4, 3)},
         {"a": (2, 4), "b": (4, 5)}, 'axis 0 of "bias" is 3', "gemm's constant"),
    _row("(float[A, K] a) => (float y)", "y = Det(a)", {"a": (3, 3)}, {"a": (3, 4)}, '"a" has to be [A, A], where A is 3',
         "determinant"),
    _row("(float[A, 3] a, float[B, 2] b) => (float[A, 5] y)",
         "y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 2]>(a, b)", {"a": (4, 3), "b": (4, 2)},
         {"a": (4, 3), "b": (1, 2)}, '"b" has to be [A, 2], where A is 4', "features"),
    _row("(float[A, K] a, float[A, L] b) => (float[C, K] y)", "y = Concat<axis = 0>(a, b)",
         {"a": (2, 4), "b": (2, 4)}, {"a": (2, 4), "b": (2, 5)}, '"b" has to be [A, K], where K is 4', "concat"),
    _row("(float[A, 3] a, float[B, 3] b, bool c) => (float[C, 3] y)", """y = If (c)
         <then_branch = t () => (float[C, 3] u) { s = Neg(a) u = Add(s, b) },
          else_branch = e () => (float[C, 3] v) { v = Neg(a) }>""",
         {"a": (4, 3), "b": (4, 3), "c": ()}, {"a": (1, 3), "b": (4, 3), "c": ()},
         '(Add): axis 0 of "s" is 1, axis 0 of "b" is 4', "branch"),
    _row("(float[A, 3] a, float[B, 3] b) => (float[A, 3] y)", """n = Constant<value_int = 2>()
         y = Loop (n, , a) <body = l (int64 i, bool on, float[A, 3] s) => (bool go, float[A, 3] t)
         { go = Identity(on) t = Mul(s, b) }>""", {"a": (4, 3), "b": (4, 3)}, {"a": (4, 3), "b": (1, 3)},
         'axis 0 of "b" is 1', "loop"),
    _row("(float[A, 3] a, float[B] m, float[D] n) => (float[C, 3] y)",
         "c = Cast<to = 9>(m) d = Cast<to = 9>(n) k = Compress<axis = 0>(a, c) l = Compress<axis = 0>(a, d) y = Add(k, l)",
         {"a": (4, 3), "m": (2,), "n": (2,)}, {"a": (4, 3), "m": (1,), "n": (2,)},
         '(Add): axis 0 of "k" is 1, axis 0 of "l" is 2', "counted"),
    _row("(float[N, A, C] a, float[N, B, D] b) => (float[N, E, F] y)", "y = Sub(a, b)",
         {"a": (2, 3, 4), "b": (2, 3, 4)}, {"a": (2, 3, 4), "b": (2, 1, 4)}, 'axis 1 of "a" is 3, axis 1 of "b" is 1',
         "sizes that are arguments"),
    _row("(float[A, C] a, float[S] s) => (float[A, C] y)", "q = QuantizeLinear(a, s) y = DequantizeLinear(q, s)",
         {"a": (2, 3), "s": (3,)}, {"a": (2, 3), "s": (1,)}, '"s" has to be [C], where C is 3', "scales"),
    _row("(float[N, A, C] a, float[N, B, D] b) => (float[N, E, F] y)", "y = Sub(a, b)",
         {"a": (2, 3, 4), "b": (2, 3, 4)}, {"a": (2, 3, 4), "b": (2, 4, 3)}, 'axis 1 of "a" is 3, axis 1 of "b" is 4',
         "sizes of equal products"),
    _row("(float[N, A, C] a, float[B, D] b) => (float[N, E, F] y)", "y = Sub(a, b)",
         {"a": (2, 3, 4), "b": (3, 4)}, {"a": (2, 3, 4), "b": (3, 1)}, 'axis 2 of "a" is 4, axis 1 of "b" is 1',
         "sizes that the other operand tells"),
    _row("(float[A, 3] a) => (float[B, 3] y)", "y = Slice(a, one, back, first)", {"a": (3, 3)}, {"a": (2, 3)},
         '(Slice): the length of the slice of axis 0 of "a" is 0', "slice of two rows"),
    _row("(float[2, A] a) => (float[2, B] y)", "s = Slice(a, one, back, one) y = Exp(s)", {"a": (2, 3)}, {"a": (2, 1)},
         '(Slice): the length of the slice of axis 1 of "a" is -1', "slice of one column"),
    _row("(float[A, 3] a) => (float[B, 3] y)", "y = Slice(a, one, back, first, two)", {"a": (6, 3)}, {"a": (1, 3)},
         '(Slice): the length of the slice of axis 0 of "a" is 0', "slice of some rows"),
    _row("(float[A, 3] a) => (float[B, 3] y)",
         """far = Constant<value_ints = [9223372036854775807]>() p = Slice(a, one, far, first) l = Slice(p, back, far, first)
            k = Slice(p, one, two, first) d = Div(p, l) y = Add(d, k)""",
         {"a": (4, 3)}, {"a": (2, 3)}, '(Slice): axis 0 of "p" is 1', "slices of one row that is repeated"),
    _row("(float[2, A] a) => (float[2, B] y)", "s = Slice(a, first, one, one) y = Exp(s)", {"a": (2, 3)}, {"a": (2, 0)},
         '(Slice): axis 1 of "a" is 0', "slice of the first of no columns"),
    _row("(float[A, 3] a) => (float[A, 3] y)",
         "s = Shape<end = 1>(a) t = Slice(w, first, s, first) y = Add(a, t)", {"a": (3, 3)}, {"a": (5, 3)},
         '(Slice): the length of the slice of axis 0 of "w" is 5, the whole axis is 4', "slice of a table"),
    _row("(float[A, 3] a) => (float[B, 3] y)", "s = Shape<end = 1>(a) y = Slice(w, one, s, first, two)", {"a": (4, 3)}, {"a": (6, 3)},
         '(Slice): the last place of the slice of axis 0 of "w" is 5, that of the axis is 3', "slice of every other row of a table"),
    _row("(float[A, 3] a, float[B, 3] b, float[1, 3] c) => (float[C, 3] y)",
         "s = Shape<end = 1>(a) p = Sub(s, one) t = Shape<end = 1>(b) y = Slice(c, p, t, first)", {"a": (1, 3), "b": (1, 3), "c": (1, 3)},
         {"a": (2, 3), "b": (2, 3), "c": (1, 3)}, '(Slice): the first place of the slice of axis 0 of "c" is 1, that of the axis is 0',
         "slice of the one row that there is"),
    _row("(float[A, 3] a) => (float[B, 3] y)", "s = Shape<end = 1>(a) y = Slice(w, s, one, first, back)", {"a": (3, 3)}, {"a": (4, 3)},
         '(Slice): the first place of the slice of axis 0 of "w" is 4, that of the axis is 3', "slice of a table backwards"),
    _row("(float[A, B, C] a) => (float[A, E, F] y)", "s = Constant<value_ints = [1, 2, 3]>() y = Expand(a, s)",
         {"a": (4, 2, 3)}, {"a": (4, 1, 3)}, '(Expand): axis 1 of "a" is 1, element 1 of "s" is 2', "expand to known sizes"),
    _row("(float[A, B] a, float[C, D] b) => (float[A, D] y)", 'y = Einsum<equation = "ij,jk->ik">(a, b)',
         {"a": (4, 2), "b": (2, 3)}, {"a": (4, 1), "b": (2, 3)}, 'axis 1 of "a" is 1, axis 0 of "b" is 2', "einsum"),
    _row("(float[A, 3] a) => (float[2, 3] y, float[1, 3] z)",
         "s = Constant<value_ints = [2, 1]>() y, z = Split<axis = 0>(a, s)", {"a": (3, 3)}, {"a": (4, 3)},
         '(Split): axis 0 of "a" is 4, the sum of its parts is 3', "parts of known sizes"),
    _row("(float[A, 3] a, float[B, 3] b) => (float[B, 3] y, float[C, 3] z)",
         "s = Shape<end = 1>(b) t = Concat<axis = 0>(s, one) y, z = Split<axis = 0>(a, t)", {"a": (3, 3), "b": (2, 3)},
         {"a": (4, 3), "b": (2, 3)}, '(Split): axis 0 of "a" is 4, the sum of its parts is 3', "parts of open sizes"),
    _row("(float[2, A] a) => (float[2, B] y, float[2, C] z)",
         "n = Shape<start = 1>(a) h = Div(n, two) g = Sub(n, h) s = Concat<axis = 0>(h, g) y, z = Split<axis = 1>(a, s)",
         {"a": (2, 5)}, {"a": (2, 1)}, '(Split): the length of part 0 of axis 1 of "a" is 0', "no first part"),
    _row("(float[2, A] a, int64[2] s) => (float[2, B] y, float[2, C] z)", "y, z = Split<axis = 1>(a, s)",
         {"a": (2, 2), "s": (2,)}, {"a": (2, 3), "s": (2,)}, '(Split): axis 1 of "a" is 3, the sum of its parts is 2',
         "parts of sizes of the run"),
    _row("(float[A, 3] a) => (float[B, 3] y, float[C, 3] z)", "y, z = Split<axis = 0, num_outputs = 2>(a)",
         {"a": (3, 3)}, {"a": (1, 3)}, '(Split): the length of the last part of axis 0 of "a" is 0', "no last part"),
    _row("(float[A, 3] a) => (float[2, 3] y)",
         """s = Constant<value_ints = [2]>() l = SplitToSequence(a, s) zero = Constant<value_int = 0>()
            y = SequenceAt(l, zero)""", {"a": (2, 3)}, {"a": (3, 3)}, 'axis 0 of "a" is 3, the sum of its parts is 2',
         "the only item of a sequence"),
    *[_row("(float[A, 1, H, W] a) => (float[B, 1, I, J] y)", f"y = {op_type}<kernel_shape = [3, 2], pads = [0, 0, 1, 1]>(a)",
           {"a": (2, 1, 2, 3)}, {"a": (2, 1, 1, 3)}, f'({op_type}): spatial axis 0 of "a" with its padding is 2, the window is 3',
           f"windows of {op_type}") for op_type in ("MaxPool", "AveragePool", "LpPool")],
    _row("(float[A, 1, L] a) => (float[A, 1, M] y)",
         "k = Constant<value = float[1, 1, 2] {1, 2}>() y = Conv<dilations = [3]>(a, k)", {"a": (2, 1, 4)}, {"a": (2, 1, 3)},
         '(Conv): spatial axis 0 of "a" with its padding is 3, the window is 4', "windows of Conv"),
    _row("(float[A, B] a) => (float[2, E, F] y)", "s = Constant<value_ints = [2, 1, 3]>() y = Expand(a, s)",
         {"a": (4, 3)}, {"a": (4, 1)}, '(Expand): axis 1 of "a" is 1, element 2 of "s" is 3', "expand"),
    *[_row("(float[A, B] a) => (float[C, D] y)",
           "n = Shape<end = 1>(a) m = Sub(n, two) s = Concat<axis = 0>(m, back) y = Reshape(a, s)",
           {"a": (4, 3)}, {"a": (rows, 3)}, f"(Reshape): entry 0 of the shape is {rows - 2}", f"shape of {words}")
      for rows, words in ((2, "a computed 0 and -1"), (1, "a computed -1 and -1"))],
    *[_row("(float[A, B] a) => (float[C, D] y)",
           f"t = Constant<value_ints = [2, 2]>() n = Shape(a) s = Sub(t, n) p = Concat<axis = 0>(s, s) y = Pad<mode = \"{mode}\">(a, p)",
           {"a": (3, 2)}, {"a": (wrong, 2)}, f"(Pad): {words} is", f"pads of mode {mode}")
      for mode, wrong, words in (("edge", 4, 'what is left of axis 0 of "a"'), ("constant", 5, 'axis 0 of "y"'))],
    _row("(float[A, B] a) => (float[C, D] y)", "t = Constant<value_ints = [2, 4]>() n = Shape(a) s = Sub(t, n) y = Reshape(a, s)",
         {"a": (1, 2)}, {"a": (3, 6)}, "(Reshape): entry 0 of the shape is -1", "shape of negative sizes"),
]


def _feeds(model: onnx.ModelProto, dims: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    types = {given.name: given.type.tensor_type.elem_type for given in model.graph.input}
    return {name: np.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(types[name])) for name, shape in dims.items()}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_assumed_of_sizes_is_checked(row: Row) -> None:
    model = row.model()
    script = import_model(model)
    for options in ({}, {"specialise_after": 1, "parts": 2}):
        with ScoringFunction(script, **options) as function:
            for _ in range(2):
                right = _feeds(model, row.right)
                for port, expected in zip(script.outputs, run_reference(model, right), strict=True):
                    compare(function(right)[port.name], np.asarray(expected), 1e-5, row.body)
                with pytest.raises((ScriptRuntimeError, InvalidInput)) as error:
                    function(_feeds(model, row.wrong))
                assert row.words in str(error.value)


def test_of_bounds_of_one_size_the_largest_is_checked() -> None:
    pool = "MaxPool<kernel_shape = [2, 2], strides = [2, 2]>"
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]> g (float[A, 1, H, 4] a) => (float[A, 1, I, 1] y)
        {{ b = {pool}(a) c = Relu(b) y = {pool}(c) }}""")
    text = import_model(model).text
    assert re.findall(r"if \((.*)\) {\s+stop", text) == ["ncol(a) %% 4 != 0", "nrow(a) == 0", "(H %/% 2) < 2"]


def test_elements_of_axes_that_are_checked_are_not_counted() -> None:
    pool = "MaxPool<kernel_shape = [2, 2], strides = [2, 2]>"
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
        g (float[A, 4, H, W] a) => (float[A, 8, I, J] y) <float[4] scales = {{1, 1, 2, 2}}>
        {{ b = {pool}(a) c = {pool}(b) d = Resize<mode = "nearest">(c, , scales) y = Concat<axis = 1>(b, d) }}""")
    text = import_model(model).text
    assert text.count("the script takes them to be equal") == 2 and "number of elements" not in text


def test_quotients_of_a_size_less_one_are_followed() -> None:
    """As PyTorch writes the length of a slice with a step; of no elements ONNX's quotient would be another one."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 13]> g (float[2, A] a) => (float[2, B] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}>
        { s = Shape(a) n = Gather(s, one) m = Sub(n, one) q = Div(m, four) c = Add(q, one) y = Slice(a, zero, c, one) }""")
    script = import_model(model)
    assert str(script.outputs[0].dims[1]) == "min(((A - 1) %/% 4) + 1, A)"
    assert "if (A - 1 < 0)" in script.text


def test_pads_of_open_sizes_are_followed_through_a_transpose() -> None:
    """As PyTorch's older exporter brings pads of its order, pairs from the last axis on, into ONNX's."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 13]> g (float[2, A] a) => (float[B, C] y)
        <int64[2] zeros = {0, 0}, int64[1] one = {1}, int64[2] pairs = {-1, 2}, int64[1] all = {-1}>
        { s = Shape(a) n = Gather(s, one) p = Concat<axis = 0>(zeros, n, n) q = Reshape(p, pairs) t = Transpose(q)
          pads = Reshape(t, all) y = Pad(a, pads) }""")
    assert [str(dim) for dim in import_model(model).outputs[0].dims] == ["2", "3 * A"]


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceProd", "CumSum", "Softmax"])
def test_inputs_without_elements_are_told_where_the_script_takes_some(op_type: str) -> None:
    inputs = "a, axis" if op_type == "CumSum" else "a"
    model = parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 17]> g (float[N, 2, 3] a) => (float[M, 2, 3] y)
        <int64 axis = {{1}}> {{ y = {op_type}({inputs}) }}""")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    with ScoringFunction(import_model(model)) as function:
        full = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
        compare(function({"a": full})["y"], run_reference(model, {"a": full})[0], 1e-5, op_type)
        try:
            actual = function({"a": full[:0]})["y"]
        except InvalidInput as error:
            assert "has no elements" in str(error)
        else:
            compare(actual, run_reference(model, {"a": full[:0]})[0], 1e-5, op_type)


def test_equal_parts_that_the_size_does_not_have() -> None:
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 13]> g (float[A, 3] a) => (float[B, 3] y, float[B, 3] z)
        { y, z = Split<axis = 0>(a) }""")
    with ScoringFunction(import_model(model)) as function:
        full = np.arange(12, dtype=np.float32).reshape(4, 3)
        compare(function({"a": full})["z"], full[2:], 1e-5, "second half")
        with pytest.raises(ScriptRuntimeError, match="axis 0 of \"a\" is 3, the sum of its parts is 2"):
            function({"a": full[:3]})


PLAIN_WORDS = {"expand to known sizes": "a has 3 columns, not 6"}  # of a product, whose factors a matrix doesn't tell


@pytest.mark.parametrize("row", [
    pytest.param(replace(row.values[0], words=PLAIN_WORDS.get(row.id, row.values[0].words)), id=row.id)
    for row in ROWS if row.id in ("matrices", "branch", "counted", *PLAIN_WORDS)
])
def test_the_plain_command_line_checks_it_too(row: Row, tmp_path: Path) -> None:
    model = row.model()
    script = import_model(model).text

    def call(dims: Mapping[str, tuple[int, ...]]) -> str:
        given = [f"matrix(1, rows={shape[0]}, cols={math.prod(shape[1:])})" if shape else "TRUE"
                 for shape in dims.values()]
        return f'{script}\ny = gen_g({", ".join(given)})\nprint("sum " + sum(y))\n'

    (expected,) = run_reference(model, _feeds(model, row.right))
    assert f"sum {expected.sum()}" in run_dml(call(row.right), tmp_path)
    with pytest.raises(AssertionError) as error:
        run_dml(call(row.wrong), tmp_path)
    assert row.words in str(error.value)
