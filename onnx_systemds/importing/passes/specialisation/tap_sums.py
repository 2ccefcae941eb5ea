"""Convolutions as products that weight all pixels for each tap of a filter, then shift and sum the results."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_systemds.dml import syntax as tree
from onnx_systemds.dml.rewrite import call, reshaped
from onnx_systemds.dml.scopes import assignment_counts, is_operation, name_counts, operand_of
from onnx_systemds.importing.passes.convolution_sizes import IntegerOf
from onnx_systemds.importing.passes.specialisation.images import shape_of
from onnx_systemds.importing.passes.specialisation.products import transposed

SHIFTS, SHIFTS_OF_SAMPLES = "tap_shifts", "sample_tap_shifts"  # library functions


@dataclass(frozen=True)
class TapSum:
    """``matrix(t(shifts %*% t(matrix(taps, ...))), ...)``: for each sample and filter what the taps give, summed.

    taps, shifts: variables. given, pixels: numbers for a sample and filter, before the sum and after it.
    """

    taps: str
    shifts: str
    samples: int
    filters: int
    given: int
    pixels: int


def tap_sum_of(node: tree.Expression, integer_of: IntegerOf) -> TapSum | None:
    """The sum that an expression is, by its form; None for others."""
    outer = shape_of(node, integer_of)
    product = operand_of(node, "matrix", "t")
    if outer is None or not is_operation(product, "%*%"):
        return None
    given = operand_of(product.right, "t")
    inner = None if given is None else shape_of(given, integer_of)
    taps = None if given is None else operand_of(given, "matrix")
    if inner is None or not isinstance(product.left, tree.Name) or not isinstance(taps, tree.Name):
        return None
    samples = outer[0]
    if not samples or not inner[0] or inner[0] % samples or outer[1] % (inner[0] // samples):
        return None
    filters = inner[0] // samples
    return TapSum(taps.name, product.left.name, samples, filters, inner[1], outer[1] // filters)


def tap_sums(body: tree.Block, integer_of: IntegerOf) -> dict[str, TapSum]:
    """The sums by their shifts, for variables that are assigned once and read by nothing else."""
    made = {
        statement.target.name
        for statement in body
        if isinstance(statement, tree.Assign)
        and isinstance(statement.value, tree.Call)
        and statement.value.function == SHIFTS
    }
    if not made:
        return {}
    counts = assignment_counts(body)
    seen = name_counts(body)
    found = {}
    for node in tree.walk(*body):
        sum_of = tap_sum_of(node, integer_of) if isinstance(node, tree.Call) else None
        if sum_of is None or sum_of.shifts not in made:
            continue
        if all(counts[name] == 1 and seen[name] == 2 for name in (sum_of.taps, sum_of.shifts)):  # once assigned
            found[sum_of.shifts] = sum_of
    return found


def shifts_of_samples(found: TapSum, shifts: tree.Expression) -> tree.Call:
    """The shifts for samples next to each other, instead of those of each sample; shifts: the call that makes these."""
    assert isinstance(shifts, tree.Call)
    return call(SHIFTS_OF_SAMPLES, tree.IntLiteral(found.samples), *(given.value for given in shifts.arguments))


def weights_by_tap(found: TapSum, weights: tree.Expression, taps: int) -> tree.Expression:
    """A column for each tap and filter, of weights with a row for each filter and tap."""
    return transposed(call("swapped_rows", weights, *map(tree.IntLiteral, (1, found.filters, taps))))


def summed_taps(found: TapSum, planes: tree.Expression, by_tap: tree.Expression) -> tree.Expression:
    """The sum, a row for each filter, of images with a row for each channel and of `weights_by_tap`.

    A matrix with a column for each channel stays dense where most of its numbers are zeros, but with a row for each it
    would not: the engine passes over zeros much more slowly than it multiplies all numbers.
    """
    results = tree.Binary("%*%", transposed(planes), by_tap)
    rows = reshaped(results, found.given * found.samples, found.filters)
    return transposed(tree.Binary("%*%", tree.Name(found.shifts), rows))
