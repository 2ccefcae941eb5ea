"""Tensors made from sizes and constants: Shape, Size, ConstantOfShape, Range, EyeLike, OneHot, Trilu."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_systemds.correspondence import MIRRORED
from onnx_systemds.dml.literals import literal
from onnx_systemds.engine.safe_forms import count_from_one, counted, equal_places
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference.backward import flat
from onnx_systemds.inference.dims import Dim, maximum, product
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import LONGEST_AXIS, Moves, Reads, Span, symmetric
from onnx_systemds.inference.ramps import ramp_of
from onnx_systemds.inference.registry import (
    batch_rule,
    fold,
    generator,
    gradient,
    integer_rule,
    shape_rule,
    size_rule,
    takes_text,
)
from onnx_systemds.inference.shape_values import MOST_ELEMENTS
from onnx_systemds.inference.values import INTEGER_DTYPES, Elements
from onnx_systemds.inference.wide_integers import content_span
from onnx_systemds.model.protos import dtype_of
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View, bind, unknown_size
from onnx_systemds.operators.onnx.casting import round_text
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.support.batch_rules import mixes_all, mixes_other_inputs
from onnx_systemds.operators.support.empty_outputs import empty
from onnx_systemds.operators.support.integer_rules import computed, moved_beside_zeros, read
from onnx_systemds.operators.support.movement import Moved, permuted
from onnx_systemds.operators.support.selection_products import is_finite
from onnx_systemds.operators.support.size_rules import known_elements

takes_text("OneHot", "Shape", "Size")
batch_rule("OneHot")(mixes_other_inputs)
shape_rule("Trilu")(same_dims)
batch_rule("ConstantOfShape", sizes=(0,), fills=True)(mixes_all)
gradient("Shape", "Size", "ConstantOfShape", "EyeLike")(flat)
fold("Size")(by_reference)
fold("ConstantOfShape", "EyeLike", since=9)(by_reference)
fold("OneHot", "Range", since=11)(by_reference)
fold("Trilu", since=14)(by_reference)
integer_rule("Shape")(read)
integer_rule("Size")(lambda node: Reads(symmetric(LONGEST_AXIS**2)))
integer_rule("Trilu")(moved_beside_zeros)
integer_rule("OneHot")(lambda node: Moves((2,)))


@integer_rule("ConstantOfShape")
def filled(node: NodeFacts) -> Reads:
    """The attribute, zero without it."""
    content = node.attribute("value")
    return Reads(content_span(content) if isinstance(content, np.ndarray) else Span(0, 0))


@integer_rule("Range")
@computed
def range_span(_: NodeFacts, spans: Sequence[Span]) -> Span:
    """From start to limit."""
    return Span(min(span.low for span in spans[:2]), max(span.high for span in spans[:2]))

# --- Shape and Size ----------------------------------------------------------------------------------------------


def _shown(node: NodeFacts) -> tuple[Dim, ...]:
    """The dims that Shape gives: all, since opset 15 those from ``start`` to ``end``."""
    return node.dims(0)[node.attribute("start") or 0 : node.attribute("end")]


@shape_rule("Shape")
def shape_rule_1(node: NodeFacts) -> tuple[Value, ...]:
    """One integer per dim."""
    return (node.tensor((len(_shown(node)),), "int64"),)


@generator("Shape", since=(1, 15))
def shape(node: NodeView) -> Fragment:
    """A column of sizes; only those that the run decides are left to this generator."""
    sizes = [f"as.matrix({node.dim(size)})" for size in _shown(node)]
    text = bind("rbind", sizes)
    return node.result(text, View(len(sizes), 1))


@size_rule("Shape", of_dims=True)
def _shape_elements(node: NodeFacts, _: Sequence[Elements]) -> Elements | None:
    return None if node.value("data").dims is None else np.array(_shown(node), dtype=object)


@shape_rule("Size", "SequenceLength")
def size_dims_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A single integer."""
    return (node.tensor((), "int64"),)


