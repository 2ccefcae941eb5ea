"""GridSample, AffineGrid and NonMaxSuppression: operators of detection and warping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_systemds.errors import InvalidModel
from onnx_systemds.inference.dims import Dims, maximum, product
from onnx_systemds.inference.known_dims import as_ints
from onnx_systemds.inference.registry import batch_rule, generator, gradient, shape_rule
from onnx_systemds.limits import check_table
from onnx_systemds.model.ir import DERIVATIVES, Array
from onnx_systemds.operators.api import Backward, Fragment, NodeFacts, NodeView, Value, View, unknown_size
from onnx_systemds.operators.onnx.elementwise import same_dims
from onnx_systemds.operators.onnx.indexing import along_axes, size_row
from onnx_systemds.operators.support.empty_outputs import unless_empty
from onnx_systemds.operators.support.selection_products import gather_rows_text

# --- AffineGrid ------------------------------------------------------------------------------------------------


@shape_rule("AffineGrid")
def affine_grid_rule(node: NodeFacts) -> tuple[Value, ...]:
    """The spatial sizes, and a coordinate for each of them."""
    wanted = node.require_integers("size", "the size")
    return (node.tensor((node.dims("theta")[0], *wanted[2:], len(wanted) - 2)),)


@generator("AffineGrid", since=20)
def affine_grid(node: NodeView) -> Fragment:
    """The positions of a regular grid times each batch entry's matrix."""
    spatial = node.require_integers("size", "the size")[2:]
    batch, rank, count = node.dims("theta")[0], len(spatial), product(spatial)
    base = _places(node, spatial)
    theta = node.view("theta", View(batch * rank, rank + 1))
    text = f"{base} %*% t({theta})"
    if batch == 1:
        return node.result(text, View(count, rank))
    # the rows are [place, batch]
    turned = node.reshape(text, View(count * batch, rank))
    index = f"outer(seq(1, {node.dim(batch)}), t(seq(0, {node.dim((count - 1) * batch)}, {node.dim(batch)})), \"+\")"
    column = node.reshape(index, View(count * batch, 1))
    text = gather_rows_text(node, turned, column, count * batch, count * batch, rank, finite=False)
    return node.result(text, View(count * batch, rank))


def _places(node: NodeView, spatial: Dims) -> str:
    """The identifier of a row for each place of a grid: coordinates from -1 to 1, last axis first, and 1."""
    aligned = bool(node.attribute("align_corners"))
    known = as_ints(spatial)
    if known is not None:
        check_table((len(known) + 1) * math.prod(known), "the places of the grid")
        ticks = [_ticks(size, aligned=aligned) for size in known]
        places = np.stack(np.meshgrid(*ticks, indexing="ij")[::-1], axis=-1).reshape(-1, len(spatial))
        return node.constant_matrix(np.hstack([places, np.ones((len(places), 1))]), "places")
    count = product(spatial)
    flat = node.named("place", f"seq(0, {node.dim(count - 1)})")
    columns = []
    for at, size in zip(along_axes(node, flat, spatial), spatial):
        if aligned:  # an axis of one place has it at -1, where ONNX's definition begins
            columns.append(f"2 * {at} / {node.factor(maximum(size - 1, 1))} - 1")
        else:
            columns.append(f"(2 * {at} + 1) / {node.factor(size)} - 1")
    columns = [*columns[::-1], node.filled(1, View(count, 1))]
    return node.named("places", f"cbind({', '.join(columns)})")


def _ticks(size: int, *, aligned: bool) -> Array:
    """Coordinates along an axis: of the pixels' centres, or with the outer pixels at -1 and 1."""
    return np.linspace(-1, 1, size) if aligned else (2 * np.arange(size) + 1) / size - 1


# --- GridSample ------------------------------------------------------------------------------------------------


