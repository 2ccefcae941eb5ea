"""Resize and Upsample: interpolation axis by axis, by selections or by matrices computed at conversion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.engine.safe_forms import counted
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference import dims as sizes
from onnx_systemds.inference.dims import Dim, Dims, product
from onnx_systemds.inference.known_dims import as_int, as_ints
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.limits import LOOP_STEPS, check_table
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.onnx.interpolation import Resampling, nearest, positions, weights
from onnx_systemds.operators.onnx.selecting import Steps
from onnx_systemds.operators.support.batch_rules import mixes_other_inputs
from onnx_systemds.operators.support.selection_products import each_repeated, is_finite, repeated_column, repeated_row

batch_rule("Upsample")(mixes_other_inputs)


@dataclass(frozen=True)
class Axis:
    """One resized axis: its size before and after, the factor, and from where to where it is sampled, in parts of it.

    Without a factor the run calculates it from the sizes. ends: the places of the parts in the input that says them;
    parts that are None are only known to the run.
    """

    axis: int
    size: Dim
    count: Dim
    scale: float | None
    roi: tuple[float | None, float | None] = (0.0, 1.0)
    ends: tuple[int, int] = (0, 0)

    @property
    def is_same(self) -> bool:
        """Whether its elements stay as they are."""
        is_single = self.size == self.count == 1
        return is_single or (self.size == self.count and self.scale == 1 and self.roi == (0.0, 1.0))


def upsample_axes(node: NodeFacts) -> list[Axis]:
    """Upsample: two factors by attribute at opset 1, all by attribute at 7, by input at 9 (and Resize at 10)."""
    if node.version >= 9:
        scales = node.require_constant(1, "the scales").ravel().tolist()
    elif node.version >= 7:
        scales = list(node.attribute("scales"))
    else:
        scales = [1.0, 1.0, node.attribute("height_scale"), node.attribute("width_scale")]
    dims = node.dims("X")
    if len(scales) != len(dims):
        raise UnsupportedCase(f"{len(scales)} scales for an input of rank {len(dims)}")
    return [_scaled(node, axis, dims[axis], scale) for axis, scale in enumerate(scales)]


def _scaled(node: NodeFacts, axis: int, size: Dim, scale: float) -> Axis:
    """An axis of ``floor(size * scale)`` elements, the product in FP32 as runtimes calculate it."""
    if isinstance(size, int):
        return Axis(axis, size, int(np.floor(np.float32(size) * np.float32(scale))), float(scale))
    if float(scale).is_integer():
        return Axis(axis, size, size * int(scale), float(scale))
    inverse = 1 / float(scale)
    if abs(inverse - round(inverse)) < 1e-6:
        return Axis(axis, size, size // round(inverse), float(scale))
    count = node.computed("scaled_size", size, *np.float32(scale).as_integer_ratio(), hint=f"size{axis}")
    return Axis(axis, size, count, float(scale))


def resize_axes(node: NodeFacts) -> list[Axis]:
    """Resize from opset 11 on: scales (input 2) or sizes (input 3), from 18 on for chosen axes and with a policy."""
    dims = node.dims("X")
    given = node.attribute("axes")
    axes = [node.normalize_axis(int(axis), len(dims)) for axis in (range(len(dims)) if given is None else given)]
    if node.has(2) and node.value(2).dims != (0,):
        scales = node.require_constant(2, "the scales").ravel().tolist()
        _check_count(scales, axes)
        return _with_regions(node, [_scaled(node, axis, dims[axis], scale) for axis, scale in zip(axes, scales)])
    if not node.has(3):
        raise InvalidModel("it has neither scales nor sizes")
    policy = node.attribute("keep_aspect_ratio_policy") or "stretch"
    counts = node.sizes(3, "the sizes") if policy == "stretch" else node.require_integers(3, "the sizes")
    _check_count(counts, axes)
    if policy == "stretch":
        resized = [Axis(axis, dims[axis], count, _ratio(dims[axis], count)) for axis, count in zip(axes, counts)]
        return _with_regions(node, resized)
    factors = [_known_ratio(axis, dims[axis], count) for axis, count in zip(axes, counts)]
    factor = min(factors) if policy == "not_larger" else max(factors)
    return _with_regions(node, [
        Axis(axis, dims[axis], int(np.floor(factor * as_int(dims[axis]) + 0.5)), factor) for axis in axes])


def _check_count(given: Sequence[object], axes: Sequence[int]) -> None:
    if len(given) != len(axes):
        raise InvalidModel(f"{len(given)} scales or sizes for {len(axes)} axes")


def _ratio(size: Dim, count: Dim) -> float | None:
    if isinstance(size, int) and isinstance(count, int):
        return count / size if size else 1.0
    exact = 1 if size == count else sizes.divide_exactly(count, size)
    return float(exact) if isinstance(exact, int) else None


def _known_ratio(axis: int, size: Dim, count: Dim) -> float:
    ratio = _ratio(size, count)
    if ratio is None:
        raise UnsupportedCase(f"axis {axis} goes from {size} to {count}: that needs numbers", hint="fix them by --dim")
    return ratio


def _with_regions(node: NodeFacts, axes: list[Axis]) -> list[Axis]:
    """The axes with the parts of them that are sampled: first where each begins, then where each ends."""
    if node.attribute("coordinate_transformation_mode") != "tf_crop_and_resize":
        return axes
    found = _parts(node, 2 * len(axes))
    pairs = [(place, place + len(axes)) for place in range(len(axes))]
    return [replace(axis, roi=(found[start], found[end]), ends=(start, end)) for axis, (start, end) in zip(axes, pairs)]


def _parts(node: NodeFacts, count: int) -> list[float | None]:
    """The numbers of the region, None where they are only known to the run, also beside known ones in a Concat."""
    node.assume_equal(product(node.dims(1)), count, "the region", "two numbers for each axis")
    made = node.upstream(1) if isinstance(node, NodeView) and node.constant(1) is None else None
    if made is not None and made.node.op_type == "Concat":
        parts = [_numbers(made, place) for place in range(len(made.node.inputs))]
        found = [number for part in parts for number in part]
        return found if len(found) == count else [None] * count
    return _numbers(node, 1) or [None] * count


def _numbers(node: NodeFacts, position: int) -> list[float | None]:
    """The numbers of an input, None for those that are not known; none at all if it is not known how many there are."""
    known, dims = node.constant(position), as_ints(node.dims(position))
    if known is not None:
        return [*known.ravel().tolist()]
    return [] if dims is None else [None] * math.prod(dims)


def resampling(node: NodeFacts) -> Resampling:
    """The attributes; Upsample and Resize at opset 10 know the mode only."""
    mode = {"bilinear": "linear"}.get(node.attribute("mode"), str(node.attribute("mode")))
    if node.node.op_type == "Upsample":
        return Resampling(mode, "asymmetric", "floor")
    if node.version < 11:
        return Resampling(mode, "asymmetric", "simple")
    return Resampling(
        mode,
        str(node.attribute("coordinate_transformation_mode")),
        str(node.attribute("nearest_mode")),
        float(node.attribute("cubic_coeff_a")),
        bool(node.attribute("exclude_outside")),
        bool(node.attribute("antialias")),
    )


def _axes(node: NodeFacts) -> list[Axis]:
    return upsample_axes(node) if node.version < 11 else resize_axes(node)


@shape_rule("Upsample", "Resize")
def resize_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The resized axes change."""
    dims = list(node.dims("X"))
    for given in _axes(node):
        dims[given.axis] = given.count
    return (node.tensor(dims),)


