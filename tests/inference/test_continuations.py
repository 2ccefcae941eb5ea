"""Ifs whose branches give different ranks: the nodes after them go into both branches."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_systemds import import_model
from onnx_systemds.engine.errors import ScriptRuntimeError
from onnx_systemds.errors import TranspileError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import random
from tests.operators.test_control_flow import Model, check, parsed

# what exporters write for a squeeze of an axis of unknown size
SQUEEZED = """
          s = Shape(x)
          last = Constant<value = int64[1] {-1}>()
          one = Constant<value = int64[1] {1}>()
          size = Gather<axis = 0>(s, last)
          c = Equal(size, one)
          q = If (c) <then_branch = t () => (float[n,3] a) { h = Exp(x) a = Squeeze(h, last) },
                      else_branch = e () => (float[n,3,m] b) { h = Neg(x) b = Identity(h) }>
"""
RUNS = [{"x": random(n, 3, m)} for n, m in ((2, 1), (2, 4), (5, 1), (1, 2))]

BOTH = [
    Model("every branch goes on", f"""
        g (float[n,3,m] x) => (float[k,3] y, float[n,3,m] z) {{ {SQUEEZED}
          shape = Constant<value = int64[2] {{-1, 3}}>()
          r = Reshape(q, shape)
          y = MatMul(r, w)
          z = Sin(x)
        }}""", RUNS, {"w": random(3, 3, seed=1)}),
    Model("a rank that is asked for", f"""
        g (float[n,3,m] x) => (float[n] y) {{ {SQUEEZED}
          s2 = Shape(q)
          rank = Size(s2)
          two = Constant<value = int64 {{2}}>()
          flat = Equal(rank, two)
          axis = Constant<value = int64[1] {{2}}>()
          wide = If (flat) <then_branch = t2 () => (float[n,3,m] a2) {{ a2 = Unsqueeze(q, axis) }},
                            else_branch = e2 () => (float[n,3,m] b2) {{ b2 = Identity(q) }}>
          y = ReduceSum<keepdims = 0>(wide, axes)
        }}""", RUNS, {"axes": np.array([1, 2])}),
    Model("two in a row", f"""
        g (float[n,3,m] x, bool d) => (float[k] y) {{ {SQUEEZED}
          r = If (d) <then_branch = t3 () => (float[n,3] a3) {{ a3 = Cos(q) }},
                      else_branch = e3 () => (float[k] b3) {{
                        all = Constant<value = int64[1] {{-1}}>() b3 = Reshape(q, all) }}>
          flat = Constant<value = int64[1] {{-1}}>()
          y = Reshape(r, flat)
        }}""", [{**run, "d": np.array(d)} for run in RUNS for d in (True, False)]),
    Model("inside a branch", f"""
        g (float[n,3,m] x, bool d) => (float[k] y) {{
          y = If (d) <then_branch = t4 () => (float[k] a4) {{ {SQUEEZED}
                        flat = Constant<value = int64[1] {{-1}}>() a4 = Reshape(q, flat) }},
                      else_branch = e4 () => (float[n] b4) {{ b4 = ReduceMax<keepdims = 0>(x, axes) }}>
        }}""", [{**run, "d": np.array(d)} for run in RUNS for d in (True, False)], {"axes": np.array([1, 2])}),
]
ONE = Model("", f"g (float[n,3,m] x) => (float[3,n] y) {{ {SQUEEZED} y = Transpose<perm = [1, 0]>(q) }}", RUNS[::2])
NONE = Model("", f"g (float[n,3,m] x) => (float[3,n] y) {{ {SQUEEZED} y = Transpose<perm = [1, 0, 2, 3]>(q) }}", [])


@pytest.mark.parametrize("model", BOTH, ids=str)
def test_the_rest_is_written_for_each_rank(model: Model) -> None:
    check(model, 18)


def test_a_rest_for_one_rank_only() -> None:
    check(ONE, 17)
    function = ScoringFunction(import_model(parsed(ONE, 17)))
    with function, pytest.raises(ScriptRuntimeError, match="condition is false.*rank"):
        function(RUNS[1])


def test_a_rest_for_no_rank() -> None:
    with pytest.raises(TranspileError) as caught:
        import_model(parsed(NONE, 17))
    assert str(caught.value).count("Transpose") == 2


@pytest.mark.parametrize("rest", ["y = Identity(q)", "y = Relu(q)", ""], ids=["handed on", "computed from", "as it is"])
def test_outputs_of_two_ranks_are_refused(rest: str) -> None:
    """onnxruntime gives them; the matrix of a script has one rank."""
    nodes = SQUEEZED if rest else SQUEEZED.replace("q = If", "y = If")
    with pytest.raises(TranspileError, match=r'\(ai.onnx.If, opset 17\): .*output "y" of the model in rank 2 or 3'):
        import_model(parsed(Model("", f"g (float[n,3,m] x) => (float y) {{ {nodes} {rest} }}", []), 17))
