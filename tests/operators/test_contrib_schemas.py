"""The table of signatures against the schemas that onnxruntime has compiled in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as native

from onnx_systemds import import_model
from onnx_systemds.errors import TranspileError
from onnx_systemds.inference.registry import expanders, operator_generators
from onnx_systemds.model.contrib_schemas import CONTRIB, REFUSED, SCHEMAS
from tests.operators.harness import check_case, contrib

# Inputs, outputs and attributes that onnxruntime has since 1.32, most of them on GPUs alone: refused where a model has them,
# but for query_seqlens.
NEWER = {"gate_weight?", "query_seqlens?", "swiglu_limit_after_activation", "state_update?",
         "state_update_capacity", "state_channels_last", "state_length", "input_channel_offset", "input_channels"}


def _default(attribute: object) -> object:
    stated = onnx.AttributeProto()
    stated.ParseFromString(attribute._default_value)  # type: ignore[attr-defined]
    content = onnx.helper.get_attribute_value(stated) if stated.type else None
    return content.decode() if isinstance(content, bytes) else tuple(content) if isinstance(content, list) else content


def without_newer(names: Sequence[str]) -> list[str]:
    return [name for name in names if name not in NEWER]


def test_the_table_agrees_with_the_schemas_of_onnxruntime() -> None:
    """Names in their order, and each default that a schema states."""
    judged = {(schema.domain, schema.name): schema for schema in native.get_all_operator_schema()
              if schema.since_version == 1}
    for identity, own in SCHEMAS.items():
        schema = judged.get(identity)
        if schema is None:  # registered at another place than its domain says
            continue
        marks = {"Single": "", "Optional": "?", "Variadic": "*"}
        for mine, theirs in ((own.inputs, schema.inputs), (own.outputs, schema.outputs)):
            names = tuple(formal.name + marks[str(formal.option).rsplit(".", 1)[-1]] for formal in theirs)
            assert without_newer(mine) == without_newer(names), identity
        assert set(own.attributes) == set(schema.attributes) - NEWER, identity
        for name, attribute in schema.attributes.items():
            stated = _default(attribute)
            if stated is not None and name not in NEWER:
                assert own.attributes[name] == stated, (identity, name)


def test_whatever_is_registered_has_a_signature() -> None:
    registered = {identity for identity in [*operator_generators, *expanders] if identity[0] == CONTRIB}
    assert registered <= set(SCHEMAS)
    assert not {op_type for _, op_type in registered} & set(REFUSED)


@pytest.mark.parametrize("op_type, reason", [("GreedySearch", "generates text"), ("AttnLSTM", "onnxruntime")])
def test_others_are_refused_with_the_reason(op_type: str, reason: str) -> None:
    with pytest.raises(TranspileError, match=reason):
        check_case(contrib(op_type, {"x": np.ones((2, 3), np.int32)}))


def test_what_a_signature_does_not_have_is_refused() -> None:
    for inputs, attributes in ((["x", "x", "g", "w"], {}), (["x", "x", "g"], {"q_norm_epsilon": 1.0})):
        node = onnx.helper.make_node("GatedAdd", inputs, ["y"], domain=CONTRIB, **attributes)
        infos = [onnx.helper.make_tensor_value_info(name, 1, [2, 1]) for name in dict.fromkeys(inputs)]
        graph = onnx.helper.make_graph([node], "g", infos, [onnx.helper.make_tensor_value_info("y", 1, None)])
        opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(CONTRIB, 1)]
        with pytest.raises(TranspileError, match="input 3: not known|the attribute .q_norm_epsilon.: not known"):
            import_model(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8))
