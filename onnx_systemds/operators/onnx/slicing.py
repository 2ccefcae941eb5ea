"""Slice: runs of elements along axes, also those that only the run knows."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.engine.safe_forms import progression
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference import dims as sizes
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, is_non_negative_from_one, may_be_zero
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.registry import (
    batch_rule,
    fold,
    generator,
    integer_rule,
    shape_rule,
    size_rule,
    takes_text,
)
from onnx_systemds.inference.values import Elements
from onnx_systemds.operators.api import Fragment, NodeFacts, NodeView, Value
from onnx_systemds.operators.onnx.selecting import Steps
from onnx_systemds.operators.support.batch_rules import unlimited
from onnx_systemds.operators.support.integer_rules import moved
from onnx_systemds.operators.support.size_rules import known_elements

takes_text("Slice")
fold("Slice")(by_reference)
integer_rule("Slice")(moved)

FAR = 2**31 - 1  # exporters write this, or more, for "to the end"
_ENDLESS = 10**9  # as others do: JAX writes it; an axis that is longer is refused


def slice_ranges(node: NodeFacts) -> list[tuple[int, Dim, Dim, Dim]]:
    """(axis, start, count, step) for each sliced axis; opset 1 has attributes, from 10 on inputs."""
    dims = node.dims("data")
    if node.version < 10:
        starts, ends = tuple(node.attribute("starts")), tuple(node.attribute("ends"))
        axes, steps = node.attribute("axes"), None
    else:
        axes = node.require_integers(3, "the axes") if node.has(3) else None
        lengths = [node.value(at).dims for at in (1, 2, 3) if node.has(at)]
        count = next((given[0] for given in lengths if given and isinstance(given[0], int)), 1)
        starts = node.sizes(1, "the starts", signed=True, count=count)
        ends = node.sizes(2, "the ends", signed=True, count=count)
        steps = node.sizes(4, "the steps", signed=True) if node.has(4) else None
    if not dims:
        raise InvalidModel("a scalar has no axis to be sliced")
    for count in (len(given) for given in (ends, axes, steps) if given is not None):
        if count != len(starts):
            raise InvalidModel(f"{len(starts)} starts and {count} ends, axes or steps")
    found: list[tuple[int, Dim, Dim, Dim]] = []
    for i, (start, end) in enumerate(zip(starts, ends)):
        axis = node.normalize_axis(_known(i if axes is None else axes[i], "an axis"), len(dims))
        step = 1 if steps is None else steps[i]
        if step == 0:
            raise UnsupportedCase("a slice of step 0")
        if isinstance(end, int) and _ENDLESS <= end < FAR and not isinstance(dims[axis], int):
            node.assume(dims[axis], Relation.AT_MOST, end, node.axis_words("data", axis), "the end of the slice")
            end = FAR
        if dims[axis] == 0:
            found.append((axis, 0, 0, 1))
        elif isinstance(step, int) and (lone := _lone_element(start, end, step, dims[axis])) is not None:
            found.append((axis, lone, 1, step))
        elif isinstance(step, int) and _is_signed(start) and _is_signed(end):
            found.append((axis, *slice_range(start, end, step, dims[axis]), step))
        else:
            found.append((axis, *_run_time_range(node, axis, start, end, step), step))
    return found


def _lone_element(start: Dim, end: Dim, step: int, size: Dim) -> Dim | None:
    """The place of the one element that is all of a slice of an open axis; the script refuses to find none."""
    if not (isinstance(start, int) and isinstance(end, int)) or isinstance(size, int) or step < 1 or may_be_zero(size):
        return None
    if end != start + 1 or end == 0:  # the last element has no place after it that counts from the back
        return size - 1 if start == -1 and end >= FAR else None
    return start if start >= 0 else size + start


def _is_signed(position: Dim) -> bool:
    """Whether it is known from which end a position counts: 0 is the first one, and none from the back."""
    return is_non_negative_from_one(position) or is_non_negative_from_one(-1 * position - 1)


def _run_time_range(node: NodeFacts, axis: int, start: Dim, end: Dim, step: Dim) -> tuple[Dim, Dim]:
    """First position and number of the elements of a slice that only the run decides."""
    size = node.dims("data")[axis]
    first: Dim = 0
    if isinstance(start, int) and isinstance(size, int) and step == 1:
        first = range(size)[start:].start
    elif start != 0 or step != 1:
        first = node.computed("slice_start", _in_dml(start), step, size, hint=f"start{axis}")
    count = node.computed("slice_count", first, _in_dml(end), step, size, hint=f"size{axis}")
    return first, sizes.minimum(count, 1) if step == end - start == 1 else count


def _in_dml(position: Dim) -> Dim:
    """A position as an integer that DML can write: the least of ONNX's is none."""
    return min(max(position, -FAR), FAR) if isinstance(position, int) else position


def _known(size: Dim, what: str) -> int:
    if not isinstance(size, int):
        raise UnsupportedCase(f"{what} of a slice is an expression")
    return size


