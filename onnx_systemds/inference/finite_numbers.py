"""Which values cannot hold NaN or infinities: integers, known numbers, and what is computed of such alone.

QuantizeLinear has to look for NaN in all others. Generators that move data by products with ones and zeros do not ask:
the first of several equal layers would be another than the next ones.

FP64 is wide enough for what models compute of finite numbers of FP32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.single_precision import MOVES
from onnx_systemds.inference.values import FINITE_DTYPES, Value
from onnx_systemds.model.ir import ML

_WIDE = ("float", "double")
_FLOATS = ("float", "double", "float16")
# those of nothing are infinite or NaN
_OF_NONE = frozenset([("", "ReduceMax"), ("", "ReduceMin")])
_FINITE_OF_FINITE = frozenset(identity for identity in MOVES - _OF_NONE if identity[0] != ML) | frozenset(
    ("", name) for name in (
        "Add", "AveragePool", "Ceil", "Conv", "ConvTranspose", "DequantizeLinear", "Erf", "Floor", "Gelu", "Gemm",
        "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish", "LeakyRelu", "LogSoftmax", "MatMul",
        "MaxPool", "Mul", "PRelu", "ReduceSum", "Resize", "Round", "Sigmoid", "Sign", "Softmax", "Softplus",
        "Softsign", "Sub", "Sum", "Tanh", "ThresholdedRelu"))


def holds_finite_numbers(value: Value) -> bool:
    """Whether a value cannot hold NaN or infinities."""
    if value.is_finite or value.dtype in FINITE_DTYPES or value.dtype == "string":
        return True
    return value.constant is not None and value.dtype in _FLOATS and bool(np.isfinite(value.constant).all())


def with_finiteness(facts: NodeFacts, outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The outputs of a node, which say whether they are finite."""
    found = _gives_finite(facts)
    return tuple(replace(value, is_finite=found and value.dtype in _WIDE) for value in outputs)


def _gives_finite(facts: NodeFacts) -> bool:
    node = facts.node
    if node.identity == ("", "Cast"):
        return facts.dtype(0) in FINITE_DTYPES
    if node.identity not in _FINITE_OF_FINITE:
        return False
    numbers = (number for number in node.attributes.values() if isinstance(number, float))
    return all(map(math.isfinite, numbers)) and _has_finite_inputs(facts)


def _has_finite_inputs(facts: NodeFacts) -> bool:
    """Whether all inputs are finite; those that are known, which may be large, are looked at last."""
    given = [facts.values[name] for name in facts.node.inputs if name]
    return all(map(holds_finite_numbers, sorted(given, key=lambda value: value.constant is not None)))
