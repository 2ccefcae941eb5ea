"""Integer tensors that carry sizes, followed as arrays of dims while the graph is inferred.

``Shape``, ``Gather``, ``Concat`` and arithmetic on them usually vanish from the script: what remains
are the dims that their consumers ask for. The arrays have dtype object and hold dims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_systemds.inference.dims import Dim, floor_divide, is_non_negative, maximum, minimum, modulo
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.values import INTEGER_DTYPES, Elements
from onnx_systemds.limits import check_integer

LARGEST = 4096  # elements of the tensors that are followed
MOVEMENTS = frozenset(["Cast", "Concat", "Expand", "Gather", "Identity", "Reshape", "Slice", "Squeeze", "Unsqueeze"])

Rule = Callable[[NodeFacts, Sequence[Elements]], "Elements | None"]


def elements_of(array: np.ndarray[Any, np.dtype[Any]]) -> Elements:
    """The same integers as an object array of Python ints."""
    result = np.empty(array.shape, dtype=object)
    result[...] = array.astype(object)
    return result


def evaluate(facts: NodeFacts) -> Elements | None:
    """The content of a node's first output as dims, None where it cannot be told."""
    rule = _RULES.get(facts.node.op_type) if facts.node.domain == "" else None
    if rule is None:
        return None
    if facts.node.op_type in ("Shape", "Size"):
        return rule(facts, ())
    inputs: list[Elements] = []
    for position in range(facts.input_count):
        if not facts.has(position):
            return None
        value = facts.value(position)
        if value.elements is not None:
            inputs.append(value.elements)
        elif value.constant is not None and value.constant.size <= LARGEST and _holds_sizes(value.dtype):
            inputs.append(elements_of(value.constant))
        else:
            return None
    result = rule(facts, inputs)
    return result if result is not None and result.size <= LARGEST else None


def _holds_sizes(dtype: str) -> bool:
    return dtype in INTEGER_DTYPES or dtype == "bool"


def _shape(facts: NodeFacts, _: Sequence[Elements]) -> Elements | None:
    dims = facts.value(0).dims
    if dims is None:
        return None
    start, end = facts.attribute("start") or 0, facts.attribute("end")
    return _array(dims[start:end])


def _size(facts: NodeFacts, _: Sequence[Elements]) -> Elements | None:
    return None if facts.value(0).dims is None else _scalar(facts.size(0))


