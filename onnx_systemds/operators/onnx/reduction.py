"""Reductions over axes.

Runs of neighbouring axes that are reduced, or kept, count as one (axes of size 1 as none). A run at the end is
aggregated by rows, one at the start by columns, one in between by slices or by way of a transposition;
several runs one after the other, which every aggregate here permits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import is_name
from onnx_systemds.engine.safe_forms import col_sums, row_sums, total
from onnx_systemds.inference.assumptions import Relation
from onnx_systemds.inference.dims import Dim, Dims, divide_exactly, may_be_zero, product
from onnx_systemds.inference.folding import by_reference
from onnx_systemds.inference.integer_spans import UNBOUNDED, Computes, Moves, Terms
from onnx_systemds.inference.registry import batch_rule, fold, generator, integer_rule, shape_rule, size_rule
from onnx_systemds.inference.values import FINITE_DTYPES, INTEGER_DTYPES, Elements
from onnx_systemds.limits import check_integer
from onnx_systemds.model.protos import numpy_dtype
from onnx_systemds.operators.api import SCALAR, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.onnx.combining import extreme, truncated, wrapped
from onnx_systemds.operators.onnx.wrapping import WORDS, sign_offset
from onnx_systemds.operators.support.batch_rules import mixes_nothing
from onnx_systemds.operators.support.empty_outputs import where_elements
from onnx_systemds.operators.support.integer_rules import chosen, computed, span_of_many_factors, summed
from onnx_systemds.operators.support.selection_products import each_repeated

batch_rule("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
           "ReduceProd", "ReduceSum", "ReduceSumSquare")(mixes_nothing)
fold("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum")(by_reference)
integer_rule("ReduceProd")(computed(span_of_many_factors))


def _extreme(node: NodeFacts) -> Moves | Computes:
    """One of the elements, or the limit of the type where there are none."""
    axes = reduced_axes(node, REDUCTIONS[node.node.op_type])
    return Computes(lambda _: UNBOUNDED) if may_be_zero([node.dims(0)[axis] for axis in axes]) else chosen(node)


integer_rule("ReduceMax", "ReduceMin")(_extreme)


def _terms(node: NodeFacts, factors: int) -> Terms:
    total = product(node.dims(0))
    output = node.values[node.node.outputs[0]].dims
    count = None if output is None or product(output) == 0 else divide_exactly(total, product(output))
    return Terms((0,) * factors, total if count is None else count)


integer_rule("ReduceL1", "ReduceMean", "ReduceSum")(summed(lambda node: _terms(node, 1)))
integer_rule("ReduceL2", "ReduceSumSquare")(summed(lambda node: _terms(node, 2)))

MOST_SLICES = 16  # slices of an inner reduction that are written out one by one
MOST_PARTS = 8  # elements of an inner axis that are compared as slices
_PAIRWISE = {"Maxs": "max", "Mins": "min"}
SPARSE_SUMS = 32  # from so many sums on the 0/1 matrix of a product is always stored sparse


@dataclass(frozen=True)
class Reduction:
    """An operator: ``after(aggregate(ahead(x)))``.

    aggregate: name of the engine's aggregates: rowSums, colSums and sum for "Sums"; "LogSumExp" for ours.
    whole: the engine's aggregate of a whole matrix. empty: the result over no elements.
    """

    aggregate: str
    whole: str
    empty: float
    ahead: Callable[[str], str] | None = None
    after: Callable[[str], str] | None = None
    axes_as_input: int = 18


def _square(x: str) -> str:
    return f"({x} ^ 2)"


REDUCTIONS = {
    "ReduceSum": Reduction("Sums", "sum", 0.0, axes_as_input=13),
    "ReduceMean": Reduction("Means", "mean", float("nan")),
    "ReduceMax": Reduction("Maxs", "max", -float("inf")),
    "ReduceMin": Reduction("Mins", "min", float("inf")),
    "ReduceProd": Reduction("Prods", "prod", 1.0),
    "ReduceL1": Reduction("Sums", "sum", 0.0, ahead=lambda x: f"abs({x})"),
    "ReduceL2": Reduction("Sums", "sum", 0.0, ahead=_square, after=lambda x: f"sqrt({x})"),
    "ReduceLogSum": Reduction("Sums", "sum", -float("inf"), after=lambda x: f"log({x})"),
    "ReduceLogSumExp": Reduction("LogSumExp", "", -float("inf")),
    "ReduceSumSquare": Reduction("Sums", "sum", 0.0, ahead=_square),
}


def reduced_axes(node: NodeFacts, reduction: Reduction) -> frozenset[int]:
    """The axes to reduce: by attribute, later by input; none given means all, or none at all."""
    if node.version < reduction.axes_as_input:
        axes = node.attribute("axes")
    elif node.has(1) and node.dims(1) == (0,):
        axes = ()
    else:
        axes = node.require_constant(1, "the axes").ravel() if node.has(1) else ()
    rank = node.rank(0)
    if axes is None or len(axes) == 0:
        noop = node.version >= reduction.axes_as_input and node.attribute("noop_with_empty_axes")
        return frozenset() if noop else frozenset(range(rank))
    return frozenset(node.normalize_axis(int(axis), rank) for axis in axes) if rank else frozenset()


def _dims_left(node: NodeFacts, reduction: Reduction) -> tuple[Value, ...]:
    dims, axes = node.dims(0), reduced_axes(node, reduction)
    for axis in sorted(axes):  # the engine's extremes, products and means of nothing are 0
        is_found = may_be_zero(dims[axis])
        is_checked = is_found if reduction.aggregate == "Means" else not isinstance(dims[axis], int) and not is_found
        if reduction.aggregate != "Sums" and is_checked:
            node.assume(dims[axis], Relation.AT_LEAST, 1, node.axis_words(0, axis))
    result = ((1 if axis in axes else dim) for axis, dim in enumerate(dims))
    if not node.attribute("keepdims"):
        result = (dim for axis, dim in enumerate(dims) if axis not in axes)
    return (node.tensor(tuple(result)),)


def runs_of(dims: Dims, axes: frozenset[int]) -> list[tuple[bool, Dim]]:
    """Runs of axes as (whether reduced, number of elements)."""
    runs: list[tuple[bool, Dim]] = []
    for axis, dim in enumerate(dims):
        if dim == 1:
            continue
        if runs and runs[-1][0] == (axis in axes):
            runs[-1] = (runs[-1][0], runs[-1][1] * dim)
        else:
            runs.append((axis in axes, dim))
    return runs


def reduce(node: NodeView, reduction: Reduction) -> Fragment:
    """The reduction of the first input."""
    dims, axes = node.dims(0), reduced_axes(node, reduction)
    if 0 in dims:
        return _of_nothing(node, reduction)
    runs = runs_of(dims, axes)
    if not any(reduced for reduced, _ in runs):
        return _unreduced(node, reduction)
    fragment = _Steps(node, _exact(node, reduction), runs).fragment()
    joined = product(size for reduced, size in runs if reduced)
    if reduction.aggregate in ("Sums", "Means") or not may_be_zero(joined):
        return fragment
    return where_elements(node, fragment, joined, nothing=_of_nothing(node, reduction))


def _exact(node: NodeView, reduction: Reduction) -> Reduction:
    """Products of 32-bit integers by functions that hold all their bits."""
    if node.dtype(0) not in WORDS:
        return reduction
    if reduction.aggregate == "Prods":
        return replace(reduction, aggregate="WrappedProds", whole="")
    if reduction is REDUCTIONS["ReduceSumSquare"]:
        return replace(reduction, ahead=partial(_wrapped_square, node))
    return reduction


def _wrapped_square(node: NodeView, x: str) -> str:
    """The squares of a matrix of 32-bit integers, in their type."""
    return node.call("wrapped_product", x, x, sign_offset(node.dtype(0)))


def _of_nothing(node: NodeView, reduction: Reduction) -> Fragment:
    """A tensor without elements: all results are the neutral element."""
    dtype = node.dtype(0)
    number: float = reduction.empty
    if dtype == "bool":
        number = float(number > 0)
    elif dtype in FINITE_DTYPES and not np.isfinite(number):
        limits = np.iinfo(numpy_dtype(dtype))
        number = 0 if np.isnan(number) else float(limits.max if number > 0 else limits.min)
    if node.output_dims() == ():
        return node.result(literal(number), SCALAR)
    view = split_view(node.output_dims(), 1)
    return node.result(node.filled(literal(number), view), view)


def _unreduced(node: NodeView, reduction: Reduction) -> Fragment:
    """Every result comes from one element; what is not the reduction itself is still done."""
    if reduction.ahead is None and reduction.after is None:
        return node.same_elements()
    form = node.wanted_form()
    if reduction is REDUCTIONS["ReduceSumSquare"] and node.dtype(0) in WORDS:
        view = form if isinstance(form, View) else View(1, 1)
        return node.result(_wrapped_square(node, node.view(0, view)), view)
    x = node.scalar(0) if form is SCALAR else node.view(0, form)
    text = x if reduction.ahead is None else reduction.ahead(x)
    return node.result(_finished(node, reduction, text), form)


def _finished(node: NodeView, reduction: Reduction, text: str) -> str:
    """The last step, in the input's type: integers are truncated and wrap."""
    dtype = node.dtype(0)
    if reduction.after is not None:
        text = reduction.after(text)
    if dtype in INTEGER_DTYPES:
        if reduction.after is not None or reduction.aggregate in ("Means", "LogSumExp"):
            text = truncated(text)
        elif reduction.aggregate not in ("Maxs", "Mins", "WrappedProds"):
            text = wrapped(dtype, f"({text})")
    return text


