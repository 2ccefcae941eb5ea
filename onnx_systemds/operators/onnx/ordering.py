"""ArgMax and ArgMin, TopK, Unique, NonZero, cumulative operators and ReverseSequence."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, may_be_zero, product
from onnx_systemds.inference.folding import MOST_ELEMENTS, by_reference
from onnx_systemds.inference.integer_spans import LONGEST_AXIS, Span
from onnx_systemds.inference.registry import batch_rule, fold, generator, gradient, integer_rule, shape_rule, takes_text
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import SCALAR, Backward, Fragment, NodeFacts, NodeView, Value, View, bind, unknown_size
from onnx_systemds.operators.api.layout import around
from onnx_systemds.operators.onnx.combining import wrapped, wraps
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.onnx.indexing import along_axes
from onnx_systemds.operators.onnx.selecting import axis_first, axis_last, from_axis_first, from_axis_last
from onnx_systemds.operators.onnx.wrapping import WORDS, sign_offset
from onnx_systemds.operators.support.batch_rules import mixes_at_axis, mixes_at_axis_input, mixes_nothing
from onnx_systemds.operators.support.empty_outputs import unless_empty
from onnx_systemds.operators.support.integer_rules import chosen, computed, moved, read, span_of_many_factors
from onnx_systemds.operators.support.movement import permuted_positions
from onnx_systemds.operators.support.selection_products import gather_rows_text, is_finite

takes_text("ReverseSequence", "Unique")
shape_rule("CumSum", "CumProd", "ReverseSequence")(same_dims)
batch_rule("ArgMax", "ArgMin")(mixes_nothing)
batch_rule("TopK")(mixes_at_axis)
batch_rule("CumSum")(mixes_at_axis_input)
fold("CumSum", since=11)(by_reference)
integer_rule("ReverseSequence")(moved)
integer_rule("TopK", "Unique")(chosen)
integer_rule("ArgMax", "ArgMin", "NonZero")(read)
integer_rule("CumProd")(computed(span_of_many_factors))


@integer_rule("CumSum")
@computed
def cumulative_span(node: NodeFacts, spans: Sequence[Span]) -> Span:
    """The sum of all elements, at most."""
    size = product(node.dims(0))
    count = size if isinstance(size, int) else LONGEST_AXIS
    return Span(min(spans[0].low * count, 0), max(spans[0].high * count, 0))


MOST_PASSES = 16  # largest k for which TopK searches k maxima instead of sorting


# --- ArgMax, ArgMin --------------------------------------------------------------------------------------------


@shape_rule("ArgMax", "ArgMin")
def arg_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The axis shrinks to 1 or goes."""
    dims, axis = node.dims("data"), node.axis()
    reduced = (1,) if node.attribute("keepdims") and dims else ()
    if dims:
        node.assume_elements("data", axis)
    return (node.tensor((*dims[:axis], *reduced, *dims[axis + 1 :]), "int64"),)


def _place(node: NodeView, function: str) -> Fragment:
    """The first of several, or (from opset 12 on) the last; the first NaN wins."""
    axis = node.axis()
    before, _, after = around(node.dims(0), axis)
    found = node.call(f"{function}_last" if node.attribute("select_last_index") else function, axis_last(node, axis))
    return node.result(*from_axis_last(node, found, before, 1, after))


generator("ArgMax", (1, 12))(partial(_place, function="row_arg_max"))
generator("ArgMin", (1, 12))(partial(_place, function="row_arg_min"))

# --- cumulative ------------------------------------------------------------------------------------------------


def _along_rows(node: NodeView, before: Dim, size: Dim) -> Fragment:
    """Sums along the last axis as it lies."""
    x = node.view(0, View(before, size))
    text = f"rowcumsum({x})" if is_finite(node, 0) else node.call("cumulative_row_sum", x)
    if not node.attribute("exclusive"):
        return node.result(text, View(before, size))
    zeros = node.filled(0, View(before, 1))
    if size == 1:
        return node.result(zeros, View(before, size))
    sums = node.call("cumulative_row_sum", x)
    if isinstance(size, int):
        text = f"cbind({zeros}, {node.named('whole', sums)}[, 1:{size - 1}])"
    else:  # of one element there is none before the last
        whole = node.named("whole", f"cbind({zeros}, {sums})")
        text = f"{whole}[1:{node.dim(before)}, 1:{node.dim(size)}]"
    return node.result(text, View(before, size))


