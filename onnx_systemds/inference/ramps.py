"""Integers and booleans that follow evenly from their places: numbers of rows, a mask that is true everywhere.

``Range``, ``Unsqueeze``, ``Expand`` and arithmetic on them are followed as a start and a step for each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from onnx_systemds.inference.dims import Dim, Dims, add, is_non_negative, multiply
from onnx_systemds.inference.facts import NodeFacts
from onnx_systemds.inference.values import Ramp, Value
from onnx_systemds.model.ir import Array

DTYPES = ("bool", "int32", "int64")
_MOST_ELEMENTS = 4096  # of a constant that is looked at
_LARGEST = {"bool": 1, "int32": 1 << 20, "int64": 1 << 52}
"""Starts of larger magnitude are not followed: what is made of them may be another number in that dtype."""
_LARGEST_STEP = {"bool": 0, "int32": 1, "int64": 1 << 20}


def ramp_of(value: Value) -> Ramp | None:
    """How the elements of a value follow from their places, None where that is not known."""
    if value.ramp is not None or value.dtype not in DTYPES:
        return value.ramp
    if value.constant is not None:
        return _of_content(value.constant) if 0 < value.constant.size <= _MOST_ELEMENTS else None
    return None


def with_ramp(facts: NodeFacts, output: Value) -> Value | None:
    """The first output of a node with its ramp, None where that is not known."""
    rule = None if facts.node.domain else _RULES.get(facts.node.op_type)
    if rule is None or output.dims is None or output.dtype not in DTYPES:
        return None
    found = rule(facts, output)
    ramp = None if found is None else _fitting(found, output)
    return None if ramp is None else replace(output, ramp=ramp)


def _fitting(ramp: Ramp, value: Value) -> Ramp | None:
    """The ramp with what the dims of a value tell of it; None where its dtype may not hold such numbers."""
    dims = value.dims or ()
    if value.dtype not in DTYPES or len(ramp.steps) != len(dims):
        return None
    steps = tuple(0 if dim == 1 else step for step, dim in zip(ramp.steps, dims))
    if abs(ramp.start) > _LARGEST[value.dtype]:
        return None
    if any(isinstance(step, int) and abs(step) > _LARGEST_STEP[value.dtype] for step in steps):
        return None
    low, high = _bounds(ramp.start, steps, dims)
    return Ramp(ramp.start, steps, _tighter(max, low, ramp.low), _tighter(min, high, ramp.high))


def _bounds(start: int, steps: Dims, dims: Dims) -> tuple[int | None, int | None]:
    """The smallest and the largest element, as far as they are known."""
    low: int | None = start
    high: int | None = start
    for step, dim in zip(steps, dims):
        if step == 0:
            continue
        reach = step * (dim - 1) if isinstance(step, int) and isinstance(dim, int) else None
        if is_non_negative(step):
            high = None if high is None or reach is None else high + reach
        elif is_non_negative(multiply(step, -1)):
            low = None if low is None or reach is None else low + reach
        else:
            return None, None
    return low, high


def _tighter(choose: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _of_content(content: Array) -> Ramp | None:
    numbers = content.astype(np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if max(-low, high) > _LARGEST["int64"]:
        return None
    start, even, steps = int(numbers.flat[0]), np.full((), numbers.flat[0]), []
    for axis, size in enumerate(numbers.shape):
        second = tuple(int(other == axis) for other in range(numbers.ndim))
        steps.append(int(numbers[second]) - start if size > 1 else 0)
        along = [size if other == axis else 1 for other in range(numbers.ndim)]
        even = even + (np.arange(size) * steps[-1]).reshape(along)
    return Ramp(start, tuple(steps), low, high) if np.array_equal(even, numbers) else None


# --- what operators make of it -------------------------------------------------------------------------------------


def _range(facts: NodeFacts, output: Value) -> Ramp | None:
    start, step = facts.integers(0), facts.integers(2)
    if not start or not step or not isinstance(start[0], int) or not isinstance(step[0], int):
        return None
    return Ramp(start[0], (step[0],))


def _filled(facts: NodeFacts, output: Value) -> Ramp | None:
    content = facts.attribute("value")
    return _everywhere(int(np.ravel(content)[0]), output) if isinstance(content, np.ndarray) else None


def _cast(facts: NodeFacts, output: Value) -> Ramp | None:
    ramp = ramp_of(facts.value(0))
    if ramp is None or output.dtype != "bool":
        return ramp
    return _everywhere(ramp.start != 0, output) if ramp.is_even else None


def _expand(facts: NodeFacts, output: Value) -> Ramp | None:
    given = _given(facts, output, 0)
    return None if given is None else given[0]


def _reshaped(facts: NodeFacts, output: Value) -> Ramp | None:
    """What puts in axes of size 1, or takes such away; of what is the same everywhere any other dims, too."""
    ramp, dims = ramp_of(facts.value(0)), output.dims or ()
    if ramp is None:
        return None
    if ramp.is_even:
        return ramp._replace(steps=(0,) * len(dims))
    long = [(dim, step) for dim, step in zip(facts.dims(0), ramp.steps) if dim != 1]
    if [dim for dim, _ in long] != [dim for dim in dims if dim != 1]:
        return None
    steps = iter([step for _, step in long])
    return ramp._replace(steps=tuple(0 if dim == 1 else next(steps) for dim in dims))


def _slice(facts: NodeFacts, output: Value) -> Ramp | None:
    ramp, starts = ramp_of(facts.value(0)), facts.integers(1)
    if ramp is None or starts is None:
        return None
    axes = facts.integers(3) if facts.has(3) else tuple(range(len(starts)))
    by = facts.integers(4) if facts.has(4) else (1,) * len(starts)
    begin, steps = ramp.start, list(ramp.steps)
    for start, axis, step in zip(starts, axes or (), by or ()):
        if not isinstance(start, int) or not isinstance(step, int) or not isinstance(axis, int):
            return None
        if start < 0 or step < 1:
            return None
        moved = steps[axis] * start
        if not isinstance(moved, int):
            return None
        begin, steps[axis] = begin + moved, steps[axis] * step
    return ramp._replace(start=begin, steps=tuple(steps)) if axes and by else None


def _concat(facts: NodeFacts, output: Value) -> Ramp | None:
    """Parts of which each goes on where the one before it ends."""
    given = _given(facts, output, *range(facts.input_count))
    if given is None:
        return None
    axis, start = facts.axis(rank=len(output.dims or ())), given[0].start
    step: Dim | None = None
    length: Dim = 0
    for position, ramp in enumerate(given):
        size = facts.dims(position)[axis]
        if size == 1 and position and step is None and length == 1:
            step = ramp.start - start
        if size != 1:
            if step is not None and step != ramp.steps[axis]:
                return None
            step = ramp.steps[axis]
        if position and ramp.start != add(start, multiply(step or 0, length)):
            return None
        length = add(length, size)
    steps = {(*ramp.steps[:axis], step or 0, *ramp.steps[axis + 1 :]) for ramp in given}
    return Ramp(start, steps.pop()) if len(steps) == 1 else None


def _sum(facts: NodeFacts, output: Value, sign: int = 1) -> Ramp | None:
    given = _given(facts, output, 0, 1)
    if given is None:
        return None
    one, other = given
    return Ramp(one.start + sign * other.start,
                tuple(add(mine, multiply(theirs, sign)) for mine, theirs in zip(one.steps, other.steps)))


def _product(facts: NodeFacts, output: Value) -> Ramp | None:
    for one, other in ((0, 1), (1, 0)):
        by, given = facts.integers(other), _given(facts, output, one)
        if by is None or len(by) != 1 or given is None:
            continue
        start = multiply(given[0].start, by[0])
        return Ramp(start, tuple(multiply(step, by[0]) for step in given[0].steps)) if isinstance(start, int) else None
    return None


def _not(facts: NodeFacts, output: Value) -> Ramp | None:
    ramp = ramp_of(facts.value(0))
    return None if ramp is None or not ramp.is_even else _everywhere(not ramp.start, output)


def _joined(facts: NodeFacts, output: Value, deciding: bool) -> Ramp | None:
    """And, Or: ``deciding`` is what the result is, whatever the other input."""
    even = [ramp for at in (0, 1) if (ramp := ramp_of(facts.value(at))) is not None and ramp.is_even]
    if any(bool(ramp.start) is deciding for ramp in even):
        return _everywhere(deciding, output)
    return _everywhere(not deciding, output) if len(even) == 2 else None


def _compared(
    facts: NodeFacts, output: Value, true: Callable[[int, int], bool], false: Callable[[int, int], bool]
) -> Ramp | None:
    """A comparison with the same result everywhere; true, false: whether the bounds of the difference decide it so."""
    difference = _sum(facts, output, -1)
    if difference is None:
        return None
    low, high = _bounds(difference.start, difference.steps, output.dims or ())
    one, other = ramp_of(facts.value(0)), ramp_of(facts.value(1))
    if one is not None and other is not None:
        if one.low is not None and other.high is not None:
            low = _tighter(max, low, one.low - other.high)
        if one.high is not None and other.low is not None:
            high = _tighter(min, high, one.high - other.low)
    least, most = -_FAR if low is None else low, _FAR if high is None else high
    if true(least, most):
        return _everywhere(True, output)
    return _everywhere(False, output) if false(least, most) else None


def _sums_along(facts: NodeFacts, output: Value) -> Ramp | None:
    ramp = ramp_of(facts.value(0))
    return ramp if ramp is not None and ramp.is_even and ramp.start == 0 else None


def _taken(facts: NodeFacts, output: Value) -> Ramp | None:
    """Elements that are all the same, taken from places that are there."""
    data, places = ramp_of(facts.value(0)), ramp_of(facts.value(1))
    if data is None or places is None or not data.is_even or places.low is None or places.high is None:
        return None
    size = facts.dims(0)[facts.axis()]
    is_there = isinstance(size, int) and -size <= places.low and places.high < size
    return _everywhere(data.start, output) if is_there else None


def _everywhere(content: int, output: Value) -> Ramp:
    return Ramp(int(content), (0,) * len(output.dims or ()), int(content), int(content))


def _given(facts: NodeFacts, output: Value, *positions: int) -> list[Ramp] | None:
    """The ramps of inputs, each along the axes of the output; None where one is not known."""
    rank, found = len(output.dims or ()), []
    for at in positions:
        ramp = ramp_of(facts.value(at)) if facts.has(at) else None
        if ramp is None or len(ramp.steps) > rank:
            return None
        found.append(ramp._replace(steps=(*[0] * (rank - len(ramp.steps)), *ramp.steps)))
    return found


_FAR = 1 << 60
Rule = Callable[[NodeFacts, Value], "Ramp | None"]
_RULES: Mapping[str, Rule] = {
    "ConstantOfShape": _filled, "Range": _range,
    "Cast": _cast, "Identity": _cast, "Expand": _expand,
    "Unsqueeze": _reshaped, "Squeeze": _reshaped, "Reshape": _reshaped, "Flatten": _reshaped,
    "Slice": _slice, "Concat": _concat, "Add": _sum, "Sub": partial(_sum, sign=-1), "Mul": _product,
    "Not": _not, "And": partial(_joined, deciding=False), "Or": partial(_joined, deciding=True),
    "Equal": partial(_compared, true=lambda low, high: low == high == 0, false=lambda low, high: low > 0 or high < 0),
    "Less": partial(_compared, true=lambda low, high: high < 0, false=lambda low, high: low >= 0),
    "LessOrEqual": partial(_compared, true=lambda low, high: high <= 0, false=lambda low, high: low > 0),
    "Greater": partial(_compared, true=lambda low, high: low > 0, false=lambda low, high: high <= 0),
    "GreaterOrEqual": partial(_compared, true=lambda low, high: low >= 0, false=lambda low, high: high < 0),
    "CumSum": _sums_along, "Gather": _taken, "GatherElements": _taken,
}
