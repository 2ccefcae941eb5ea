"""Draws expressions over matrices whose shapes are known by name, over integers, doubles and truths: `Expressions`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Union

Size = Union[int, str]
Shape = tuple[Size, Size]

_UNARY = ("abs({})", "exp(-abs({}))", "sqrt(abs({}))", "round({})", "floor({})", "ceil({})", "sign({})", "sin({})", "cos({})",
          "tanh({})", "atan({})", "sinh({} / 9)", "-{}", "({}) ^ 2", "log(abs({}) + 1)", "!({} > 0)", "sigmoid({})",
          "is.nan({})", "rev({})", "cumsum({})", "cummax({})", "cummin({})", "rowcumsum({})", "cumprod({} / 3)", "tan({} / 9)",
          "cosh({} / 9)", "asin({} / 9)", "acos({} / 9)", "log(abs({}) + 1, 2)", "is.infinite({})", "roll({}, 1)",
          "lower.tri(target={}, diag=TRUE, values=TRUE)", "upper.tri(target={}, diag=FALSE, values=TRUE)")
_BINARY = ("+", "-", "*", "/", ">", "<=", "==", "!=", "%%", "%/%", "&", "|", "^")
_VECTOR_RIGHT = ("+", "-", "*", "/", ">", "<", "==")
_ROWS = ("rowSums({})", "rowMeans({})", "rowMaxs({})", "rowMins({})", "rowIndexMax({})", "rowIndexMin({})", "rowVars({})",
         "rowProds(({}) / 4)", "rowSds({})")
_COLUMNS = ("colSums({})", "colMeans({})", "colMaxs({})", "colMins({})", "colVars({})", "colSds({})", "colProds(({}) / 4)")
_SCALARS = ("sum({})", "mean({})", "max({})", "min({})", "var({})", "nrow({})", "ncol({})", "length({})",
            "sd({})", "sum({} > 0)", "sum(unique(round({})))", "trace({0} %*% t({0}))", "prod({} / 4)", "median({}[, 1])",
            "moment({}[, 1], 2)", "cov({0}[, 1], {0}[, ncol({0})])", "countDistinct(round({}))", "as.scalar({0}[nrow({0}), ncol({0})])")
_INTEGERS = ("nrow({})", "ncol({})", "length({})", "as.integer(min(5, max(-2, mean({}))))", "as.integer(as.scalar({}[1, 1]) / 2)",
             "as.integer(sum({} > 0))")
_WHOLE = ("0", "1", "2", "3", "-1", "-2", "5")
_OF_INTEGERS = ("({} + {})", "({} - {})", "({} %% {})", "({} %/% {})", "min({}, {})", "max({}, {})", "ifelse({0} > {1}, {1}, {0})",
                "({} * ({} %% 3))", "abs({} - {})", "as.integer(({}) / ({}))", "as.integer(round({} / 2) - {})")
_NUMBERS = ("0", "1", "2", "3", "0.5", "-1.5", "7", "10", "1e-3")


@dataclass
class Scope:
    """The variables of one function: matrices by name with their shapes, scalars; how sizes are written there."""

    matrices: dict[str, Shape] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)
    integers: list[str] = field(default_factory=list)
    truths: list[str] = field(default_factory=list)
    sizes: dict[Size, str] = field(default_factory=dict)


class Expressions:
    """Draws an expression of the variables of a scope. helpers: names and texts of functions that it may call."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.scope = Scope()
        self.helpers: list[tuple[str, str]] = []

    def shape(self) -> Shape:
        """Return a shape, mostly one that a variable has."""
        if self.rng.random() < 0.8:
            return self.rng.choice(list(self.scope.matrices.values()))
        names = list(self.scope.sizes)
        return self.rng.choice([*names, 1, 2]), self.rng.choice([*names, 1, 3])

    def size(self, size: Size) -> str:
        """Return a size as DML has it."""
        return str(size) if isinstance(size, int) else self.scope.sizes[size]

    def integer(self, depth: int = 2) -> str:
        """Return an expression that is an integer to the engine; some are known, others not."""
        draw = self.rng.random()
        if draw < 0.2 or depth == 0:
            return self.rng.choice(_WHOLE)
        if draw < 0.4 and self.scope.integers:
            return self.rng.choice(self.scope.integers)
        if draw < 0.6:
            return self.rng.choice(_INTEGERS).format(self.rng.choice(list(self.scope.matrices)))
        return self.rng.choice(_OF_INTEGERS).format(self.integer(depth - 1), self.integer(depth - 1))

    def bounded(self) -> str:
        """Return an integer from -3 to 4."""
        return f"max(-3, min(4, {self.integer(1)}))"

    def scalar(self) -> str:
        """Return a scalar expression."""
        draw = self.rng.random()
        if draw < 0.2:
            return self.rng.choice(_NUMBERS)
        if draw < 0.3:
            return self.integer()
        if draw < 0.5 and self.scope.scalars:
            return self.rng.choice(self.scope.scalars)
        name, _ = self.rng.choice(list(self.scope.matrices.items()))
        if draw < 0.6:
            return f"as.scalar({name}[1, 1])"
        if draw < 0.85:
            return self.rng.choice(_SCALARS).format(name)
        return f"({self.scalar()} {self.rng.choice(('+', '-', '*', '/', '%%'))} {self.scalar()})"

    def condition(self) -> str:
        """Return a condition; some are known, others not."""
        draw = self.rng.random()
        if draw < 0.15 and self.scope.truths:
            return f"{self.rng.choice(('', '!'))}{self.rng.choice(self.scope.truths)}"
        if draw < 0.25:
            return f"(({self.condition()}) {self.rng.choice('&|')} ({self.condition()}))"
        if draw < 0.3:
            parts = (self.condition() for _ in range(3))
            return self.rng.choice(("ifelse({}, {}, {})", "xor({}, {} & ({}))")).format(*parts)
        return f"{self.scalar()} {self.rng.choice(('<', '>', '>=', '!='))} {self.scalar()}"

    def leaf(self, shape: Shape) -> str:
        """Return a matrix without an operation, if there is any."""
        names = [name for name, own in self.scope.matrices.items() if own == shape]
        if names and self.rng.random() < 0.9:
            return self.rng.choice(names)
        rows, cols = map(self.size, shape)
        if shape[1] == 1 and self.rng.random() < 0.5:
            return self.rng.choice((f"seq(1, {rows})", f"seq({rows}, 1)"))
        turned = [name for name, own in self.scope.matrices.items() if own == shape[::-1]]
        if turned and self.rng.random() < 0.7:
            return f"t({self.rng.choice(turned)})"
        return f"matrix(seq(1, {rows} * {cols}), {rows}, {cols})"

    def matrix(self, shape: Shape, depth: int = 2) -> str:
        """Return an expression of a matrix of a shape."""
        if depth <= 0:
            return self.leaf(shape)
        return self.rng.choice(self._ways(shape, depth))()

    def _ways(self, shape: Shape, depth: int) -> list[Callable[[], str]]:
        rng, (rows, cols) = self.rng, shape

        def one() -> str:
            return self.matrix(shape, depth - 1)

        ways: list[Callable[[], str]] = [
            lambda: f"({one()} {rng.choice(_BINARY)} {one()})",
            lambda: f"({one()} {rng.choice(_BINARY[:-3])} {self.scalar()})",
            lambda: f"({one()} {rng.choice(_VECTOR_RIGHT)} {self.matrix((1, cols), depth - 1)})",
            lambda: f"({one()} {rng.choice(_VECTOR_RIGHT)} {self.matrix((rows, 1), depth - 1)})",
            lambda: f"({self.scalar()} {rng.choice(_VECTOR_RIGHT[:-3])} {one()})",
            lambda: rng.choice(_UNARY).format(one()),
            lambda: rng.choice(_UNARY).format(one()),
            lambda: f"ifelse({one()} > {self.scalar()}, {one()}, {rng.choice((one, self.scalar))()})",
            lambda: f"{rng.choice(('min', 'max'))}({one()}, {rng.choice((one, self.scalar))()})",
            lambda: f"replace(target={one()}, pattern={rng.choice(('0', 'NaN', '1', '1/0'))}, replacement={self.scalar()})",
            lambda: f"t({self.matrix((cols, rows), depth - 1)})",
            lambda: f"matrix({self.matrix((cols, rows), depth - 1)}, rows={self.size(rows)}, cols={self.size(cols)})",
            lambda: self._product(shape, depth),
            lambda: f'outer({self.matrix((rows, 1), 0)}, {self.matrix((1, cols), 0)}, "{rng.choice(_VECTOR_RIGHT)}")',
            lambda: f"table(seq(1, {self.size(rows)}), rowIndexMax({self.matrix(shape, 0)}), {self.size(rows)}, {self.size(cols)})",
        ]
        if cols == 1:
            ways += [lambda: rng.choice(_ROWS).format(self.matrix((rows, rng.choice(self._widths())), depth - 1))] * 5
        if rows == 1:
            ways += [lambda: rng.choice(_COLUMNS).format(self.matrix((rng.choice(self._widths()), cols), depth - 1))] * 5
        if rows == cols and rows != 1:
            ways.append(lambda: f"diag({self.matrix((rows, 1), depth - 1)})")
        if self.helpers and "P" not in self.scope.matrices:
            name = rng.choice(self.helpers)[0]
            ways += [lambda: f"{name}({one()}, {self.scalar()})"] * 2
        return ways

    def _product(self, shape: Shape, depth: int) -> str:
        inner = self.rng.choice(self._widths())
        return f"({self.matrix((shape[0], inner), depth - 1)} %*% {self.matrix((inner, shape[1]), depth - 1)})"

    def _widths(self) -> list[Size]:
        return [*self.scope.sizes, 1, 2]
