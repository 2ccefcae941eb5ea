"""Sizes of inputs that have different names and have to be equal are one size."""

from __future__ import annotations

import pytest
from onnx import parser

from onnx_systemds import import_model
from onnx_systemds.importing.script import Script
from onnx_systemds.stages import Stages

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g '


def script_of(text: str, **options: object) -> Script:
    return import_model(parser.parse_model(HEAD + text), **options)  # type: ignore[arg-type]


def dims_of(script: Script) -> list[str]:
    return [" ".join(map(str, port.dims)) for port in script.inputs]


JOINED = """(float[N, 1] x, float[M, 1] y, float[K, 2] z) => (float[N, 4] o)
    { a = Concat <axis = 1> (x, y, z) o = Relu(a) }"""


def test_rows_of_all_inputs_are_one_size_and_can_be_divided() -> None:
    stages = Stages()
    script = script_of(JOINED, stages=stages)
    assert dims_of(script) == ["N 1", "N 1", "N 2"]
    assert script.batch is not None and script.batch.inputs == (0, 0, 0)
    assert "o = max(cbind(x, y, z), 0)" in script.text
    assert [stage.result for stage in stages.done if stage.name == "infer types"] == ["2 nodes, M is N, K is N"]


def test_a_size_that_is_given_stays_what_is_given() -> None:
    assert dims_of(script_of(JOINED, dims={"M": 5})) == ["N 1", "5 1", "N 2"]
    assert dims_of(script_of(JOINED, dims={"N": 5, "K": 5})) == ["5 1", "M 1", "5 2"]


OTHERS = {
    "repeated": "(float[N, 3] x, float[M, 3] y) => (float[N, 3] o) { o = Add(x, y) }",
    "of a part": "(float[N, 1] x, float[M, 1] y) => (float[N, 4] o) <int64[1] a = {0}, int64[1] b = {9}>"
                 " { s = Slice(y, a, b, a) o = Concat <axis = 1> (x, s) }",
    "in a branch": """(float[N, 1] x, float[M, 1] y, bool c) => (float[N, K] o)
        { o = If (c) <then_branch = t () => (float[N, K] u) { u = Concat <axis = 1> (x, y) },
                      else_branch = e () => (float[N, K] v) { v = Identity(x) }> }""",
    "unneeded": "(float[N, 1] x, float[M, 1] y) => (float[N, 1] o) { a = Concat <axis = 1> (x, y) o = Neg(x) }",
}


@pytest.mark.parametrize("name", OTHERS)
def test_sizes_that_may_differ_stay_two(name: str) -> None:
    first, second = dims_of(script_of(OTHERS[name]))[:2]
    assert (first[0], second[0]) == ("N", "M")


def test_sizes_whose_multiples_are_equal_are_one_size() -> None:
    script = script_of("""(float[N, 4] x, float[M, 2, 2] y, float[K, 2] z) => (float[N, 6] o)
        <int64[1] width = {4}> { s = Shape <start = 0, end = 1> (x) t = Concat <axis = 0> (s, width)
          f = Reshape(y, t) a = Add(x, f) o = Concat <axis = 1> (a, z) }""")
    assert dims_of(script) == ["N 4", "N 2 2", "N 2"]
    assert script.batch is not None and script.batch.inputs == (0, 0, 0)


def test_sizes_equal_in_pairs_are_the_first_of_all() -> None:
    script = script_of("""(float[A, 2] a, float[B, 2] b, float[C, 2] c, float[D, 2] d) => (float[A, 8] o)
        { p = Concat <axis = 1> (c, d) q = Concat <axis = 1> (b, p) o = Concat <axis = 1> (a, q) }""")
    assert dims_of(script) == ["A 2"] * 4
    assert script.batch is not None and script.batch.inputs == (0, 0, 0, 0)
