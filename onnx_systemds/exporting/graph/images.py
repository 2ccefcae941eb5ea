"""Matrices that are images: what is joined, pooled or multiplied keeps their dims."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_systemds.exporting.graph.nodes import CONVOLUTIONS, Tensor, made_by, source_of
from onnx_systemds.inference.dims import product


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
