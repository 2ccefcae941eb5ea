"""DML expressions made of two operands that may be vectors, and what is done to expressions as a whole."""

from __future__ import annotations

import math

from onnx_systemds.correspondence import COMMUTATIVE, MIRRORED
from onnx_systemds.dml.literals import literal
from onnx_systemds.dml.operands import number_in, plus
from onnx_systemds.engine.safe_forms import counted
from onnx_systemds.inference.dims import depends_on_run
from onnx_systemds.inference.known_dims import all_known
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.model.protos import bit_width
from onnx_systemds.operators.api import SCALAR, Fragment, NodeView, View
from onnx_systemds.operators.api.layout import Form
from onnx_systemds.operators.support.broadcasting import COLUMN, FULL, ROW, SINGLE, Operand, Operands
from onnx_systemds.operators.support.selection_products import minus_vector, repeated_column, repeated_row

OPERANDS_TOGETHER = 16  # that one expression combines: parsers go down into each, the engine's on a small stack
IMAGE_RANK = 4  # of tensors large enough for the fastest operation to be written rather than the plainest


def infix(node: NodeView, operator: str, left: Operand, right: Operand, view: View | None) -> Operand:
    """``left operator right`` where one of them may be a vector."""
    if FULL not in (left.kind, right.kind) and left.kind != right.kind and SINGLE not in (left.kind, right.kind):
        left = replicated(node, left, view)  # a column and a row
    if left.kind == SINGLE and right.kind != SINGLE and number_in(left.text) == 0 and operator != "-":
        if operator == "/":
            return Operand(f"(0 / abs({right.text}))", right.kind)
        if operator in COMMUTATIVE or operator in MIRRORED:
            left, right, operator = right, left, MIRRORED.get(operator, operator)
    if right.kind == FULL and left.kind not in (FULL, SINGLE):
        if operator in COMMUTATIVE:
            left, right = right, left
        elif operator in MIRRORED:
            left, right, operator = right, left, MIRRORED[operator]
        elif operator == "-":
            return Operand(f"((-{right.text}) + {left.text})", FULL)
        else:
            left = replicated(node, left, view)
    kind = left.kind if right.kind == SINGLE else right.kind if left.kind == SINGLE else left.kind
    if operator in ("min", "max"):
        return Operand(f"{operator}({left.text}, {right.text})", kind)
    if operator == "-" and left.kind == FULL and right.kind in (ROW, COLUMN):
        return Operand(f"({minus_vector(left.text, right.text)})", kind)
    if operator == "+":
        return Operand(f"({plus(left.text, right.text)})", kind)
    return Operand(f"({left.text} {operator} {right.text})", kind)


def increased(operand: Operand, number: float | str) -> Operand:
    """An operand plus a number or a DML scalar; for a matrix by bias_add, which is several times faster."""
    if number == 0:
        return operand
    text = number if isinstance(number, str) else literal(number)
    if operand.kind != FULL:
        return Operand(f"({plus(operand.text, text)})", operand.kind)
    return Operand(f"bias_add({operand.text}, as.matrix({text}))", FULL)


def sum_or_difference(node: NodeView, operator: str, given: Operands) -> Operand:
    """``+`` or ``-``; of images and a number by bias_add."""
    left, right = given.items
    if operator == "+" and left.kind == SINGLE:
        left, right = right, left
    if len(node.output_dims()) < IMAGE_RANK or (left.kind, right.kind) != (FULL, SINGLE):
        return infix(node, operator, given.items[0], given.items[1], given.form)
    return increased(left, right.text if operator == "+" else f"-{right.text}")


def replicated(node: NodeView, operand: Operand, view: View | None) -> Operand:
    """A vector as a full matrix."""
    if operand.kind in (FULL, SINGLE) or view is None:
        return operand
    if operand.kind == "row":
        return Operand(repeated_row(operand.text, node.dim(view.rows)), FULL)
    return Operand(repeated_column(operand.text, node.dim(view.cols)), FULL)


def as_matrix(node: NodeView, operand: Operand, view: View | None) -> str:
    """An operand as a full matrix, whatever it is."""
    if view is SCALAR:
        return f"as.matrix({operand.text})"
    if operand.kind == SINGLE:
        return node.full(operand.text, view)
    return replicated(node, operand, view).text