def known_slice(start: int, end: int, step: int, size: int) -> slice:
    """The same slice in Python; backwards, ONNX starts at the first element at least."""
    return slice(max(start, -size), None if end < -size else end, step) if step < 0 else slice(start, end, step)


def slice_range(start: Dim, end: Dim, step: int, size: Dim) -> tuple[Dim, Dim]:
    """First position and number of the elements of a slice.

    Where sizes are expressions nothing is clipped that would only matter for a slice that may be empty (the script
    refuses one), and an expression as the end on an axis of known size is trusted to be within it (it is checked).
    """
    if isinstance(start, int) and isinstance(end, int) and isinstance(size, int):
        chosen = range(size)[known_slice(start, end, step, size)]
        return (chosen.start if len(chosen) else 0), len(chosen)
    start, end = _in_dml(start), _in_dml(end)
    if step > 0:
        first, last = _clipped(start, size, 0, size), _clipped(end, size, 0, size)
        from_here, length = end - start, last - first
        if last == size and first == sizes.maximum(0, start + size) != 0:  # the last ones, fewer where it has fewer
            return first, (sizes.minimum(-1 * start, size) + step - 1) // step
    else:
        first, last = _clipped(start, size, 0, size - 1), _clipped(end, size, -1, size - 1)
        from_here, length = start - end, first - last
    if isinstance(first, int) and isinstance(size, int) and first >= size:
        return 0, 0
    counts_alike = is_non_negative_from_one(start) == is_non_negative_from_one(end)  # from the front or from the back
    # what starts before the first element starts at it, backwards: then such an end is no end
    is_within = step > 0 or is_non_negative_from_one(start) or is_non_negative_from_one(size + end)
    is_reversed = counts_alike and is_within and is_non_negative_from_one(-1 * from_here)
    if is_reversed or is_non_negative_from_one(-1 * length):
        return 0, 0
    if step < 0 and not is_non_negative_from_one(start) and not is_non_negative_from_one(size + start):
        length = sizes.minimum(length, size)  # of no elements there is no first one
    if may_be_zero(length) and not is_non_negative_from_one(length):
        length = sizes.maximum(length, 0)  # the script refuses what the other sizes make empty
    return first, (length + abs(step) - 1) // abs(step)


def _clipped(position: Dim, size: Dim, least: int, limit: Dim) -> Dim:
    """A position counted from the front, from ``least`` to ``limit``; negative ones count from ``size``."""
    if isinstance(position, int) and abs(position) >= FAR:
        return limit if position > 0 else least
    if is_non_negative_from_one(position):
        if isinstance(limit, int) and not isinstance(position, int):
            return position
        return _smaller(position, limit)
    if is_non_negative_from_one(-1 * position):
        shifted = position + size
        return shifted if is_non_negative_from_one(shifted - least) else sizes.maximum(shifted, least)
    raise UnsupportedCase(f"the sign of the slice position {position} is not known at conversion")


def _smaller(left: Dim, right: Dim) -> Dim:
    """The minimum, decided at conversion if possible."""
    if is_non_negative_from_one(left - right):
        return right
    return left if is_non_negative_from_one(right - left) else sizes.minimum(left, right)


def _is_of_no_elements(count: Dim, size: Dim) -> bool:
    """Whether a slice would have elements where an open axis has none."""
    if isinstance(size, int) or may_be_zero(size):
        return False
    none = dict.fromkeys(sizes.symbols(size), 0)
    try:
        found, left = sizes.substitute(count, none), sizes.substitute(size, none)
    except ZeroDivisionError:  # a remainder by the size itself, as torch.roll has it, is of no number
        return True
    return left == 0 and isinstance(found, int) and found > 0


def _is_one_of_one(count: Dim, size: Dim) -> bool:
    """Whether a slice takes the one element of an axis, unless it were of none, which the script refuses."""
    return size == 1 and not isinstance(count, int) and not may_be_zero(count)


def _is_filled(count: Dim) -> bool:
    """Whether a size is certainly at least 1, symbols being so."""
    if isinstance(count, int):
        return True  # of one that is known to be 0 nothing is computed
    if any(_is_open_quotient(atom) for atoms, _ in count.terms for atom in atoms):
        return False
    if operation := _lone_operation(count):
        left, right = operation.left, operation.right
        found = [is_non_negative_from_one(operand - 1) for operand in (left, right)]
        by_operator = {"min": all(found), "max": any(found), "floordiv": is_non_negative_from_one(left - right)}
        return by_operator.get(operation.operator, False)
    return is_non_negative_from_one(count - 1)


def _lone_operation(count: Dim) -> sizes.Operation | None:
    """The operation that is all of a size."""
    if isinstance(count, int) or len(count.terms) != 1:
        return None
    ((atoms, coefficient),) = count.terms
    found = atoms[0] if coefficient == 1 and len(atoms) == 1 else None
    return found if isinstance(found, sizes.Operation) else None


def _is_open_quotient(atom: sizes.Atom) -> bool:
    """Whether something is divided that may be negative, as what lies between an end and a start after it."""
    return isinstance(atom, sizes.Operation) and atom.operator == "floordiv" and not is_non_negative_from_one(atom.left)


