"""What reaches beyond an axis whose size only the run knows is refused there; the engine makes zeros of some of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine import EngineError
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
ROWS = np.arange(9, dtype=np.float32).reshape(3, 3)
NONE, ZEROS = ROWS[:0], 0 * ROWS

BOUNDS = "s = Constant <value_ints = [{}]> () e = Constant <value_ints = [{}]> ()"
TEXTS = {
    "slice of the first": f"g (float[n,3] x) => (float[k,3] y) {{ {BOUNDS.format(0, 1)} y = Slice(x, s, e) }}",
    "slice of the last": f"g (float[n,3] x) => (float[k,3] y) {{ {BOUNDS.format(-1, 2**63 - 1)} y = Slice(x, s, e) }}",
    "gather of the first": "g (float[n,3] x) => (float[3] y) { i = Constant <value_int = 0> () y = Gather(x, i) }",
    "gather of the last": "g (float[n,3] x) => (float[1,3] y) { i = Constant <value_ints = [-1]> () y = Gather(x, i) }",
}


def _refused(text: str, feeds: dict[str, Any], words: str) -> None:
    script = import_model(onnx.parser.parse_model(HEAD + text))
    with ScoringFunction(script) as function, pytest.raises((EngineError, InvalidInput), match=words):
        function(feeds)


@pytest.mark.parametrize("name", TEXTS)
def test_of_an_axis_without_elements(name: str) -> None:
    _refused(TEXTS[name], {"x": NONE}, "it to be larger")


def test_an_index_beyond_an_axis_of_zeros() -> None:
    text = "g (float[n,3] x) => (float[3] y) { i = Constant <value_int = 5> () y = Gather(x, i) }"
    _refused(text, {"x": ZEROS}, 'axis 0 of "x" is 3; the script takes it to be larger')


@pytest.mark.parametrize("axis", [0, 1])
def test_more_of_the_largest_than_there_are(axis: int) -> None:
    text = f"g (float[n,m] x) => (float[a,b] y) {{ k = Constant <value_ints = [5]> () y, z = TopK <axis = {axis}> (x, k) }}"
    _refused(text, {"x": ROWS}, f'k is 5, axis {axis} of "x" is 3; the script takes it to be within')
    run = f"g (float[n,m] x, int64[1] k) => (float[a,b] y) {{ y, z = TopK <axis = {axis}> (x, k) }}"
    _refused(run, {"x": ROWS, "k": np.array([4])}, f'k is 4, axis {axis} of "x" is 3')


def test_a_slice_backwards_whose_end_lies_behind_its_start() -> None:
    text = """g (float[n,3] x) => (float[k,3] y) <int64[1] s = {9}, int64[1] e = {-1}, int64[1] a = {0}, int64[1] t = {-2}>
              { y = Slice(x, s, e, a, t) }"""
    _refused(text, {"x": np.ones((11, 3), np.float32)}, "the length of the slice .* is 0; the script takes it to be larger")


def test_slopes_larger_than_what_they_are_of() -> None:
    _refused("g (float[2,1] x, float[n] s) => (float[2,n] y) { y = PRelu(x, s) }", {"x": ROWS[:2, :1], "s": ROWS[0]},
             "axis 0 of the slope is 3, its axis of the input is 1; the script takes them to be equal")  # fmt: skip
    with pytest.raises(UnsupportedCase, match="axis 0 of the slope is 3"):
        import_model(onnx.parser.parse_model(HEAD + "g (float[2,1] x, float[3] s) => (float[2,3] y) { y = PRelu(x, s) }"))


def test_indices_of_another_number_of_batches() -> None:
    text = "g (float[n,3] x) => (float[2] y) <int64[2,1] i = {0, 2}> { y = GatherND <batch_dims = 1> (x, i) }"
    _refused(text, {"x": ROWS}, 'axis 0 of "x" is 3, axis 0 of "i" is 2; the script takes them to be equal')


def test_more_indices_than_rows() -> None:
    text = "g (float[n,3] x, int64[m,3] i) => (float[m,3] y) { y = GatherElements <axis = 1> (x, i) }"
    words = 'axis 0 of "i" is 3, axis 0 of "x" is 2; the script takes it to be within'
    _refused(text, {"x": ROWS[:2], "i": np.zeros((3, 3), np.int64)}, words)


def test_an_expansion_to_fewer_elements() -> None:
    text = "g (float[n,3] x, int64[2] s) => (float[a,b] y) { y = Expand(x, s) }"
    _refused(text, {"x": ROWS, "s": np.array([2, 3])}, "an axis is 3, the shape has 2; the script takes them to be equal")