_SAFE = {"cumsum": "cumulative_sum", "cumprod": "cumulative_product"}


def _cumulative(node: NodeView, function: str) -> Fragment:
    """Down the rows, with the axis in the rows; 32-bit integers wrap around."""
    dims = node.dims(0)
    axis = node.normalize_axis(int(node.require_constant(1, "the axis").ravel()[0]), len(dims))
    before, size, after = around(dims, axis)
    backwards = bool(node.attribute("reverse"))
    if after == 1 and before != 1 and function == "cumsum" and not backwards and not wraps(node.dtype(0)):
        return _along_rows(node, before, size)
    x = axis_first(node, axis)
    x = f"rev({x})" if backwards else x
    exclusive = bool(node.attribute("exclusive"))
    if exclusive:
        neutral = node.filled(0 if function == "cumsum" else 1, View(1, after * before))
        x = f"rbind({neutral}, {x})"
    if function == "cumprod" and node.dtype(0) in WORDS:
        text = node.call("wrapped_cumprod", x, sign_offset(node.dtype(0)))
    else:
        is_plain = function == "cumsum" and is_finite(node, 0)
        text = f"cumsum({x})" if is_plain else node.call(_SAFE[function], x)
        if wraps(node.dtype(0)):
            text = wrapped(node.dtype(0), node.named("sums", text))
    if exclusive:
        whole = node.named("whole", text)
        # the engine takes the number of columns of an ifelse of unknown dims for 0
        text = f"{whole}[1:{node.dim(size)}, 1:{node.dim(after * before)}]"
    text = f"rev({text})" if backwards else text
    return node.result(*from_axis_first(node, text, before, size, after))


generator("CumSum", 11)(partial(_cumulative, function="cumsum"))
generator("CumProd", 26)(partial(_cumulative, function="cumprod"))

# --- TopK ------------------------------------------------------------------------------------------------------


def top_k_count(node: NodeFacts) -> Dim:
    """k: an attribute at opset 1, an input from 10 on."""
    return int(node.attribute("k")) if node.version < 10 else node.sizes(1, "k")[0]


@shape_rule("TopK")
def top_k_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The axis has k elements."""
    dims, axis = list(node.dims("X")), node.axis()
    count = top_k_count(node)
    node.assume_at_most(count, dims[axis], "k", node.axis_words("X", axis))
    dims[axis] = count
    return node.tensor(dims), node.tensor(dims, "int64")


@generator("TopK", since=(1, 10, 11))
def top_k(node: NodeView) -> Fragment:
    """Sorted, ties to the lower index; NaN is the largest. Opset 11 added the smallest."""
    axis, count = node.axis(), top_k_count(node)
    before, _, after = around(node.dims("X"), axis)
    largest = node.attribute("largest") is None or bool(node.attribute("largest"))
    function = "top_k_passes" if isinstance(count, int) and count <= MOST_PASSES else "top_k_sorted"
    names = node.temporary("values"), node.temporary("indices")
    node.write(f"[{', '.join(names)}] = {node.call(function, axis_last(node, axis), node.dim(count), largest)}")
    fragment = node.fragment()
    for output, name in enumerate(names):
        text, view = from_axis_last(node, name, before, count, after)
        wanted = node.wanted_form(output)
        if may_be_zero(count) and wanted is not SCALAR and wanted != view:
            text, view = node.call("shaped", text, node.dim(wanted.rows), node.dim(wanted.cols)), wanted
        fragment += node.result(text, view, output)
    return fragment


# --- NonZero, Unique -------------------------------------------------------------------------------------------


@shape_rule("NonZero")
def non_zero_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A row for each axis, a column for each element found."""
    count = 0 if product(node.dims("X")) == 0 else unknown_size(node, 0, 1, or_none=True)
    return (node.tensor((node.rank("X"), count), "int64"),)


