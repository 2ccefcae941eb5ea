"""Attention of many samples, as the text of a DML function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


def attention_function(
    name: str, heads: tuple[Heads, Heads, Heads], *, scale: str = "", mask: str = "",
    hides: tuple[str, bool] = ("", True), fills: bool = False, guards: bool = False,
) -> str:
    """The text of a function for ``softmax(Q t(K) * scale + M) V`` of all heads of each sample.

    Its arguments are the matrices of `sources`, with the tokens of one sample below those of another, the masks if
    there are any, and the number of samples. The heads of the result are columns side by side, too.
    heads: of queries, keys and values. scale: an operator and a number. mask: "all" for one mask of all heads and
    samples, "sample" for one of each sample, "heads" for one of each head of all samples, "head" for one of each head
    of each sample, "keys" for a row of each sample, which all of its queries have. fills: shares that are NaN count as
    0, as those of a row of -inf. guards: the shares are 0 of a row of the mask that is -inf as a whole, as ONNX's
    Attention says.
    hides: a number that takes the place of scores, where the mask is not 0 or where it is; "" where masks are added.
    """
    queries, _, values = heads
    found = sources(heads)
    has_own_keys = "Q" in found.values()
    given = [
        {"name": roles, "samples": samples, "sample": sample, "cols": cols,
         "tokens": "n" if has_own_keys and roles != "Q" else "m"}
        for roles, samples, sample, cols in zip(found.values(), "ABC", "FGH", "pqr")
    ]
    sample_of = {source: each["sample"] for source, each in zip(found, given)}
    q, k, v = ([f"{sample_of[part.source]}[, {first}:{last}]" for first, last in part.columns] for part in heads)
    return render_operator(
        "attention", name=name, given=given, heads=len(queries.columns), scale=f" {scale}" if scale else "", mask=mask,
        keys="n" if has_own_keys else "m", factors=list(zip(q, k, strict=True)), values=v, inner=queries.width,
        width=values.width, threaded=THREADED, fills=fills,
        guards=guards, hidden=hides[0], hides_ones=hides[1],
    )


def sources(heads: Sequence[Heads]) -> dict[str, str]:
    """The matrices that heads are columns of, each with what the function calls it: one or more of Q, K and V."""
    found: dict[str, str] = {}
    for role, part in zip("QKV", heads, strict=True):
        found[part.source] = found.get(part.source, "") + role
    return found
