"""Places of the best numbers of rows: what scripts find by comparisons becomes ArgMax, ArgMin and TopK again.

NaN is the best of all numbers, and where there are several the first is taken (the last, as the function says):
ONNX's operators do not say what becomes of NaN.
"""

from __future__ import annotations

import math

import numpy as np

from onnx_systemds.exporting.builtins.api import BOOL, FLOAT, INT, Context, Matrix, Tensor, Value
from onnx_systemds.exporting.builtins.library import template_function
from onnx_systemds.exporting.graph.nodes import TEXT, Node
from onnx_systemds.exporting.graph.operators import Operators

_LARGEST = {"bfloat16": float.fromhex("0x1.fep127"),
            **{dtype: float(np.finfo(dtype).max) for dtype in ("float16", "float32", "float64")}}
_DEEPEST = 50
_SINGLE = ("Abs", "Cast", "Expand", "Gather", "Identity", "Neg", "ReduceSum", "Relu", "Reshape", "Slice", "Transpose")
_JOINING = ("Add", "Concat", "Max", "Min", "Mul", "Pad", "Sub")
"""What is as large as its inputs are at most, or as their sum or product."""


def _register_best(op: str, *, last: bool) -> None:
    name = f"row_arg_{op[3:].lower()}{'_last' if last else ''}"
    side, best = "last" if last else "first", "maximum" if op == "ArgMax" else "minimum"
    meaning = f"The index (from 0) of the {side} {best} of each row; of the {side} NaN where there is one."

    @template_function(name, meaning=meaning)
    def function(ctx: Context, X: Matrix) -> Value:
        g, keys = ctx.g, ctx.flat(X)
        if not never_missing(g, X.tensor):
            gaps = keys.apply("IsNaN")
            marks = g.floating(gaps if op == "ArgMax" else ~gaps)
            among = g.cast(g.reduce(f"Reduce{op[3:]}", marks, (1,)), BOOL)
            keys = g.where(among, *((marks, keys) if op == "ArgMax" else (keys, marks)))
        more = {"select_last_index": 1} if last else {}
        found = g.node(op, [keys], (X.rows, 1), INT, axis=1, keepdims=1, **more)
        return ctx.matrix(g.floating(found))


for _op in ("ArgMax", "ArgMin"):
    _register_best(_op, last=False)
    _register_best(_op, last=True)


@template_function("top_k_passes", "top_k_sorted")
def best_of_rows(ctx: Context, X: Matrix, k: int, largest: bool) -> tuple[Value, Value] | None:
    """The best numbers of each row, in order, and their indices (from 0)."""
    g = ctx.g
    if not isinstance(X.cols, int) or not 0 < k <= X.cols:
        return None
    numbers = ctx.flat(X)
    missing = not never_missing(g, X.tensor)
    keys = numbers
    if missing:  # NaN is more than infinity, which is as much as the largest number
        keys = g.where(numbers.apply("IsNaN"), math.inf, numbers.at_most(_LARGEST[g.narrow or g.dtype]))
    kinds = [(FLOAT, (X.rows, k)), (INT, (X.rows, k))]
    values, places = g.nodes("TopK", [keys, g.constant([k])], kinds, axis=1, largest=int(largest), sorted=1)
    if missing:
        values = g.node("GatherElements", [numbers, places], (X.rows, k), axis=1)
    return ctx.matrix(values), ctx.matrix(g.floating(places))


def never_missing(g: Operators, tensor: Tensor | None) -> bool:
    """Whether no number of a tensor can be NaN or infinite: counts, what trees give, sums and products of such."""
    return _Bounds().of(tensor) < _LARGEST[g.narrow or "float32"]  # trees give float32


class _Bounds:
    """What no number of a tensor is larger than, whatever its sign; infinity where that is not known."""

    def __init__(self) -> None:
        self.known: dict[Tensor, float] = {}

    def of(self, tensor: Tensor | None, depth: int = 0) -> float:
        if tensor is None or depth > _DEEPEST or tensor.kind == TEXT:
            return math.inf
        if tensor not in self.known:
            self.known[tensor] = self.found(tensor, depth)
        return self.known[tensor]

    def found(self, tensor: Tensor, depth: int) -> float:
        if tensor.constant is not None:
            sizes = np.abs(tensor.constant.astype(np.float64))
            return float(sizes.max(initial=0.0)) if np.isfinite(sizes).all() else math.inf
        if tensor.kind in (BOOL, INT):
            return 1.0 if tensor.kind == BOOL else 2.0**63
        node = tensor.node
        if node is None:
            return math.inf
        if node.op == "TreeEnsembleRegressor":
            return _leaves(node)
        if node.op not in _SINGLE and node.op not in _JOINING:
            return math.inf
        read = node.inputs[:1] if node.op in _SINGLE else node.inputs[:3:2] if node.op == "Pad" else node.inputs
        operands = [self.of(each, depth + 1) for each in read]
        if not all(map(math.isfinite, operands)):
            return math.inf  # 0 times infinity is NaN
        if node.op in ("Add", "Sub"):
            return sum(operands)
        return math.prod(operands) if node.op == "Mul" else max(operands) * _summands(node)


def _summands(node: Node) -> float:
    """Return how many numbers a node adds up, infinity where that is not known."""
    if node.op != "ReduceSum":
        return 1.0
    before, after = node.operand().dims, node.outputs[0].dims
    added = [one for one, other in zip(before, after) if one != other] if len(before) == len(after) else before
    return math.prod(size if isinstance(size, int) else math.inf for size in added)


def _leaves(node: Node) -> float:
    weights, base = (node.attributes.get(name, ()) for name in ("target_weights", "base_values"))
    assert isinstance(weights, tuple) and isinstance(base, tuple)
    total = float(np.abs([*map(float, weights), *map(float, base)]).sum())
    return total if math.isfinite(total) else math.inf
