"""Images with the samples last, for `sample_columns`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, reshaped
from onnx_systemds.dml.scopes import is_call, operand_of
from onnx_systemds.importing.passes.convolution_sizes import IntegerOf


@dataclass(frozen=True)
class Images:
    """An expression that holds images, the samples last: one in each column, or a channel in each row.

    bias: a column that is still to be added. Below the channels there is another one then, which is empty, and of ones
    after a maximum.
    """

    value: tree.Expression
    samples: int
    channels: int
    pixels: int
    by_channel: bool = False
    bias: tree.Expression | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes that must be equal to add two images."""
        return self.samples, self.channels, self.pixels

    @property
    def columns(self) -> tree.Expression:
        """The images with one sample per column."""
        assert self.bias is None
        rows = self.channels * self.pixels
        return reshaped(self.value, rows, self.samples) if self.by_channel else self.value

    @property
    def planes(self) -> tree.Expression:
        """The images with one channel per row."""
        assert self.bias is None
        cols = self.pixels * self.samples
        return self.value if self.by_channel else reshaped(self.value, self.channels, cols)


def stacked(parts: Sequence[Images]) -> Images | None:
    """Images with the channels of all joined; None if their samples or pixels differ."""
    first = parts[0]
    if any((part.samples, part.pixels) != (first.samples, first.pixels) for part in parts):
        return None
    value = call("rbind", *(part.planes for part in parts))
    return Images(value, first.samples, sum(part.channels for part in parts), first.pixels, by_channel=True)


def filled(number: int, rows: int, cols: int) -> tree.Expression:
    """A matrix of a number."""
    return reshaped(tree.IntLiteral(number), rows, cols)


def shape_of(node: tree.Expression, integer_of: IntegerOf) -> tuple[int, int] | None:
    """Rows and columns of ``matrix(..., rows=rows, cols=cols)`` if both are known, else None."""
    if not is_call(node, "matrix"):
        return None
    given = {argument.name: argument.value for argument in node.arguments[1:]}
    if given.keys() != {"rows", "cols"}:
        return None
    rows, cols = (integer_of(given[name]) for name in ("rows", "cols"))
    return None if rows is None or cols is None else (rows, cols)


def is_zero(node: tree.Expression) -> bool:
    """Whether an expression is ``matrix(0, rows=..., cols=...)``."""
    return operand_of(node, "matrix") == tree.IntLiteral(0)