@batch_rule("Resize", sizes=(3,))
def _resize_mixes(node: NodeFacts, position: int, axis: int) -> bool:
    """Axes that are cut by numbers of their own have none of the samples."""
    return position != 0 or node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"


@generator("Upsample", since=(1, 7, 9))
@generator("Resize", since=(10, 11, 13, 18))
def resize(node: NodeView) -> Fragment:
    """Axis by axis, the last first: nearest selects, the others multiply by the weights' matrix."""
    how = resampling(node)
    steps = Steps(node)
    outside: dict[int, Array | str] = {}
    cropped = how.coordinates == "tf_crop_and_resize"
    known: dict[int, Array] = {}
    axes = [given for given in _axes(node) if not given.is_same]
    region = _region(node, axes)
    for given in sorted(axes, key=lambda found: -found.axis):
        start, end = given.roi
        is_open = given.scale is None or start is None or end is None
        if is_open or not (isinstance(given.size, int) and isinstance(given.count, int)):
            outside.update(_resize_at_run_time(node, steps, how, given, region))
            continue
        assert given.scale is not None and start is not None and end is not None
        check_table(given.count * max(given.size, LOOP_STEPS), f"what interpolates axis {given.axis}")
        at = positions(how, given.size, given.count, given.scale, (start, end))
        if cropped:
            out = (at < 0) | (at > given.size - 1)
            outside.update({given.axis: out} if out.any() else {})
        elif how.mode == "linear":
            at = at if how.antialias else np.clip(at, 0, given.size - 1)
        if how.mode == "nearest":
            steps.pick(given.axis, nearest(how, at, given.size, given.scale))
        else:
            known[given.axis] = weights(how, at, given.size, given.scale)
    _multiply(steps, known)
    _truncate(node, steps, how)
    if outside:
        _extrapolate(node, steps, outside)
    return steps.fragment()


