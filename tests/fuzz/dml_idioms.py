"""Statements that users of SystemDS write beside formulas: tables, quantiles, blocks, texts, casts, lists with names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.dml_expressions import Shape
    from tests.fuzz.dml_statements import Writer

def _any(w: Writer) -> tuple[str, Shape]:
    return w.rng.choice(list(w.scope.matrices.items()))


def _named(w: Writer, kind: str) -> str:
    w.count += 1
    return f"{kind}{w.count}"


def _labels(w: Writer, name: str) -> str:
    """Return a column of labels from 1 to 4."""
    return w.rng.choice((f"min(4, max(1, round(abs(replace(target={name}[, 1], pattern=NaN, replacement=2)))))",
                         f"rowIndexMax({name}) %% 4 + 1", f"(({name}[, 1] > 0) + 1)"))


def tabled(w: Writer) -> list[str]:
    """Counts or weights of labels, of sizes that are known or not."""
    name, _ = _any(w)
    first, second, found = (_named(w, kind) for kind in "pqt")
    lines = [f"{first} = {_labels(w, name)}", f"{second} = {_labels(w, name)}"]
    weight = w.rng.choice(("", f", {name}[, ncol({name})]", ", 2.5"))
    if w.rng.random() < 0.6:
        shape: Shape = (4, 4)
        weight = weight if weight != ", 2.5" else ""
        return [*lines, *w.set(w.new(shape), shape, f"table({first}, {second}{weight}, 4, 4)")]
    lines.append(f"{found} = table({first}, {second}{weight})")
    shape = (1, 3)
    text = f"cbind(as.matrix(sum({found})), as.matrix(nrow({found})), as.matrix(as.scalar({found}[nrow({found}), ncol({found})])))"
    return [*lines, *w.set(w.new(shape), shape, text)]


def ranked(w: Writer) -> list[str]:
    """Quantiles, medians with weights, orders by several columns."""
    name, (rows, cols) = _any(w)
    column, weights = _named(w, "p"), _named(w, "q")
    share = w.rng.choice(("0.5", "0.25", "0.1", "1", "0.9"))
    lines = [f"{column} = {name}[, 1]", f"{weights} = {_labels(w, name)}"]
    number = w.rng.choice((f"quantile({column}, {share})", f"quantile({column}, {weights}, {share})", f"median({column}, {weights})",
                           f"interQuartileMean({column})", f"moment({column}, {weights}, 2)", f"median({column})"))
    if w.rng.random() < 0.5:
        scalar = _named(w, "k")
        w.scope.scalars.append(scalar)
        return [*lines, f"{scalar} = {number}"]
    if w.rng.random() < 0.4:
        shape: Shape = (3, 1)
        return [*lines, *w.set(w.new(shape), shape, f'quantile({column}, matrix("0.1 0.5 0.9", 3, 1))')]
    shape = (rows, cols)
    by = w.rng.choice((f"ncol({name})", 'matrix("1 1", 1, 2)', "matrix(1, 1, 1)"))
    return [*lines, *w.set(w.new(shape), shape, f"order(target=floor({name}), by={by}, decreasing={w.rng.choice(('TRUE', 'FALSE'))})")]


def emptied(w: Writer) -> list[str]:
    """What may be left without rows or columns, and what becomes of it."""
    name, (rows, cols) = _any(w)
    found, margin = _named(w, "e"), w.rng.choice(("rows", "cols"))
    vector: Shape = (rows, 1) if margin == "rows" else (1, cols)
    kept = w.rng.choice(("", ", empty.return=FALSE", ", empty.return=TRUE"))
    lines = [f'{found} = removeEmpty(target={name}, margin="{margin}", select={w.matrix(vector, 1)} > {w.scalar()}{kept})']
    size = f"{'nrow' if margin == 'rows' else 'ncol'}({found})"
    shape: Shape = (1, 2)
    text = w.rng.choice((f"cbind(as.matrix(sum({found})), as.matrix({size}))",
                         f"cbind(as.matrix(sum(rbind({found}, {found}))), as.matrix({size} + 1))",
                         f"cbind(as.matrix(sum({found} %*% t({found}))), as.matrix(length({found})))",
                         f"cbind(as.matrix(sum({found} * 2 - 1)), as.matrix(sum({found} > 0)))"))
    if w.rng.random() < 0.4:
        number = _named(w, "k")
        w.scope.scalars.append(number)
        return [*lines, f"{number} = 0", f"if ({size} > 0) {{", f"  {number} = sum({found}) / {size}", "}"]
    return [*lines, *w.set(w.new(shape), shape, text)]


def block(w: Writer) -> list[str]:
    """A block of rows and columns read or written, between places that are calculated."""
    old = [name for name in w.scope.matrices if name[0] in "vwQ"]
    name = w.rng.choice(old or list(w.scope.matrices))
    lines, bounds = [], []
    for size in (f"nrow({name})", f"ncol({name})"):
        low, high = _named(w, "z"), _named(w, "z")
        lines += [f"{low} = max(1, min({size}, {w.integer(1)}))", f"{high} = min({size}, {low} + {w.rng.choice('012')})"]
        bounds.append(f"{low}:{high}")
        w.scope.integers += [low, high]
    part = f"{name}[{', '.join(bounds)}]"
    if old and w.rng.random() < 0.6:
        return [*lines, f"{part} = {w.rng.choice((f'{part} * {w.scalar()}', f'abs({part}) + 1', f'rev({part})', f'{part} - {part}'))}"]
    shape: Shape = (1, 1)
    text = w.rng.choice((f"as.matrix(sum({part}))", f"as.matrix(max({part}))", f"colSums(rowSums({part}))"))
    return [*lines, *w.set(w.new(shape), shape, text)]


def text(w: Writer) -> list[str]:
    """Texts that are made of numbers and compared, or choose."""
    name, number = _named(w, "s"), _named(w, "k")
    made = w.rng.choice((f'"n" + {w.integer(1)}', f'ifelse({w.condition()}, "a", "b")', '"a" + TRUE', f'"x" + nrow({_any(w)[0]})'))
    wanted = w.rng.choice(('"a"', '"n2"', '"x3"', '"aTRUE"', '"n" + 1'))
    chosen = [w.scalar(), w.scalar()]
    w.scope.scalars.append(number)
    return [f"{name} = {made}", f"{number} = ifelse({name} {w.rng.choice(('==', '!='))} {wanted}, {', '.join(chosen)})"]


def cast(w: Writer) -> list[str]:
    """Scalars of one type made another."""
    number = _named(w, "k")
    made = w.rng.choice((f"as.double({w.integer()}) / 2", f"as.integer({w.scalar()}) %% 3", f"as.integer({w.scalar()}) / 2",
                         f"as.double({w.condition()})", f"as.integer({w.condition()}) + 1", f"round({w.scalar()}) %/% 2",
                         f"ifelse(as.logical({w.integer(1)}), 1, -1)", f"floor({w.scalar()}) - ceil({w.scalar()})",
                         f"abs({w.scalar()}) ^ 0.5", f"min({w.scalar()}, {w.scalar()}, {w.scalar()})",
                         f"sign({w.scalar()}) * max({w.integer(1)}, {w.scalar()})", f"-{w.scalar()} %/% {w.scalar()}",
                         f"{w.integer(1)} / {w.integer(1)}", f"exp({w.integer(0)} %% 4)", f"sqrt(abs({w.integer(1)}))",
                         f"log(abs({w.scalar()}) + 1, 2)"))
    w.scope.scalars.append(number)
    return [f"{number} = {made}"]


def named_items(w: Writer) -> list[str]:
    """A list with names, read by name and written."""
    (one, shape), (other, _) = _any(w), _any(w)
    name = _named(w, "l")
    lines = [f"{name} = list(a={one}, b={other}, c={w.integer(1)}, d={w.scalar()})"]
    if w.rng.random() < 0.5:
        lines.append(f'{name}["b"] = {one}')
    read = w.rng.choice((f'as.matrix({name}["a"]) * length({name})', f'as.matrix({name}["a"]) + as.integer(as.scalar({name}["c"]))',
                         f'as.matrix({name}[1]) - as.scalar({name}[3])'))
    return [*lines, *w.set(w.new(shape), shape, read)]


def rebuilt(w: Writer) -> list[str]:
    """Matrices seen in another order or of sequences with steps that are no integers."""
    name, (rows, cols) = _any(w)
    found = _named(w, "m")
    draw = w.rng.random()
    if draw < 0.4:
        shape: Shape = (cols, rows)
        return w.set(w.new(shape), shape, f"matrix({name}, rows=ncol({name}), cols=nrow({name}), byrow=FALSE)")
    if draw < 0.7:
        start, stop, step = w.rng.choice((("0", "1", "0.1"), ("1", "-1", "-0.25"), ("0.3", "0.9", "0.2"), ("-2", "2", "0.7"), ("5", "1", "-2"),
                                         ("0", "0.3", "0.1"), ("0.1", "0.7", "0.2"), ("2.5", "2.8", "0.1"), ("0", f"nrow({name})", "0.3"),
                                         ("0", "3", f"1 / (nrow({name}) + 1)"), (f"ncol({name})", "-1", f"-0.4 / nrow({name})")))
        shape = (1, 1)
        return [f"{found} = seq({start}, {stop}, {step})", *w.set(w.new(shape), shape, f"as.matrix(sum({found} ^ 2) + nrow({found}))")]
    shape = (1, 1)
    kind = w.rng.choice(("+", "-", "*", "/", "<", "min", "max", "^", "%%"))
    return [f'{found} = outer({name}[, 1], t({name}[, ncol({name})]), "{kind}")', *w.set(w.new(shape), shape, f"as.matrix(sum({found}))")]


def by_groups(w: Writer) -> list[str]:
    """Aggregates of groups, of which some have no members."""
    name, _ = _any(w)
    column, groups, shape = _named(w, "p"), _named(w, "q"), (5, 1)
    kind = w.rng.choice(('"sum"', '"count"', '"mean"', '"variance"', '"centralmoment", order="2"'))
    weights = w.rng.choice(("", "", f", weights={groups}"))
    return [f"{column} = {name}[, ncol({name})]", f"{groups} = {_labels(w, name)}",
            *w.set(w.new(shape), shape, f"aggregate(target={column}, groups={groups}{weights}, fn={kind}, ngroups=5)")]


def accumulated_over_rows(w: Writer) -> list[str]:
    """A loop that adds up, keeps an extreme and its place, and counts under conditions."""
    name, _ = _any(w)
    index, total, best, place, number = (_named(w, kind) for kind in "ikkzk")
    bounds = w.rng.choice((f"1:nrow({name})", f"seq(1, nrow({name}), 2)", f"2:nrow({name})", f"nrow({name}):1"))
    lines = [f"{total} = 0", f"{best} = {w.rng.choice(('-1e30', '0', f'as.scalar({name}[1, 1])'))}", f"{place} = 0",
             f"for ({index} in {bounds}) {{",
             f"  {number} = {w.rng.choice((f'as.scalar({name}[{index}, 1])', f'sum({name}[{index}, ])', f'as.scalar({name}[{index}, ncol({name})]) * {index}'))}",
             f"  {total} = {total} + {w.rng.choice((number, f'abs({number})', f'{number} * {total} / 2', f'{index} %% 2'))}",
             f"  if ({number} {w.rng.choice(('>', '>=', '<', '!='))} {best}) {{", f"    {best} = {number}", f"    {place} = {index}",
             *([] if w.rng.random() < 0.6 else ["  } else {", f"    {total} = {total} - 1"]), "  }", "}"]
    w.scope.scalars += [total, best]
    w.scope.integers.append(place)
    return lines


def chosen(w: Writer) -> list[str]:
    """An item of a list that the run chooses, once or for each row."""
    name, shape = _any(w)
    items, labels, k = (_named(w, kind) for kind in "lqk")
    label = f"min(3, max(1, round(abs(replace(target={name}[, 1], pattern=NaN, replacement=2)))))"
    lines = [f"{items} = list({name}, {name} * 2, abs({name}))", f"{labels} = {label}"]
    if w.rng.random() < 0.5:
        lines.append(f"{k} = as.integer(as.scalar({labels}[1, 1]))")
        return [*lines, *w.set(w.new(shape), shape, f"as.matrix({items}[{k}]) + 1")]
    column, i = w.new((shape[0], 1)), _named(w, "i")
    return [*lines, *w.set(column, (shape[0], 1), f"matrix(0, nrow({name}), 1)"), f"for ({i} in 1:nrow({name})) {{",
            f"  {k} = as.scalar({labels}[{i}, 1])", f"  {column}[{i}, 1] = sum(as.matrix({items}[{k}])) * {i}", "}"]


IDIOMS: tuple[Callable[[Writer], list[str]], ...] = (
    tabled, ranked, emptied, block, block, text, cast, cast, named_items, rebuilt, by_groups, accumulated_over_rows,
    chosen,
)
