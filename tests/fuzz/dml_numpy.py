"""Evaluates drawn DML functions with numpy, as a judge where the engine and the exported model differ.

It knows the vocabulary of `dml_expressions` and `dml_statements` and its meaning without any rewriting, and nothing more: `Undecided` for the rest.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.parser import parse_script

Array = np.ndarray[Any, np.dtype[Any]]
_MOST_TURNS = 10_000
_CONSTANTS = {"Inf": math.inf, "NaN": math.nan, "pi": math.pi}


class Undecided(Exception):
    """The judge has no opinion."""


class Unsure(Undecided):
    """Neither side is held to anything here: the largest of elements with NaN, an order of NaN, rows beside infinite ones.

    So it is with ranges outside of a matrix, which the engine may not reach: its sums of infinities are its own.
    """


def evaluated(script: str, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the results of the function `f` in their order. Raises Undecided."""
    functions = {item.name: item for item in parse_script(script).items if isinstance(item, tree.Function)}
    values = {name: array if array.ndim else float(array) for name, array in inputs.items()}
    with np.errstate(all="ignore"):
        try:
            found = _Judge(functions).call(functions["f"], [values[p.name] for p in functions["f"].parameters])
        except (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError) as error:
            raise Undecided(repr(error)) from error
    return [np.atleast_2d(np.asarray(value, np.float64)) for value in found]


def _bounded(step: Callable[[Array, Array], Array]) -> Callable[[Any, Any], Any]:
    """Return an operation that gives 0 and 1."""
    return lambda a, b: np.asarray(step(a, b), np.float64) if _is_matrix(a) or _is_matrix(b) else bool(step(a, b))


def _quotient(a: Any, b: Any) -> Any:
    return np.trunc(np.divide(a, b))


def _matrix_product(a: Array, b: Array) -> Array:
    """Rows that a table chooses are a Gather, into which the engine adds what 0 times infinity is, if it is dense there."""
    chooses = np.isin(a, (0, 1)).all() and (a.sum(1) <= 1).all()
    if chooses and not np.isfinite(b).all():
        raise Unsure("a choice among rows that are not finite")
    return np.matmul(a, b)


def _remainder(a: Any, b: Any) -> Any:
    return 0 if _is_integer(a) and _is_integer(b) and b == 0 else a - _quotient(a, b) * b


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": np.divide, "^": np.power,
    "%/%": _quotient, "%%": _remainder,
    "<": _bounded(np.less), "<=": _bounded(np.less_equal), ">": _bounded(np.greater), ">=": _bounded(np.greater_equal),
    "==": _bounded(np.equal), "!=": _bounded(np.not_equal),
    "&": _bounded(lambda a, b: np.not_equal(a, 0) & np.not_equal(b, 0)),
    "|": _bounded(lambda a, b: np.not_equal(a, 0) | np.not_equal(b, 0)),
}


_OF_INTEGERS = ("+", "-", "*", "%/%", "%%")


def _of_texts(op: str, left: Any, right: Any) -> Any:
    """Return a joined text, or whether two are the same."""
    shown = [str(side).upper() if isinstance(side, bool) else str(side) for side in (left, right)]
    if any(isinstance(side, float) for side in (left, right)) or op not in ("+", "==", "!="):
        raise Undecided("a text of a double")
    return shown[0] + shown[1] if op == "+" else (shown[0] == shown[1]) == (op == "==")