@generator("Size", since=1)
def size(node: NodeView) -> Fragment:
    """The number of elements."""
    return node.result(node.dim(node.size(0)), SCALAR)


@size_rule("Size", of_dims=True)
def _size_elements(node: NodeFacts, _: Sequence[Elements]) -> Elements | None:
    return None if node.value("data").dims is None else np.array(node.size("data"), dtype=object)


# --- ConstantOfShape and Range -----------------------------------------------------------------------------------


def _fill(node: NodeFacts) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    value = node.attribute("value")
    return np.zeros(1, np.float32) if value is None else np.asarray(value)


@shape_rule("ConstantOfShape")
def constant_of_shape_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Dims by input; without ``value`` the elements are floats."""
    given = node.node.attributes.get("value")
    dtype = "float" if given is None else dtype_of(np.asarray(given))
    return (node.tensor(node.sizes("input", "the shape"), dtype),)


@generator("ConstantOfShape", since=9)
def constant_of_shape(node: NodeView) -> Fragment:
    """The same number everywhere."""
    fill = _fill(node).ravel()[0]
    text = literal(int(fill) if fill.dtype.kind == "b" else fill)
    form = node.wanted_form()
    if form is SCALAR:
        return node.result(text, SCALAR)
    if product(form) == 0:
        return node.result(node.filled(0, form), form)
    return node.result(node.full(text, form), form)


@size_rule("ConstantOfShape")
def _constant_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    shape = known_elements(inputs[0])
    fill = node.attribute("value")
    if shape is None or fill is None or fill.dtype.kind not in "iub" or int(np.prod(shape)) > MOST_ELEMENTS:
        return None
    return np.full(shape, int(fill.ravel()[0]), dtype=object)


@shape_rule("Range")
def range_rule(node: NodeFacts) -> tuple[Value, ...]:
    """max(ceil((limit - start) / delta), 0) elements."""
    length = _range_length(node)
    return (node.tensor((unknown_size(node, 0, 0, or_none=True) if length is None else length,)),)


def _range_length(node: NodeFacts) -> Dim | None:
    """The number of elements, None where only the run can tell."""
    for position in range(3):
        if node.value(position).is_known_size and node.size(position) != 1:
            raise InvalidModel(f"input {position} of a range is no single number")
    contents = [node.constant(position) for position in range(3)]
    if all(content is not None for content in contents):
        start, limit, delta = (np.float64(content.ravel()[0]) for content in contents if content is not None)
        if delta == 0:
            raise UnsupportedCase("a range with steps of 0")
        return max(int(np.ceil((limit - start) / delta)), 0)
    if node.dtype("start") not in INTEGER_DTYPES:
        return None
    known = [node.integers(position) for position in range(3)]
    if any(item is None for item in known):
        return None
    first, last, step = (item[0] for item in known if item is not None)
    if not isinstance(step, int):
        return None
    if step == 0:
        raise UnsupportedCase("a range with steps of 0")
    span, step = (last - first, step) if step > 0 else (first - last, -step)
    # before the division, of which sizes take the quotient for a size
    return maximum(span + step - 1, 0) // step


@generator("Range", since=(11, 27))
def range_(node: NodeView) -> Fragment:
    """start + i * delta in double precision, which `stash_type` never exceeds.

    Opset 27 brought the types of 16 bits, to which each element is rounded.
    """
    start, delta = node.scalar("start"), node.scalar("delta")
    length = node.output_dims()[0]
    text = node.dim(length)
    if _range_length(node) is None:
        text = node.named("length", node.call("range_length", start, node.scalar("limit"), delta))
        node.write(f"{node.dim(length)} = {text}")
    # not the sequence itself, which the engine would reverse in place (reversed-sequence)
    counted = f"(seq(1, {length}) - 1)" if isinstance(length, int) else node.call("count_up", text)
    scaled = counted if delta == "1" else f"{counted} * {delta}"
    text = scaled if start == "0" else f"{start} + {scaled}"
    return node.result(round_text(node, node.dtype("start"), text), View(length, 1))


@size_rule("Range")
def _range_elements(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    known = [known_elements(array.reshape(-1)) for array in inputs]
    if any(array is None for array in known):
        return None
    start, limit, step = (array[0] for array in known if array)
    if not step or abs(limit - start) > MOST_ELEMENTS * abs(step):
        return None
    return np.array(range(start, limit, step), dtype=object)


# --- EyeLike and Trilu -------------------------------------------------------------------------------------------


@generator("EyeLike", since=9)
def eye_like(node: NodeView) -> Fragment:
    """Ones on the k-th diagonal."""
    rows, cols = node.output_dims()
    offset = int(node.attribute("k"))
    shift = f" + {literal(offset)}" if offset else ""
    return node.result(f'outer(seq(1, {node.dim(rows)}){shift}, t(seq(1, {node.dim(cols)})), "==")', View(rows, cols))


@batch_rule("Trilu")
def _trilu_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """The last two axes are the matrix."""
    return position != 0 or axis >= node.rank("input") - 2


@generator("Trilu", since=14)
def trilu(node: NodeView) -> Fragment:
    """The part of each matrix on and above (or below) the k-th diagonal; the rest is 0."""
    dims = node.output_dims()
    if len(dims) < 2:
        raise UnsupportedCase(f"the triangle of an input of rank {len(dims)}")
    rows, cols = dims[-2:]
    count = product(dims[:-2])
    shift = f" + {node.scalar('k')}" if node.has("k") else ""
    inside, outside = ("<=", ">") if node.attribute("upper") else (">=", "<")
    row_numbers, col_numbers = f"{count_from_one(node.dim(rows))}{shift}", f"t({count_from_one(node.dim(cols))})"
    ramp = ramp_of(node.value("input"))
    is_one = ramp is not None and ramp.is_even and ramp.start == 1
    if count == 1 and not shift:
        side = "upper" if node.attribute("upper") else "lower"
        plane = View(rows, cols)
        target = node.filled(1, plane) if is_one else node.view("input", plane)
        return node.result(f"{side}.tri(target={target}, diag=TRUE, values=TRUE)", plane)
    if count == 1 and is_one:
        return node.result(_compared(rows, row_numbers, inside, col_numbers), View(rows, cols))
    if is_finite(node, 0):
        view = View(count, rows * cols) if count != 1 else View(rows, cols)
        ones = _compared(rows, row_numbers, inside, col_numbers)
        ones = f"({ones})" if count == 1 else node.reshape(ones, View(1, view.cols))
        return node.result(f"{node.view('input', view)} * {ones}", view)
    # The zeros first, their size being as unknown as the mask's: engine fault ifelse-of-a-vector-of-unknown-length.
    view = View(count * rows, cols)
    if count != 1:
        row_numbers = f"({count_from_one(node.dim(view.rows))} - 1) %% {node.factor(rows)} + 1{shift}"
    mask = _compared(view.rows, row_numbers, outside, col_numbers)
    return node.result(counted(f"ifelse({mask}, {node.filled(0, view)}, {node.view('input', view)})"), view)


def _compared(rows: Dim, column: str, comparison: str, row: str) -> str:
    """Each element of a column compared with those of a row; on Spark, an outer of a single row lacks blocks."""
    if rows == 1:
        return f"{row} {MIRRORED[comparison]} as.scalar({column})"
    return f'outer({column}, {row}, "{comparison}")'


@gradient("Trilu")
def _trilu_gradient(n: Backward) -> Sequence[str]:
    return [n.emit("Trilu", n.grad, *n.node.inputs[1:2], upper=int(n.attribute("upper")))]


# --- OneHot ------------------------------------------------------------------------------------------------------


def _one_hot_axis(node: NodeFacts) -> int:
    return node.normalize_axis(int(node.attribute("axis")), node.rank("indices") + 1)


def _depth(node: NodeFacts) -> Dim:
    content = node.constant("depth")
    if content is not None:
        return int(content.ravel()[0])
    known = node.integers("depth")
    return unknown_size(node, 0, _one_hot_axis(node)) if known is None else known[0]


@shape_rule("OneHot")
def one_hot_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The indices' dims with the depth as a new axis, dtype of the values."""
    dims, axis = node.dims("indices"), _one_hot_axis(node)
    return (node.tensor((*dims[:axis], _depth(node), *dims[axis:]), node.dtype("values")),)