def _region(node: NodeView, axes: Sequence[Axis]) -> str:
    """An identifier for the column of the parts that are sampled; "" if all of them are known."""
    if all(None not in given.roi for given in axes):
        return ""
    return node.named("region", node.view(1, View(product(node.dims(1)), 1)))


def _resize_at_run_time(node: NodeView, steps: Steps, how: Resampling, given: Axis, region: str) -> dict[int, str]:
    """An axis whose size before or after, or region, is not known at conversion; where places lie outside of it."""
    if _repeated(node, steps, how, given):
        return {}
    size, count = node.dim(given.size), node.dim(given.count)
    scale = f"{node.factor(given.count)} / {node.factor(given.size)}" if given.scale is None else literal(given.scale)
    outside: dict[int, str] = {}
    if how.coordinates == "tf_crop_and_resize":
        ends = (f"as.scalar({region}[{place + 1}, 1])" if part is None else literal(part)
                for part, place in zip(given.roi, given.ends))
        places = node.named(f"places{given.axis}", node.call("region_positions", size, count, *ends))
        last = node.dim(given.size - 1)
        outside[given.axis] = node.named(f"outside{given.axis}", f"{places} < 0 | {places} > {last}")
        at = f"min(max({places}, 0), {last})"  # those outside get a number of their own
    else:
        at = node.call("resize_positions", size, count, scale, f'"{how.coordinates}"')
    if how.mode == "nearest":
        index = node.call("nearest_positions", at, size, scale, f'"{how.nearest_mode}"')
        steps.take(given.axis, f"{index} + 1", given.count)
        return outside
    right = node.named(f"weights{given.axis}", _weights_at_run_time(node, how, at, size, scale))
    _multiply_by(steps, given.axis, given.count, right)
    return outside


def _weights_at_run_time(node: NodeView, how: Resampling, at: str, size: str, scale: str) -> str:
    """The matrix that `weights` computes where sizes are known."""
    if how.mode == "linear" and not how.antialias:
        return node.call("linear_weights", at, size)
    squeeze = f"min({scale}, 1)" if how.antialias else 1
    flags = (how.exclude_outside, how.antialias)
    return node.call("resampling_weights", at, size, squeeze, f'"{how.mode}"', literal(how.cubic_coeff_a), *flags)


def _repeated(node: NodeView, steps: Steps, how: Resampling, given: Axis) -> bool:
    """Repeat each element where an axis gets an integer of times as long; False where that is not so."""
    centred = how.coordinates in ("half_pixel", "pytorch_half_pixel") and how.nearest_mode.startswith("round")
    plain = how.coordinates == "asymmetric" and how.nearest_mode in ("floor", "simple")
    if how.mode != "nearest" or given.scale is None or not given.scale.is_integer() or not (centred or plain):
        return False
    steps.take(given.axis, each_repeated(node, given.count, int(given.scale)), given.count)
    return True


def _multiply(steps: Steps, known: dict[int, Array]) -> None:
    """Replace axes by weighted sums of their elements, the weights being known."""
    node = steps.node
    last = len(steps.dims) - 1
    names = {axis: node.constant_matrix(matrix, f"weights{axis}") for axis, matrix in known.items()}
    if len(known) == 2 and known.keys() == {last - 1, last} and last > 1 and not is_finite(node, 0):
        before, height, width = product(steps.dims[:-2]), *steps.dims[-2:]
        x = steps.matrix(View(before * height, width))
        text = node.call("interpolated_planes", x, names[last - 1], names[last])
        rows, cols = known[last - 1].shape[1], known[last].shape[1]
        steps.dims = (*steps.dims[:-1], cols)
        # the reshape tells the compiler the sizes, which it cannot see through the function
        view = View(before, rows * cols)
        steps.set(node.reshape(text, view), view, last - 1, rows)
        return
    for axis, matrix in known.items():
        _multiply_by(steps, axis, matrix.shape[1], names[axis])


def _multiply_by(steps: Steps, axis: int, count: Dim, parts: str) -> None:
    """Replace an axis by weighted sums: ``parts`` has a column for each new element."""
    node = steps.node
    before, size, after = steps.around(axis)
    if before == 1 and after != 1:
        view = View(count, after)
        steps.set(_interpolated(node, steps.matrix(View(size, after)), parts, view, by_rows=True), view, axis, count)
        return
    if after == 1:
        view = View(before, count)
        steps.set(_interpolated(node, steps.matrix(View(before, size)), parts, view), view, axis, count)
        return
    turned = node.reshape(f"t({steps.matrix(View(before * size, after))})", View(after * before, size))
    product_ = _interpolated(node, turned, parts, View(after, before * count))
    steps.set(f"t({product_})", View(before * count, after), axis, count)