def _is_matrix(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2


class _Judge:
    """Runs functions with numpy."""

    def __init__(self, functions: Mapping[str, tree.Function]) -> None:
        self.functions = functions
        self.turns = 0
        self.variables: dict[str, Any] = {}

    def call(self, function: tree.Function, values: Sequence[Any]) -> list[Any]:
        before, self.variables = self.variables, {p.name: v for p, v in zip(function.parameters, values)}
        try:
            self.run(function.body)
            return [self.variables[result.name] for result in function.results]
        finally:
            self.variables = before

    def run(self, block: tree.Block) -> None:
        for statement in block:
            self.turns += 1
            if self.turns > _MOST_TURNS:
                raise Undecided("too long")
            self.statement(statement)

    def statement(self, node: tree.Statement) -> None:
        if isinstance(node, tree.Assign):
            try:
                value = self.value(node.value)
            except Unsure:
                raise
            except Undecided:
                if not isinstance(node.target, tree.Name):
                    raise
                self.variables.pop(node.target.name, None)  # what is not read is not missed
                return
            self.assign(node.target, self.value(node.target) + value if node.accumulate else value)
        elif isinstance(node, tree.MultiAssign):
            given = [self.value(argument.value) for argument in node.call.arguments]
            for target, value in zip(node.targets, self.call(self.functions[node.call.function], given)):
                self.assign(target, value)
        elif isinstance(node, tree.If):
            self.run(node.body if self.value(node.condition) else node.otherwise)
        elif isinstance(node, tree.While):
            while self.value(node.condition):
                self.run(node.body)
        elif isinstance(node, tree.For):
            for index in self.turns_of(node.range):
                self.variables[node.variable] = index
                self.run(node.body)
        else:
            raise Undecided(type(node).__name__)

    def turns_of(self, bounds: tree.LoopRange) -> list[int]:
        start, stop = int(self.value(bounds.start)), int(self.value(bounds.stop))
        step = int(self.value(bounds.step)) if bounds.step is not None else (1 if start <= stop else -1)
        return list(range(start, stop + (1 if step > 0 else -1), step))

    def assign(self, target: tree.Target, value: Any) -> None:
        if isinstance(target, tree.Name):
            self.variables[target.name] = value
            return
        whole = self.variables[target.name]
        if isinstance(whole, list):
            assert target.rows.lower is not None
            place = self.span(target.rows, len(whole)).start
            self.variables[target.name] = [*whole[:place], value, *whole[place + 1 :]]
            return
        whole = whole.copy()
        whole[self.span(target.rows, whole.shape[0]), self.span(target.columns, whole.shape[1])] = value
        self.variables[target.name] = whole

    def span(self, span: tree.Span | None, size: int) -> slice:
        if span is None or span.lower is None:
            return slice(0, size)
        lower = self.value(span.lower)
        lower = "abcd".index(lower) + 1 if isinstance(lower, str) else int(lower)  # names of items are letters in their order
        upper = int(self.value(span.upper)) if span.upper is not None else lower
        if not 1 <= lower <= upper <= size:
            raise Unsure("a range outside")
        return slice(lower - 1, upper)

    def value(self, node: tree.Expression) -> Any:
        if isinstance(node, (tree.IntLiteral, tree.DoubleLiteral, tree.BooleanLiteral, tree.StringLiteral)):
            return node.value
        if isinstance(node, tree.Constant):
            return _CONSTANTS[node.name]
        if isinstance(node, tree.Name):
            return self.variables[node.name]
        if isinstance(node, tree.Binary):
            left, right = self.value(node.left), self.value(node.right)
            if isinstance(left, str) or isinstance(right, str):
                return _of_texts(node.operator, left, right)
            of_integers = node.operator in _OF_INTEGERS and _is_integer(left) and _is_integer(right)
            found = _BINARY[node.operator](*((int(left), int(right)) if of_integers else (left, right)))
            if of_integers and not -(2**63) < found < 2**63:
                raise Unsure("an integer beyond 64 bits")
            if of_integers and node.operator == "%%" and abs(left) > 2**53:
                raise Unsure("a remainder of an integer that doubles round")
            if _is_matrix(found) or isinstance(found, bool):
                return found
            return int(found) if of_integers else np.float64(found)
        if isinstance(node, tree.Unary):
            operand = self.value(node.operand)
            if node.operator == "-":
                return -operand
            return np.asarray(np.equal(operand, 0), np.float64) if _is_matrix(operand) else bool(operand == 0)
        if isinstance(node, tree.Indexed):
            whole = self.variables[node.name]
            if isinstance(whole, list):
                return whole[self.span(node.rows, len(whole)).start]
            return whole[self.span(node.rows, whole.shape[0]), self.span(node.columns, whole.shape[1])]
        if isinstance(node, tree.Call):
            return self.called(node)
        raise Undecided(type(node).__name__)

    def called(self, node: tree.Call) -> Any:
        given = [self.value(argument.value) for argument in node.arguments if argument.name is None]
        named = {argument.name: self.value(argument.value) for argument in node.arguments if argument.name is not None}
        if node.function in self.functions:
            return self.call(self.functions[node.function], given)[0]
        if node.function not in _BUILTINS:
            raise Undecided(node.function)
        return _BUILTINS[node.function](*given, **{name.replace(".", "_"): value for name, value in named.items()})


def _rowwise(step: Callable[..., Any], axis: int, **options: Any) -> Callable[[Array], Array]:
    return lambda x: np.asarray(step(x, axis=axis, keepdims=True, **options), np.float64)


def _extreme(step: Callable[..., Any], axis: int | None) -> Callable[[Array], Any]:
    """Of elements among which is NaN onnxruntime's result is not sure."""

    def found(x: Array) -> Any:
        if np.isnan(x).any():
            raise Unsure("the largest of NaN")
        return step(x, axis=axis, keepdims=axis is not None)

    return found


def _either(two: Callable[..., Any], one: Callable[[Array], Any]) -> Callable[..., Any]:
    return lambda *values: one(values[0]) if len(values) == 1 else functools.reduce(two, values)


def _last_place(x: Array, sign: float) -> Array:
    """Return the last place of the largest element of each row, NaN aside, from 1 on; 1 where there is only NaN."""
    numbers = np.where(np.isnan(x), -np.inf, x * sign)
    largest = numbers.max(axis=1, keepdims=True)
    found = (numbers == largest) & ~np.isnan(x)
    last = x.shape[1] - np.argmax(found[:, ::-1], axis=1)
    return np.where(found.any(axis=1), last, 1).astype(np.float64).reshape(-1, 1)


def _matrix(x: Any, rows: Any, cols: Any, byrow: bool = True) -> Array:
    dims = int(rows), int(cols)
    if isinstance(x, str):
        x = np.array([list(map(float, x.split()))])
    return np.reshape(x, dims, "C" if byrow else "F") if _is_matrix(x) else np.full(dims, float(x))


def _sequence(start: Any, stop: Any, step: Any = None) -> Array:
    step = step if step is not None and step != 1 else (1 if start <= stop else -1)
    count = math.floor((stop - start) / step + 1e-10) + 1
    return (start + step * np.arange(count, dtype=np.float64)).reshape(-1, 1)


def _selected(target: Array, margin: str, select: Array | None = None, empty_return: bool = True) -> Array:
    axis = 0 if margin == "rows" else 1
    chosen = (target != 0).any(axis=1 - axis) if select is None else select.reshape(-1) != 0
    if select is not None and axis == 1 and target.shape[1] == 1 and not chosen.any():
        raise Unsure("of one column the engine removes none")
    found = np.compress(chosen, target, axis)
    return found if found.shape[axis] or not empty_return else np.zeros([1 if i == axis else n for i, n in enumerate(target.shape)])


def _ordered(target: Array, by: Any, decreasing: bool = False, index_return: bool = False) -> Array:
    keys = target[:, np.reshape(by, -1).astype(int) - 1]
    if np.isnan(keys).any():
        raise Unsure("an order of NaN")
    places = np.lexsort((-keys if decreasing else keys).T[::-1])
    return (places + 1.0).reshape(-1, 1) if index_return else target[places]


def _table(rows: Array, cols: Array, *others: Any) -> Array:
    """Return the counts, or sums of weights, of pairs; others: weights, height and width, each where it is given."""
    weight = others[0] if len(others) in (1, 3) else 1.0
    height, width = others[-2:] if len(others) > 1 else (rows.max(), cols.max())
    found = np.zeros((int(height), int(width)))
    for row, col, own in zip(rows.reshape(-1), cols.reshape(-1), np.broadcast_to(weight, rows.shape).reshape(-1)):
        found[int(row) - 1, int(col) - 1] += own
    return found


def _replaced(target: Array, pattern: Any, replacement: Any) -> Array:
    return np.where(np.isnan(target) if math.isnan(pattern) else target == pattern, replacement, target)


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    if not _is_matrix(condition):
        return yes if condition else no
    return np.where(condition != 0, yes, no)


def _grouped(
    target: Array, groups: Array, fn: str, ngroups: Any, weights: Array | None = None, order: str = "2"
) -> Array:
    """Return the aggregates of a column by groups; the sum of the weights is the size of a group."""
    weights = np.ones_like(groups) if weights is None else weights
    found = np.zeros((int(ngroups), 1))
    for place in range(int(ngroups)):
        own, share = target[groups.reshape(-1) == place + 1], weights[groups.reshape(-1) == place + 1]
        size, total = share.sum(), (own * share).sum()
        mean = total / size if size else 0.0
        moment = ((own - mean) ** int(order) * share).sum()
        found[place] = {"sum": total, "count": size, "mean": mean, "centralmoment": np.divide(moment, size),
                        "variance": moment / (size - 1) if size != 1 else 0.0}[fn]
    return found


def _repeated(x: Array, weights: Array | None) -> Array:
    """Return the elements in their order, each so often as its weight says."""
    if np.isnan(x).any():
        raise Unsure("an order of NaN")
    return np.sort(x.reshape(-1) if weights is None else np.repeat(x.reshape(-1), weights.reshape(-1).astype(int)))


def _median(x: Array, weights: Array | None = None) -> Any:
    return np.median(_repeated(x, weights))


def _quantile(x: Array, *others: Any) -> Any:
    """Return the element before which so large a share is; others: weights where there are any, and the share."""
    found = _repeated(x, others[0] if len(others) > 1 else None)
    places = np.maximum(np.ceil(np.asarray(others[-1]) * len(found)).astype(int), 1) - 1
    return found[places] if _is_matrix(others[-1]) else float(found[places])


def _moment(x: Array, *others: Any) -> Any:
    """Return the mean of powers of what lies around the mean; others: weights where there are any, and the power."""
    if len(others) == 1 and x.size == 1 and not np.isfinite(x).all():
        raise Unsure("the moment of one number that is not finite")
    weights = others[0] if len(others) > 1 else np.ones_like(x)
    mean = (x * weights).sum() / weights.sum()
    return ((x - mean) ** others[-1] * weights).sum() / weights.sum()


def _covariance(x: Array, y: Array) -> Any:
    if x.size == 1:
        raise Unsure("the covariance of one number, 0 of either sign in the engine")
    return np.sum((x - x.mean()) * (y - y.mean())) / (x.size - 1)


def _only(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    if x.size != 1:
        raise Undecided("no scalar")
    return x.item()


def _whole(x: Any) -> int:
    """Return a number without its fraction as Java casts it: 0 for NaN, the nearest integer of 64 bits beyond those."""
    number = _only(x)
    return 0 if math.isnan(number) else min(int(max(-(2.0**63), min(number, 2.0**63))), 2**63 - 1)


def _joined(axis: int) -> Callable[..., Array]:
    return lambda *parts: np.concatenate(parts, axis)


_BUILTINS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "exp": np.exp, "sqrt": np.sqrt, "round": lambda x: np.floor(x + 0.5), "floor": np.floor, "ceil": np.ceil,
    "sign": lambda x: np.sign(x) * 1.0, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "atan": np.arctan, "sinh": np.sinh, "log": lambda x, base=np.e: np.log(x) / np.log(base),
    "asin": np.arcsin, "acos": np.arccos, "is.infinite": lambda x: np.isinf(x).astype(np.float64), "roll": lambda x, by: np.roll(x, by, 0),
    "prod": np.prod, "median": _median, "quantile": _quantile, "moment": _moment, "countDistinct": lambda x: len(np.unique(x)),
    "cov": _covariance,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "is.nan": lambda x: np.isnan(x).astype(np.float64),
    "rev": lambda x: x[::-1], "cumsum": lambda x: np.cumsum(x, 0), "rowcumsum": lambda x: np.cumsum(x, 1),
    "cummax": lambda x: np.maximum.accumulate(x, 0), "cummin": lambda x: np.minimum.accumulate(x, 0),
    "rowSums": _rowwise(np.sum, 1), "rowMeans": _rowwise(np.mean, 1), "rowVars": _rowwise(np.var, 1, ddof=1),
    "rowProds": _rowwise(np.prod, 1), "colSums": _rowwise(np.sum, 0), "colMeans": _rowwise(np.mean, 0),
    "colVars": _rowwise(np.var, 0, ddof=1), "colSds": _rowwise(np.std, 0, ddof=1),
    "rowMaxs": _extreme(np.max, 1), "rowMins": _extreme(np.min, 1), "colMaxs": _extreme(np.max, 0), "colMins": _extreme(np.min, 0),
    "rowIndexMax": lambda x: _last_place(x, 1.0), "rowIndexMin": lambda x: _last_place(x, -1.0),
    "sum": np.sum, "mean": np.mean, "var": lambda x: np.var(x, ddof=1),
    "max": _either(np.maximum, _extreme(np.max, None)), "min": _either(np.minimum, _extreme(np.min, None)),
    "nrow": lambda x: x.shape[0], "ncol": lambda x: x.shape[1], "length": lambda x: len(x) if isinstance(x, list) else np.size(x),
    "t": np.transpose, "matrix": _matrix, "seq": _sequence, "removeEmpty": _selected, "order": _ordered, "table": _table,
    "replace": _replaced, "ifelse": _chosen, "cbind": _joined(1), "rbind": _joined(0), "list": lambda *items, **named: [*items, *named.values()],
    "cumprod": lambda x: np.cumprod(x, 0), "colProds": _rowwise(np.prod, 0), "rowSds": _rowwise(np.std, 1, ddof=1),
    "xor": _bounded(lambda a, b: np.not_equal(a, 0) ^ np.not_equal(b, 0)), "as.integer": _whole,
    "trace": np.trace, "lower.tri": lambda target, diag, values: np.tril(target, 0 if diag else -1),
    "upper.tri": lambda target, diag, values: np.triu(target, 0 if diag else 1), "aggregate": _grouped,
    "unique": lambda x: np.unique(x).reshape(-1, 1), "sd": lambda x: np.std(x, ddof=1), "tan": np.tan, "cosh": np.cosh,
    "as.scalar": _only, "as.matrix": np.atleast_2d,
    "diag": lambda x: np.diag(x.reshape(-1)) if x.shape[1] == 1 else np.diag(x).reshape(-1, 1),
    "outer": lambda x, y, op: {**_BINARY, "min": np.minimum, "max": np.maximum}[op](x, y),
    "as.double": lambda x: np.float64(_only(x)), "as.logical": lambda x: bool(_only(x) != 0),
}
_BINARY["%*%"] = _matrix_product
