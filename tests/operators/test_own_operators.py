"""What authors of operators outside of ONNX meet: no schema, so no defaults and no names; each gap is told in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from onnx import TensorProto, helper

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.operators import generator, shape_rule
from onnx_systemds.operators.api.fragment import Fragment
from onnx_systemds.operators.api.node_view import NodeView

pytestmark = pytest.mark.usefixtures("registries_restored")

Rows = Callable[[NodeView], Fragment]
DOMAIN = "my.company"


def converted(rows: Rows, dims: bool = True, **attributes: Any) -> str:
    """The script of one node of an operator that is registered here."""
    generator("Rows", since=1, domain=DOMAIN)(rows)
    if dims:
        shape_rule("Rows", domain=DOMAIN)(lambda node: (node.tensor(node.dims(0)),))
    node = helper.make_node("Rows", ["X"], ["Y"], domain=DOMAIN, **attributes)
    infos = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])] for name in "XY"]
    graph = helper.make_graph([node], "own", *infos)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return import_model(helper.make_model(graph, opset_imports=imports, ir_version=8)).text


def centred(node: NodeView) -> Fragment:
    axis = node.axis("axis", default=1)
    means = ["colMeans", "rowMeans"][axis]
    scale = node.attribute("scale", 1)
    x = node.matrix(0, split=1)
    return node.matrix_result(f"({x} - {means}({x})) * {scale}", split=1)


def test_defaults_stand_where_they_are_asked_for() -> None:
    assert "(X - rowMeans(X)) * 1" in converted(centred)


def test_a_written_attribute_comes_first() -> None:
    assert "(X - colMeans(X)) * 3" in converted(centred, axis=-2, scale=3)


def test_an_axis_without_a_default() -> None:
    with pytest.raises(TranspileError, match="attribute 'axis' is missing"):
        converted(lambda node: node.matrix_result(node.matrix(0, node.axis()), split=1))


def test_no_shape_rule() -> None:
    with pytest.raises(TranspileError, match="the operator has no shape rule"):
        converted(centred, dims=False)


def test_inputs_by_names_that_no_schema_has() -> None:
    with pytest.raises(TranspileError, match="no schema names its inputs: give their places"):
        converted(lambda node: node.matrix_result(node.matrix("X", 1), split=1))
