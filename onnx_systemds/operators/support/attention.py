"""Attention of many samples, as the text of a DML function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from onnx_systemds.dml.templates import render_operator
from onnx_systemds.operators.support.products import THREADED


@dataclass(frozen=True, slots=True)
class Heads:
    """Where the heads of queries, of keys or of values are: the first and the last column of each in a matrix.

    source: the matrix, as DML text. below: of heads that are one below the other in each sample, the place of each from
    0; none of heads side by side.
    """

    source: str
    columns: tuple[tuple[int, int], ...]
    below: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """The number of columns of all heads side by side."""
        return sum(last - first + 1 for first, last in self.columns)

    @property
    def key(self) -> tuple[str, int]:
        """The matrix, and how many heads are one below the other there."""
        return self.source, len(set(self.below)) or 1

    def shared(self, times: int) -> Heads:
        """The same heads, each for so many queries."""
        columns = tuple(column for column in self.columns for _ in range(times))
        return replace(self, columns=columns, below=tuple(place for place in self.below for _ in range(times)))

    def places(self, tokens: int | str) -> list[str]:
        """Where each head is in the matrix of a sample of so many tokens, as DML text."""
        if not self.below:
            return [f"[, {first}:{last}]" for first, last in self.columns]
        spans = _spans(max(self.below) + 1, tokens)
        return [f"[{spans[at]}, ]" for at in self.below]


@dataclass(frozen=True, slots=True)
class Mask:
    """What is added to scores, or chooses among them.

    kind: "all" for one mask of all heads and samples, "sample" for one of each sample, "heads" for one of each head of
    all samples, "head" for one of each head of each sample, "keys" for a row of each sample, which all of its queries
    have. hides: a number that takes the place of scores, where the mask is not 0 or where it is; "" where it is added.
    """

    kind: str
    hides: tuple[str, bool] = ("", True)


Step: TypeAlias = Mask | str
"""What happens to scores: a mask, an operator with a number, as "* 0.5", or "tanh"."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many samples there are, queries and keys of each, and columns of each of the `sources`."""

    samples: int
    queries: int
    keys: int
    columns: tuple[int, ...]


def attention_function(
    name: str, heads: tuple[Heads, Heads, Heads], steps: Sequence[Step] = (), *, fills: bool = False,
    guards: bool = False, sizes: Sizes | None = None,
) -> str:
    """The text of a function for ``softmax(f(Q t(K))) V`` of all heads of each sample.

    Its arguments are the matrices of `sources`, with the tokens of one sample below those of another, the masks if
    there are any, and the number of samples unless sizes are known. The heads of the result are columns side by side.
    heads: of queries, keys and values. steps: of f, in their order. fills: shares that are NaN count as 0, as those of
    a row of -inf. guards: the shares are 0 of a row that is -inf as a whole in the mask, of which there is one that
    hides nothing; so ONNX's Attention says. sizes: None where the run decides about them.
    """
    queries, _, values = heads
    many, found = len(queries.columns), sources(heads)
    has_own_keys = "Q" in found.values()
    count: int | str = "count" if sizes is None else sizes.samples
    rows: int | str = "m" if sizes is None else sizes.queries
    keys: int | str = ("n" if has_own_keys else "m") if sizes is None else sizes.keys
    tokens = [keys if has_own_keys and roles != "Q" else rows for roles in found.values()]
    columns: Sequence[int | str] = "pqr" if sizes is None else sizes.columns
    given = [
        {"name": roles, "samples": samples, "sample": sample, "cols": cols, "tokens": length, "stack": stack,
         "rows": _times(stack, length), "cells": _times(stack, length, cols), "width": _times(count, stack, cols)}
        for ((_, stack), roles), samples, sample, cols, length in zip(found.items(), "ABC", "FGH", columns, tokens)
    ]
    sample_of = {source: each["sample"] for source, each in zip(found, given)}
    q, k, v = (
        [f"{sample_of[part.key]}{place}" for place in part.places(rows if part is queries else keys)] for part in heads
    )
    masks = _masks(steps)
    matrices = [*found.values(), *(f"M{number}" for number in masks)]
    parameters = [*(f"matrix[double] {matrix}" for matrix in matrices), *(["integer count"] if sizes is None else [])]
    stacked = " and ".join(str(each["name"]) for each in given if each["stack"] != 1)
    is_threaded = sizes is not None and sizes.samples * sizes.queries * queries.width * sizes.keys >= THREADED
    products = _below([f"{left} %*% t({right})" for left, right in zip(q, k, strict=True)])
    return render_operator(
        "attention", name=name, given=given, heads=many, masks=masks, keys=keys, inner=queries.width,
        scores=_scores(products, steps, many), formula=_formula(steps), fills=fills, guards=guards,
        values=list(zip(_spans(many, rows), v, strict=True)), width=values.width, threaded=THREADED, count=count,
        rows=rows, all_rows=_times(many, rows), parameters=parameters, result_cols=_times(rows, values.width),
        result_rows=_times(count, rows), is_known=sizes is not None, is_threaded=is_threaded,
        below_names=f", in {stacked} one below the other" if stacked else "",
        sample_cells=_times(rows, keys), head_cells=_times(many, rows, keys),
    )


