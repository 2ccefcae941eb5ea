"""Right-indexing ``X[a:b, c:d]`` and left-indexing ``X[a:b, c:d] = Y`` with known or computed bounds."""

from __future__ import annotations

import numpy as np

from onnx_systemds.dml import syntax as tree
from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.exporting.builtins.frames import column_part, frame_of, joined
from onnx_systemds.exporting.evaluating import merging
from onnx_systemds.exporting.evaluating.evaluator import Evaluator
from onnx_systemds.exporting.graph.nodes import FLOAT, Range, Replacement, Tensor
from onnx_systemds.exporting.graph.operators import Operators
from onnx_systemds.exporting.graph.positions import may_be_negative, position_tensor
from onnx_systemds.exporting.poison_values import intact
from onnx_systemds.exporting.values import STRING, FrameValue, ListValue, Matrix, Scalar, Value, known_of
from onnx_systemds.inference.dims import Dim, has_signed_symbols
from onnx_systemds.inference.known_dims import differ


def read(evaluator: Evaluator, node: tree.Indexed) -> Value:
    """Return ``X[rows, columns]`` of a matrix or frame, or the item of a list. Raises UnsupportedCase."""
    whole = evaluator.variable(node.name, node)
    if isinstance(whole, ListValue):
        return _item(evaluator, node, whole)
    with evaluator.at(node):
        if not isinstance(whole, (Matrix, FrameValue)):
            raise UnsupportedCase(f"{node.name} is {whole} and cannot be indexed")
        rows, cols = ranges(evaluator, node, whole)
        if isinstance(whole, FrameValue):
            chosen = column_part(evaluator.context, whole, cols.start, cols.size)
            return FrameValue(tuple(evaluator.graph.slice(part, 0, rows.start, rows.stop, size=rows.size)
                                    for part in chosen.parts))
        if (rows, cols) == (Range(0, whole.rows), Range(0, whole.cols)):
            return whole
        if cols == Range(0, whole.cols) and whole.tensor.rank > 2 and whole.tensor.dims[0] == whole.rows:
            part = evaluator.graph.slice(whole.tensor, 0, rows.start, rows.stop, size=rows.size)
            return Matrix(part, rows.size, whole.cols)
        part = evaluator.graph.reshape(whole.tensor, whole.dims)
        for axis, found in enumerate((rows, cols)):
            part = evaluator.graph.slice(part, axis, found.start, found.stop, size=found.size)
        return Matrix(part, rows.size, cols.size)


def ranges(evaluator: Evaluator, node: tree.Indexed, whole: Matrix | FrameValue) -> tuple[Range, Range]:
    """Return the rows and columns that an index names."""
    columns = node.columns or tree.Span()  # X[i] is X[i, ]
    return _range(evaluator, node.rows, whole.rows), _range(evaluator, columns, whole.cols)


def _range(evaluator: Evaluator, span: tree.Span, size: Dim) -> Range:
    if span.lower is None:
        return Range(0, size)
    lower = _bound(evaluator, span.lower)
    upper = lower if span.upper is None else _bound(evaluator, span.upper)
    length = upper - lower + 1
    if (isinstance(length, int) and length < 1) or (isinstance(lower, int) and lower < 1):
        raise UnsupportedCase(f"the range {lower}:{upper} is empty or begins before 1")
    if isinstance(upper, int) and isinstance(size, int) and upper > size:
        raise UnsupportedCase(f"the range {lower}:{upper} ends after the last of {size}")
    if lower == 1 and upper == size:
        return Range(0, size)
    return Range(lower - 1, length)


def _bound(evaluator: Evaluator, expression: tree.Expression) -> Dim:
    """Return a bound of a range; one that the model computes becomes an integer of its own."""
    value = evaluator.value(expression)
    with evaluator.at(expression):
        return evaluator.context.integer(value)


def _item(evaluator: Evaluator, node: tree.Indexed, whole: ListValue) -> Value:
    """Return ``L[i]`` or ``L["name"]`` as a list of one item, and ``L[a:b]`` as a list."""
    with evaluator.at(node):
        place = _computed_place(evaluator, node.rows)
        if place is not None:
            return ListValue((_chosen_item(evaluator, node.name, whole, place),))
        positions = item_positions(evaluator, node, whole)
        names = tuple(whole.names[i] for i in positions) if whole.names else ()
        for i in positions:
            intact(whole.items[i], f"item {i + 1} of {node.name}")
        return ListValue(tuple(whole.items[i] for i in positions), names)


