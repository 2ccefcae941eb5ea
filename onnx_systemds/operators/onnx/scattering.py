"""ScatterElements, Scatter, ScatterND and TensorScatter: updates at positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx_systemds.errors import InvalidModel, UnsupportedCase, quoted
from onnx_systemds.inference.dims import Dim, may_be_zero, product
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import UNBOUNDED, Computes, IntegerUse, Moves, Span, Sums, Terms
from onnx_systemds.inference.registry import fold, generator, gradient, integer_rule, shape_rule, takes_text
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View
from onnx_systemds.operators.onnx.combining import wrapped, wraps
from onnx_systemds.operators.onnx.indexing import assume_element_indices, element_index, index_depth, nd_index
from onnx_systemds.operators.onnx.shaping import identity

takes_text("Scatter", "ScatterElements", "ScatterND", "TensorScatter")
fold("ScatterND", since=16)(by_reference)
integer_rule("TensorScatter")(lambda node: Moves((0, 1)))


@integer_rule("Scatter", "ScatterElements", "ScatterND")
def updated(node: NodeFacts) -> IntegerUse:
    """Updates in the place of elements, or the extremes of both; or added to them, or multiplied by them."""
    reduction = node.attribute("reduction")
    if reduction not in ("add", "mul"):
        return Moves((0, 2))
    if reduction == "mul":
        return Computes(lambda spans: UNBOUNDED, read=(1,))
    return Sums(lambda: Terms((2,), node.size(2)), read=(1,),
                  total=lambda added, s: Span(s[0].low - added.reach, s[0].high + added.reach))


NARROW = frozenset(["int8", "int16", "int32", "uint8", "uint16", "uint32"])
REDUCTIONS = ("none", "add", "mul", "max", "min")


@shape_rule("Scatter", "ScatterElements", "ScatterND")
def scatter_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As the data; each index has one of the updates, an element or what an index leaves of the axes."""
    if node.node.op_type in ("Scatter", "ScatterElements"):
        assume_element_indices(node)
        if node.rank("updates") != node.rank("indices"):
            raise InvalidModel(f"updates of rank {node.rank('updates')} for indices of rank {node.rank('indices')}")
        for axis in range(node.rank("indices")):
            node.assume_same_size((2, axis), (1, axis))
    elif node.size("indices") != 0:
        depth, named = index_depth(node, 0), node.rank("indices") - 1
        rank = named + node.rank("data") - depth
        if node.rank("updates") != rank:
            raise InvalidModel(f"updates of rank {node.rank('updates')}, not {rank}")
        for axis in range(rank):
            node.assume_same_size((2, axis), (1, axis) if axis < named else (0, axis - named + depth))
    return (node.tensor(node.dims(0)),)


@generator("Scatter", since=9)
@generator("ScatterElements", since=(11, 16))
def scatter_elements(node: NodeView) -> Fragment:
    """Single elements as rows of one column; opset 16 added add and mul, 18 max and min."""
    count = node.size("indices")
    if count == 0:
        return identity(node)
    return _scatter(node, element_index(node), node.size("data"), count, 1)


@generator("ScatterND", since=(11, 16))
def scatter_nd(node: NodeView) -> Fragment:
    """Rows whose columns are what an index leaves; opset 16 added add and mul, 18 max and min."""
    dims = node.dims("data")
    if node.size("indices") == 0:
        return identity(node)
    depth = index_depth(node, 0)
    count = product(node.dims("indices")[:-1])
    return _scatter(node, nd_index(node, dims, 0, depth), product(dims[:depth]), count, product(dims[depth:]))


def _scatter(node: NodeView, index: str, rows: Dim, count: Dim, cols: Dim) -> Fragment:
    """The rows of input 2 go to the rows of input 0 that ``index`` names."""
    reduction = str(node.attribute("reduction") or "none")
    if reduction not in REDUCTIONS:
        raise UnsupportedCase(f"the reduction {quoted(reduction)} is none of {', '.join(REDUCTIONS)}")
    view = View(rows, cols)
    x, u = node.view("data", view), node.view("updates", View(count, cols))
    if reduction == "none":
        text = node.call("scatter_rows", x, u, index)
    elif reduction == "add":
        text = node.call("scatter_add", x, u, index)
    else:
        kind = f"wrap {reduction}" if reduction == "mul" and node.dtype("data") in NARROW else reduction
        text = node.call("scatter_reduce", x, u, index, f'"{kind}"')
    text = _unless_none(node, text, x, count)
    if reduction in ("add", "mul") and wraps(node.dtype("data")):
        text = wrapped(node.dtype("data"), node.named("sum", text))
    return node.result(text, view)


def _unless_none(node: NodeView, text: str, x: str, count: Dim) -> str:
    """The text of updated rows, those of ``x`` where there are no updates."""
    if not may_be_zero(count):
        return text
    result = node.named("updated", x)
    node.write(f"if ({node.dim(count)} > 0) {{ {result} = {text} }}")
    return result


@shape_rule("TensorScatter")
def tensor_scatter_rule(node: NodeFacts) -> tuple[Value, ...]:
    """As the cache, of which the update has all but the rows, and of those no more."""
    if node.rank("past_cache") != node.rank("update"):
        raise InvalidModel(f"an update of rank {node.rank('update')} for a cache of rank {node.rank('past_cache')}")
    along = node.axis()
    for axis, (size, count) in enumerate(zip(node.dims("past_cache"), node.dims("update"))):
        words = node.axis_words("update", axis), node.axis_words("past_cache", axis)
        (node.assume_at_most if axis == along else node.assume_equal)(count, size, *words)
    if node.has("write_indices"):
        node.assume_same_size((2, 0), (0, 0))
    return (node.tensor(node.dims("past_cache")),)


@generator("TensorScatter", since=24)
def tensor_scatter(node: NodeView) -> Fragment:
    """A cache update: each batch entry's new rows go after its write index, in circular mode around the end."""
    dims, new = node.dims("past_cache"), node.dims("update")
    axis = node.axis()
    batch, size, length = dims[0], dims[axis], new[axis]
    middle, after = product(dims[1:axis]), product(dims[axis + 1 :])
    column = View(batch, 1)
    starts = node.view("write_indices", column) if node.has("write_indices") else node.filled(0, column)
    circular = node.attribute("mode") == "circular"
    index = node.call("cache_index", starts, node.dim(middle), node.dim(size), node.dim(length), circular)
    rows, count = batch * middle * size, batch * middle * length
    x, u = node.view("past_cache", View(rows, after)), node.view("update", View(count, after))
    return node.result(_unless_none(node, node.call("scatter_rows", x, u, index), x, count), View(rows, after))


@gradient("ScatterElements", "ScatterND")
def _scatter_gradient(n: Backward) -> Sequence[str]:
    """By the data: that of what was not replaced; by the updates: those at their places."""
    kind = n.attribute("reduction") or "none"
    if kind not in ("none", "add"):
        raise UnsupportedCase(f"the derivative of a {n.node.op_type} with reduction {kind}")
    indices, updates = n.node.inputs[1:3]
    axis: dict[str, Any] = {"axis": n.axis(default=0)} if n.node.op_type == "ScatterElements" else {}

    def by_data() -> str:
        zeros = n.filled_like(updates, n.dtype(0), 0.0)
        return n.grad if kind == "add" else n.emit(n.node.op_type, n.grad, indices, zeros, **axis)

    def by_updates() -> str:
        return n.emit("GatherElements" if axis else "GatherND", n.grad, indices, **axis)

    return n.needed([by_data, lambda: "", by_updates])
