"""Integer tensors that are made of sizes become these sizes.

Condition: the operator has a rule (`registry.size_rule`, beside its generator), and what it is given is known as sizes.
Reason: Shape, Gather, Concat and arithmetic on them vanish from the script; what remains are sizes where they are used.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference import shape_values
from onnx_systemds.inference.inference_facts import Finding, InferenceFacts
from onnx_systemds.inference.values import FINITE_DTYPES, Value, constant_value
from onnx_systemds.model import protos


def follow_sizes(facts: InferenceFacts, outputs: tuple[Value, ...]) -> Finding:
    """The outputs, the first with the sizes that are its elements; None where these are not known."""
    first = outputs[0]
    elements = shape_values.evaluate(facts) if first.dtype in FINITE_DTYPES else None
    if elements is None:
        return None
    if all(isinstance(item, int) for item in elements.ravel()):
        first = constant_value(elements.astype(protos.numpy_dtype(first.dtype)))
    else:
        first = replace(first, dims=elements.shape, elements=elements)
    return (first, *outputs[1:]), "its elements are sizes"