def _interpolated(node: NodeView, x: str, parts: str, view: View, *, by_rows: bool = False) -> str:
    """The product with the weights in a view; NaN and infinities stay with the elements that read them."""
    if is_finite(node, 0):
        return node.reshape(f"t({parts}) %*% {x}" if by_rows else f"{x} %*% {parts}", view)
    # the reshape tells the compiler the sizes, which it cannot see through the function
    return node.reshape(node.call("interpolated_rows" if by_rows else "interpolated_columns", x, parts), view)


def _truncate(node: NodeView, steps: Steps, how: Resampling) -> None:
    """Interpolated integers lose their fraction.

    Products with weights in FP64 may be 217.99999999999997 for 218: they are rounded to FP32 before.
    """
    if how.mode != "nearest" and node.dtype("X") in INTEGER_DTYPES:
        view = split_view(steps.dims, 1)
        x = node.named("interpolated", node.call("single_precision", steps.matrix(view)))
        steps.set(f"sign({x}) * floor(abs({x}))", view, 0, steps.dims[0])


def _extrapolate(node: NodeView, steps: Steps, outside: dict[int, Array | str]) -> None:
    """Elements from outside of the input get a fixed value."""
    first = min(outside)
    tail = steps.dims[first:]
    before, value = product(steps.dims[:first]), float(node.attribute("extrapolation_value"))
    if node.dtype("X") in INTEGER_DTYPES and math.isfinite(value):
        value = math.trunc(value)
    view = View(before, product(tail))
    x = steps.matrix(view)
    inside = _inside(node, tail, {axis - first: out for axis, out in outside.items()})
    if is_finite(node, 0) and math.isfinite(value):
        text = f"{x} * {inside} + {literal(value)} * (1 - {inside})"
    else:
        chosen = inside if before == 1 else repeated_row(inside, node.dim(before))
        text = counted(f"ifelse({chosen}, {x}, {node.filled(literal(value), view)})")
    steps.set(text, view, first, steps.dims[first])


def _inside(node: NodeView, dims: Dims, outside: dict[int, Array | str]) -> str:
    """An identifier for a row of what lies inside on all axes, the first of which has elements outside."""
    known = as_ints(dims)
    arrays = {axis: out for axis, out in outside.items() if not isinstance(out, str)}
    if known is not None and len(arrays) == len(outside):
        check_table(math.prod(known), "the mask of what lies outside")
        mask = np.zeros(known, dtype=bool)
        for axis, array in arrays.items():
            mask |= array.reshape([-1 if place == axis else 1 for place in range(len(dims))])
        return node.constant_matrix(1.0 - mask.reshape(1, -1), "inside")
    texts = {axis: out if isinstance(out, str) else node.constant_matrix(1.0 * out.reshape(-1, 1), f"outside{axis}")
             for axis, out in outside.items()}
    text, done = node.named("inside", f"1 - {texts[0]}"), dims[0]
    for axis, size in enumerate(dims[1:], 1):
        whole = f"{text} %*% t(1 - {texts[axis]})" if axis in texts else repeated_column(text, node.dim(size))
        done = done * size
        text = node.named("inside", node.reshape(whole, View(done, 1)))
    return node.named("inside", f"t({text})")


@gradient("Resize", "Upsample")
def _resize_gradient(n: Backward) -> Sequence[str]:
    """Each element gets what was taken of it: axis by axis a product with the weights' matrix."""
    how, found = resampling(n), n.grad
    for given in _axes(n):
        if given.is_same:
            continue
        start, end = given.roi
        if given.scale is None or not (isinstance(given.size, int) and isinstance(given.count, int)):
            raise UnsupportedCase("the derivative of a Resize needs known sizes", hint="fix them by --dim")
        if start is None or end is None:
            raise UnsupportedCase("the derivative of a Resize that crops what only the run knows")
        found = n.along(found, given.axis, _matrix(how, given.size, given.count, given.scale, (start, end)))
    return [found]


def _matrix(how: Resampling, size: int, count: int, scale: float, roi: tuple[float, float]) -> Array:
    """What each element of the result takes of those of an axis: [count, size]."""
    at = positions(how, size, count, scale, roi)
    if how.mode == "nearest":
        found = np.eye(size)[nearest(how, at, size, scale)]
    else:
        inside = np.clip(at, 0, size - 1) if how.mode == "linear" and not how.antialias else at
        found = weights(how, inside, size, scale).T
    if how.coordinates == "tf_crop_and_resize":
        found[(at < 0) | (at > size - 1)] = 0  # these are a number of their own
    return found