@fold("NonZero", since=9)
def _places(node: NodeFacts, outputs: Sequence[Value]) -> Sequence[Array | None] | None:
    x = node.require_constant("X", "the input")
    return [np.array(np.nonzero(x))] if x.ndim and x.size <= MOST_ELEMENTS else None


@generator("NonZero", since=9)
def non_zero(node: NodeView) -> Fragment:
    """Positions in row-major order, divided by the strides."""
    dims = node.dims("X")
    if not dims:
        raise UnsupportedCase("NonZero of a scalar: onnxruntime and ONNX disagree on its dims")
    total, count = product(dims), node.output_dims()[1]
    x, numbers = node.view("X", View(total, 1)), f"seq(0, {node.dim(total - 1)})"
    place = node.named("place", f'removeEmpty(target={numbers}, margin="rows", select=({x} != 0), empty.return=FALSE)')
    node.write(f"{node.dim(count)} = nrow({place})")
    text = bind("rbind", along_axes(node, f"t({place})", dims))
    return unless_empty(node, node.result(text, View(len(dims), count)), total, [count])


@shape_rule("Unique")
def unique_rule(node: NodeFacts) -> tuple[Value, ...]:
    """How many there are is known when the model runs, unless there are none."""
    dims = node.dims("X")
    axis = 0 if node.attribute("axis") is None else node.axis()
    found: list[Dim] = [product(dims)] if node.attribute("axis") is None else list(dims)
    size = found[axis]
    if may_be_zero(slices := [each for place, each in enumerate(found) if place != axis]):
        node.assume(product(slices), Relation.AT_LEAST, 1, "the number of elements of a slice")
    count = 0 if size == 0 else unknown_size(node, 0, axis)
    found[axis] = count
    rows = (count,)
    return node.tensor(found), node.tensor(rows, "int64"), node.tensor((size,), "int64"), node.tensor(rows, "int64")


@generator("Unique", since=11)
def unique(node: NodeView) -> Fragment:
    """Different rows, with the axis in the rows; without an axis all elements are rows of one column.

    Text is sorted by its code points: ranks stand for it meanwhile. NaN is one element, but slices with NaN are none
    that is equal to another, as in ONNX's reference.
    """
    dims = node.dims("X")
    flat = node.attribute("axis") is None
    axis = 0 if flat else node.axis()
    before, size, after = (1, product(dims), 1) if flat else around(dims, axis)
    x = node.view("X", View(size, 1)) if flat else axis_first(node, axis)
    ranked = node.dtype("X") == "string" and bool(node.attribute("sorted"))
    plain = flat and node.attribute("sorted") and is_finite(node, 0) and not ranked
    if plain and not any(node.wants(output) for output in (1, 2, 3)):
        return _unique_numbers(node, x)
    if before * after == 0:
        raise UnsupportedCase("slices without elements are compared")
    count = node.output_dims(0)[axis] if node.node.outputs[0] else unknown_size(node, 0, axis)
    names = [node.temporary(hint) for hint in ("values", "first", "inverse", "counts")]
    if ranked:
        ranks, by_rank = node.temporary("ranks"), node.temporary("by_rank")
        node.write(f"[{ranks}, {by_rank}] = {node.call('text_ranks', x, node.texts.dictionary())}")
        x = ranks
    # slices are compared in row-major order, and the columns hold [after, before]
    is_turned = 1 not in (before, after)
    order = permuted_positions(node, (after, before), (1, 0)) if is_turned else f"seq(1, {node.dim(before * after)})"
    call = node.call("unique_rows", x, f"t({order})", bool(node.attribute("sorted")), flat)
    node.write(f"[{', '.join(names)}] = {call}", f"{node.dim(count)} = nrow({names[0]})")
    values = names[0]
    if ranked and node.wants(0):
        values = node.named("codes", node.call("codes_of_ranks", names[0], by_rank))
    fragment = node.fragment()
    if node.wants(0):
        fragment += node.result(*from_axis_first(node, values, before, count, after), 0)
    for output, (name, rows) in enumerate(zip(names[1:], (count, size, count)), 1):
        if node.wants(output):
            fragment += node.result(name, View(rows, 1), output)
    return unless_empty(node, fragment, product(dims), [count])


