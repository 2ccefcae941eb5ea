"""Matrices that are images: what is joined, pooled or multiplied keeps their dims."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.exporting.graph.nodes import CONVOLUTIONS, Tensor, made_by, source_of
from onnx_systemds.inference.dims import Dim, product


def planes(x: Tensor, rows: Dim, cols: Dim) -> Tensor | None:
    """Return the image, of known height and width, whose channels the rows of a matrix are; None for others."""
    for image in (x, source_of(x, "Reshape")):
        if image is None or image.rank != 4 or image.dims[:2] != (1, rows):
            continue
        height, width = image.dims[2:]
        if isinstance(height, int) and isinstance(width, int) and height * width == cols and cols != 1:
            return image
    return None


def as_planes(parts: Sequence[Tensor]) -> list[Tensor]:
    """Return the images whose channels are the rows of all parts, all of the same height and width; else nothing."""
    found = [planes(part, part.dims[0], part.dims[1]) if part.rank == 2 else None for part in parts]
    images = [image for image in found if image is not None]
    return images if len(images) == len(parts) and len({image.dims[2:] for image in images}) == 1 else []


def as_images(parts: Sequence[Tensor]) -> list[Tensor]:
    """Return the images that convolutions gave, for parts that are all such in the rows of a matrix; else nothing."""
    found: list[Tensor] = []
    for part in parts:
        image = source_of(part, "Reshape")
        if image is None or made_by(image, *CONVOLUTIONS) is None or part.rank != 2:
            return []
        same = not found or image.dims[2:] == found[0].dims[2:]
        if image.dims[0] != part.dims[0] or product(image.dims[1:]) != part.dims[1] or not same:
            return []
        found.append(image)
    return found