def _computed_place(evaluator: Evaluator, span: tree.Span) -> Dim | None:
    """Return which item an index names that the model computes; None for others, and for places in a loop.

    Loops over the items are written out, so that each item stays a tensor of its own.
    """
    if span.lower is None or span.upper is not None:
        return None
    value = evaluator.value(span.lower)
    if known_of(value) is not None or not isinstance(value, Scalar) or value.type == STRING:
        return None
    place = evaluator.context.integer(value)
    return place if has_signed_symbols(place) else None


def _chosen_item(evaluator: Evaluator, name: str, whole: ListValue, place: Dim) -> Value:
    """Return the item of a list that the model chooses: items of one form lie behind each other in a tensor."""
    graph, context = evaluator.graph, evaluator.context
    items = [intact(item, f"item {i} of {name}") for i, item in enumerate(whole.items, 1)]
    form = merging.template(f"an item of {name}", items[0], items[-1])
    for item in items:
        form.widen(item)
    chosen = []
    for parts in zip(*(form.tensors(context, item) for item in items)):
        if len({part.dims for part in parts}) > 1:
            raise UnsupportedCase(f"the items of {name} have different sizes, and only the run knows which is meant")
        stacked = graph.concat([graph.reshape(part, (1, *part.dims)) for part in parts], 0)
        chosen.append(graph.reshape(graph.slice(stacked, 0, place - 1, place, size=1), parts[0].dims))
    return form.value(context, iter(chosen))


def item_positions(evaluator: Evaluator, node: tree.Indexed, whole: ListValue) -> list[int]:
    """Return which items of a list an index names. Raises UnsupportedCase."""
    if node.rows.lower is None:
        return list(range(len(whole.items)))
    places: list[int] = []
    for expression in (node.rows.lower, node.rows.upper):
        value = evaluator.value(expression) if expression is not None else None
        if value is None:
            places.append(places[0])
            continue
        known = known_of(value)
        if isinstance(known, str):
            if known not in whole.names:
                raise UnsupportedCase(f"the list {node.name} has no item {known!r}")
            places.append(whole.names.index(known) + 1)
        elif known is None:
            raise UnsupportedCase(f"an item of the list {node.name} that only the run can choose")
        else:
            places.append(int(known))
    if not 1 <= places[0] <= places[1] <= len(whole.items):
        raise UnsupportedCase(f"the list {node.name} has {len(whole.items)} items, but no item {places[1]}")
    return list(range(places[0] - 1, places[1]))


def write(evaluator: Evaluator, target: tree.Indexed, value: Value) -> None:
    """Assign to a part of a matrix, or to an item of a list. Raises UnsupportedCase."""
    whole = evaluator.variable(target.name, target)
    if isinstance(whole, ListValue):
        evaluator.assign(target.name, _with_item(evaluator, target, whole, value))
        return
    if isinstance(whole, FrameValue):
        evaluator.assign(target.name, _with_cells(evaluator, target, whole, value))
        return
    if not isinstance(whole, Matrix):
        raise UnsupportedCase(f"{target.name} is {whole}; a part of it cannot be assigned")
    rows, cols = ranges(evaluator, target, whole)
    part = _part(evaluator, value, rows, cols)
    changed = replaced(evaluator.graph, evaluator.context.flat(whole), part, rows, cols)
    evaluator.assign(target.name, Matrix(changed, whole.rows, whole.cols))


def _with_cells(evaluator: Evaluator, target: tree.Indexed, whole: FrameValue, value: Value) -> FrameValue:
    """Return a frame in which a range holds the cells of another frame, or one text."""
    old = joined(evaluator.context, whole)
    part = joined(evaluator.context, frame_of(evaluator.context, value))
    if part.kind != old.kind:
        raise UnsupportedCase(f"a part of {target.name}, a frame of another type, is assigned")
    rows, cols = ranges(evaluator, target, whole)
    if isinstance(value, Matrix | FrameValue):
        _check_fits(value, rows, cols)
    if not isinstance(value, FrameValue):
        part = evaluator.graph.expand(part, (rows.size, cols.size))
    return FrameValue((replaced(evaluator.graph, old, part, rows, cols),))