def _gather(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    data, indices = inputs
    if not all(isinstance(index, int) for index in indices.ravel()):
        return None
    axis = facts.axis(rank=data.ndim)
    positions = indices.astype(np.int64)
    limit = data.shape[axis]
    if positions.size and not (-limit <= positions.min() and positions.max() < limit):
        return None
    return _object(np.take(data, positions % max(limit, 1), axis=axis))


def _concat(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    return np.concatenate(inputs, axis=int(facts.attribute("axis")))


def _slice(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    data = inputs[0]
    if facts.version >= 10:
        known = [_known(array) for array in inputs[1:]]
        if any(array is None for array in known):
            return None
        starts, ends = known[0], known[1]
        axes = known[2] if len(known) > 2 else list(range(len(starts or ())))
        steps = known[3] if len(known) > 3 else [1] * len(starts or ())
    else:
        starts, ends = list(facts.attribute("starts")), list(facts.attribute("ends"))
        axes = list(facts.attribute("axes") or range(len(starts)))
        steps = [1] * len(starts)
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts or (), ends or (), axes or (), steps or ()):
        size = data.shape[axis]
        if step < 0 and end < -size:
            index[axis] = slice(start, None, step)
        else:
            index[axis] = slice(start, end, step)
    return data[tuple(index)]


def _reshape(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    target = list(facts.attribute("shape")) if facts.version < 5 else _known(inputs[1])
    if target is None:
        return None
    dims = [inputs[0].shape[i] if size == 0 and not facts.attribute("allowzero") else size
            for i, size in enumerate(target)]
    return inputs[0].reshape(dims)


def _flat(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    """Squeeze and Unsqueeze of sizes: the rank is 0 or 1 before and after, or the axes say."""
    axes = facts.attribute("axes") if facts.version < 13 else (_known(inputs[1]) if len(inputs) > 1 else None)
    if facts.node.op_type == "Squeeze":
        return np.squeeze(inputs[0], axis=None if axes is None else tuple(axes))
    if axes is None:
        return None
    rank = inputs[0].ndim + len(axes)
    wanted = {axis % rank for axis in axes}
    kept = iter(inputs[0].shape)
    return inputs[0].reshape([1 if axis in wanted else next(kept) for axis in range(rank)])


def _cast(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    # TensorProto.DataType: INT32 6, INT64 7, UINT32 12, UINT64 13
    return inputs[0] if facts.attribute("to") in (6, 7, 12, 13, "INT64", "INT32") else None


def _arithmetic(operation: Callable[[Dim, Dim], Dim | None]) -> Rule:
    def rule(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
        if facts.version < 7 or not inputs:  # before opset 7 broadcasting was another
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
            result = _array(known).reshape(shape)
        return result

    return rule


def _divide(left: Dim, right: Dim) -> Dim | None:
    # ONNX truncates; sizes are not negative, so floor is the same
    return floor_divide(left, right) if is_non_negative(left) and is_non_negative(right) and right != 0 else None


def _modulo(left: Dim, right: Dim) -> Dim | None:
    return modulo(left, right) if is_non_negative(left) and is_non_negative(right) and right != 0 else None


def _equal(left: Dim, right: Dim) -> Dim | None:
    difference = left - right
    if isinstance(difference, int):
        return int(difference == 0)
    # symbols are sizes: seq - (-1) >= 1, so they differ
    if is_non_negative(difference - 1) or is_non_negative(-1 * difference - 1):
        return 0
    return None


def _where(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    condition, chosen, other = inputs
    if not all(isinstance(element, int) for element in condition.ravel()):
        return None
    return _object(np.where(condition.astype(bool), chosen, other))


def _constant_of_shape(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    shape = _known(inputs[0])
    fill = facts.attribute("value")
    if shape is None or fill is None or fill.dtype.kind not in "iub" or int(np.prod(shape)) > LARGEST:
        return None
    return np.full(shape, int(fill.ravel()[0]), dtype=object)


def _expand(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    shape = _known(inputs[1])
    if shape is None or int(np.prod(shape)) > LARGEST:
        return None
    return _object(np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, tuple(shape))))


def _reduce_product(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    if inputs[0].ndim != 1:
        return None
    result: Dim = 1
    for element in inputs[0]:
        result = result * element
        if isinstance(result, int):
            check_integer(result)
    return _array([result]) if facts.attribute("keepdims") else _scalar(result)


def _range(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    known = [_known(array.reshape(-1)) for array in inputs]
    if any(array is None for array in known):
        return None
    start, limit, step = (array[0] for array in known if array)
    return _array(list(range(start, limit, step))) if step and abs(limit - start) <= LARGEST * abs(step) else None


def _same(facts: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    return inputs[0]


def _known(array: Elements) -> list[int] | None:
    items = array.ravel().tolist()
    return items if all(isinstance(item, int) for item in items) else None


def _array(items: Sequence[Dim]) -> Elements:
    result = np.empty(len(items), dtype=object)
    result[:] = list(items)
    return result


def _scalar(item: Dim) -> Elements:
    result = np.empty((), dtype=object)
    result[()] = item
    return result


def _object(array: Any) -> Elements:
    result = np.empty(np.shape(array), dtype=object)
    result[...] = array
    return result


_RULES: dict[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Reshape": _reshape,
    "Squeeze": _flat,
    "Unsqueeze": _flat,
    "Cast": _cast,
    "Identity": _same,
    "Add": _arithmetic(lambda left, right: left + right),
    "Sub": _arithmetic(lambda left, right: left - right),
    "Mul": _arithmetic(lambda left, right: left * right),
    "Div": _arithmetic(_divide),
    "Mod": _arithmetic(_modulo),
    "Max": _arithmetic(maximum),
    "Min": _arithmetic(minimum),
    "Equal": _arithmetic(_equal),
    "Where": _where,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "ReduceProd": _reduce_product,
    "Range": _range,
}