def finish(node: NodeView, combined: Operand, given: Operands, *, logical: bool = False) -> Fragment:
    """The fragment of an elementwise result; booleans of scalars become numbers."""
    view = given.form
    if view is SCALAR:
        return node.result(f"as.double({combined.text})" if logical else combined.text, SCALAR)
    return node.result(as_matrix(node, combined, view), view)


def choice(node: NodeView, condition: Operand, chosen: Operand, other: Operand, view: Form) -> Fragment:
    """The elements of ``chosen`` where the condition is not 0, else those of ``other``; no operand is a vector.

    Of an ifelse by a scalar, or of a matrix and a number, the engine takes open dims for 0 x 0 (ifelse-with-number).
    """
    if view is SCALAR:
        return node.result(f"ifelse({condition.text} != 0, {chosen.text}, {other.text})", SCALAR)
    branches = [one.text if one.kind == FULL else node.filled(one.text, view) for one in (chosen, other)]
    if condition.kind == SINGLE:  # sizes that are known here may be open for the engine
        name = node.target(view=view)
        first, second = (f"  {name} = {branch}" for branch in branches)
        node.write("\n".join([f"if ({condition.text} != 0) {{", first, "} else {", second, "}"]))
        return node.result(name, view)
    if _may_be_vector_of_unknown_length(view):
        masked = _masked_number(condition.text, chosen, other)
        if masked is not None:
            return node.result(masked, view)
        return node.result(node.call("where", condition.text, *branches), view)
    # it takes a matrix filled with a scalar of the run for one without zeros (filled-with-unknown-number)
    is_known = node.constant(0) is not None
    mask = condition.text if is_known else f"{node.mask(condition.text, view)} > 0"
    return node.result(counted(f"ifelse({mask}, {', '.join(branches)})"), view)


def _masked_number(mask: str, chosen: Operand, other: Operand) -> str | None:
    """The product that is a number where a mask of 0 and 1 chooses it and 0 elsewhere, which has no sign; or None."""
    if not chosen.kind == other.kind == SINGLE:
        return None
    first, second = number_in(chosen.text), number_in(other.text)
    if first is None or second is None or not all(map(math.isfinite, (first, second))):
        return None
    if second == 0 < first:
        return f"{mask} * {chosen.text}"
    if first == 0 and second != 0:
        return f"(1 - {mask}) * {other.text}" if second > 0 else f"({mask} - 1) * {literal(-second)}"
    return None


def _may_be_vector_of_unknown_length(view: View) -> bool:
    """Whether the engine may get to know of a matrix that it has a single row or column, and not how long that is."""
    if all_known(view) or any(isinstance(size, int) and size > 1 for size in view):
        return False
    return 1 in view or depends_on_run(view)


def extreme(builtin: str, left: str, right: str, *, repeats: bool) -> str:
    """The elementwise ``min`` or ``max`` of two expressions; ``repeats``: ``left`` is such an extreme itself.

    Of max(max(A, B), C) the engine makes one operation, which in 3.4 gives wrong numbers for sparse matrices.
    """
    if not repeats:
        return f"{builtin}({left}, {right})"
    other = "min" if builtin == "max" else "max"
    return f"(-{other}(-{left}, -{right}))"


def truncated(text: str) -> str:
    """The numbers of ``text`` without their fraction."""
    return f"(sign({text}) * floor(abs({text})))"


def wraps(dtype: str) -> bool:
    """Whether elements wrap around as two's complement does: integers of fewer than 53 bits."""
    return dtype in INTEGER_DTYPES and not dtype.endswith("64")


def wrapped(dtype: str, text: str) -> str:
    """Elements of a type, which may wrap around."""
    if not wraps(dtype):
        return text
    modulus = 1 << bit_width(dtype)
    offset = 0 if dtype.startswith("u") else modulus >> 1
    if not offset:
        return f"({text} - {modulus} * floor({text} / {modulus}))"
    return f"({text} - {modulus} * floor(({text} + {offset}) / {modulus}))"