def _masks(steps: Sequence[Step]) -> dict[str, Mask]:
    """The masks, by what stands behind the names of all that is made of them."""
    masks = (step for step in steps if isinstance(step, Mask))
    return {str(at) if at > 1 else "": mask for at, mask in enumerate(masks, 1)}


def _scores(products: str, steps: Sequence[Step], heads: int) -> list[str]:
    """What S becomes, one after the other: the products, and what the steps make of them."""
    found, value, is_sum = list[str](), products, False
    numbers = iter(_masks(steps))
    for step in steps:
        if not isinstance(step, Mask):
            if is_sum:
                found.append(value)
                value, is_sum = "S", False
            is_sum = step[0] not in "*/"
            value = f"1 - 2 / (exp(2 * ({value})) + 1)" if is_sum else f"{value} {step}"
            continue
        number = next(numbers)
        mask = {"keys": f"M{number}[i, ]", "sample": _below([f"N{number}"] * heads)}.get(step.kind, f"N{number}")
        if step.hides[0]:
            found.append(value)
            mask = f"abs(matrix(1, rows=nrow(S), cols=1)) %*% {mask}" if step.kind == "keys" else mask
            choices = f"L{number}, S" if step.hides[1] else f"S, L{number}"
            value, is_sum = f"max(ifelse({mask} > 0, {choices}), -Inf)", False
        else:
            value, is_sum = f"{value} + {mask}", True
    return [*found, value]


def _formula(steps: Sequence[Step]) -> str:
    """The scores as a comment says them, but for what hides them."""
    value, is_sum, numbers = "Q t(K)", False, iter(_masks(steps))
    for step in steps:
        number = next(numbers) if isinstance(step, Mask) else ""
        if isinstance(step, str):
            value = f"({value})" if is_sum or step[0] not in "*/" else value
            value, is_sum = f"{value} {step}" if step[0] in "*/" else f"{step}{value}", False
        elif not step.hides[0]:
            value, is_sum = f"{value} + M{number}", True
    return value


def _below(parts: Sequence[str]) -> str:
    """Matrices, one below the other."""
    return f"rbind({', '.join(parts)})"


def _times(*factors: int | str) -> int | str:
    """The product of numbers and of names of variables."""
    numbers = [factor for factor in factors if isinstance(factor, int)]
    return prod(numbers) if len(numbers) == len(factors) else " * ".join(str(it) for it in factors if it != 1)


def _spans(heads: int, rows: int | str) -> list[str]:
    """The rows of each head, of so many each, as ranges."""
    if isinstance(rows, int):
        return [f"{at * rows + 1}:{(at + 1) * rows}" for at in range(heads)]
    first = [f"1:{rows}", f"({rows} + 1):(2*{rows})"]
    return [*first, *(f"({at}*{rows} + 1):({at + 1}*{rows})" for at in range(2, heads))][:heads]


def sources(heads: Sequence[Heads]) -> dict[tuple[str, int], str]:
    """The matrices that heads are taken from, see `Heads.key`, with what the function calls each: some of Q, K, V."""
    found: dict[tuple[str, int], str] = {}
    for role, part in zip("QKV", heads, strict=True):
        found[part.key] = found.get(part.key, "") + role
    return found