class _Steps:
    """The statements of a reduction, run by run."""

    def __init__(self, node: NodeView, reduction: Reduction, runs: Sequence[tuple[bool, Dim]]) -> None:
        self.node = node
        self.reduction = reduction
        self.runs = list(runs)
        self.view = View(1, 1)
        self.text = ""

    def fragment(self) -> Fragment:
        """Reduce the last run first, then those before it."""
        if len(self.runs) == 1 and self.reduction.whole:
            # the wanted form of the consumers is the scalar; the view of the input is free
            size = self.runs[0][1]
            form = self.node.known_form(0)
            view = form if isinstance(form, View) else View(1, size)
            x = self.node.view(0, view)
            ahead = x if self.reduction.ahead is None else self.reduction.ahead(x)
            return self.node.result(_finished(self.node, self.reduction, self._whole(ahead, view)), SCALAR)
        first = True
        while any(reduced for reduced, _ in self.runs):
            position = max(index for index, (reduced, _) in enumerate(self.runs) if reduced)
            self._reduce_run(position, first=first)
            first = False
        return self.node.result(_finished(self.node, self.reduction, self.text), self.view)

    def _reduce_run(self, position: int, *, first: bool) -> None:
        ahead = product(size for _, size in self.runs[:position])
        size = self.runs[position][1]
        after = product(size for _, size in self.runs[position + 1 :])
        if position == len(self.runs) - 1:
            x = self._source(View(ahead, size), first)
            self._set(self._aggregate("row", x, size), View(ahead, 1))
        elif position == 0:
            x = self._source(View(size, after), first)
            self._set(self._aggregate("col", x, size), View(1, after))
        else:
            self._reduce_inner(ahead, size, after, first=first)
        del self.runs[position]
        if 0 < position < len(self.runs):  # the runs around it were kept, or reduced later
            merged = self.runs[position - 1][1] * self.runs[position][1]
            if self.runs[position - 1][0] == self.runs[position][0]:
                self.runs[position - 1 : position + 1] = [(self.runs[position][0], merged)]

    def _reduce_inner(self, ahead: Dim, size: Dim, after: Dim, *, first: bool) -> None:
        rows = View(ahead * size, after)
        if isinstance(ahead, int) and isinstance(size, int) and ahead <= MOST_SLICES:
            x = self._named(self._source(rows, first))
            slices = [self._aggregate("col", f"{x}[{i * size + 1}:{(i + 1) * size}, ]", size) for i in range(ahead)]
            self._set(f"rbind({', '.join(slices)})", View(ahead, after))
        elif self.reduction.aggregate in ("Sums", "Means") and isinstance(ahead, int) and ahead >= SPARSE_SUMS:
            x = self._source(rows, first)
            total = self.node.dim(ahead * size)
            index = each_repeated(self.node, ahead * size, size)
            text = f"(table({index}, seq(1, {total}), {self.node.dim(ahead)}, {total}) %*% {x})"
            divisor = f" / {self.node.factor(size)}" if self.reduction.aggregate == "Means" else ""
            self._set(f"{text}{divisor}", View(ahead, after))
        elif self.reduction.aggregate in _PAIRWISE and isinstance(size, int) and size <= MOST_PARTS:
            x = self._named(self._source(View(ahead, size * after), first))
            span = self.node.factor
            parts = [f"{x}[, {span(i * after + 1)}:{span((i + 1) * after)}]" for i in range(size)]
            self._set(_paired(_PAIRWISE[self.reduction.aggregate], parts), View(ahead, after))
        else:
            x = self._source(View(ahead, size * after), first)
            front = self.node.reshape(f"t({x})", View(size, after * ahead))
            turned = self.node.reshape(self._aggregate("col", front, size), View(after, ahead))
            self._set(f"t({turned})", View(ahead, after))

    def _source(self, view: View, first: bool) -> str:
        """What is to be aggregated next, as an operand."""
        if first:
            x = self.node.view(0, view)
            return x if self.reduction.ahead is None else self.reduction.ahead(x)
        if self.view == view:
            return self._named(self.text)
        return self.node.reshape(self._named(self.text), view)

    def _named(self, text: str) -> str:
        """An identifier for a text."""
        return text if is_name(text) else self.node.named("part", text)

    def _aggregate(self, side: str, x: str, size: Dim) -> str:
        """The aggregates of rows (or columns) of ``size`` elements."""
        if self.reduction.aggregate == "LogSumExp":
            return self.node.call(f"{side}_log_sum_exp", x)
        if self.reduction.aggregate == "WrappedProds":
            return self.node.call(f"{side}_wrapped_prods", x, sign_offset(self.node.dtype(0)))
        if self.reduction.aggregate in ("Sums", "Means"):
            sums = (row_sums if side == "row" else col_sums)(x, self.node.dim(size))
            return f"({sums})" if self.reduction.aggregate == "Sums" else f"({sums} / {self.node.factor(size)})"
        if self.reduction.aggregate == "Prods":
            return self.node.call(f"{side}_prods", x)
        return f"{side}{self.reduction.aggregate}({x})"

    def _whole(self, x: str, view: View) -> str:
        """The aggregate of a whole matrix."""
        if self.reduction.whole == "prod":
            column = self.node.reshape(x, View(view.rows * view.cols, 1))
            return f"as.scalar({self.node.call('col_prods', column)})"
        if self.reduction.whole not in ("sum", "mean"):
            return f"{self.reduction.whole}({x})"
        text = total(x, self.node.dim(view.rows), self.node.dim(view.cols))
        return text if self.reduction.whole == "sum" else f"{text} / {self.node.factor(view.rows * view.cols)}"

    def _set(self, text: str, view: View) -> None:
        self.text, self.view = text, view


def _paired(function: str, parts: Sequence[str]) -> str:
    """The smallest or largest of all parts, element by element; function: min or max."""
    text = parts[0]
    for number, part in enumerate(parts[1:]):
        text = extreme(function, text, part, repeats=number % 2 == 1)
    return text


for _name, _reduction in REDUCTIONS.items():
    generator(_name, (1, 11, _reduction.axes_as_input))(partial(reduce, reduction=_reduction))
    shape_rule(_name)(partial(_dims_left, reduction=_reduction))


@size_rule("ReduceProd")
def _product_element(node: NodeFacts, inputs: Sequence[Elements]) -> Elements | None:
    """One number, of all elements of a tensor of rank 1."""
    if inputs[0].ndim != 1:
        return None
    result: Dim = 1
    for element in inputs[0]:
        result = result * element
        if isinstance(result, int):
            check_integer(result)
    return np.array([result] if node.attribute("keepdims") else result, dtype=object)
