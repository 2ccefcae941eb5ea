"""Generators name inputs as the operator's schema does, or say their places."""

from __future__ import annotations

import pytest

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.model.ir import Node


def facts(op_type: str, inputs: tuple[str, ...], domain: str = "", version: int = 18) -> NodeFacts:
    return NodeFacts(Node(op_type, domain, inputs, ("y",), {}, "", "", 0, version), {})


def test_names_of_the_schema() -> None:
    node = facts("Conv", ("image", "filters", ""))
    assert [node.index(name) for name in ("X", "W", "B")] == [0, 1, 2]
    assert (node.name("W"), node.name(1), node.has("B"), node.has("W")) == ("filters", "filters", False, True)


def test_names_of_the_version() -> None:
    assert facts("Slice", ("a",) * 4, version=10).index("axes") == 3
    with pytest.raises(KeyError, match="axes"):
        facts("Slice", ("a",), version=1).index("axes")


def test_names_of_onnxruntime() -> None:
    assert facts("FusedMatMul", ("a", "b"), "com.microsoft", 1).index("B") == 1
