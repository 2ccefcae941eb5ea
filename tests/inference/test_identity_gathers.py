"""Indices that name each element at its own place: as exporters write the mask of an attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_systemds import import_model
from onnx_systemds.model.given_inputs import InvalidInput
from onnx_systemds.runtime.scoring import ScoringFunction

MASK = np.array([[1, 0, 1], [0, 1, 1]], np.float32)


def counted(name: str, axis: int, start: int = 0, step: int = 1) -> list[Any]:
    """The positions along an axis of the mask, as a value of four axes: samples first, positions last."""
    others = [other for other in range(4) if other != 3 * axis]
    return [
        helper.make_node("Shape", ["mask"], [f"{name}_size"], start=axis, end=axis + 1),
        helper.make_node("Squeeze", [f"{name}_size"], [f"{name}_limit"]),
        helper.make_node("Constant", [], [f"{name}_start"], value_int=start),
        helper.make_node("Constant", [], [f"{name}_step"], value_int=step),
        helper.make_node("Range", [f"{name}_start", f"{name}_limit", f"{name}_step"], [f"{name}_range"]),
        helper.make_node("Constant", [], [f"{name}_axes"], value_ints=others),
        helper.make_node("Unsqueeze", [f"{name}_range", f"{name}_axes"], [name]),
    ]


def by_tuples(first: str, second: str) -> list[Any]:
    nodes = [helper.make_node("Max", ["samples", "places"], ["both"]), helper.make_node("Shape", ["both"], ["all"]),
             helper.make_node("Constant", [], ["last"], value_ints=[-1])]
    for part in (first, second):
        nodes += [helper.make_node("Expand", [part, "all"], [f"{part}_all"]),
                  helper.make_node("Unsqueeze", [f"{part}_all", "last"], [f"{part}_index"])]
    nodes.append(helper.make_node("Concat", [f"{first}_index", f"{second}_index"], ["index"], axis=-1))
    return [*nodes, helper.make_node("GatherND", ["mask", "index"], ["Y"])]


def by_rows(factor: str) -> list[Any]:
    nodes = [helper.make_node("Shape", ["mask"], ["dims"]), helper.make_node("Constant", [], ["one"], value_int=1),
             helper.make_node("Gather", ["dims", "one"], ["width"]), helper.make_node("Flatten", ["mask"], ["flat"], axis=2),
             helper.make_node("Mul", ["samples", factor], ["start"]), helper.make_node("Add", ["places", "start"], ["index"])]
    return [*nodes, helper.make_node("Gather", ["flat", "index"], ["Y"], axis=0)]


def converted(nodes: list[Any]) -> Any:
    """The script, whose results are those of onnxruntime."""
    infos = [helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["b", "s"])]
    infos.append(helper.make_tensor_value_info("Y", TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "masks", infos[:1], infos[1:], [numpy_helper.from_array(np.array(2), "two")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"mask": MASK})[0]
    script = import_model(proto)
    with ScoringFunction(script) as function:
        assert np.array_equal(function({"mask": MASK})["Y"], expected)
    return script


@pytest.mark.parametrize("nodes", [by_tuples("samples", "places"), by_rows("width")], ids=["tuples", "rows"])
def test_each_element_at_its_own_place(nodes: list[Any]) -> None:
    script = converted([*counted("samples", 0), *counted("places", 1), *nodes])
    assert script.batch is not None and script.batch.inputs == (0,)
    assert "table(" not in script.text and "seq(" not in script.text


OTHERS = {
    "the other way round": [*counted("samples", 0), *counted("places", 1), *by_tuples("samples", "places")[:-2],
                            helper.make_node("Concat", ["places_index", "samples_index"], ["index"], axis=-1),
                            helper.make_node("Transpose", ["mask"], ["turned"]),
                            helper.make_node("GatherND", ["turned", "index"], ["Y"])],
    "each second one": [*counted("samples", 0), *counted("places", 1, 0, 2), *by_tuples("samples", "places")],
    "from the second one on": [*counted("samples", 0, 1), *counted("places", 1), *by_tuples("samples", "places")],
    "of rows that are shorter": [*counted("samples", 0), *counted("places", 1), *by_rows("two")],
    "twice the same": [*counted("samples", 0), *counted("places", 0), helper.make_node("Add", ["samples", "places"], ["sum"]),
                       *by_tuples("samples", "places")],
}


@pytest.mark.parametrize("name", OTHERS)
def test_elements_from_other_places_are_chosen(name: str) -> None:
    script = converted(OTHERS[name])
    assert "gather" in script.text or "table(" in script.text
    own = script.batch is not None and script.batch.symbol == "b"
    assert own is (name == "each second one")  # of each sample


def test_another_name_for_the_number_of_samples_is_no_other_number() -> None:
    """As PyTorch writes the mask beside token numbers, whose axes it names one by one."""
    nodes = [helper.make_node("Shape", ["ids"], ["samples_size"], start=0, end=1), *counted("samples", 0)[1:],
             *counted("places", 1), *by_tuples("samples", "places"), helper.make_node("Mul", ["Y", "ids"], ["Z"])]
    infos = [helper.make_tensor_value_info("ids", TensorProto.FLOAT, ["b", 1, 1, "s"]),
             helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["m", "s"]),
             helper.make_tensor_value_info("Z", TensorProto.FLOAT, None)]
    proto = helper.make_model(helper.make_graph(nodes, "masks", infos[:2], infos[2:]),
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"ids": np.arange(6, dtype=np.float32).reshape(2, 1, 1, 3), "mask": MASK}
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    script = import_model(proto)
    assert script.batch is not None and script.batch.inputs == (0, 0) and "table(" not in script.text
    with ScoringFunction(script) as function:
        assert np.array_equal(function(feeds)["Z"], expected)
        with pytest.raises(InvalidInput, match="where b is 1, got"):
            function({**feeds, "ids": feeds["ids"][:1]})
    assert "table(" in import_model(proto, dims={"b": 2}).text  # the mask may have more rows
