"""Draws the statements of a DML function whose matrices have shapes that are known by name: `Writer`."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tests.fuzz.dml_expressions import Expressions, Scope, Shape, Size
from tests.fuzz.dml_idioms import IDIOMS


class Writer(Expressions):
    """Draws one function `f` with its helpers."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.count = 0
        self.depth = 0

    def inputs(self) -> dict[str, tuple[Size, ...]]:
        """Return the inputs with their dims; a scalar has none."""
        found: dict[str, tuple[Size, ...]] = {"X": ("N", "K")}
        shapes: list[tuple[Size, ...]] = [("N", "K"), ("K", "N"), ("N", 1), (1, "K"), ("K", 2)]
        for name in ("A", "B")[: self.rng.randrange(3)]:
            found[name] = self.rng.choice(shapes)
        if self.rng.random() < 0.4:
            found["s"] = ()
        for name, dims in found.items():
            if len(dims) == 2:
                self.scope.matrices[name] = (dims[0], dims[1])
            else:
                self.scope.scalars.append(name)
        self.scope.sizes = {"N": "nrow(X)", "K": "ncol(X)"}
        return found

    def function(self) -> tuple[str, tuple[str, ...]]:
        """Return the script with `f` and its helpers, and the names of the results."""
        given = ", ".join([f"matrix[double] {name}" for name in self.scope.matrices]
                          + [f"double {name}" for name in self.scope.scalars])
        if self.rng.random() < 0.4:
            self.helper()
        before = set(self.scope.matrices)
        lines = [line for _ in range(self.rng.randint(2, 9)) for line in self.statement()]
        own = [name for name in self.scope.matrices if name not in before][-3:]
        if not own:
            lines.append(f"w = {self.matrix(('N', 'K'))}")
            own = ["w"]
        results = tuple(f"R{place + 1}" for place in range(len(own)))
        lines += [f"{result} = {name}" for result, name in zip(results, own)]
        returned = ", ".join(f"matrix[double] {result}" for result in results)
        head = [text for _, text in self.helpers]
        body = "\n".join(f"  {line}" for line in lines)
        return "\n".join([*head, f"f = function({given}) return ({returned}) {{", body, "}", ""]), results

    def helper(self) -> None:
        """Draw a function of a matrix and a number that gives a matrix of the same shape."""
        outer, self.scope = self.scope, Scope({"P": ("p", "q")}, ["h"], sizes={"p": "nrow(P)", "q": "ncol(P)"})
        name = f"g{len(self.helpers) + 1}"
        lines = ["  Q = P", *(f"  {line}" for _ in range(self.rng.randint(1, 3)) for line in self.statement())]
        lines.append(f"  Q = {self.matrix(('p', 'q'))}")
        self.scope = outer
        self.helpers.append((name, "\n".join([f"{name} = function(matrix[double] P, double h) return (matrix[double] Q) {{",
                                              *lines, "}"])))

    # Statements

    def statement(self) -> list[str]:
        """Return the lines of one statement."""
        plain: list[Callable[[], list[str]]] = [self.assignment] * 5 + [self.scalar_assignment, self.integer_assignment,
                                                self.truth_assignment, self.span, self.span, self.right_index, self.joined,
                                                self.left_index, self.left_index, self.selected, self.sorted, self.listed,
                                                self.grouped, self.accumulated, *(partial(idiom, self) for idiom in IDIOMS)]
        if self.depth < 2:
            plain += [self.branch, self.branch, self.loop, self.loop, self.filled_by_rows, self.while_loop, self.grown, self.chosen_by_rows]
        return self.rng.choice(plain)()

    def new(self, shape: Shape) -> str:
        """Return a new variable of a shape; inside of branches and loops an old one, where there is any."""
        old = [name for name, own in self.scope.matrices.items() if own == shape and name[0] in "vwQ"]
        if old and (self.depth or self.rng.random() < 0.2):
            return self.rng.choice(old)
        self.count += 1
        return f"v{self.count}"

    def assignment(self) -> list[str]:
        shape = self.shape()
        text = self.matrix(shape, self.rng.randint(1, 3))
        return self.set(self.new(shape), shape, text)

    def set(self, name: str, shape: Shape, text: str) -> list[str]:
        """Return the assignment of a matrix, which is known from there on."""
        self.scope.matrices[name] = shape
        return [f"{name} = {text}"]

    def scalar_assignment(self) -> list[str]:
        self.count += 1
        text = self.scalar()
        self.scope.scalars.append(f"k{self.count}")
        return [f"k{self.count} = {text}"]

    def integer_assignment(self) -> list[str]:
        """Return the assignment of an integer; inside of branches and loops mostly of one that is known before."""
        return self.other_assignment(self.scope.integers, "z", self.integer())

    def truth_assignment(self) -> list[str]:
        return self.other_assignment(self.scope.truths, "b", self.condition())

    def other_assignment(self, known: list[str], kind: str, text: str) -> list[str]:
        old = [name for name in known if name[0] == kind]
        if old and (self.rng.random() < (0.8 if self.depth else 0.2)):
            return [f"{self.rng.choice(old)} = {text}"]
        self.count += 1
        known.append(f"{kind}{self.count}")
        return [f"{kind}{self.count} = {text}"]

    def span(self) -> list[str]:
        """Return some rows or columns between places that are calculated, or the assignment of these."""
        old = [name for name in self.scope.matrices if name[0] in "vwQ"]
        name = self.rng.choice(old or list(self.scope.matrices))
        rows, cols = self.scope.matrices[name]
        by_rows = self.rng.random() < 0.5
        self.count += 1
        low, high, size = f"z{self.count}l", f"z{self.count}h", f"{'nrow' if by_rows else 'ncol'}({name})"
        lines = [f"{low} = max(1, min({size}, {self.integer()}))", f"{high} = max({low}, min({size}, {self.integer()}))"]
        self.scope.integers += [low, high]
        part = f"{name}[{low}:{high}, ]" if by_rows else f"{name}[, {low}:{high}]"
        if old and self.rng.random() < 0.5:
            shape = f"({high} - {low} + 1), {self.size(cols)}" if by_rows else f"{self.size(rows)}, ({high} - {low} + 1)"
            value = self.rng.choice((f"matrix({self.scalar()}, {shape})", f"{part} * {self.scalar()}", f"abs({part}) - {low}"))
            return [*lines, f"{part} = {value}"]
        shape: Shape = (1, cols) if by_rows else (rows, 1)
        reduce = self.rng.choice(("colSums", "colMaxs") if by_rows else ("rowSums", "rowMins"))
        return [*lines, *self.set(self.new(shape), shape, f"{reduce}({part})")]

    def right_index(self) -> list[str]:
        source, (rows, cols) = self.rng.choice(list(self.scope.matrices.items()))
        row = self.rng.choice(["1", f"nrow({source})", f"as.scalar(rowIndexMax(t({source}[, 1])))"])
        column = self.rng.choice(["1", f"ncol({source})", f"1:ncol({source})"])
        shape, index = self.rng.choice([((1, cols), f"{row}, "), ((rows, 1 if ":" not in column else cols), f", {column}"),
                                        ((rows, cols), f"1:nrow({source}), ")])
        return self.set(self.new(shape), shape, f"{source}[{index}]")

    def joined(self) -> list[str]:
        rows, cols = self.shape()
        parts = [self.matrix((rows, cols), 1), self.matrix((rows, cols), 1)]
        way = self.rng.choice(("cbind", "rbind"))
        self.count += 1
        joined, size = f"j{self.count}", "ncol" if way == "cbind" else "nrow"
        lines = [f"{joined} = {way}({', '.join(parts)})"]
        if self.rng.random() < 0.5:  # a part that crosses the seam
            index = f"2:({size}({joined}) - {size}({joined}) / 2 + 1)"
            text = f"{joined}[, {index}]" if way == "cbind" else f"{joined}[{index}, ]"
            return [*lines, *self.set(self.new((rows, cols)), (rows, cols), text)]
        shape: Shape = (rows, 1) if way == "cbind" else (1, cols)
        return [*lines, *self.set(self.new(shape), shape, f"{'rowSums' if way == 'cbind' else 'colMaxs'}({joined})")]

    def left_index(self) -> list[str]:
        shape = self.shape()
        name = self.new(shape)
        lines = [] if name in self.scope.matrices else self.set(name, shape, self.matrix(shape, 1))
        row = self.rng.choice(["1", f"nrow({name})"])
        column = self.rng.choice(["1", f"ncol({name})"])
        lines.append(self.rng.choice([
            lambda: f"{name}[{row}, ] = {self.matrix((1, shape[1]), 1)}",
            lambda: f"{name}[, {column}] = {self.matrix((shape[0], 1), 1)}",
            lambda: f"{name}[{row}, {column}] = {self.scalar()}",
            lambda: f"{name}[1:nrow({name}), 1] = {self.matrix((shape[0], 1), 1)}",
        ])())
        return lines

    def selected(self) -> list[str]:
        source, (rows, cols) = self.rng.choice(list(self.scope.matrices.items()))
        self.count += 1
        temporary = f"e{self.count}"
        margin = self.rng.choice(("rows", "cols"))
        vector: Shape = (rows, 1) if margin == "rows" else (1, cols)
        select = f", select={self.matrix(vector, 1)} > 0" if self.rng.random() < 0.6 else ""
        shape: Shape = (1, cols) if margin == "rows" else (rows, 1)
        reduce = self.rng.choice(("colSums", "colMaxs") if margin == "rows" else ("rowSums", "rowMins"))
        extra = f" * {'nrow' if margin == 'rows' else 'ncol'}({temporary})" if self.rng.random() < 0.5 else ""
        return [f'{temporary} = removeEmpty(target={source}, margin="{margin}"{select})',
                *self.set(self.new(shape), shape, f"{reduce}({temporary}){extra}")]

    def sorted(self) -> list[str]:
        source, shape = self.rng.choice(list(self.scope.matrices.items()))
        decreasing = self.rng.choice(("TRUE", "FALSE"))
        if self.rng.random() < 0.3:
            shape = (shape[0], 1)
            return self.set(self.new(shape), shape, f"order(target={source}, by=1, decreasing={decreasing}, index.return=TRUE)")
        return self.set(self.new(shape), shape, f"order(target={source}, by=1, decreasing={decreasing})")

    def listed(self) -> list[str]:
        (one, shape), (other, _) = (self.rng.choice(list(self.scope.matrices.items())) for _ in range(2))
        self.count += 1
        name = f"l{self.count}"
        lines = [f"{name} = list({one}, {other}, {self.scalar()})"]
        if self.rng.random() < 0.5:
            lines.append(f"{name}[1] = {one}")
        return [*lines, *self.set(self.new(shape), shape, f"as.matrix({name}[1]) + as.scalar({name}[3])")]

    def grouped(self) -> list[str]:
        source, (rows, _cols) = self.rng.choice(list(self.scope.matrices.items()))
        shape: Shape = (3, 1)
        groups, kind = f"rowIndexMax({source})", self.rng.choice(("sum", "count", "mean"))
        self.count += 1
        name = f"a{self.count}"
        return [f"{name} = matrix({source}[, 1], rows={self.size(rows)}, cols=1)", *self.set(
            self.new(shape), shape, f'aggregate(target={name}, groups={groups}, fn="{kind}", ngroups=3)')]

    def accumulated(self) -> list[str]:
        names = [name for name in self.scope.matrices if name[0] in "vwQ"]
        if not names or self.depth:
            return self.assignment()
        name = self.rng.choice(names)
        added = self.matrix(self.scope.matrices[name], 1)
        called = any(added.startswith(f"{helper}(") for helper, _ in self.helpers)
        return [f"{name} += {added}{' + 0' if called else ''}"]  # a call alone is assigned by the engine

    def grown(self) -> list[str]:
        """Return a matrix that grows in a loop, and what is made of it."""
        source, (_rows, cols) = self.rng.choice(list(self.scope.matrices.items()))
        self.count += 1
        index, name = f"i{self.count}", f"n{self.count}"
        bounds = self.rng.choice((f"2:nrow({source})", f"nrow({source}):1", "1:3", f"1:as.integer(min(4, max(1, mean({source}))))"))
        body = [f"  {name} = rbind({name}, {source}[1, ] * {index})"]
        if self.rng.random() < 0.4:
            tested = self.rng.choice((f"sum({name})", f"as.scalar({source}[min({index}, nrow({source})), 1])"))
            body = [f"  if ({tested} {self.rng.choice('<>')} {self.scalar()}) {{", *body, "  }"]
        shape: Shape = (1, cols)
        return [f"{name} = {source}[1, ]", f"for ({index} in {bounds}) {{", *body, "}",
                *self.set(self.new(shape), shape, f"colSums({name}) + nrow({name})")]

    def nested(self, count: int = 2) -> list[str]:
        """Return some indented statements, which may only set variables that are known before."""
        outer = self.scope
        self.scope = Scope(dict(outer.matrices), [*outer.scalars], [*outer.integers], [*outer.truths], outer.sizes)
        self.depth += 1
        lines = [f"  {line}" for _ in range(self.rng.randint(1, count)) for line in self.statement()]
        self.depth -= 1
        self.scope = outer
        return lines

    def seeds(self) -> list[str]:
        """Return assignments of variables that branches and loops may change."""
        shape = self.shape()
        name = self.new(shape)
        return self.set(name, shape, self.matrix(shape, 1)) if name not in self.scope.matrices else []

    def branch(self) -> list[str]:
        lines = [*self.seeds(), f"if ({self.condition()}) {{", *self.nested(), "}"]
        if self.rng.random() < 0.2:
            lines[-1:] = [f"}} else if ({self.condition()}) {{", *self.nested(), "}"]
        return [*lines[:-1], "} else {", *self.nested(), "}"] if self.rng.random() < 0.6 else lines

    def loop(self) -> list[str]:
        self.count += 1
        index = f"i{self.count}"
        size = self.scope.sizes[self.rng.choice(list(self.scope.sizes))]
        ranges = [f"1:{size}", f"{size}:1", f"2:{size}", f"seq(1, {size}, 2)", f"seq({size}, 1, -1)", "1:3", "3:1",
                  f"seq(3, {size}, 1)", f"{self.bounded()}:{self.bounded()}", f"seq({self.bounded()}, 4, 2)"]
        lines = [*self.seeds(), f"for ({index} in {self.rng.choice(ranges)}) {{"]
        self.scope.integers.append(index)
        inner = self.nested()
        name, _shape = self.rng.choice(list(self.scope.matrices.items()))
        if name[0] in "vwQ":
            inner.append(f"  {name} = {name} / 2 + {index}")
        self.scope.integers.remove(index)
        return [*lines, *inner, "}"]

    def filled_by_rows(self) -> list[str]:
        source, (rows, cols) = self.rng.choice(list(self.scope.matrices.items()))
        self.count += 1
        index, name = f"i{self.count}", f"v{self.count}"
        kind = self.rng.choice(("for", "parfor"))
        bounds = self.rng.choice((f"1:nrow({source})", f"nrow({source}):1", f"seq(1, nrow({source}), 1)"))
        value, width = self.rng.choice([(f"sum({source}[{index}, ])", 1), (f"{source}[{index}, ] * {index}", cols),
                                        (f"rowMaxs({source}[{index}, ]) - {index}", 1)])
        columns = "1" if width == 1 else ""
        lines = [f"{name} = matrix(0, nrow({source}), {self.size(width)})", f"{kind} ({index} in {bounds}) {{",
                 f"  {name}[{index}, {columns}] = {value}", "}"]
        self.scope.matrices[name] = (rows, width)
        return lines

    def chosen_by_rows(self) -> list[str]:
        """Return a loop over rows that keeps truths and places between branches."""
        source, (rows, _cols) = self.rng.choice(list(self.scope.matrices.items()))
        self.count += 1
        index, name, number, truth = (f"{kind}{self.count}" for kind in "ivkb")
        place = self.rng.choice(("1", f"ncol({source})", f"max(1, min(ncol({source}), as.integer({number})))"))
        body = [f"{number} = as.scalar({source}[{index}, 1])", f"{truth} = {number} > {self.scalar()}",
                f"if ({number} {self.rng.choice('<>')} {self.scalar()}) {{",
                f"  {truth} = as.scalar({source}[{index}, {place}]) > {self.scalar()}", "}",
                f"if ({truth}) {{", f"  {name}[{index}, 1] = {number} * {index}", "}"]
        if self.rng.random() < 0.5:
            body[-1:] = ["} else {", f"  {name}[{index}, 1] = {self.scalar()}", "}"]
        self.scope.matrices[name] = (rows, 1)
        bounds = self.rng.choice((f"1:nrow({source})", f"nrow({source}):1", f"2:nrow({source})"))
        return [f"{name} = matrix(0, nrow({source}), 1)", f"for ({index} in {bounds}) {{", *(f"  {line}" for line in body), "}"]

    def while_loop(self) -> list[str]:
        self.count += 1
        counter = f"c{self.count}"
        limit = self.rng.choice(("3", *self.scope.sizes.values()))
        condition = f"{counter} < {limit}"
        seeds = self.seeds()
        if self.rng.random() < 0.5:
            condition += f" & {self.condition()}"
        return [*seeds, f"{counter} = 0", f"while ({condition}) {{", *self.nested(1), f"  {counter} = {counter} + 1", "}"]
