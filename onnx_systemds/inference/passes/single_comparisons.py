"""Comparisons with constants of single precision take what is not rounded to it as if it were.

A constant becomes the last number, in FP64, that is rounded to the same side; ``Equal`` becomes two comparisons.
Condition: the decimals of a constant are another number in FP64, as those of 0.3 and unlike those of 0.5. Reason:
numbers from a file, such as the bins of a discretizer are compared with, are not rounded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_systemds.correspondence import MIRRORED_ORDERS
from onnx_systemds.inference.inference_facts import InferenceFacts, Rewriting
from onnx_systemds.model import protos
from onnx_systemds.model.ir import DERIVATIVES, Array, Node
from onnx_systemds.model.single_precision import has_other_decimals, largest_rounded, smallest_rounded

NEEDS = ("Equal", *MIRRORED_ORDERS)


def compare_unrounded(facts: InferenceFacts) -> Rewriting:
    """The comparison with other constants, None where the node is none, or needs none."""
    node = facts.node
    known = {place: constant for place in (0, 1) if (constant := facts.values[node.inputs[place]].constant) is not None}
    if node.version < 7 or len(known) != 1 or facts.values[node.inputs[0]].dtype != "float":
        return None
    ((place, constant),) = known.items()
    if not has_other_decimals(constant):
        return None
    why = "its constant has other decimals in single precision"
    if node.op_type != "Equal":
        return (*_compared(node, node.op_type, place, constant, node.outputs[0]),), why
    ends = [f"{node.outputs[0]}/at_{end}" for end in ("least", "most")]
    least, most = ("GreaterOrEqual", "LessOrEqual") if place else ("LessOrEqual", "GreaterOrEqual")
    return (
        *_compared(node, least, place, constant, ends[0]), *_compared(node, most, place, constant, ends[1]),
        replace(node, op_type="And", inputs=tuple(ends), version=7),
    ), why


def _compared(node: Node, op_type: str, place: int, constant: Array, result: str) -> list[Node]:
    """A comparison with the numbers that are rounded to those of a constant, which is the operand at ``place``."""
    of_constant = op_type if place else MIRRORED_ORDERS[op_type]  # x op constant
    ends = smallest_rounded if of_constant in ("Less", "GreaterOrEqual") else largest_rounded
    held, retyped = f"{result}/held", f"{result}/limit"
    inputs = tuple(retyped if at == place else name for at, name in enumerate(node.inputs))
    version = 12 if op_type.endswith("OrEqual") else 9
    return [
        node.inner("Constant", (), (held,), {"value": ends(constant.astype(np.float64))}),
        replace(node.inner("Retyped", (held,), (retyped,), {"dtype": protos.element_type("float")}),
                domain=DERIVATIVES, version=1),
        replace(node, op_type=op_type, inputs=inputs, outputs=(result,), version=version),
    ]
