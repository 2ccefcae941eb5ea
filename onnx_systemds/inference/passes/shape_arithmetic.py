"""Integer tensors that are made of sizes become these sizes.

Condition: the operator has a rule (`registry.size_rule`, beside its generator), and what it is given is known as sizes.
Reason: Shape, Gather, Concat and arithmetic on them vanish from the script; what remains are sizes where they are used.
"""

from __future__ import annotations

from dataclasses import replace

from onnx_systemds.inference import shape_values
from onnx_systemds.inference.inference_facts import Finding, InferenceFacts
from onnx_systemds.inference.values import FINITE_DTYPES, Elements, Value, constant_value
from onnx_systemds.model import protos


def follow_sizes(facts: InferenceFacts, outputs: tuple[Value, ...]) -> Finding:
    """The outputs with the sizes that are their elements; None where these are not known."""
    found = shape_values.evaluate(facts) if outputs[0].dtype in FINITE_DTYPES else ()
    if not found:
        return None
    return (*map(_followed, outputs, found), *outputs[len(found) :]), "its elements are sizes"


def _followed(output: Value, elements: Elements) -> Value:
    """An output with its elements."""
    if all(isinstance(item, int) for item in elements.ravel()):
        return constant_value(elements.astype(protos.numpy_dtype(output.dtype)))
    return replace(output, dims=elements.shape, elements=elements)
