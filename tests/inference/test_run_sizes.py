"""Sizes that only the run decides: one script for every content, in the main graph and in sub-graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.importing.script import Script
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.invoking import invoke
from tests.operators.harness import ints, random

X = np.arange(20, dtype=np.float32).reshape(4, 5) / 10

FOLLOWED = """g (float[a,b] x, int64 n) => (float[?,?] y) {
  zero = Constant <value_ints=[0]> ()
  five = Constant <value_ints=[5]> ()
  open = Constant <value_ints=[-1]> ()
  count = Unsqueeze (n, zero)
  shape = Concat <axis=0> (count, five)
  twos = ConstantOfShape <value=float[1]{2.0}> (shape)
  turned = Concat <axis=0> (five, count)
  threes = ConstantOfShape <value=float[1]{3.0}> (turned)
  square = MatMul (twos, threes)
  total = ReduceSum <keepdims=0> (square)
  wanted = Concat <axis=0> (count, open)
  e = Exp (x)
  r = Reshape (e, wanted)
  y = Add (r, total)
}"""

TWO_SLICES = """g (float[a,5] x, int64[1] n) => (float[?,?] y) {
  zero = Constant <value_ints=[0]> ()
  one = Constant <value_ints=[1]> ()
  first = Slice (x, zero, n, one)
  e = Exp (x)
  second = Slice (e, zero, n, one)
  y = Add (first, second)
}"""

WEIGHT = """g (int64[2] s) => (float[?,?] y) <float[2,3] w = {1,2,3,4,5,6}> {
  y = Reshape (w, s)
}"""

BRANCHES = """g (float[1,5] x, int64[2] s, bool c) => (float[?,?] y) {
  y = If (c) <
    then_branch = t () => (float[?,?] a) { a = Expand (x, s) },
    else_branch = e () => (float[?,?] b) { b = ConstantOfShape <value=float[1]{2.0}> (s) }
  >
}"""

LOOP = """g (float[6] x, int64 m, int64[1] w) => (float v, float[?,?] rows) {
  yes = Constant <value=bool{1}> ()
  none = Constant <value=float{0.0}> ()
  v, rows = Loop (m, yes, none) <body = b (int64 i, bool c, float s) => (bool co, float so, float[?] o) {
    co = Identity (c)
    zero = Constant <value_ints=[0]> ()
    start = Unsqueeze (i, zero)
    end = Add (start, w)
    part = Slice (x, start, end, zero)
    sum = ReduceSum <keepdims=0> (part)
    so = Add (s, sum)
    ones = ConstantOfShape <value=float[1]{1.0}> (w)
    o = Mul (ones, so)
  }>
}"""

NESTED = """g (int64 m, int64[2] w, bool flag) => (float[?,?] v) {
  yes = Constant <value=bool{1}> ()
  start = Constant <value=float[1,1]{1.0}> ()
  v = Loop (m, yes, start) <body = b (int64 i, bool c, float[?,?] s) => (bool co, float[?,?] so) {
    co = Identity (c)
    so = If (flag) <
      then_branch = t () => (float[?,?] a) {
        zero = Constant <value_ints=[0]> ()
        one = Constant <value_ints=[1]> ()
        two = Constant <value_ints=[2]> ()
        counter = Unsqueeze (i, zero)
        next = Add (counter, one)
        width = Slice (w, one, two)
        shape = Concat <axis=0> (next, width)
        a = ConstantOfShape <value=float[1]{2.0}> (shape)
      },
      else_branch = e () => (float[?,?] d) { d = Expand (s, w) }
    >
  }>
}"""

SCAN = """g (float[4,5] x, int64[1] n) => (float[?,?] y, float[?,?] z) {
  y = Scan <num_scan_inputs=1, body = b (float[5] row) => (float[?] part) {
    one = Constant <value_ints=[1]> ()
    part = Slice (row, one, n)
  }> (x)
  limit = Constant <value=float{1.0}> ()
  large = Greater (x, limit)
  places = NonZero (large)
  dims = Shape (places)
  last = Constant <value_ints=[1]> ()
  count = Gather (dims, last)
  shape = Concat <axis=0> (count, n)
  z = ConstantOfShape (shape)
}"""

BAG = """g (float[6,2] x, int64[N] offsets, int64 i) => (float[2] y) {
  all = Constant <value_ints=[-1]> ()
  one = Constant <value_int=1> ()
  axis = Constant <value_ints=[0]> ()
  here = Reshape (i, all)
  next = Add (here, one)
  behind = Add (next, one)
  start = Slice (offsets, here, next)
  end = Slice (offsets, next, behind)
  rows = Slice (x, start, end)
  y = ReduceSum <keepdims=0> (rows, axis)
}"""

MEAN = """g (float[4] x, int64[N] counts, int64 i) => (float[4] y) {
  all = Constant <value_ints=[-1]> ()
  one = Constant <value_int=1> ()
  here = Reshape (i, all)
  next = Add (here, one)
  count = Slice (counts, here, next)
  many = Cast <to=1> (count)
  y = Div (x, many)
}"""

POSITIONS = """g (float[a,5] x) => (float[?,5] y) <float one = {1}, int64 more = {1}, int64[1] back = {-1}> {
  far = Constant <value_ints=[9223372036854775807]> ()
  zero = Constant <value_ints=[0]> ()
  last_axis = Constant <value_ints=[1]> ()
  size = Shape <start=0, end=1> (x)
  rows = Squeeze (size)
  end = Add (rows, more)
  limit = Cast <to=1> (end)
  places = Range (one, limit, one)
  column = Unsqueeze (places, last_axis)
  last = Slice (column, back, far, zero)
  share = Div (column, last)
  y = Add (x, share)
}"""

ROLL = """g (float[a,5] x) => (float[?,5] y) {
  zero = Constant <value_ints=[0]> ()
  two = Constant <value_ints=[2]> ()
  rows = Shape <start=0, end=1> (x)
  at = Mod (two, rows)
  first = Slice (x, zero, at, zero)
  rest = Slice (x, at, rows, zero)
  y = Concat <axis=0> (rest, first)
}"""

BIAS = """g (float[2,s] x) => (float[2,s] y) <float[1,8] bias = {1,2,3,4,5,6,7,8}, int64 none = {0}> {
  size = Shape <start=1, end=2> (x)
  one = Constant <value_ints=[1]> ()
  eight = Constant <value_ints=[8]> ()
  far = Constant <value_ints=[99]> ()
  rows = Sub (one, size)
  first_row = Max (rows, none)
  columns = Sub (eight, size)
  first_column = Max (columns, none)
  axis = Constant <value_ints=[0]> ()
  row = Slice (bias, first_row, far, axis)
  part = Slice (row, first_column, far, one)
  y = Add (x, part)
}"""

ALL_BUT_ONE = """g (float[a,b] x) => (float[?,?] last, float[?,?] first) {
  zero = Constant <value_ints=[0]> ()
  one = Constant <value_ints=[1]> ()
  far = Constant <value_ints=[99]> ()
  size = Shape <start=1, end=2> (x)
  back = Sub (one, size)
  last = Slice (x, back, far, one)
  first = Slice (x, zero, back, one)
}"""

LEFT_OVER = """g (float[a,b,4] x) => (float[?,?,?] y) {
  four = Constant <value_ints=[4]> ()
  last = Constant <value_ints=[2]> ()
  rows = Shape <start=0, end=1> (x)
  left = Slice (x, rows, four, last)
  y = MaxPool <auto_pad="SAME_UPPER", kernel_shape=[3], strides=[3]> (left)
}"""

REMAINDER = """g (float[a,b] x) => (float[?] y) {
  zero = Constant <value_ints=[0]> ()
  far = Constant <value_ints=[2147483647]> ()
  rows = Shape <start=0, end=1> (x)
  columns = Shape <start=1, end=2> (x)
  over = Mod (columns, rows)
  line = ConstantOfShape (over)
  y = Slice (line, over, far, zero)
}"""

THREE_AXES = """g (int64[3] s) => (float[?,?,?] y) {
  z = ConstantOfShape <value=float[1]{2.0}> (s)
  y = Sqrt (z)
}"""

_WEIGHTS = ", ".join(str(number % 5 - 2) for number in range(36))
NORMALIZED = f"""g (float[1,2,6,6] x, int64[2] cut) => (float[?,?] z, float[?,?,?,?,?] parts)
<float[2,2,3,3] w = {{{_WEIGHTS}}}, float[1] scale = {{2}}, float[1] bias = {{9}}> {{
  zero = Constant <value_ints=[0, 0]> ()
  axes = Constant <value_ints=[2, 3]> ()
  one = Constant <value_ints=[1]> ()
  groups = Constant <value_ints=[0, 1, -1]> ()
  open = Constant <value_ints=[-1]> ()
  image = Slice (x, zero, cut, axes)
  a = Conv <strides=[2, 2], pads=[1, 1, 1, 1]> (image, w)
  shape = Shape (a)
  flat = Reshape (a, groups)
  normal = InstanceNormalization (flat, scale, bias)
  b = Reshape (normal, shape)
  z = Flatten <axis=3> (b)
  n = Shape <start=0, end=1> (b)
  sides = Shape <start=2, end=4> (b)
  wanted = Concat <axis=0> (n, open, one, sides)
  parts = Reshape (b, wanted)
}}"""

FOUND_ROWS = """g (float[2,3] x) => (float[?,?] y) {
  three = Constant <value_ints=[3]> ()
  open = Constant <value_ints=[-1]> ()
  places = NonZero (x)
  n = Shape <start=1, end=2> (places)
  turned = Concat <axis=0> (three, n)
  columns = ConstantOfShape <value=float[1]{2.0}> (turned)
  wanted = Concat <axis=0> (n, open)
  y = Reshape (columns, wanted)
}"""


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text)


def check(text: str, *contents: dict[str, Any]) -> Script:
    """One script gives what onnxruntime gives, for all contents."""
    model = parsed(text)
    script = import_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with ScoringFunction(script) as function:
        for feeds in contents:
            for got, expected in zip(function(feeds).values(), session.run(None, feeds), strict=True):
                assert got.shape == expected.shape
                np.testing.assert_allclose(got, expected, rtol=1e-5)
    return script


def test_elements_are_followed_to_their_source() -> None:
    """Tensors made of the same element have the same size, and a size is defined in front of its first use."""
    script = check(FOLLOWED, {"x": X, "n": np.array(2)}, {"x": X, "n": np.array(10)}, {"x": X[:2], "n": np.array(1)})
    assert script.text.count("as.integer(n)") == 1
    assert "rows=n_value, cols=5" in script.text


def test_reshapes_to_the_shape_of_a_tensor_are_followed() -> None:
    """The sizes of an image that the run cuts, in and after a normalization of groups, have two names."""
    x = random(1, 2, 6, 6)
    text = check(NORMALIZED, {"x": x, "cut": ints(6, 5)}, {"x": x, "cut": ints(1, 4)}).text
    assert "open_size" not in text and "shape_entry" not in text
    assert text[text.index("g = function") :].count("%/%") == text.count("height = ") + text.count("width = ") == 2


def test_a_size_of_0_in_a_shape_copies_a_dim_beside_one_that_is_open() -> None:
    """Columns of what was found become rows; without one, 0 rows are those of the input, and they have 0 columns."""
    x = np.array([[0, 1, 0], [1, 0, 1]], np.float32)
    check(FOUND_ROWS, {"x": x}, {"x": 0 * x}, {"x": x + 1})


def test_equal_computations_are_one_size() -> None:
    script = check(TWO_SLICES, {"x": X, "n": ints(3)}, {"x": X[:1], "n": ints(-1)}, {"x": X, "n": ints(99)})
    assert script.text.count("= slice_count(") == 1


def test_a_constant_in_a_shape_of_the_run() -> None:
    check(WEIGHT, {"s": ints(3, 2)}, {"s": ints(1, -1)}, {"s": ints(0, 3)})


def test_branches_with_sizes_of_the_run() -> None:
    check(BRANCHES, {"x": X[:1], "s": ints(3, 5), "c": np.array(True)}, {"x": X[:1], "s": ints(2, 4), "c": np.array(False)})


def test_the_one_element_of_a_slice_is_repeated() -> None:
    """As the mean of EmbeddingBag is exported."""
    check(MEAN, *({"x": X[0, :4], "counts": ints(2, 5, 6), "i": np.array(i)} for i in (0, 2)))
    with ScoringFunction(import_model(parsed(MEAN))) as function, pytest.raises(EngineError, match='"many\\\\?" is 0'):
        function({"x": X[0, :4], "counts": ints(2, 5, 6), "i": np.array(3)})


def test_a_range_of_floats_is_as_long_as_the_sizes_say() -> None:
    """As the positions of sines over an image are exported: their share of the last one."""
    script = check(POSITIONS, {"x": X}, {"x": X[:1]})
    assert "range_length" not in script.text


@pytest.mark.parametrize("given", ["float[N,3] x, bool[N] c", "float[N] x, bool[N] c"])
@pytest.mark.parametrize("operation", ["Div(f, last)", "Max(last, f, last)"])
def test_the_last_of_what_was_found_is_repeated(given: str, operation: str) -> None:
    text = f"""g ({given}) => (float[M] y) {{
        end = Constant <value_ints=[9223372036854775807]> ()
        from = Constant <value_ints=[-1]> ()
        zero = Constant <value_ints=[0]> ()
        f = Compress <axis=0> (x, c)
        last = Slice (f, from, end, zero)
        y = {operation}
    }}"""
    x = random(3, 3) if "3" in given else random(3)
    check(text.replace("float[M]", "float[M,3]") if "3" in given else text,
          *({"x": x, "c": np.array(chosen, bool)} for chosen in ([1, 1, 0], [0, 1, 0], [0, 0, 0])))


def test_what_was_found_along_another_axis_beside_its_last() -> None:
    check("""g (float[2,3] x, bool[3] c) => (float[2,M] y) {
        end = Constant <value_ints=[9223372036854775807]> ()
        from = Constant <value_ints=[-1]> ()
        one = Constant <value_ints=[1]> ()
        f = Compress <axis=1> (x, c)
        last = Slice (f, from, end, one)
        y = Sub (last, f)
    }""", *({"x": random(2, 3), "c": np.array(chosen, bool)} for chosen in ([1, 1, 0], [0, 0, 0])))


def test_the_last_of_an_axis_that_the_run_expands_beside_all_of_it() -> None:
    check("""g (float[1,N,1] x, int64[3] shape) => (float[A,B,C] y) {
        end = Constant <value_ints=[9223372036854775807]> ()
        from = Constant <value_ints=[-1]> ()
        one = Constant <value_ints=[1]> ()
        all = Expand (x, shape)
        last = Slice (all, from, end, one)
        y = Sub (all, last)
    }""", *({"x": random(1, count, 1), "shape": np.array([2, count, 2])} for count in (3, 1)))


def test_what_is_before_and_after_each_one_of_few() -> None:
    """As MobileBERT has it, here of one word, too."""
    check("""g (float[2,N,2] x) => (float[2,N,6] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64[1] far = {9223372036854775807},
         int64[6] below = {0, 0, 0, 0, 1, 0}, int64[6] above = {0, 1, 0, 0, 0, 0}, float fill = {7}> {
        second = Slice (x, one, far, one)
        next = Pad (second, below)
        others = Slice (x, zero, last, one)
        previous = Pad (others, above, fill)
        y = Concat <axis=2> (next, x, previous)
    }""", *({"x": random(2, count, 2)} for count in (3, 1)))


def test_a_remainder_by_the_size_that_is_sliced() -> None:
    """As torch.roll is exported."""
    check(ROLL, {"x": X}, {"x": X[:3]})


def test_a_slice_of_the_one_row_that_there_is() -> None:
    """As MPT takes its bias: of 1 - max(1 - s, 0) rows, which are broadcast."""
    check(BIAS, {"x": X[:2]}, {"x": X[2:, :1]})


def test_a_position_from_the_back_that_is_0_for_one_column() -> None:
    """0 is the first place, and none behind the last one."""
    check(ALL_BUT_ONE, {"x": X}, {"x": X[:, :1]})


def test_windows_over_what_a_slice_leaves() -> None:
    """Their number is a quotient of 6 - a, not 2 more than one of -a, which DML cuts off towards 0."""
    check(LEFT_OVER, *({"x": X[:rows, :4].reshape(rows, 1, 4)} for rows in (1, 2, 3)))


def test_a_slice_behind_an_axis_that_is_a_remainder() -> None:
    """By a size that there is: by none there would be no remainder."""
    check(REMAINDER, {"x": X[:3]})


def test_a_loop_that_slices_by_its_counter() -> None:
    x = X.ravel()[:6]
    check(LOOP, {"x": x, "m": np.array(3), "w": ints(2)}, {"x": x, "m": np.array(4), "w": ints(3)})


def test_nested_graphs() -> None:
    """An If in a Loop takes its sizes from the counter and from the graph around both."""
    w = ints(2, 3)
    check(NESTED, {"m": np.array(3), "w": w, "flag": np.array(True)}, {"m": np.array(2), "w": w, "flag": np.array(False)})


def test_a_scan_that_collects_slices() -> None:
    check(SCAN, {"x": X, "n": ints(3)}, {"x": X, "n": ints(4)})


def test_positions_of_which_only_the_run_knows_how_many_there_are() -> None:
    """As EmbeddingBag is exported: one position is expected where no axes tell more, and it is checked."""
    rows, offsets = X.reshape(10, 2)[:6], ints(0, 2, 5, 6)
    check(BAG, *({"x": rows, "offsets": offsets, "i": np.array(i)} for i in (0, 1, 2)))
    with ScoringFunction(import_model(parsed(BAG))) as function, pytest.raises(EngineError, match="Slice"):
        function({"x": rows, "offsets": offsets, "i": np.array(3)})


def test_sizes_that_no_matrix_tells_are_results() -> None:
    """Rows and columns tell two sizes, the script returns the third and second as integers after its outputs."""
    script = check(THREE_AXES, {"s": ints(2, 3, 4)}, {"s": ints(1, 6, 2)})
    assert len(script.returned) == 2
    assert "return (matrix[double] y, integer" in script.text


@pytest.mark.parametrize("text", [FOLLOWED, TWO_SLICES, WEIGHT, BRANCHES, LOOP, NESTED, SCAN, BAG, THREE_AXES])
def test_the_command_line_converts_them(text: str, tmp_path: Path) -> None:
    onnx.save(parsed(text), tmp_path / "model.onnx")
    result = invoke(tmp_path / "model.onnx", "-o", tmp_path / "model.dml")
    assert result.exit_code == 0, result.output
    assert "gen_g = function(" in (tmp_path / "model.dml").read_text()


def test_parts_of_a_shape_are_sizes() -> None:
    text = """g (float[n,m] x) => (float[?,?] y) <int64[3] parts = {1, 1, 0}, int64[1] one = {1}> {
      s = Shape (x)  a, b, none = Split (s, parts)  c = Sub (b, one)  d = Add (c, one)
      turned = Concat <axis=0> (d, none, a)  y = Reshape (x, turned) }"""
    script = import_model(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'))
    assert [str(size) for size in script.outputs[0].dims] == ["m", "n"]


def test_sizes_of_sizes_are_followed_once() -> None:
    """Each size of these shapes is computed of both sizes of the one before: 2^40 ways lead to the first one."""
    chain = "\n".join(f"x{number + 1} = Reshape (x{number}, s)" for number in range(40))
    text = f"g (float[n,m] x, int64[2] s) => (float[?,?] y) {{ x0 = Neg (x)\n{chain}\ny = Abs (x40) }}"
    check(text, *({"x": X, "s": shape} for shape in (ints(10, 2), ints(5, -1), ints(0, 5))))
