"""Names and doc strings that try to become code: the script stays what it is, and runs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.runtime.scoring import ScoringFunction

CODE = 'x\n}\nstop("injected")\nf = function() return (double y) {\n y = 1'
NAMES = [
    CODE,
    "a.b", "a:b", "/path/to/x", "1st", "_hidden", "if", "while", "TRUE", "NaN", "matrix", "t", "sum", "weights", "é", "名前",
    "", " ", "{'json': [1, 2]}", '"quoted"', "#comment", "a" * 5000, "\u202e", "as.scalar", "a\r\nb", "%*%",
]


def hostile_model(name: str) -> onnx.ModelProto:
    """Every name and doc string of a model is hostile."""
    inner = name or "unnamed"
    weight = numpy_helper.from_array(np.array([[2, 0], [0, 3]], np.float32), f"{inner} weight")
    nodes = [
        helper.make_node("MatMul", [f"{inner} in", f"{inner} weight"], [f"{inner} mid"], name=name, doc_string=CODE),
        helper.make_node("Relu", [f"{inner} mid"], [f"{inner} out"], name=name, doc_string=name),
    ]
    infos = [helper.make_tensor_value_info(f"{inner} {end}", TensorProto.FLOAT, [name or "n", 2]) for end in ("in", "out")]
    graph = helper.make_graph(nodes, name or "g", infos[:1], infos[1:], [weight], doc_string=CODE)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, doc_string=CODE)
    model.producer_name, model.producer_version = CODE, name
    return model


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_hostile_text_stays_text(name: str) -> None:
    script = import_model(hostile_model(name))
    code = [line for line in script.text.splitlines() if not line.lstrip().startswith("#")]
    assert not any('stop("injected' in line for line in code)
    assert script.text.isascii() or all(line.lstrip().startswith("#") for line in script.text.splitlines()
                                        if not line.isascii())
    with ScoringFunction(script) as function:
        outputs = function({script.inputs[0].name: np.array([[1, -1]], np.float32)})
    np.testing.assert_array_equal(outputs[script.outputs[0].name], np.array([[2, 0]], np.float32))


def test_names_that_clash_after_cleaning_stay_apart() -> None:
    nodes = [helper.make_node("Neg", ["a.b"], ["a/b"]), helper.make_node("Abs", ["a/b"], ["a:b"]),
             helper.make_node("Add", ["a:b", "a.b"], ["a b"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("a.b", "a b")]
    model = helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with ScoringFunction(import_model(model)) as function:
        outputs = function({"a.b": np.array([[1, -2]], np.float32)})
    np.testing.assert_array_equal(outputs["a b"], np.array([[2, 0]], np.float32))