@shape_rule("GridSample")
def grid_sample_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Batch and channels of the input, positions of the grid."""
    image, grid = node.dims("X"), node.dims("grid")
    for axis in range(2, len(image)):
        node.assume_elements("X", axis)
    node.assume_equal(image[0], grid[0], node.axis_words("X", 0), node.axis_words("grid", 0))
    node.assume_equal(grid[-1], len(image) - 2, node.axis_words("grid", len(grid) - 1), "the number of spatial axes")
    return (node.tensor((*image[:2], *grid[1:-1])),)


def grid_mode(node: NodeFacts) -> str:
    """The mode of a GridSample by its name from opset 20 on."""
    mode = str(node.attribute("mode"))
    return {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)


@generator("GridSample", since=(16, 20))
def grid_sample(node: NodeView) -> Fragment:
    """Per batch entry a sparse matrix of weights; opset 20 renamed the modes and allowed any number of axes."""
    return node.result(node.call("grid_sample", _images(node), *_sampling(node)), _samples(node))


def _images(node: NodeView) -> str:
    dims = node.dims(0)
    return node.view(0, View(dims[0] * dims[1], product(dims[2:])))


def _samples(node: NodeFacts) -> View:
    """The rows and columns of the result."""
    dims = node.dims(0)
    return View(dims[0] * dims[1], product(node.dims(1)[1:-1]))


def _sampling(node: NodeView) -> list[object]:
    """The arguments of a library function that say where images are sampled."""
    dims, places = node.dims(0), product(node.dims(1)[1:-1])
    grid = node.view(1, View(dims[0] * places, len(dims) - 2))
    return [grid, size_row(node, dims[2:], "sizes"), node.dim(dims[0]), f'"{grid_mode(node)}"',
            f'"{node.attribute("padding_mode")}"', bool(node.attribute("align_corners"))]


@gradient("GridSample")
def _grid_sample_gradient(n: Backward) -> Sequence[str]:
    """To the pixels around each place, and to its coordinates; those that padding moves to the border have none."""
    attributes: dict[str, Any] = {"mode": grid_mode(n), "padding_mode": str(n.attribute("padding_mode")),
                                  "align_corners": int(n.attribute("align_corners"))}
    given = (*n.node.inputs, n.grad)
    return n.needed([
        lambda: n.emit("GridSampleGradient", *given, domain=DERIVATIVES, **attributes),
        lambda: n.emit("GridSampleSlopes", *given, domain=DERIVATIVES, **attributes),
    ])


shape_rule("GridSampleGradient", domain=DERIVATIVES)(same_dims)


@shape_rule("GridSampleSlopes", domain=DERIVATIVES)
def grid_sample_slopes_rule(node: NodeFacts) -> tuple[Value, ...]:
    """Type and dims of the grid."""
    return (node.tensor(node.dims(1), node.dtype(1)),)


@generator("GridSampleGradient", since=1, domain=DERIVATIVES)
def grid_sample_gradient(node: NodeView) -> Fragment:
    """The derivative by the images: inputs are those of GridSample and the derivative of its result."""
    dims = node.dims(0)
    call = node.call("grid_sample_gradient", node.view(2, _samples(node)), *_sampling(node))
    return node.result(call, View(dims[0] * dims[1], product(dims[2:])))


@generator("GridSampleSlopes", since=1, domain=DERIVATIVES)
def grid_sample_slopes(node: NodeView) -> Fragment:
    """The derivative by the grid."""
    dims, places = node.dims(0), product(node.dims(1)[1:-1])
    call = node.call("grid_sample_slopes", node.view(2, _samples(node)), _images(node), *_sampling(node))
    return node.result(call, View(dims[0] * places, len(dims) - 2))


batch_rule("GridSampleGradient", "GridSampleSlopes", domain=DERIVATIVES)(lambda node, position, axis: True)


# --- NonMaxSuppression -----------------------------------------------------------------------------------------


@shape_rule("NonMaxSuppression")
def non_max_suppression_rule(node: NodeFacts) -> tuple[Value, ...]:
    """A row of batch, class and box for each box that is kept."""
    if (node.rank("boxes"), node.rank("scores")) != (3, 3):
        raise InvalidModel("boxes and scores have three axes")
    count = 0 if product((*node.dims("boxes"), *node.dims("scores"))) == 0 else unknown_size(node, 0, 0, or_none=True)
    return (node.tensor((count, 3), "int64"),)


@generator("NonMaxSuppression", since=10)
def non_max_suppression(node: NodeView) -> Fragment:
    """Greedy, for each batch entry and class; without a maximum nothing is kept."""
    count = node.output_dims()[0]
    batch, boxes, _ = node.dims("boxes")
    classes = node.dims("scores")[1]
    most = node.scalar("max_output_boxes_per_class") if node.has("max_output_boxes_per_class") else "0"
    overlap = node.scalar("iou_threshold") if node.has("iou_threshold") else "0.0"
    lowest = node.scalar("score_threshold") if node.has("score_threshold") else "(-Inf)"
    kept = node.named("kept", node.call(
        "non_max_suppression",
        node.view("boxes", View(batch * boxes, 4)), node.view("scores", View(batch * classes, boxes)),
        node.dim(classes), most, overlap, lowest, bool(node.attribute("center_point_box")),
    ))
    node.write(f"{node.dim(count)} = nrow({kept})")
    return unless_empty(node, node.result(kept, View(count, 3)), product((batch, classes, boxes)), [count])
