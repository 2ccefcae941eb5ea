"""Attention of many samples, as the text of a DML function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from onnx_systemds.dml.templates import render_operator
from onnx_systemds.operators.support.products import THREADED


@dataclass(frozen=True, slots=True)
class Heads:
    """Where the heads of queries, of keys or of values are: the first and the last column of each in a matrix.

    source: the matrix, as DML text.
    """

    source: str
    columns: tuple[tuple[int, int], ...]

    @property
    def width(self) -> int:
        """The number of columns of all heads."""
        return sum(last - first + 1 for first, last in self.columns)


@dataclass(frozen=True, slots=True)
class Mask:
    """What is added to scores, and what it hides.

    kind: "all" for one mask of all heads and samples, "sample" for one of each sample, "heads" for one of each head of
    all samples, "head" for one of each head of each sample, "keys" for a row of each sample, which all of its queries
    have; "" for none. hides: a number that takes the place of scores, where the mask is not 0 or where it is; "" where
    it is added. guards: the shares are 0 of a row that is -inf as a whole, as ONNX's Attention says.
    """

    kind: str = ""
    hides: tuple[str, bool] = ("", True)
    guards: bool = False


NO_MASK = Mask()


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many samples there are, queries and keys of each, and columns of each of the `sources`."""

    samples: int
    queries: int
    keys: int
    columns: tuple[int, ...]


def attention_function(
    name: str, heads: tuple[Heads, Heads, Heads], *, scale: str = "", mask: Mask = NO_MASK, fills: bool = False,
    sizes: Sizes | None = None,
) -> str:
    """The text of a function for ``softmax(Q t(K) * scale + M) V`` of all heads of each sample.

    Its arguments are the matrices of `sources`, with the tokens of one sample below those of another, the masks if
    there are any, and the number of samples unless sizes are known. The heads of the result are columns side by side,
    too.
    heads: of queries, keys and values. scale: an operator and a number. fills: shares that are NaN count as 0, as those
    of a row of -inf. sizes: None where the run decides about them.
    """
    queries, _, values = heads
    number, found = len(queries.columns), sources(heads)
    has_own_keys = "Q" in found.values()
    count: int | str = "count" if sizes is None else sizes.samples
    rows: int | str = "m" if sizes is None else sizes.queries
    keys: int | str = ("n" if has_own_keys else "m") if sizes is None else sizes.keys
    tokens = [keys if has_own_keys and roles != "Q" else rows for roles in found.values()]
    columns: Sequence[int | str] = "pqr" if sizes is None else sizes.columns
    given = [
        {"name": roles, "samples": samples, "sample": sample, "cols": cols, "tokens": length,
         "cells": _times(length, cols)}
        for roles, samples, sample, cols, length in zip(found.values(), "ABC", "FGH", columns, tokens)
    ]
    sample_of = {source: each["sample"] for source, each in zip(found, given)}
    q, k, v = ([f"{sample_of[part.source]}[, {first}:{last}]" for first, last in part.columns] for part in heads)
    matrices = [*found.values(), *("M" if mask.kind else "")]
    parameters = [*(f"matrix[double] {matrix}" for matrix in matrices), *(["integer count"] if sizes is None else [])]
    is_threaded = sizes is not None and sizes.samples * sizes.queries * queries.width * sizes.keys >= THREADED
    return render_operator(
        "attention", name=name, given=given, heads=number, scale=f" {scale}" if scale else "", mask=mask.kind,
        keys=keys, factors=list(zip(q, k, strict=True)), values=list(zip(_spans(number, rows), v, strict=True)),
        inner=queries.width, width=values.width, threaded=THREADED, fills=fills, guards=mask.guards,
        hidden=mask.hides[0], hides_ones=mask.hides[1], count=count, rows=rows, all_rows=_times(number, rows),
        mask_cols=_times(*([number] if mask.kind == "head" else []), rows, keys), parameters=parameters,
        result_cols=_times(rows, values.width), result_rows=_times(count, rows), is_known=sizes is not None,
        is_threaded=is_threaded,
    )


def _times(*factors: int | str) -> int | str:
    """The product of numbers and of names of variables."""
    numbers = [factor for factor in factors if isinstance(factor, int)]
    return prod(numbers) if len(numbers) == len(factors) else " * ".join(map(str, factors))


def _spans(heads: int, rows: int | str) -> list[str]:
    """The rows of each head, of so many each, as ranges."""
    if isinstance(rows, int):
        return [f"{at * rows + 1}:{(at + 1) * rows}" for at in range(heads)]
    first = [f"1:{rows}", f"({rows} + 1):(2*{rows})"]
    return [*first, *(f"({at}*{rows} + 1):({at + 1}*{rows})" for at in range(2, heads))][:heads]


def sources(heads: Sequence[Heads]) -> dict[str, str]:
    """The matrices that heads are columns of, each with what the function calls it: one or more of Q, K and V."""
    found: dict[str, str] = {}
    for role, part in zip("QKV", heads, strict=True):
        found[part.source] = found.get(part.source, "") + role
    return found