def _with_item(evaluator: Evaluator, target: tree.Indexed, whole: ListValue, value: Value) -> ListValue:
    """Return a list in which an item, or those of a range, are replaced."""
    positions = item_positions(evaluator, target, whole)
    given = value.items if isinstance(value, ListValue) and (len(positions) > 1 or len(value.items) == 1) else (value,)
    if len(given) != len(positions):
        raise UnsupportedCase(f"{value} is assigned to {len(positions)} items of the list {target.name}")
    replaced = dict(zip(positions, given))
    names = dict(zip(positions, value.names)) if isinstance(value, ListValue) and whole.names else {}
    return ListValue(tuple(replaced.get(i, item) for i, item in enumerate(whole.items)),
                     tuple(names.get(i, name) for i, name in enumerate(whole.names)))


def _part(evaluator: Evaluator, value: Value, rows: Range, cols: Range) -> Tensor:
    """Return what is assigned, with the dims of the range; a scalar fills it."""
    graph = evaluator.graph
    if isinstance(value, Matrix):
        _check_fits(value, rows, cols)
        return evaluator.context.flat(value)
    return graph.expand(evaluator.context.floats(value), (rows.size, cols.size))


def _check_fits(value: Matrix | FrameValue, rows: Range, cols: Range) -> None:
    """Raise UnsupportedCase where a part has not the size of the range that it is assigned to."""
    for own, wanted in zip(value.dims, (rows.size, cols.size)):
        if differ(own, wanted):
            raise UnsupportedCase(f"{value} is assigned to a range of {rows.size} x {cols.size}")


def replaced(graph: Operators, old: Tensor, part: Tensor, rows: Range, cols: Range) -> Tensor:
    """Return a matrix in which a range is replaced: pieces of the old one around the new part."""
    height, width = old.dims
    if rows == Range(0, height) and cols == Range(0, width):
        return part
    changed = _padded(graph, old, part, rows, cols)
    if changed is None:
        band = part
        if cols != Range(0, width):
            band = graph.slice(old, 0, rows.start, rows.stop, size=rows.size)
            band = _joined(graph, band, part, cols, 1, width)
        changed = _joined(graph, old, band, rows, 0, height)
    if changed is not old and changed.replaced is None:  # what is written again is the same tensor: no chain of its own
        changed.replaced = Replacement(old, part, rows, cols)
    return changed


def _padded(graph: Operators, old: Tensor, part: Tensor, rows: Range, cols: Range) -> Tensor | None:
    """Return the same as a Pad where the old matrix holds one number everywhere and all sizes are known."""
    number = graph.filling(old)
    if number is None or part.kind != FLOAT or part.dims != (rows.size, cols.size):
        return None
    widths = [rows.start, cols.start, *(size - own.stop for own, size in zip((rows, cols), old.dims))]
    if not all(isinstance(width, int) and width >= 0 for width in widths):
        return None
    return graph.node("Pad", [part, graph.constant(np.array(widths)), number], old.dims)


def _joined(graph: Operators, old: Tensor, part: Tensor, place: Range, axis: int, size: Dim) -> Tensor:
    if place == Range(0, size):
        return part
    if may_be_negative(place.start) or may_be_negative(place.stop) or part.dims[axis] != place.size:
        index = position_tensor(graph, place.start)
        if place.size != 1:
            steps = graph.constant(np.arange(place.size)) if isinstance(place.size, int) else graph.count(0, place.size)
            index = index + graph.reshape(steps, (place.size, 1) if axis == 0 else (1, place.size))
        # of the dims of the range, which ScatterElements compares with those of the part
        index = graph.expand(index, part.dims_with(axis, place.size))
        return graph.node("ScatterElements", [old, index, part], old.dims, old.kind, axis=axis)
    pieces = [graph.slice(old, axis, 0, place.start)] if place.start != 0 else []
    pieces.append(part)
    if place.stop != size:
        rest = size - place.stop
        pieces.append(graph.slice(old, axis, place.stop, None, size=rest))
    joined = graph.concat(pieces, axis)
    dims = old.dims_with(axis, size)
    joined.dims = dims
    return joined