_MOST_PICKED = 100_000
"""Elements along an axis that are named one by one; of more only the first, the last and the step are written."""


@shape_rule("Slice")
def slice_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The sliced axes shrink."""
    dims = list(node.dims("data"))
    for axis, start, count, step in slice_ranges(node):
        part = f"the slice of {node.axis_words('data', axis)}"
        words = f"the length of {part}"
        if _is_one_of_one(count, dims[axis]):
            node.assume_equal(count, 1, words, "the whole axis")
            if start != 0:
                node.assume(start, Relation.AT_MOST, 0, f"the first place of {part}", "that of the axis")
            continue
        if not may_be_zero(count) and not _is_filled(count):  # those that may be 0 are guarded
            node.assume(count, Relation.AT_LEAST, 1, words)
        _assume_there(node, axis, start, count)
        _assume_within(node, dims[axis], (start, count, step), part)
        dims[axis] = count
    return (node.tensor(dims),)


def _assume_there(node: NodeFacts, axis: int, start: Dim, count: Dim) -> None:
    """Take an open axis to have what is sliced: elements that it has not the engine takes for 0."""
    size = node.dims("data")[axis]
    is_lone = count == 1 and not isinstance(size, int) and not may_be_zero(size)
    least = 1 if not is_lone else start + 1 if isinstance(start, int) else size - start
    if (is_lone and not is_non_negative_from_one(size - least)) or _is_of_no_elements(count, size):
        node.assume(size, Relation.AT_LEAST, least, node.axis_words("data", axis))


def _assume_within(node: NodeFacts, size: Dim, taken: tuple[Dim, Dim, Dim], part: str) -> None:
    """Take a slice of an axis of known size to end within it, where it goes by sizes; what the run clips is so."""
    start, count, step = taken
    is_known = isinstance(start, int) and isinstance(count, int)
    if not isinstance(size, int) or not isinstance(step, int) or is_known:
        return
    if step == 1 and start == 0:
        node.assume(count, Relation.AT_MOST, size, f"the length of {part}", "the whole axis")
    elif not _is_counted(start, count):
        last = start + (_unclipped(count) - 1) * step if step > 0 else start
        if not is_non_negative_from_one(size - 1 - last):
            words = f"the {'last' if step > 0 else 'first'} place of {part}"
            node.assume(last, Relation.AT_MOST, size - 1, words, "that of the axis")


def _is_counted(start: Dim, count: Dim) -> bool:
    """Whether the run counts the elements, by `slice_count`: then all are there."""
    name = sizes.lone_symbol(count)
    return name is not None and may_be_zero(count) and name not in sizes.symbols(start)


def _unclipped(count: Dim) -> Dim:
    """The difference of two places that `slice_range` does not let go below 0: it leads to the last one."""
    operation = _lone_operation(count)
    if operation is None or operation.operator != "max" or 0 not in (operation.left, operation.right):
        return count
    return operation.left if operation.right == 0 else operation.right


@batch_rule("Slice", sizes=(1, 2))
def _slice_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """A slice from the first to the last element is none."""
    size = unlimited(node.dims("data")[axis])
    taken = [(start, unlimited(count), step) for sliced, start, count, step in slice_ranges(node) if sliced == axis]
    return position != 0 or any(part != (0, size, 1) for part in taken)


@generator("Slice", since=(1, 10))
def slice_(node: NodeView) -> Fragment:
    """Ranges of rows or columns, axis by axis; other steps are selections."""
    steps = Steps(node)
    for axis, start, count, step in sorted(slice_ranges(node), key=lambda found: found[0]):
        if _is_one_of_one(count, node.dims("data")[axis]):
            continue
        if step == 1:
            steps.slice(axis, start, count)
        elif isinstance(start, int) and isinstance(count, int) and isinstance(step, int) and count <= _MOST_PICKED:
            steps.pick(axis, [start + i * step for i in range(count)])
        elif may_be_zero((start, count, step)):
            counted = node.call("count_up", node.dim(count))
            steps.take(axis, f"{counted} * {node.factor(step)} + {node.factor(start + 1)}", count)
        elif step == -1 and count == node.dims("data")[axis]:
            steps.reverse(axis)
        else:
            last = node.dim(start + (count - 1) * step + 1)
            steps.take(axis, progression(node.dim(start + 1), last, node.factor(step)), count)
    return steps.fragment()


@size_rule("Slice", moves=True)
def _sliced_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    data = inputs[0]
    if node.version >= 10:
        known = [known_elements(array) for array in inputs[1:]]
        if any(array is None for array in known):
            return None
        starts, ends = known[0], known[1]
        axes = known[2] if len(known) > 2 else list(range(len(starts or ())))
        steps = known[3] if len(known) > 3 else [1] * len(starts or ())
    else:
        starts, ends = list(node.attribute("starts")), list(node.attribute("ends"))
        axes = list(node.attribute("axes") or range(len(starts)))
        steps = [1] * len(starts)
    index = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts or (), ends or (), axes or (), steps or ()):
        index[axis] = known_slice(start, end, step, data.shape[axis])
    return data[tuple(index)]
