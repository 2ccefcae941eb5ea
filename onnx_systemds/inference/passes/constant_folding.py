"""Nodes whose inputs are all known become constants, as do products of integers with 0.

Condition: the operator has a rule (`registry.fold`, beside its generator), which takes small results only, or views.
Reason: the script computes nothing of it, and operators after it may need the content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.inference.folding import MOST_ELEMENTS, is_small
from onnx_systemds.inference.inference_facts import Finding, InferenceFacts
from onnx_systemds.inference.registry import find, folds
from onnx_systemds.inference.values import INTEGER_DTYPES, Value, constant_value
from onnx_systemds.model.protos import numpy_dtype


def fold_constants(facts: InferenceFacts, outputs: tuple[Value, ...]) -> Finding:
    """The outputs with their contents, where the node can and should be computed now."""
    given = [facts.values[name] for name in facts.node.inputs if name]
    if not given or any(value.constant is None for value in given):
        return _times_zero(facts, given, outputs)
    rule = find(folds, facts.node.identity, facts.version)
    if rule is None:
        return "its inputs are known, but there is no rule that folds the operator"
    contents = rule(facts, outputs)
    if contents is None:
        is_large = any(output.dims is not None and not is_small(output) for output in outputs)
        return (f"its result has more than {MOST_ELEMENTS} elements" if is_large
                else "its rule leaves these inputs to the engine")
    known = tuple(  # the type is that of the result: some derivatives have numbers that it does not hold
        output if array is None else replace(constant_value(array), dtype=output.dtype)
        for array, output in zip(contents, outputs))
    return known, "its inputs are known"


def _times_zero(facts: InferenceFacts, given: Sequence[Value], outputs: tuple[Value, ...]) -> Finding:
    """Zeros of a few known dims for a product of integers, one of which is 0; exporters keep an input alive so."""
    if facts.node.identity != ("", "Mul"):
        return None
    output = outputs[0]
    dims = [dim for dim in output.dims or () if isinstance(dim, int)]
    if output.dims is None or len(dims) < len(output.dims) or not is_small(output):
        return None
    if output.dtype not in INTEGER_DTYPES or not any(map(_is_zero, given)):
        return None
    return (constant_value(np.zeros(dims, numpy_dtype(output.dtype))),), "a factor is 0"


def _is_zero(value: Value) -> bool:
    return value.constant is not None and value.constant.size > 0 and not np.any(value.constant)