@generator("OneHot", since=9)
def one_hot(node: NodeView) -> Fragment:
    """Where the new axis's position is the index; what is out of range is off everywhere.

    Negative indices count from the end since opset 11; before, they are out of range.
    """
    axis, dims = _one_hot_axis(node), node.dims("indices")
    prefix, suffix, count = product(dims[:axis]), product(dims[axis:]), node.size("indices")
    depth = node.output_dims()[axis]
    if node.constant("depth") is None and node.integers("depth") is None:
        node.write(f"{node.dim(depth)} = as.integer({node.scalar('depth')})")
        message = f'"OneHot: the depth is " + {node.dim(depth)} + "; the script takes it to be larger"'
        node.write(f"if ({node.dim(depth)} < 1) {{ stop({message}) }}")
    if product(node.output_dims()) == 0:
        return empty(node)
    transposed = prefix == 1 and suffix != 1
    indices = node.view("indices", View(1, count) if transposed else View(count, 1))
    # either makes 0 of -0.0, which the engine would not find among sorted numbers (comparisons-with-sorted-row)
    indices = f"{indices} + {node.factor(depth)} * ({indices} < 0)" if node.version >= 11 else f"{indices} + 0"
    steps = f"seq(0, {node.dim(depth - 1)})"
    if transposed:
        moved = Moved(f'outer({steps}, {indices}, "==")', View(depth, count))
    else:
        text = f'outer({indices}, t({steps}), "==")'
        if (not isinstance(count, int) or count == 1) and not (isinstance(depth, int) and depth <= 1000):
            text = equal_places(indices, steps)
        moved = Moved(text, View(count, depth))
        if suffix != 1:
            moved = permuted(node, moved.source(node), (prefix, suffix, depth), (0, 2, 1), finite=True)
    return node.result(_chosen(node, moved.text, moved.view), moved.view)