def _unique_numbers(node: NodeView, x: str) -> Fragment:
    """The different numbers of a column, all of them finite, and nothing but these."""
    values, rows = node.named("values", f"unique({x})"), node.output_dims(0)[0]
    node.write(f"{node.dim(rows)} = nrow({values})")
    fragment = node.result(f"order(target={values}, by=1)", View(rows, 1))
    return unless_empty(node, fragment, node.size("X"), [rows])


# --- ReverseSequence -------------------------------------------------------------------------------------------


@generator("ReverseSequence", since=10)
def reverse_sequence(node: NodeView) -> Fragment:
    """A permutation of the rows: the first steps of each batch entry, as many as its length says, backwards."""
    dims = node.dims("input")
    time = node.normalize_axis(int(node.attribute("time_axis")), len(dims))
    batch = node.normalize_axis(int(node.attribute("batch_axis")), len(dims))
    if {time, batch} != {0, 1}:
        raise UnsupportedCase("time and batch must be the first two axes")
    rows, cols = product(dims[:2]), product(dims[2:])
    lengths = node.view("sequence_lens", View(dims[batch], 1))
    index = node.call("reversed_index", lengths, node.dim(dims[time]), time == 0)
    x = node.view("input", View(rows, cols))
    text = gather_rows_text(node, x, index, rows, rows, cols, finite=is_finite(node, 0))
    return node.result(text, View(rows, cols))


@gradient("CumSum")
def _cumsum_gradient(n: Backward) -> Sequence[str]:
    back = 0 if n.attribute("reverse") else 1
    return [n.emit("CumSum", n.grad, n.node.inputs[1], reverse=back, exclusive=int(n.attribute("exclusive")))]


@gradient("CumProd")
def _cumprod_gradient(n: Backward) -> Sequence[str]:
    """Of each number the products that it is in, over it; of the first 0 those without it, of others none."""
    n.opset = n.version  # CumProd is a late one
    axis, backward, exclusive = n.node.inputs[1], int(n.attribute("reverse")), int(n.attribute("exclusive"))

    def later(products: str) -> str:
        return n.emit("CumSum", n.times(n.grad, products), axis, reverse=1 - backward, exclusive=exclusive)

    zero, one = n.emit("Equal", n.x, n.number(0.0)), n.number(1.0)
    count = n.emit("CumSum", n.emit("CastLike", zero, n.x), axis, reverse=backward)
    first = n.emit("And", zero, n.emit("Equal", count, one))
    others = n.emit("CumProd", n.emit("Where", first, one, n.x), axis, reverse=backward, exclusive=exclusive)
    quotient = n.emit("Div", later(n.out), n.emit("Where", zero, one, n.x))
    return [n.emit("Where", first, later(others), n.emit("Where", zero, n.number(0.0), quotient)), ""]


# --- derivatives -----------------------------------------------------------------------------------------------


@gradient("TopK")
def _top_k_gradient(n: Backward) -> Sequence[str]:
    """To the elements that were taken."""
    if not n.has_output(1):
        raise UnsupportedCase("the derivative of a TopK without indices")
    zeros = n.filled_like(n.x, n.dtype(0), 0.0)
    return [n.emit("ScatterElements", zeros, n.node.outputs[1], n.grad, axis=n.axis(default=-1))]


@gradient("ReverseSequence")
def _reverse_sequence_gradient(n: Backward) -> Sequence[str]:
    axes = {name: n.attribute(name) for name in ("batch_axis", "time_axis")}
    return [n.emit("ReverseSequence", n.grad, n.node.inputs[1], **axes)]
