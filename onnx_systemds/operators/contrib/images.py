"""CropAndResize and Inverse of onnxruntime."""

from __future__ import annotations

from onnx_systemds.errors import UnsupportedCase
from onnx_systemds.inference.dims import product
from onnx_systemds.inference.registry import expander, generator, shape_rule
from onnx_systemds.model.contrib_schemas import CONTRIB
from onnx_systemds.operators.api import Expansion, Fragment, NodeView, View
from onnx_systemds.operators.onnx.elementwise import same_dims

shape_rule("Inverse", domain=CONTRIB)(same_dims)


@generator("Inverse", since=1, domain=CONTRIB)
def inverse(node: NodeView) -> Fragment:
    """Inverses of the matrices in the last two axes; the engine refuses one that has none."""
    dims = node.dims("X")
    view = View(product(dims[:-1]), dims[-1])
    x = node.view("X", view)
    return node.result(f"inv({x})" if product(dims[:-2]) == 1 else node.call("inverses", x), view)


@expander("CropAndResize", domain=CONTRIB)
def crop_and_resize(node: Expansion) -> None:
    """Boxes of images, as parts of their height and width, sampled at a grid that includes their edges.

    Where a sample lies outside its image it is the extrapolation value, not a mixture with it.
    """
    if node.attribute("mode") not in ("bilinear", "nearest"):
        raise UnsupportedCase("CropAndResize by another mode than bilinear or nearest")
    height, width = (int(size) for size in node.require_constant("crop_size", "the size of the crops"))
    images = node.emit("Gather", node.input("X"), node.input("batch_indices"), axis=0)
    nearest = node.attribute("mode") == "nearest"
    rows, row_inside = _places(node, 0, height, 2, nearest=nearest)
    columns, column_inside = _places(node, 1, width, 3, nearest=nearest)
    if nearest:
        sampled = _elements(node, _elements(node, images, rows, 2), columns, 3)
    else:
        shape = node.known([1, height, width])
        grid = [node.unsqueeze(node.emit("Expand", node.unsqueeze(part, axis), shape), 3)
                for part, axis in ((columns, 1), (rows, 2))]
        sampled = node.emit("GridSample", images, node.emit("Concat", *grid, axis=3), mode="linear",
                            padding_mode="border", align_corners=1)
    inside = node.emit("And", node.unsqueeze(row_inside, 1, 3), node.unsqueeze(column_inside, 1, 2))
    outside = node.numeric("extrapolation_value")
    node.emit("Where", inside, sampled, outside, to=node.output())


def _elements(node: Expansion, images: str, places: str, axis: int) -> str:
    """What lies at the places of each image along an axis: [boxes, count] of a value of rank 4."""
    across = node.filled_like(node.slice(images, axis, 0, 1), "int64", 0)
    index = node.emit("Add", node.unsqueeze(places, 1, 5 - axis), across)
    return node.emit("GatherElements", images, index, axis=axis)


def _places(node: Expansion, side: int, count: int, axis: int, *, nearest: bool) -> tuple[str, str]:
    """For each box the positions along one axis, and whether they are inside: [boxes, count].

    They go from -1 to 1, or are indices of the nearest element, of two the one behind; those outside are of the edges.
    """
    dtype = node.dtype("X")
    first, last = (node.slice(node.input("rois"), 1, start, start + 1) for start in (side, side + 2))
    steps = [0.5] if count == 1 else [step / (count - 1) for step in range(count)]
    extent = node.emit("Mul", node.emit("Sub", last, first), node.known([steps], dtype))
    parts = node.emit("Add", first, extent)
    largest = node.cast(node.emit("Sub", node.length(node.input("X"), axis), node.known(1)), dtype)
    places = node.emit("Mul", parts, largest)
    above = node.emit("GreaterOrEqual", places, node.number(0.0))
    inside = node.emit("And", above, node.emit("LessOrEqual", places, largest))
    if nearest:
        whole = node.emit("Floor", node.emit("Add", places, node.number(0.5)))
        return node.cast(node.emit("Max", node.emit("Min", whole, largest), node.number(0.0)), "int64"), inside
    turned = node.emit("Sub", node.emit("Mul", parts, node.number(2.0)), node.number(1.0))
    return turned, inside
