"""Tokenizer of com.microsoft against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.runtime.scoring import ScoringFunction
from tests.operators.harness import Covered, compare, run_reference

COVERED = [Covered("Tokenizer", [1], symbolic=True, domain="com.microsoft")]
LINE = ["hello World_1 é x", "", "ab ba,ab;;c", "hello World_1 é x", "日本 😀a", "it's 12.5% of \"x\" -> y\\z\n$"]
TABLE = [["a b", "c"], ["d e f", ""]]


def model(dims: Any, mark: int = 0, mincharnum: int = 1, pad_value: str = "#", **attributes: Any) -> onnx.ModelProto:
    """A model of one Tokenizer."""
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", mark=mark, mincharnum=mincharnum,
                            pad_value=pad_value, **attributes)
    graph = helper.make_graph([node], "tokens", [helper.make_tensor_value_info("x", TensorProto.STRING, dims)],
                              [helper.make_tensor_value_info("y", TensorProto.STRING, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)], ir_version=10)


@pytest.mark.parametrize(("texts", "attributes"), [
    (LINE, {"tokenexp": "[a-zA-Z0-9_]+"}),
    (LINE, {"tokenexp": "[a-zA-Z0-9_]+", "mincharnum": 2, "pad_value": ""}),
    (LINE, {"tokenexp": r"\b\w\w+\b", "mark": 1}),
    (LINE, {"tokenexp": "a|ab"}),
    (LINE, {"tokenexp": "l+?"}),
    (LINE, {"tokenexp": "b*"}),
    (LINE, {"tokenexp": r"\p{L}+|'"}),
    (LINE, {"tokenexp": "^h."}),
    (LINE, {"tokenexp": "."}),
    (LINE, {"separators": [" "]}),
    (LINE, {"separators": [" ", ",", ";"], "mark": 1}),
    (LINE, {"separators": [r"\s+", "a|ab"], "mincharnum": 2}),
    (LINE, {"separators": [r"\b"]}),
    (LINE, {"separators": ["x*"]}),
    (LINE, {"separators": [""]}),
    (LINE, {"separators": [""], "mark": 1, "pad_value": "pad's \"value\""}),
    (TABLE, {"tokenexp": "[a-z]"}),
    (TABLE, {"tokenexp": "[a-z]", "mark": 1}),
], ids=str)
def test_tokens(texts: Any, attributes: dict[str, Any]) -> None:
    x = np.array(texts, object)
    onnx_model = model(x.shape, **attributes)
    with ScoringFunction(import_model(onnx_model)) as function:
        compare(function({"x": x})["y"], run_reference(onnx_model, {"x": x})[0], 0, str(attributes))


def test_any_number_of_texts() -> None:
    onnx_model = model(["n", 1], separators=[" "], mark=1)
    with ScoringFunction(import_model(onnx_model)) as function:
        for texts in (["a b c", "d"], ["a b"], ["", "a", "a b c d e"], [" ", ""]):
            x = np.array(texts, object).reshape(-1, 1)
            compare(function({"x": x})["y"], run_reference(onnx_model, {"x": x})[0], 0, str(texts))


@pytest.mark.parametrize(("dims", "attributes", "reason"), [
    ([2], {}, "neither separators nor tokenexp"),
    ([2], {"tokenexp": "a", "mincharnum": 0}, "not positive"),
    ([2], {"separators": [""], "mincharnum": 2}, "the tokens are characters"),
    ([2, 2, 1], {"tokenexp": "a"}, "rank 3"),
    ([2], {"tokenexp": "(?=a)"}, "looks around"),
])
def test_refused(dims: Any, attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        import_model(model(dims, **attributes))


@pytest.mark.parametrize("name", ["mark", "mincharnum", "pad_value"])
def test_required_attributes(name: str) -> None:
    onnx_model = model([2], tokenexp="a")
    attributes = onnx_model.graph.node[0].attribute
    attributes.remove(next(attribute for attribute in attributes if attribute.name == name))
    with pytest.raises(TranspileError, match=f"'{name}' is missing"):
        import_model(onnx_model)