@gradient("OneHot", untrained=(2,))
def _one_hot_gradient(n: Backward) -> Sequence[str]:
    """By the values of off and on the sums of what is one and the other."""
    indices, depth = n.node.inputs[:2]
    if n.version < 11:  # negative ones are out of range
        indices = n.cast(indices, "int64")
        indices = n.emit("Where", n.emit("Less", indices, n.known(0)), n.known(LONGEST_AXIS), indices)
    hot = n.emit("OneHot", indices, depth, n.known([0.0, 1.0], n.dtype(2)), axis=n.attribute("axis"))
    both = n.emit("ReduceSum", n.grad, keepdims=0)
    on = n.emit("ReduceSum", n.emit("Mul", n.grad, hot), keepdims=0)
    parts = [n.unsqueeze(part, 0) for part in (n.emit("Sub", both, on), on)]
    return ["", "", n.emit("Concat", *parts, axis=0)]


def _chosen(node: NodeView, hot: str, view: View) -> str:
    """The values of off and on where ``hot`` is 0 and 1."""
    content = node.constant("values")
    if content is not None:
        values = content.ravel()
        off, on = (literal(int(value) if values.dtype.kind == "b" else value) for value in values)
        return hot if values[0] == 0 and values[1] == 1 else _either(node, hot, on, off, view)
    pair = node.view("values", View(2, 1))
    off, on = node.named("off", f"as.scalar({pair}[1, 1])"), node.named("on", f"as.scalar({pair}[2, 1])")
    return _either(node, hot, on, off, view)


def _either(node: NodeView, hot: str, on: str, off: str, view: View) -> str:
    return counted(f"ifelse({node.mask(hot, view)}, {node.filled(on, view)}, {node.filled(off, view)})")
