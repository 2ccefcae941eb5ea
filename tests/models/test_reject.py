"""Models that must be refused: one error that names every reason, with its node or initializer."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from onnx_systemds import import_model
from onnx_systemds.errors import MultipleErrors, TranspileError
from tests.model_zoo import MODELS, model_cases, needs_models

REMOVED = MODELS and MODELS / "reject" / "removed_ops__candy.onnx"
"""Of operators that ONNX has no schemas for any more, which are converted."""


def culprits(path: Path) -> list[str]:
    """What is wrong with a model, found without the importer: unknown operators, weights in files that are not there."""
    model = onnx.load(path, load_external_data=False)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    found = []
    for number, node in enumerate(model.graph.node):
        try:
            onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
        except onnx.defs.SchemaError:
            found.append(f'node "{node.name or f"#{number}"}" ({node.domain or "ai.onnx"}.{node.op_type}, opset')
    for tensor in model.graph.initializer:
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), None)
        if location is not None and not (path.parent / location).exists():
            found.append(f'initializer "{tensor.name}"')
    return found


@pytest.mark.parametrize("path", model_cases("reject", where=lambda path: path != REMOVED))
def test_every_reason_is_named(path: Path) -> None:
    expected = culprits(path)
    with pytest.raises(TranspileError) as caught:
        import_model(path)
    reasons = caught.value.reasons if isinstance(caught.value, MultipleErrors) else (caught.value,)
    assert expected and len(reasons) == len(expected)
    for culprit in expected:
        assert culprit in str(caught.value)


@needs_models
def test_operators_that_onnx_has_removed_are_converted() -> None:
    assert REMOVED is not None
    node = onnx.load(REMOVED).graph.node
    assert {"Affine", "Crop", "ImageScaler"} <= {each.op_type for each in node}
    assert import_model(REMOVED).text
