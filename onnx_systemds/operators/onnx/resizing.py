"""Resize and Upsample: interpolation axis by axis, by selections or by matrices computed at conversion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_systemds.dml.literals import literal
from onnx_systemds.engine.safe_forms import counted
from onnx_systemds.errors import InvalidModel, UnsupportedCase
from onnx_systemds.inference import dims as sizes
from onnx_systemds.inference.dims import Dim, product
from onnx_systemds.inference.known_dims import as_int, as_ints
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.inference.values import INTEGER_DTYPES
from onnx_systemds.limits import LOOP_STEPS, check_table
from onnx_systemds.model.ir import Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, split_view
from onnx_systemds.operators.onnx.interpolation import Resampling, nearest, positions, weights
from onnx_systemds.operators.onnx.selecting import Steps
from onnx_systemds.operators.support.batch_rules import mixes_other_inputs
from onnx_systemds.operators.support.selection_products import each_repeated, is_finite, repeated_row

batch_rule("Upsample")(mixes_other_inputs)


@dataclass(frozen=True)
class Axis:
    """One resized axis: its size before and after, the factor, and the part of it that is sampled.

    Without a factor the run calculates it from the sizes.
    """

    axis: int
    size: Dim
    count: Dim
    scale: float | None
    roi: tuple[float, float] = (0.0, 1.0)


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


def _scaled(node: NodeFacts, axis: int, size: Dim, scale: float, roi: tuple[float, float] = (0.0, 1.0)) -> Axis:
    """An axis of ``floor(size * scale)`` elements, the product in FP32 as runtimes calculate it."""
    if isinstance(size, int):
        return Axis(axis, size, int(np.floor(np.float32(size) * np.float32(scale))), float(scale), roi)
    if float(scale).is_integer():
        return Axis(axis, size, size * int(scale), float(scale), roi)
    inverse = 1 / float(scale)
    if abs(inverse - round(inverse)) < 1e-6:
        return Axis(axis, size, size // round(inverse), float(scale), roi)
    count = node.computed("scaled_size", size, *np.float32(scale).as_integer_ratio(), hint=f"size{axis}")
    return Axis(axis, size, count, float(scale), roi)


def resize_axes(node: NodeFacts) -> list[Axis]:
    """Resize from opset 11 on: scales (input 2) or sizes (input 3), from 18 on for chosen axes and with a policy."""
    dims = node.dims("X")
    given = node.attribute("axes")
    axes = [node.normalize_axis(int(axis), len(dims)) for axis in (range(len(dims)) if given is None else given)]
    rois = _rois(node, len(axes))
    if node.has(2) and node.value(2).dims != (0,):
        scales = node.require_constant(2, "the scales").ravel().tolist()
        _check_count(scales, axes)
        return [_scaled(node, axis, dims[axis], scale, roi) for axis, scale, roi in zip(axes, scales, rois)]
    if not node.has(3):
        raise InvalidModel("it has neither scales nor sizes")
    policy = node.attribute("keep_aspect_ratio_policy") or "stretch"
    how = resampling(node)
    if policy == "stretch" and how.coordinates != "tf_crop_and_resize":
        counts = node.sizes(3, "the sizes")
    else:
        counts = node.require_integers(3, "the sizes")
    _check_count(counts, axes)
    if policy == "stretch":
        return [
            Axis(axis, dims[axis], count, _ratio(dims[axis], count), roi)
            for axis, count, roi in zip(axes, counts, rois)
        ]
    factors = [_known_ratio(axis, dims[axis], count) for axis, count in zip(axes, counts)]
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [
        Axis(axis, dims[axis], int(np.floor(factor * as_int(dims[axis]) + 0.5)), factor, roi)
        for axis, roi in zip(axes, rois)
    ]


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


def _rois(node: NodeFacts, count: int) -> list[tuple[float, float]]:
    if node.attribute("coordinate_transformation_mode") != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    roi = node.require_constant(1, "the region of interest").ravel().tolist()
    return list(zip(roi[:count], roi[count:]))


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
    outside: dict[int, Array] = {}
    cropped = how.coordinates == "tf_crop_and_resize"
    known: dict[int, Array] = {}
    for given in sorted(_axes(node), key=lambda found: -found.axis):
        if given.size == given.count and given.scale == 1 and not (cropped and given.roi != (0.0, 1.0)):
            continue
        if given.scale is None or not (isinstance(given.size, int) and isinstance(given.count, int)):
            _resize_at_run_time(node, steps, how, given)
            continue
        check_table(given.count * max(given.size, LOOP_STEPS), f"what interpolates axis {given.axis}")
        at = positions(how, given.size, given.count, given.scale, given.roi)
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


def _resize_at_run_time(node: NodeView, steps: Steps, how: Resampling, given: Axis) -> None:
    """An axis whose size before or after is not known at conversion."""
    if _repeated(node, steps, how, given):
        return
    if how.coordinates == "tf_crop_and_resize":
        change = f"axis {given.axis} goes from {given.size} to {given.count}"
        raise UnsupportedCase(f"{change}: a region of it needs numbers", hint="fix them by --dim")
    size, count = node.dim(given.size), node.dim(given.count)
    scale = f"{node.factor(given.count)} / {node.factor(given.size)}" if given.scale is None else literal(given.scale)
    at = node.call("resize_positions", size, count, scale, f'"{how.coordinates}"')
    if how.mode == "nearest":
        index = node.call("nearest_positions", at, size, scale, f'"{how.nearest_mode}"')
        steps.take(given.axis, f"{index} + 1", given.count)
        return
    right = node.named(f"weights{given.axis}", _weights_at_run_time(node, how, at, size, scale))
    _multiply_by(steps, given.axis, given.count, right)


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
    """Interpolated integers lose their fraction."""
    if how.mode != "nearest" and node.dtype("X") in INTEGER_DTYPES:
        view = split_view(steps.dims, 1)
        x = steps.matrix(view)
        steps.set(f"sign({x}) * floor(abs({x}))", view, 0, steps.dims[0])


def _extrapolate(node: NodeView, steps: Steps, outside: dict[int, Array]) -> None:
    """Elements from outside of the input get a fixed value."""
    first = min(outside)
    tail = steps.dims[first:]
    known = as_ints(tail)
    if known is None:
        raise UnsupportedCase("extrapolation needs known dims", hint="fix them by --dim")
    check_table(math.prod(known), "the mask of what lies outside")
    mask = np.zeros(known, dtype=bool)
    for axis, out in outside.items():
        mask |= out.reshape([-1 if i == axis - first else 1 for i in range(len(tail))])
    before, value = product(steps.dims[:first]), float(node.attribute("extrapolation_value"))
    if node.dtype("X") in INTEGER_DTYPES and math.isfinite(value):
        value = math.trunc(value)
    view = View(before, product(tail))
    x = steps.matrix(view)
    inside = node.constant_matrix(1.0 - mask.reshape(1, -1), "inside")
    if is_finite(node, 0) and math.isfinite(value):
        text = f"{x} * {inside} + {literal(value)} * (1 - {inside})"
    else:
        chosen = inside if before == 1 else repeated_row(inside, node.dim(before))
        text = counted(f"ifelse({chosen}, {x}, {node.filled(literal(value), view)})")
    steps.set(text, view, first, steps.dims[first])


@gradient("Resize", "Upsample")
def _resize_gradient(n: Backward) -> Sequence[str]:
    """Each element gets what was taken of it: axis by axis a product with the weights' matrix."""
    how = resampling(n)
    if how.coordinates == "tf_crop_and_resize":
        raise UnsupportedCase("the derivative of a Resize that crops")
    found = n.grad
    for given in _axes(n):
        if given.size == given.count and given.scale == 1:
            continue
        if given.scale is None or not (isinstance(given.size, int) and isinstance(given.count, int)):
            raise UnsupportedCase("the derivative of a Resize needs known sizes", hint="fix them by --dim")
        found = n.along(found, given.axis, _matrix(how, given, given.size, given.count, given.scale))
    return [found]


def _matrix(how: Resampling, given: Axis, size: int, count: int, scale: float) -> Array:
    """What each element of the result takes of those of an axis: [count, size]."""
    at = positions(how, size, count, scale, given.roi)
    if how.mode == "nearest":
        return np.eye(size)[nearest(how, at, size, scale)]
    inside = np.clip(at, 0, size - 1) if how.mode == "linear" and not how.antialias else at
    return weights(how, inside, size, scale).T
