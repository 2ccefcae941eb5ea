"""Arrays of sizes, of dtype object, which hold integers and expressions: what rules of `registry.size_rule` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnx_systemds.inference.dims import Dim
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.inference.values import Elements
from onnx_systemds.limits import check_integer

Compute = Callable[[NodeFacts, Sequence[Elements]], "Elements | None"]


def of_pairs(operation: Callable[[Dim, Dim], Dim | None]) -> Compute:
    """The rule of an elementwise operator, from what it makes of two sizes: None where that is not known."""

    def rule(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
        if not inputs:
            return None
        result: Elements = inputs[0]
        for other in inputs[1:]:
            try:
                shape = np.broadcast_shapes(result.shape, other.shape)
            except ValueError:  # the operator itself says so
                return None
            pairs = zip(np.broadcast_to(result, shape).ravel(), np.broadcast_to(other, shape).ravel())
            computed = [operation(left, right) for left, right in pairs]
            for element in computed:
                if isinstance(element, int):
                    check_integer(element)
            known = [element for element in computed if element is not None]
            if len(known) < len(computed):
                return None
            result = np.array(known, dtype=object).reshape(shape)
        return result

    return rule


def known_elements(array: Elements) -> list[int] | None:
    """The elements as integers, None where one is an expression."""
    known = as_ints(array.ravel().tolist())
    return None if known is None else list(known)
