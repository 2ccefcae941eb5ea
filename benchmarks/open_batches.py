"""Models whose files fix a batch of one, with that batch open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, numpy_helper

SAMPLES = 3
"""That the model with an open batch has to score together as the file scores them one by one."""


def with_open_batch(path: Path, feeds: Mapping[str, Any]) -> ModelProto | None:
    """The model with a symbol for a leading 1 of its inputs' dims, and for those of what constants reshape to.

    feeds: a sample. None where no input has one, or where the model would not give for each sample what the file gives.
    """
    model = onnx.load(path)
    fixed = {initializer.name for initializer in model.graph.initializer}
    opened: list[str] = []
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name not in fixed and dims and dims[0].dim_value == 1:
            dims[0].dim_param = "batch"
            opened.append(value.name)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    _open_reshapes(model)
    return model if opened and _scores_each(model, path, feeds, opened) else None


def _open_reshapes(model: ModelProto) -> None:
    """Take over the first dim of what is reshaped, where constants say 1."""
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape" and not node.domain}
    constants = [initializer for initializer in model.graph.initializer if initializer.name in shapes]
    constants += [
        attribute.t
        for node in model.graph.node
        if node.op_type == "Constant" and node.output[0] in shapes
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    for tensor in constants:
        dims = numpy_helper.to_array(tensor).copy()
        if dims.size > 1 and dims[0] == 1:
            dims[0] = 0
            tensor.CopyFrom(numpy_helper.from_array(dims, tensor.name))


def _scores_each(model: ModelProto, path: Path, feeds: Mapping[str, Any], opened: list[str]) -> bool:
    """Whether several samples together give what each gives in the file's model."""
    samples = [
        {name: np.roll(array, number, axis=-1) if name in opened else array for name, array in feeds.items()}
        for number in range(SAMPLES)
    ]
    together = {name: np.concatenate([s[name] for s in samples]) if name in opened else feeds[name] for name in feeds}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        scored = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, together)
        single = onnxruntime.InferenceSession(str(path), options)
        for number, sample in enumerate(samples):
            for all_results, results in zip(scored, single.run(None, sample)):
                np.testing.assert_allclose(all_results[number : number + 1], results, rtol=1e-3, atol=1e-4)
    except Exception:  # refused, or sizes or numbers that differ
        return False
    return True
